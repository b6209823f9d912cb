"""A pretended GPU: tensors that say they are on ``cuda:0``, and whose numbers are in the CPU's memory.

They show what a machine without a GPU otherwise hides: tensors left on the CPU, numbers read from the device, copies
that wait for it, and the number of operations. They do not show CUDA's kernels, random numbers, memory or speed.
"""

from collections import Counter
from types import SimpleNamespace

import torch
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

CUDA, CPU = torch.device("cuda:0"), torch.device("cpu")
READING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique", "unique", "equal", "bincount", "is_nonzero")
"""Operations whose result, or its size, depends on numbers on the device, for which the host waits."""
MIXING = ("_to_copy", "copy_", "_foreach_copy_", "index", "index_put_", "_index_put_impl_", "set_")
"""Operations that take tensors of both devices."""
VIEWS = ("detach", "alias", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view",
         "_reshape_alias", "lift_fresh", "set_", "is_same_size")  # fmt: skip
"""Operations without a kernel that their schema does not tell from others."""
ALIGNMENT = 8
"""What the strides of a mask are multiples of, or CUDA's kernel pads it."""
waits: Counter[str] = Counter()
"""Reads of the device and copies that wait for it."""
operations: Counter[str] = Counter()
"""Operations on the device, with at least one kernel each."""


class OnDevice(torch.Tensor):
    """A tensor on the pretended GPU; ``host`` has its numbers."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host):
        made = torch.Tensor._make_wrapper_subclass(
            cls, host.size(), host.stride(), host.storage_offset(), dtype=host.dtype, device=CUDA
        )
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return run(operation, args, kwargs or {})

    def tolist(self):
        waits["tolist"] += 1
        return self.host.tolist()


class PretendedGpu(TorchDispatchMode):
    """A context in which tensors are made on, and moved to, the pretended GPU."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return run(operation, args, kwargs or {})


def run(operation, args, kwargs):
    """Run an operation with the numbers of its arguments, count it, and return its result on its device.

    Raises:
        RuntimeError: its tensors are on different devices.
    """
    if torch.is_inference_mode_enabled():  # which passes on composite operations as a whole
        with PretendedGpu():
            if (result := operation.decompose(*args, **kwargs)) is not NotImplemented:
                return result
    name = operation._schema.name.removeprefix("aten::")
    leaves, structure = tree_flatten((args, kwargs))
    device = [leaf for leaf in leaves if isinstance(leaf, OnDevice)]
    host = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and not isinstance(leaf, OnDevice)]
    if device and any(tensor.dim() for tensor in host) and name not in MIXING:
        raise RuntimeError(f"{name}: tensors on cuda:0 and on the CPU")
    to_device = _is_on_device(name, args, leaves, bool(device))
    asynchronous = kwargs.get("non_blocking") or (name == "copy_" and args[2:] == (True,))
    _count(operation, name, device, host, to_device, asynchronous)
    numbers = [leaf.host if isinstance(leaf, OnDevice) else _here(leaf) for leaf in leaves]
    args_here, kwargs_here = tree_unflatten(numbers, structure)
    kwargs_here.pop("pin_memory", None)
    if name in ("_softmax", "_log_softmax") and args_here[2]:  # the CPU does not convert half precision on the way
        args_here = (args_here[0].float(), args_here[1], False)
    result = ON_CPU.get(name, operation)(*args_here, **kwargs_here)
    if name == "resize_" and device:
        torch._C._TensorBase.data.__set__(args[0], OnDevice(args[0].host))
        return args[0]
    if not to_device:
        return tree_map_only(
            torch.Tensor, lambda made: made.clone() if any(made is t.host for t in device) else made, result
        )
    known = {id(tensor.host): tensor for tensor in device}
    result = tree_map_only(
        torch.Tensor, lambda made: known.get(id(made)) if id(made) in known else OnDevice(made), result
    )
    return return_and_correct_aliasing(operation, args, kwargs, result) if device else result


def attend(q, k, v, attn_mask=None, is_causal=False):
    """Attend by CUDA's memory-efficient kernel, as torch calls it; for this device it would choose several others.

    Raises:
        RuntimeError: the mask has another dtype.
    """
    if attn_mask is not None:
        if attn_mask.dtype != q.dtype:
            raise RuntimeError(f"a mask of {attn_mask.dtype} for queries of {q.dtype}")
        if any(stride % ALIGNMENT for stride in attn_mask.stride()[:-1]):
            size = attn_mask.size(-1)
            attn_mask = torch.nn.functional.pad(attn_mask, (0, -size % ALIGNMENT))[..., :size]
        attn_mask = attn_mask.expand(q.size(0), q.size(1), q.size(2), k.size(2))
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, True, 0.0, is_causal)[0]


def _attend(q, k, v, mask, _, dropout=0.0, causal=False):
    made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, attn_mask=mask)
    return *made, torch.zeros(()), torch.zeros(())


def _attend_backward(gradient, q, k, v, mask, out, norms, seed, offset, dropout, wanted, causal=False):
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return *backward(gradient, q, k, v, out, norms, dropout, causal, attn_mask=mask), None


ON_CPU = {
    "_scaled_dot_product_efficient_attention": _attend,
    "_scaled_dot_product_efficient_attention_backward": _attend_backward,
}
"""What computes on the CPU what CUDA's own operations compute."""


def _here(leaf):
    return CPU if isinstance(leaf, torch.device) and leaf.type == "cuda" else leaf


def _is_on_device(name, args, leaves, default):
    if name == "copy_":
        return isinstance(args[0], OnDevice)
    return next((leaf.type == "cuda" for leaf in leaves if isinstance(leaf, torch.device)), default)


def _count(operation, name, device, host, to_device, asynchronous):
    if name in ("_to_copy", "copy_") and device and not to_device:
        waits["copy to the CPU"] += 1
    elif name in ("_to_copy", "copy_") and host and to_device and not asynchronous:
        waits["blocking copy to the device"] += 1
    elif device and name.startswith(READING):
        waits[name] += 1
    if (device or to_device) and not operation.is_view and name not in VIEWS:
        operations[name] += 1


def pretend():
    cuda = torch.cuda
    properties = SimpleNamespace(name="Pretended GPU", major=9, minor=0, total_memory=80 * 2**30)
    for name, value in {
        "is_available": True, "is_bf16_supported": True, "current_device": CUDA, "device_count": 1, "set_device": None,
        "get_device_name": properties.name, "get_device_properties": properties, "get_device_capability": (9, 0),
        "max_memory_allocated": 0, "empty_cache": None, "synchronize": None, "manual_seed": None,
        "manual_seed_all": None, "set_rng_state": None, "_lazy_init": None,
    }.items():  # fmt: skip
        setattr(cuda, name, lambda *args, value=value, **kwargs: value)
    cuda.get_rng_state = lambda *args: torch.get_rng_state()
    _foreach_utils._foreach_supported_types.append(OnDevice)
    torch.Tensor.pin_memory = lambda tensor, *args: tensor
    torch._C._set_only_lift_cpu_tensors(True)  # `torch.tensor(..., device="cuda")` is made on the CPU and moved
    torch.__future__.set_overwrite_module_params_on_conversion(True)
