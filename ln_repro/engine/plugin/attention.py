"""Multi-head attention through PyTorch's scaled dot product, with a cache for decoding."""

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

State = MutableMapping[Any, tuple[Tensor, Tensor]]
"""Keys and values of each attention so far, (batch, heads, time, width/heads); fairseq's incremental state."""


class Attention(nn.Module):
    """Attention with separate query, key, value and output projections, all (width, width) with bias.

    Args:
        width: size d of the stream.
        heads: number of heads; divides ``width``.
        cross: keys and values come from the encoder, so one computation serves a whole decoding.
    """

    def __init__(self, width: int, heads: int, cross: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.cross = cross
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, query: Tensor, source: Tensor, mask: Tensor | None, causal: bool, state: State | None) -> Tensor:
        """Attend from ``query`` (time, batch, width) to ``source`` (source time, batch, width).

        ``mask`` is added to the scores (batch, 1, 1, source time), -inf at padding; ``causal`` hides later
        positions. With ``state``, keys and values of earlier calls are reused and extended.
        """
        q, k, v = self.heads_of(query, source, state)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out_proj(mixed.permute(2, 0, 1, 3).reshape(query.shape))

    def heads_of(self, query: Tensor, source: Tensor, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each (batch, heads, time, width/heads)."""
        q = self.split(self.q_proj(query))
        return q, *(self._keys_and_values(source) if state is None else self._remembered(source, state))

    def split(self, x: Tensor) -> Tensor:
        """(time, batch, width) -> (batch, heads, time, width/heads)."""
        time, batch, width = x.shape
        return x.view(time, batch, self.heads, width // self.heads).permute(1, 2, 0, 3)

    def _keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.k_proj(source)), self.split(self.v_proj(source))

    def _remembered(self, source: Tensor, state: State) -> tuple[Tensor, Tensor]:
        if self.cross and self in state:
            return state[self]
        k, v = self._keys_and_values(source)
        if self in state:
            k, v = torch.cat([state[self][0], k], dim=2), torch.cat([state[self][1], v], dim=2)
        state[self] = k, v
        return k, v

    def reorder_incremental_state(self, state: State, order: Tensor) -> None:
        """Follow the beam: row i becomes what row ``order[i]`` was (the decoder calls it for all that have a cache)."""
        k, v = state[self]
        if self.cross and k.size(0) == order.numel():
            return  # a beam only trades places within its own sentence, whose encoder output is the same
        state[self] = k.index_select(0, order), v.index_select(0, order)
