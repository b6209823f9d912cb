"""Linear maps, layer norm, attention and dropout of stacked runs, each by one operation for all rows.

`torch.vmap` computes the rest of a model for all rows, but would copy the weights of each linear map, and draw dropout
unlike a single run. So these functions leave it: they take the plain tensors, whose first dimension is the row, out of
its wrappers, and wrap their result. A `torch.autograd.Function` with a rule for vmap does the same in public, but takes
0.2 ms a call, as long as dozens of operations.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


def differs(value: object) -> bool:
    """Return whether a value is a tensor of vmap that differs between rows."""
    return isinstance(value, Tensor) and _functorch.is_batchedtensor(value)


def outside_vmap(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a function compute with plain tensors of all rows; one that is the same for all rows is not copied."""

    @wraps(compute)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        level = _functorch.maybe_current_level()
        assert level is not None
        tensor, dim = next(_functorch._unwrap_batched(value, level) for value in args if differs(value))
        rows = tensor.size(dim)

        def unwrapped(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            x, dim = _functorch._unwrap_batched(value, level)
            return x.expand(rows, *x.shape) if dim is None else x.movedim(dim, 0)

        args = tuple(map(unwrapped, args))
        kwargs = {name: unwrapped(value) for name, value in kwargs.items()}
        with temporarily_pop_interpreter_stack():
            y = compute(*args, **kwargs)
        return _functorch._add_batch_dim(y, 0, level)

    return call


class Linear(torch.autograd.Function):
    """Map (rows, number, width) to (rows, number, outputs), each row by its own weight and bias.

    Autograd's own gradient of a weight would be transposed in memory, and have to be copied.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        weights = weight.transpose(1, 2)
        return torch.bmm(x, weights) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_bias = gradient.sum(1) if ctx.biased else None
        return gradient.bmm(weight), gradient.transpose(1, 2).bmm(x), of_bias


class Affine(torch.autograd.Function):
    """Return y * weight + bias, for which autograd would compute two products more."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(y, weight)
        return torch.addcmul(bias, y, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, weight = ctx.saved_tensors
        return gradient * weight, (gradient * y).sum_to_size(weight.shape), gradient.sum_to_size(weight.shape)


class Dropout(torch.autograd.Function):
    """Drop the same entries of all rows, drawn and scaled as a single run does it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        ctx.mask, ctx.scale = mask_for(x, p).expand_as(x), 1 / (1 - p)
        return torch.ops.aten.native_dropout_backward(x, ctx.mask, ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return torch.ops.aten.native_dropout_backward(gradient, ctx.mask, ctx.scale), None


def mask_for(x: Tensor, p: float) -> Tensor:
    """Return which entries of a row of ``x`` are kept."""
    return torch.native_dropout(x[0], p, True)[1]


@outside_vmap
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Map (rows, ..., width) to (rows, ..., outputs)."""
    y: Tensor = Linear.apply(x.reshape(len(x), -1, x.size(-1)), weight, bias)  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], -1)


@outside_vmap
def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise the last dimensions, which have ``shape``, and apply each row's own weight and bias."""
    y = F.layer_norm(x, shape, None, None, eps)
    over = (len(x), *[1] * (x.dim() - 1 - len(shape)), *shape)  # with the dimensions that weight and bias lack
    if weight is not None and bias is not None:
        return Affine.apply(y, weight.reshape(over), bias.reshape(over))  # type: ignore[no-untyped-call]
    return y if weight is None else y * weight.reshape(over)


@outside_vmap
def attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """Attend with queries, keys and values (rows, batch, heads, time, width/heads); `Attention` describes the mask."""
    shape, mask = q.shape, None if attn_mask is None else attn_mask.flatten(1, 2)
    q, k, v = (x.flatten(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal).view(shape)


@outside_vmap
def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop entries of (rows, ...)."""
    return Dropout.apply(x, p) if training and p else x  # type: ignore[no-untyped-call]


STEPPING_OUT: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.linear: linear, F.layer_norm: layer_norm, F.scaled_dot_product_attention: attention, F.dropout: dropout,
}  # fmt: skip
"""What replaces functions of torch if their tensors differ between rows."""


class OutOfVmap(TorchFunctionMode):
    """A context in which a model under vmap computes with `STEPPING_OUT`."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ours = STEPPING_OUT.get(function)
        if ours and any(map(differs, args)):
            function = ours
        return function(*args, **(kwargs or {}))
