"""fairseq's trainer with our own update, which gives the same result on any number of GPUs."""

import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.dataclass.configs import FairseqConfig
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig, OmegaConf
from torch import distributed

from ln_repro.engine.checkpoints import State
from ln_repro.engine.inputs import Inputs
from ln_repro.engine.plugin.bert import Classified, LnClassification, LnMaskedLm, MaskedBlocks
from ln_repro.engine.plugin.loss import LabelSmoothedCrossEntropy
from ln_repro.engine.plugin.model import EncoderOnly, LnClassifier, LnEncoder, LnTransformer
from ln_repro.engine.plugin.optimizers import gradients, optimizer_of, set_rates, split_param_groups
from ln_repro.engine.plugin.tasks import LnTask, LnTranslation
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.model.batch import Batch, Log
from ln_repro.system.distributed import Rank
from ln_repro.system.files import Json

PARTS: dict[str, tuple[type[LnTask], type[LnTransformer | EncoderOnly], type[LabelSmoothedCrossEntropy]]] = {
    "translation": (LnTranslation, LnTransformer, LabelSmoothedCrossEntropy),
    "masked_lm": (LnMaskedLm, LnEncoder, LabelSmoothedCrossEntropy),
    "classification": (LnClassification, LnClassifier, Classified),
}
"""The classes of the task, the model and the loss, by the name of the task."""
STREAMS_APART = 2**32 + 2_654_435_769
"""Difference between the dropout seeds of an update's mini-batches, larger than any seed plus update. Only the low 32
bits, 2^32 times the golden ratio, matter to a CPU's generator: multiples up to 1000 differ by over 10^6 modulo 2^32."""
Gradients = tuple[list[Log], torch.Tensor | float]
"""The logs of mini-batches whose gradients the parameters have, and the factor that makes these means over tokens."""


@dataclass(frozen=True)
class Update:
    """The number of an update, its learning rate, the logs of its mini-batches, and its gradient norm.

    Logs and norm are tensors on the device until they are read.
    """

    number: int
    lr: float
    logs: Sequence[Log]
    gnorm: torch.Tensor | float


def parts(inputs: Inputs) -> tuple[LnTask, LnTransformer | EncoderOnly, LabelSmoothedCrossEntropy]:
    """Return the task, the model and the loss of a run."""
    task_class, model_class, loss_class = PARTS[inputs.experiment.task]
    task = task_class(inputs.experiment, inputs.corpus)
    return task, model_class(inputs.experiment, task), loss_class(inputs.experiment, task)


