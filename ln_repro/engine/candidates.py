"""Candidate optimisations of an update, for benchmarks only.

Neither is faster on a CPU (Multi30k's small model, one core): fused projections take as long as separate ones, and
compiled layers a quarter longer, after 50 seconds of compilation. Both would save kernel launches on a GPU.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ln_repro.engine.plugin.attention import Attention, State
from ln_repro.engine.plugin.layers import Stack


def project_together() -> None:
    """Compute queries, keys and values by one matrix product, or in cross-attention keys and values."""
    separately = Attention.heads_of

    def heads_of(self: Attention, query: Tensor, source: Tensor, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        if state is not None:  # decoding
            return separately(self, query, source, state)
        if self.cross:
            q = self.split(self.q_proj(query))
            k, v = _together(source, self.k_proj, self.v_proj)
            return q, self.split(k), self.split(v)
        q, k, v = (self.split(made) for made in _together(query, self.q_proj, self.k_proj, self.v_proj))
        return q, k, v

    setattr(Attention, "heads_of", heads_of)  # noqa: B010 - mypy knows that a method is no variable


def _together(x: Tensor, *linears: torch.nn.Linear) -> tuple[Tensor, ...]:
    """Apply several linear maps to the same ``x`` (time, batch, width)."""
    weight, bias = torch.cat([one.weight for one in linears]), torch.cat([one.bias for one in linears])
    return F.linear(x, weight, bias).chunk(len(linears), dim=-1)


def compile_layers() -> None:
    """Compile the layers for all shapes with torch; the random numbers of dropout change."""
    build = Stack.__init__

    def build_and_compile(self: Stack, *given: Any) -> None:
        build(self, *given)
        for layer in self.layers:
            layer.compile(dynamic=True)

    setattr(Stack, "__init__", build_and_compile)  # noqa: B010


CANDIDATES: dict[str, Callable[[], None]] = {"projections": project_together, "compile": compile_layers}
"""By name, functions that switch one on for the rest of this process."""
