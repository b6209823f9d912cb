"""Train and decode on a pretended GPU, or on the CPU, by the project's unchanged code.

`python rehearse.py GUARD CASES`: GUARD is the library built from ``guard.cpp``; CASES is a JSON list of objects with
``device``, ``arguments`` of a worker (those of each run of a ``stack``), and optionally ``decode`` (a request to
`decode`) or ``plant`` (an error of `PLANTS`). Prints a JSON list with the results of each.
"""

import ctypes
import json
import logging
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

ctypes.CDLL(sys.argv[1])  # before torch looks for devices
import torch  # noqa: E402

from ln_repro.engine import compat  # noqa: E402
from tests.engine.pretended_gpu import device  # noqa: E402

compat.apply()

from fairseq import utils  # noqa: E402

from ln_repro.engine import decode as decoding  # noqa: E402
from ln_repro.engine import loop  # noqa: E402
from ln_repro.engine.inputs import read  # noqa: E402
from ln_repro.engine.plugin import model, optimizers  # noqa: E402
from ln_repro.engine.process_group import Group  # noqa: E402
from ln_repro.engine.stacked import operations  # noqa: E402
from ln_repro.engine.stacked.driver import Driver, trusted  # noqa: E402
from ln_repro.engine.stacked.joint import Joint  # noqa: E402
from ln_repro.engine.stop import StopRequest  # noqa: E402
from ln_repro.model import layers, sub_layers  # noqa: E402
from ln_repro.records.events import Events  # noqa: E402
from ln_repro.system.distributed import Rank  # noqa: E402

joint_logits = Joint.logits
new_table, norm_of, encoded = layers.sinusoids, optimizers.TorchOptimizer.clip_grad_norm, model.Encoder.forward
PLANTS = {
    "table on the CPU": (layers.TokenEmbedding, "_positions", lambda self, time: new_table(100, self.width, self.pad)),
    "mask in fp32": (
        model.Encoder, "forward",
        lambda self, *args, **kwargs: {k: v.float() for k, v in encoded(self, *args, **kwargs).items()},
    ),
    "read of the norm": (
        optimizers.TorchOptimizer, "clip_grad_norm", lambda self, limit, **_: torch.tensor(float(norm_of(self, limit)))
    ),
    "blocking copy": (
        utils, "move_to_cuda", lambda sample: utils.apply_to_sample(lambda tensor: tensor.to("cuda"), sample)
    ),
    "read in a stack": (
        Joint, "logits", lambda self, inputs: joint_logits(self, inputs) * (self.matrix[0, 0].item() < 1e9)
    ),
    "draw per row": (operations, "mask_for", lambda x, p: torch.native_dropout(x, p, True)[1]),
}  # fmt: skip


class CountingLoop(loop.Loop):
    """The training loop, with what each update waits for, and the number of its operations."""

    found: dict

    def _update(self, samples, computed=None):
        device.waits.clear()
        device.operations.clear()
        super()._update(samples, computed)
        self.found["waits"][self.update] = dict(device.waits)
        self.found["operations"][self.update] = device.operations.total()


def train(inputs):
    """Train; return losses by kind and update, and what each update waited for."""
    CountingLoop.found = {"waits": {}, "operations": {}}
    if inputs.resume:  # a run is resumed with its events
        shutil.copy(inputs.resume.parents[1] / "events.jsonl", inputs.folder)
    with mock.patch.object(loop, "Loop", CountingLoop):
        loop.train(inputs, StopRequest(), Group(Rank()))
    events = Events(inputs.folder / "events.jsonl").read()
    return {"losses": losses(inputs), "device": events[0]["device"], **CountingLoop.found}


def losses(inputs):
    events = Events(inputs.folder / "events.jsonl").read()
    return {f"{event['kind']} {event['update']}": event["loss"] for event in events if "loss" in event}


class CountingDriver(Driver):
    """The driver of a stack, with what each update of all rows waits for, and the number of its operations."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.waits, self.operations = {}, {}

    def _gradients(self, rows):
        device.waits.clear()
        device.operations.clear()
        return super()._gradients(rows)

    def _go_on(self, run, gradients=None):
        super()._go_on(run, gradients)
        if not run.update:  # only beginning
            return
        self.waits[run.update], self.operations[run.update] = dict(device.waits), device.operations.total()


def train_stack(rows):
    """Train runs as one; return the losses of each, and what each update waited for."""
    errors = []
    loops = [loop.Loop(inputs, StopRequest(), Group(Rank()), len(rows)) for inputs in rows]
    driver = CountingDriver(loops, lambda loop, error: errors.append(repr(error)))
    with mock.patch.object(operations, "scaled_dot_product_attention", device.attend):
        driver.run()
        its_own_check = trusted(rows[0]) if len(rows) < 8 else None  # of that, one stack is too large
    return {"losses": [*map(losses, rows)], "waits": driver.waits, "operations": driver.operations, "errors": errors,
            "together": driver.together, "trusted": its_own_check}  # fmt: skip


def attend(q, *others, **options):
    """Attend as on a GPU, where a stack computes for all rows."""
    stacked = torch._C._functorch.is_batchedtensor(q)
    return (operations.attention if stacked else device.attend)(q, *others, **options)


def decode(request, inputs):
    decoding.decode(inputs, [json.dumps(request)])
    return {"hypotheses": Path(request["out"]).read_text()}


def run(case):
    gpu = case["device"] == "cuda"
    inputs = [read(*arguments) for arguments in case["stack"]] if "stack" in case else read(*case["arguments"])
    plant = mock.patch.object(*PLANTS[case["plant"]]) if "plant" in case else nullcontext()
    kernel = mock.patch.object(sub_layers, "scaled_dot_product_attention", attend) if gpu else nullcontext()
    with device.PretendedGpu() if gpu else nullcontext(), kernel, plant:
        try:
            if "stack" in case:
                return train_stack(inputs)
            return decode(case["decode"], inputs) if "decode" in case else train(inputs)
        except RuntimeError as error:
            return {"error": str(error)}


torch.set_num_threads(1)
logging.disable(logging.INFO)
device.pretend()
print(json.dumps([run(case) for case in json.loads(sys.argv[2])]))
