"""Print the loss of every update, in bits per token at full precision, of a training run given by its arguments.

`python loss_trace.py stock|nudged|ours ARGUMENTS...`: by fairseq's own training program, by it with the first
parameters changed by one rounding, or by ours.
"""

import json
import math
import sys

import torch

from ln_repro.engine import compat

compat.apply()

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion  # noqa: E402

from ln_repro.engine.group import Group  # noqa: E402
from ln_repro.engine.plugin.loss import LabelSmoothedCrossEntropy  # noqa: E402
from ln_repro.engine.stop import StopRequest  # noqa: E402
from ln_repro.engine.training import configuration, train  # noqa: E402
from ln_repro.system.distributed import Rank  # noqa: E402

losses: list[float] = []
who, *arguments = sys.argv[1:]
criterion = LabelSmoothedCrossEntropy if who == "ours" else LabelSmoothedCrossEntropyCriterion
original = criterion.forward


@torch.no_grad()
def nudge(model):
    draw = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.mul_(1 + 2.0**-24 * torch.randn(parameter.shape, generator=draw))


def recording(self, *args, **kwargs):
    if who == "nudged" and self.training and not losses:
        nudge(args[0])
    loss, sample_size, log = original(self, *args, **kwargs)
    if self.training:
        losses.append(float(loss) / sample_size / math.log(2))
    return loss, sample_size, log


criterion.forward = recording
if who == "ours":
    train(arguments, StopRequest(), Group(Rank()))
else:
    from fairseq_cli import train as stock

    stock.main(configuration(arguments))
print(json.dumps(losses))
