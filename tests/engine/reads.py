"""Print, for every update of a training run given by its arguments, what asked for a number of a tensor on the way.

On a GPU each of these waits until everything before it is done. The CPU runs the same Python. Mini-batches are
made by another thread, and not on the device; one that is made by the training's own counts as well. Also printed:
whether mini-batches lie in memory that a GPU copies from.
"""

import functools
import json
import sys
import threading
from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from ln_repro.engine import compat

compat.apply()

from ln_repro.engine.group import Group  # noqa: E402
from ln_repro.engine.plugin.pairs import Pairs  # noqa: E402
from ln_repro.engine.stop import StopRequest  # noqa: E402
from ln_repro.engine.training import Loop, train  # noqa: E402
from ln_repro.system.distributed import Rank  # noqa: E402

WAIT = ("_local_scalar_dense", "nonzero", "equal", "unique", "masked_select", "bincount")
reads: Counter[str] = Counter()
by_update: dict[int, dict[str, int]] = {}
pinned: set[bool] = set()


class Watch(TorchDispatchMode):
    """Counts the operations whose result, or its size, depends on a tensor's numbers."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::")
        if name.startswith(WAIT):
            reads[name] += 1
        return function(*args, **(kwargs or {}))


def watch_method(name):
    """Count a way out of torch that no dispatcher sees."""
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def watched(self, *args, **kwargs):
        if threading.current_thread() is threading.main_thread():
            reads[name] += 1
        return original(self, *args, **kwargs)

    setattr(torch.Tensor, name, watched)


for method in ("tolist", "numpy", "cpu"):
    watch_method(method)
original_update = Loop._update


def update(self, samples):
    reads.clear()
    with Watch():
        original_update(self, samples)
    by_update[self.update] = dict(reads)


Loop._update = update
original_collater, original_loader = Pairs.collater, DataLoader.__init__


def collater(self, *args, **kwargs):
    if threading.current_thread() is threading.main_thread():
        reads["collater"] += 1
    return original_collater(self, *args, **kwargs)


def loader(self, *args, **kwargs):
    original_loader(self, *args, **kwargs)
    pinned.add(self.pin_memory)


Pairs.collater, DataLoader.__init__ = collater, loader
train(sys.argv[1:], StopRequest(), Group(Rank()))
print(json.dumps([by_update, sorted(pinned)]))
