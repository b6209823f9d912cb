"""Mixed precision: linear maps and attention in bf16, from weights in fp32; everything else in fp32.

torch's autocast computes the same, but casts each weight, its gradient and the input of each linear map by a separate
operation: 560 per update of a Transformer with 6+6 layers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LOW_PRECISION = {"bf16": torch.bfloat16}


class CastTogether(torch.autograd.Function):
    """Cast tensors by one operation, and their gradients to fp32 by another."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(_cast(tensors, dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_cast(gradients, torch.float32)


def _cast(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> list[Tensor]:
    made = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(made, tensors)
    return made


@contextmanager
def weights_in(dtype: torch.dtype | None, model: nn.Module) -> Iterator[None]:
    """Return a context in which the weights of all linear maps of ``model`` are in ``dtype`` (None: unchanged).

    It does the same as `torch.func.functional_call` in a tenth of the time. Shared embeddings stay in fp32.
    """
    if dtype is None:
        yield
        return
    linears = [module._parameters for module in model.modules() if isinstance(module, nn.Linear)]
    weights = [(of, name, weight) for of in linears for name, weight in of.items() if weight is not None]
    low = CastTogether.apply(dtype, *(weight for _, _, weight in weights))  # type: ignore[no-untyped-call]
    try:
        for (of, name, _), weight in zip(weights, low, strict=True):
            of[name] = weight
        yield
    finally:
        for of, name, weight in weights:
            of[name] = weight
