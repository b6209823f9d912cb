"""Train stock fairseq and ours on the same mini-batches in one process, and print how far they are apart.

    python -m tests.engine.side_by_side CORPUS UPDATES [key=value ...]

CORPUS is binarised (the folder `bin` of a prepared one); the settings are those of `ln-repro run`, such as
``exp=multi30k_preln_nowarm_anchored``. Both have the same dropout, and start from the same parameters: stock fairseq's,
which with ``init=fairseq`` are also ours from the same seed. One JSON object an update:

- ``loss``: stock fairseq's, in bits per token, like all losses;
- ``step``: the difference of our loss, where ours begins every update at stock fairseq's parameters and moments, and
  ``parameters``, the largest difference of a parameter after the update;
- ``rounding step``, ``rounding parameters``: the same of stock fairseq itself, begun there but for one rounding.
"""

import json
import math
import sys
import tempfile
from itertools import chain, count, islice
from pathlib import Path

import torch
from hydra import version

from benchmarks.trainings import stock_arguments
from ln_repro.engine import compat
from ln_repro.engine.inputs import Inputs
from ln_repro.experiment.compose import compose
from ln_repro.experiment.settings import build

corpus, updates, *overrides = sys.argv[1:]
FIXED = ["train.device=cpu", "precision=fp32", "tracker=none", "train.max_epoch=null", f"train.max_update={updates}"]
experiment = build(compose([*overrides, *FIXED]))  # before fairseq fills Hydra's store with its own settings
version.setbase("1.1")  # which fairseq asks for
compat.apply()

from fairseq import tasks, utils  # noqa: E402
from fairseq.trainer import Trainer  # noqa: E402

from benchmarks.baselines import stock_configuration  # noqa: E402
from ln_repro.engine.loop import on_host  # noqa: E402
from ln_repro.engine.trainer import StrictTrainer  # noqa: E402
from ln_repro.system.distributed import Rank  # noqa: E402
from tests.engine.made import stock_names  # noqa: E402

ONE_ROUNDING = torch.finfo(torch.float32).eps / 2


class Side:
    """One training: a trainer, and its parameters under stock fairseq's names."""

    def __init__(self, folder, stock):
        utils.set_torch_seed(experiment.torch_seed)
        if stock:
            cfg = stock_configuration(stock_arguments(experiment, corpus, folder))
            task = tasks.setup_task(cfg.task)
            self.trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
        else:
            inputs = Inputs(experiment, folder, Path(corpus))
            self.trainer = StrictTrainer(inputs, Rank())
        self.trainer.model.train()
        own = dict(self.trainer.model.named_parameters())
        self.parameters = own if stock else stock_names(own)

    @property
    def moments(self):
        """Return the optimizer's state by parameter."""
        return self.trainer.optimizer.optimizer.state

    @torch.no_grad()
    def follow(self, other, rounding=0.0):
        """Take over another side's parameters, changed by so much of each at random, and its moments."""
        for name in self.parameters.keys() & other.parameters.keys():
            parameter = self.parameters[name]
            theirs = other.parameters[name]
            parameter.copy_(theirs * (1 + rounding * torch.randn_like(theirs)) if rounding else theirs)
            if theirs in other.moments:
                for moment in ("exp_avg", "exp_avg_sq"):
                    self.moments[parameter][moment].copy_(other.moments[theirs][moment])

    def update(self, sample, rate):
        trainer, (kept, criterion) = self.trainer, ([], self.trainer.criterion)
        if isinstance(trainer, StrictTrainer):
            (log,) = on_host(list(trainer.update([sample]).logs))
        else:
            hook = criterion.register_forward_hook(lambda module, given, result: kept.append(result[2]))
            trainer.optimizer.set_lr(rate)
            trainer.train_step([sample])
            hook.remove()
            (log,) = kept
        return float(log["loss"]) / log["sample_size"] / math.log(2)


def main():
    with tempfile.TemporaryDirectory() as name:
        stock, rounding = (Side(Path(name), stock=True) for _ in range(2))
        step = Side(Path(name), stock=False)
    _, batches = step.trainer.resume(None)
    step.trainer.plan_rates(len(batches))
    assert step.parameters.keys() <= stock.parameters.keys()  # which has idle copies of some
    utils.set_torch_seed(1)
    if experiment.init == "fairseq":
        assert distance(stock, step) == 0
    epochs = (batches.next_epoch_itr(shuffle=True) for _ in count())
    for sample in islice(chain.from_iterable(epochs), int(updates)):
        step.follow(stock)
        rounding.follow(stock, rounding=ONE_ROUNDING)
        rate = step.trainer.get_lr()
        loss = stock.update(sample, rate)
        apart = {"step": step.update(sample, rate) - loss, "rounding step": rounding.update(sample, rate) - loss}
        apart |= {"parameters": distance(stock, step), "rounding parameters": distance(stock, rounding)}
        print(json.dumps({"loss": loss, **apart}), flush=True)


def distance(stock, side):
    """Return the largest difference of a parameter."""
    return max(float((mine - stock.parameters[name]).detach().abs().max()) for name, mine in side.parameters.items())


if __name__ == "__main__":
    main()
