"""Linear maps, layer norm, attention and dropout of stacked runs, each by one operation for all rows.

`torch.vmap` computes the rest of a model for all rows, but would copy the weights of each linear map, and draw dropout
unlike a single run. So these functions leave it: they take the plain tensors, whose first dimension is the row, out of
its wrappers, and wrap their result. A `torch.autograd.Function` with a rule for vmap does the same in public, but takes
0.2 ms a call, as long as dozens of operations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import _functorch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


def level() -> int:
    """Return the number of the vmap that computes the rows."""
    current = _functorch.maybe_current_level()
    assert current is not None
    return current


def unwrapped(*tensors: Tensor | None) -> list[Any]:
    """Return tensors with the rows as first dimension; one that is the same for all rows is not copied."""
    plain = [(None, None) if x is None else _functorch._unwrap_batched(x, level()) for x in tensors]
    rows = next(x.size(dim) for x, dim in plain if x is not None and dim is not None)
    return [x if x is None else x.expand(rows, *x.shape) if dim is None else x.movedim(dim, 0) for x, dim in plain]


def wrapped(x: Tensor) -> Tensor:
    """Return the tensor that vmap takes for each row of ``x``."""
    return _functorch._add_batch_dim(x, 0, level())


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Map (..., width) to (..., outputs), each row by its own weight."""
    x, weight, bias = unwrapped(x, weight, bias)
    flat, transposed = x.reshape(len(x), -1, x.size(-1)), weight.transpose(1, 2)
    y = torch.bmm(flat, transposed) if bias is None else torch.baddbmm(bias.unsqueeze(1), flat, transposed)
    return wrapped(y.view(*x.shape[:-1], -1))


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise the last dimensions, which have ``shape``, and apply each row's own weight and bias."""
    x, weight, bias = unwrapped(x, weight, bias)
    y = F.layer_norm(x, shape, None, None, eps)
    over = (len(x), *[1] * (x.dim() - 1 - len(shape)), *shape)  # the dimensions that weight and bias lack
    if weight is not None and bias is not None:
        return wrapped(torch.addcmul(bias.reshape(over), y, weight.reshape(over)))
    return wrapped(y if weight is None else y * weight.reshape(over))


def attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """Attend with the heads of all sentences as those of one per row, which is a view of the linear maps' output.

    Queries, keys and values are (batch, heads, time, width/heads), and the mask (batch, 1, 1 or time, source time).
    """
    q, k, v, mask = unwrapped(q, k, v, attn_mask)
    heads = q.shape[1:3]
    if mask is not None:
        rows = mask.new_empty(len(mask), *heads, mask.size(3), mask.size(4) + -mask.size(4) % 8)  # see `Encoder`
        mask = rows[..., : mask.size(4)].copy_(mask).flatten(1, 2)
    q, k, v = (x.flatten(1, 2) for x in (q, k, v))
    y = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
    return wrapped(y.view(len(y), *heads, *y.shape[2:]))


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop the same entries in all rows: those that a single run drops."""
    if not training or p == 0:
        return x
    (x,) = unwrapped(x)
    return wrapped(x * F.dropout(torch.ones_like(x[0]), p))


STEPPING_OUT: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.linear: linear, F.layer_norm: layer_norm, F.scaled_dot_product_attention: attention, F.dropout: dropout,
}  # fmt: skip
"""What replaces functions of torch if their tensors differ between rows."""


class OutOfVmap(TorchFunctionMode):
    """A context in which a model under vmap computes with `STEPPING_OUT`."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (ours := STEPPING_OUT.get(function)) and any(
            map(_functorch.is_batchedtensor, filter(torch.is_tensor, args))
        ):
            function = ours
        return function(*args, **(kwargs or {}))
