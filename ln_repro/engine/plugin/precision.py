"""Mixed precision: linear maps and attention in bf16 or fp16, from weights in fp32; everything else in fp32.

torch's autocast computes the same, but casts every weight and its gradient, and the input of every linear map, by an
operation of their own, 560 per update of a Transformer with 6+6 layers.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

LOW_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}


class CastTogether(torch.autograd.Function):
    """Cast tensors by one operation, and their gradients to fp32 by another."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors in ``dtype``."""
        return tuple(_cast(tensors, dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients in fp32."""
        return None, *_cast(gradients, torch.float32)


def _cast(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    made = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(made, tensors)
    return made


def call(model: nn.Module, inputs: dict[str, Any], dtype: torch.dtype | None) -> Any:
    """Return what ``model`` returns for ``inputs``, with the weights of its linear maps in ``dtype`` (None: fp32)."""
    if dtype is None:
        return model(**inputs)
    weights = {
        f"{path}.{name}": weight
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear)
        for name, weight in module.named_parameters()
    }
    low = dict(zip(weights, CastTogether.apply(dtype, *weights.values()), strict=True))
    return functional_call(model, low, kwargs=inputs, tie_weights=False)  # the embeddings stay in fp32
