"""The sub-layers: multi-head attention with a cache for decoding, and the FFN."""

from collections.abc import MutableMapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

Cache = MutableMapping[Any, tuple[Tensor, Tensor]]
"""Keys and values of each attention module so far, (batch, heads, time, width/heads); fairseq's incremental state."""


class Attention(nn.Module):
    """Attention with separate query, key, value and output projections, all (width, width) with bias.

    In ``cross``-attention, keys and values come from the encoder, and are computed once per sentence. A norm placement
    may replace ``q_norm``, ``k_norm`` and ``v_norm``, applied to (time, batch, heads, width/heads), and ``inner``,
    applied before the output projection (`Residual.inside`). ``gain`` is that of the initial weights.
    """

    gain = 1.0

    def __init__(self, width: int, heads: int, cross: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.cross = cross
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        self.q_norm, self.k_norm, self.v_norm, self.inner = (cast(nn.Module, nn.Identity()) for _ in range(4))

    def forward(self, query: Tensor, source: Tensor, mask: Tensor | None, causal: bool, cache: Cache | None) -> Tensor:
        """Attend from ``query`` (time, batch, width) to ``source`` (source time, batch, width).

        ``mask`` (batch, heads, 1, source time) is added to the scores, -inf at padding; ``causal`` hides later
        positions. With ``cache``, keys and values of earlier calls are reused and extended.
        """
        dtype = self.q_proj.weight.dtype
        query, source = query.to(dtype), source.to(dtype)
        q = self.split(self.q_proj(query), self.q_norm)
        k, v = self._keys_and_values(source, cache)
        if query.is_cuda and cache is None and len(q) * self.heads < 2**16:
            # The heads of all sentences as heads of one: the output is in the order of `out_proj`, and nothing is
            # copied. CUDA has at most 65,535 heads. Not in decoding; on a CPU, it would change the rounding.
            q, k, v = (x.flatten(0, 1)[None] for x in (q, k, v))
            mask = None if mask is None else mask.flatten(0, 1).expand(-1, len(query), -1)[None]
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out_proj(self.inner(mixed.flatten(0, 1).transpose(0, 1).reshape(query.shape)).to(dtype))

    def split(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Reshape (time, batch, width) to (batch, heads, time, width/heads), and apply ``norm`` to the heads."""
        time, batch, width = x.shape
        return norm(x.view(time, batch, self.heads, width // self.heads)).to(x.dtype).permute(1, 2, 0, 3)

    def _keys_and_values(self, source: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        """Return keys and values of ``source``, after those in ``cache`` if there is one, which is extended."""
        if cache is not None and self.cross and self in cache:
            return cache[self]
        k, v = self.split(self.k_proj(source), self.k_norm), self.split(self.v_proj(source), self.v_norm)
        if cache is None:
            return k, v
        if self in cache:
            k, v = torch.cat([cache[self][0], k], dim=2), torch.cat([cache[self][1], v], dim=2)
        cache[self] = k, v
        return k, v

    def reorder_incremental_state(self, cache: Cache, order: Tensor) -> None:
        """Reorder the cache with the beam: row i becomes the old row ``order[i]``."""
        k, v = cache[self]
        if self.cross and k.size(0) == order.numel():
            return  # all hypotheses of a sentence share keys and values
        cache[self] = k.index_select(0, order), v.index_select(0, order)


class FeedForward(nn.Module):
    """Two linear maps with a ReLU in between: width -> ffn -> width.

    A norm placement may replace ``inner``, applied after the ReLU (`Residual.inside`). ``gain`` is that of the initial
    weights.
    """

    gain = 1.0

    def __init__(self, width: int, ffn: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, ffn)
        self.fc2 = nn.Linear(ffn, width)
        self.inner: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        dtype = self.fc1.weight.dtype
        return self.fc2(self.inner(F.relu(self.fc1(x.to(dtype)))).to(dtype))


SubLayer = Attention | FeedForward