def add_over_processes(tensors: list[torch.Tensor]) -> None:
    """Add up tensors over all processes in place, in one communication that does not wait for the device."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    distributed.all_reduce(flat)
    sums = torch.split(flat, [tensor.numel() for tensor in tensors])
    torch._foreach_copy_(tensors, [total.view_as(tensor) for total, tensor in zip(sums, tensors, strict=True)])


def seeded(samples: list[Batch], seed: int, rank: int, processes: int) -> list[Batch]:
    """Return the mini-batches of one process for an update, each with its own dropout seed.

    The first mini-batch of the update has ``seed``, as in fairseq. The others are numbered in the order in which a
    single process would use them, so that a run is the same on any number of GPUs. Empty mini-batches, which fairseq
    adds to shorter shares, are dropped unless there are no others.
    """
    streams = zip(count(rank, processes), samples, strict=False)
    return [{**sample, "seed": seed + stream * STREAMS_APART} for stream, sample in streams if sample] or samples[:1]


def save(content: Json, path: Path) -> None:
    """Write nested tensors to a file, each without the rest of a matrix of which it is a row, as in a stack of runs."""

    def compact(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.cpu()
        return tensor.clone() if tensor.untyped_storage().nbytes() > tensor.nbytes else tensor

    torch.save(utils.apply_to_sample(compact, content), path)


def configuration(inputs: Inputs, rank: Rank) -> DictConfig | ListConfig:
    """Return the configuration of fairseq's own code: its defaults, except for what this code takes from them.

    Our classes take their settings from the experiment instead.
    """
    train = inputs.experiment.train
    values = {
        "common": {"seed": inputs.experiment.torch_seed, "cpu": inputs.on_cpu},
        "dataset": {"max_tokens": train.max_tokens, "batch_size": train.max_sentences, "num_workers": 0},
        "distributed_training": {
            "distributed_world_size": rank.size,
            "distributed_rank": rank.index,
            "device_id": rank.local,
        },
        "model": None,
    }
    return OmegaConf.merge(OmegaConf.structured(FairseqConfig()), values)


class StrictTrainer(Trainer):
    """fairseq's trainer of a run, whose `update` does not synchronise with the device; it sets the seeds."""

    rate: LearningRate | None = None

    def __init__(self, inputs: Inputs, rank: Rank) -> None:
        self.experiment = inputs.experiment
        np.random.seed(self.experiment.torch_seed)
        utils.set_torch_seed(self.experiment.torch_seed)
        self.batches_per_update = self.experiment.train.batches_per_update // rank.size  # of this process
        super().__init__(configuration(inputs, rank), *parts(inputs))

    @property
    def use_distributed_wrapper(self) -> bool:
        """Return False: `update` adds up the gradients, not a wrapper of the model."""
        return False

    def plan_rates(self, updates_per_epoch: int) -> None:
        """Set the learning rates, which depend on the length of the run, known once the batches have been built."""
        self.rate = self.experiment.learning_rate(updates_per_epoch)
        self.lr_step_update()

    def lr_step_update(self) -> None:
        """Set the learning rates of the *next* update; fairseq calls this whenever the number of updates changes."""
        if self.rate:
            set_rates(self.optimizer, self.rate, self.get_num_updates() + 1)

    def next_epoch(self, batches: EpochBatchIterator) -> GroupedIterator:
        """Return an iterator over the updates of the next epoch, each a list of mini-batches."""
        with MaskedBlocks.lock:  # the order, too, comes from NumPy's global generator
            shuffled = batches.next_epoch_itr(fix_batches_to_gpus=False, shuffle=True)
        return GroupedIterator(shuffled, self.batches_per_update)

    def update(self, samples: list[Batch], computed: Gradients | None = None) -> Update:
        """Update the parameters from mini-batches, like fairseq's ``train_step``, but without reading losses and norm.

        fairseq reads them after every update, which waits for the device. Return the metrics, to be read later. The
        gradients of a stacked run are ``computed`` before, with those of the runs beside it.
        """
        lr = self.get_lr()
        if computed is None:
            self.zero_grad()
            computed = self._add_up_gradients(self.seeded(samples))
        logs, per_token = computed
        self.optimizer.multiply_grads(per_token)
        gnorm = self.clip_grad_norm(self.experiment.train.clip_norm)
        self.optimizer.step()
        model = self.get_model()
        model.stacks["encoder"].scheme.constrain(model.modules())
        self.set_num_updates(self.get_num_updates() + 1)
        schedule = self.experiment.schedule
        if schedule.step_reset != "none" and self.get_num_updates() == schedule.step_update:
            self._reset(schedule.step_reset)
        return Update(self.get_num_updates(), lr, logs, gnorm)

    def _reset(self, part: str) -> None:
        """Forget the optimizer's state, give a stack the weights of a new model of the run, or do both."""
        stack, _, weights_alone = part.partition("_")
        if not weights_alone:
            self.optimizer.reset()
        model = self.get_model()
        if stack in model.stacks:
            utils.set_torch_seed(self.experiment.torch_seed)
            new = type(model)(self.experiment, self.task)
            model.stacks[stack].load_state_dict(new.stacks[stack].state_dict())

    def seeded(self, samples: list[Batch]) -> list[Batch]:
        """Return the mini-batches of this process for the next update, each with its own dropout seed."""
        seed = self.experiment.torch_seed + self.get_num_updates()
        return seeded(samples, seed, self.data_parallel_rank, self.data_parallel_world_size)

    def _add_up_gradients(self, samples: list[Batch]) -> Gradients:
        """Add up the gradients of all mini-batches and processes; logs of several processes are added up, too."""
        logs, tokens = [], 0
        for sample in samples:
            loss, size, log = self._loss(sample)
            self.optimizer.backward(loss)
            logs.append(log)
            tokens += size
        if self.data_parallel_world_size == 1:
            return logs, 1 / max(tokens, 1)
        add_over_processes(gradients(self.optimizer.params))
        (log,) = self.over_processes(logs)
        return [log], (1 / torch.as_tensor(log["sample_size"]).clamp(min=1)).float()

    def _loss(self, sample: Batch) -> tuple[torch.Tensor, int, Log]:
        """Return a mini-batch's loss, number of tokens and log.

        They are 0 for a dummy batch, which fairseq gives a process whose share of mini-batches is shorter.
        """
        sample, is_dummy = self._prepare_sample(sample)
        if "seed" in sample:
            utils.set_torch_seed(sample["seed"])
        loss, size, log = self.criterion(self.model, sample)
        return (loss * 0, 0, {name: value * 0 for name, value in log.items()}) if is_dummy else (loss, size, log)

    def flat_gradients(self, samples: list[Batch]) -> torch.Tensor:
        """Return the gradients of all parameters for mini-batches, summed over tokens, without an update."""
        self.zero_grad()
        self._add_up_gradients(self.seeded(samples))
        parameters = [*self.get_model().parameters()]  # a user's scheme may leave some unused
        return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])

    def valid_step(self, sample: Batch) -> Log:
        """Return the log of a validation mini-batch of this process without reading it from the device."""
        with torch.no_grad():
            return self._loss(sample)[2]

    def over_processes(self, logs: list[Log]) -> list[Log]:
        """Return the logs or, with several processes, their sums over all of them: in float64, still on the device."""
        if self.data_parallel_world_size == 1:
            return logs
        sums = torch.zeros(len(logs[0]), dtype=torch.double, device=self.device)
        for total, name in zip(sums, logs[0], strict=True):
            total.add_(sum(log[name] for log in logs))
        distributed.all_reduce(sums)
        return [dict(zip(logs[0], sums, strict=True))]

    def save_state(self, path: Path, state: State) -> None:
        """Save all that an exact resume needs, under fairseq's names."""
        content = {
            "model": self.get_model().state_dict(),
            "last_optimizer_state": self.optimizer.state_dict(),
            "optimizer_history": [{"num_updates": self.get_num_updates()}],
            "extra_state": asdict(state),
        }
        save(content, path)

    def resume(self, path: Path | None) -> tuple[State, EpochBatchIterator]:
        """Load what `save_state` has saved, if there is such a file; return its `State` and the mini-batches after it.

        If the number of processes has changed, the position in the epoch is converted.
        """
        if path is None or not path.exists():  # `Loop` notices if only some processes see it
            return State(), self.get_train_iterator(epoch=1)
        saved = torch.load(path, map_location="cpu", weights_only=True)
        self.get_model().load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["last_optimizer_state"])
        self.set_num_updates(saved["optimizer_history"][-1]["num_updates"])
        state = State(**saved["extra_state"])
        position = state.train_iterator
        of_all = position["iterations_in_epoch"] * state.processes
        batches = self.get_train_iterator(position["epoch"])
        batches.load_state_dict({**position, "iterations_in_epoch": of_all // self.data_parallel_world_size})
        return state, batches

    @property
    def peak_memory_mb(self) -> int:
        """Maximum memory on the GPU or, without one, of this process so far, in MiB."""
        if self.cuda:
            return torch.cuda.max_memory_allocated() // 2**20
        unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit

    def _build_optimizer(self) -> None:
        cfg, model = self.experiment.optimizer, self.get_model()
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._optimizer = optimizer_of(cfg, self.experiment.lr, parameters)
        split_param_groups(self._optimizer, self.experiment.schedule, model.named_parameters())
        if cfg.equal_layer_norms:
            stacks = model.stacks.values()
            self._optimizer.layers = [[*layer.parameters()] for stack in stacks for layer in stack.layers]
