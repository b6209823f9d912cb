"""The training loop of a run: updates, events, probes, checkpoints, validations and stops, in a safe order."""

import logging
import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from torch import Tensor

from ln_repro.engine.checkpoints import CheckpointKind, Checkpoints, State
from ln_repro.engine.inputs import Inputs
from ln_repro.engine.plugin.tasks import per_token
from ln_repro.engine.probing import Probing, chosen_batches
from ln_repro.engine.process_group import Group
from ln_repro.engine.stop import StopRequest
from ln_repro.engine.trainer import Gradients, StrictTrainer, Update, save
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.experiment.divergence import NOT_FINITE, Diverged, stuck
from ln_repro.model.batch import Batch, Log
from ln_repro.model.schemes.later import initialise_admin
from ln_repro.records import provenance
from ln_repro.records.run_dir import RunFolder
from ln_repro.system.directory_lock import lost, newest
from ln_repro.system.files import sync

logger = logging.getLogger(__name__)


def train(inputs: Inputs, stop: StopRequest, group: Group) -> int:
    """Train to the last epoch or update, a divergence, or a stop; return the exit status."""
    if not group.rank.leads:
        logging.getLogger().setLevel(logging.WARNING)
    loop = Loop(inputs, stop, group)
    for _ in loop.run():
        pass  # the loop computes the gradients of each update itself
    return loop.status


class Loop:
    """A training run in this process, at its first update or where it resumes; ``stacked`` runs are trained at once."""

    def __init__(self, inputs: Inputs, stop: StopRequest, group: Group, stacked: int = 1) -> None:
        self.inputs, self.experiment, self.stop, self.group = inputs, inputs.experiment, stop, group
        self.stopped, self.stacked = False, stacked
        run = RunFolder(inputs.folder)
        self.checkpoints, self.events = Checkpoints(run.checkpoints), run.events
        self.session = newest(inputs.folder)

        self.trainer = StrictTrainer(inputs, group.rank)
        logger.info(self.trainer.get_model())
        self.trainer.task.load_dataset("valid")
        state, self.batches = self.trainer.resume(inputs.resume)
        if not group.same([self.update]):
            raise UserError(f"{inputs.resume}: not every process sees this file; use a shared disk")
        self.tokens = state.tokens  # trained on so far, of which the events tell
        if group.rank.leads:
            self.events.check_until(self.update, self.tokens, self.checkpoints.weights())
        self.trainer.get_valid_iterator("valid")  # an invalid validation set must fail now

        self.updates_per_epoch = math.ceil(len(self.batches) / self.trainer.batches_per_update)
        self.last_update = self.experiment.train.updates(self.updates_per_epoch)
        self._plan_rates()
        self.metrics = MetricBuffer(self.update, state.last_loss)
        self.epoch: int = state.ended or self.batches.epoch
        self.owed = group.share(state.ended is not None and state.ended not in self.checkpoints.weights())
        """Whether an earlier session completed an epoch without validating it and saving its weights."""
        self._report_start()

        self.probing = Probing(self.trainer, self.batches)
        if self.update == 0:
            self._before_training()
        self._open_window()
        self.last_saved = self.window_began

    @property
    def update(self) -> int:
        return self.trainer.get_num_updates()

    @property
    def finished(self) -> bool:
        """Whether the last update is done."""
        return self.update >= self.last_update

    @property
    def status(self) -> int:
        """The exit status, once training has ended."""
        return Interrupted.exit_code if self.stopped else 0

    def _plan_rates(self) -> None:
        """Give the schedule its learning rates; raise `UserError` if its step comes after the last update."""
        schedule = self.experiment.schedule
        if schedule.step_reset != "none" and (schedule.step_update or 0) >= self.last_update:
            raise UserError(
                f"schedule.step_update: {schedule.step_update}: expected less than the run's {self.last_update} updates"
            )
        self.trainer.plan_rates(self.updates_per_epoch)

    def _report_start(self) -> None:
        """Write what a record says about the code, the device and the parts of a run."""
        self._write(
            "status",
            state="resumed" if self.update else "started",
            owed=self.owed,
            code=provenance.code(),  # now, since a checkout may change during a long run
            parameters=sum(p.numel() for p in self.trainer.get_model().parameters()),
            device=torch.cuda.get_device_name() if self.trainer.cuda else "cpu",
            instructions=torch.backends.cpu.get_cpu_capability(),
            **({"tf32": torch.backends.cuda.matmul.allow_tf32} if self.trainer.cuda else {}),
            updates_per_epoch=self.updates_per_epoch,
            processes=self.group.rank.size,
            **({"stacked": self.stacked} if self.stacked > 1 else {}),
        )

    def _before_training(self) -> None:
        """Initialise what depends on data, and probe the model before its first update."""
        model, seed, cuda = self.trainer.get_model(), self.experiment.torch_seed, self.trainer.cuda
        if not self.experiment.start:  # a pre-trained model keeps its values
            initialise_admin(model, lambda: model(**chosen_batches(self.batches, 1, seed, cuda)[0]["net_input"]))
        if self.probing.due(0):
            self._probe()

    def run(self) -> Generator[list[Batch], Gradients | None, None]:
        """Train epoch by epoch, with a checkpoint and a validation at the end of each; divergence is a result.

        Before each update, yield its mini-batches. If their gradients are sent in return, they are not computed again.
        """
        try:
            if self.owed:
                self._end_epoch()
            self._check_divergence()  # an earlier session may have been killed right after a validation
            while not (self.finished or self.stopped):
                for samples in self.next_epoch():
                    computed = yield samples
                    self._update(samples, computed)
                    if self.stopped or self.finished:
                        break
            if not self.stopped:
                self._write("status", state="trained", peak_memory_mb=self.trainer.peak_memory_mb)
        except Diverged as error:
            self._diverged(error)

    def _diverged(self, reason: Diverged) -> None:
        """Report divergence at the last update with finite numbers."""
        self.trainer.set_num_updates(self.metrics.last.number)
        if self.update > self.reported:
            self._report()
        self._write(
            "status",
            state="diverged",
            rule=reason.kind,
            reason=str(reason),
            last_finite_loss=self.metrics.last_loss,
            peak_memory_mb=self.trainer.peak_memory_mb,
        )

    def next_epoch(self) -> Iterator[list[Batch]]:
        """Yield the mini-batches of each update of the next epoch."""
        self.updates_left = self.trainer.next_epoch(self.batches)
        self.epoch = self.batches.epoch
        yield from self.updates_left

    def _update(self, samples: list[Batch], computed: Gradients | None = None) -> None:
        """Update the parameters, then write the events and checkpoints that are due; only these wait for the device."""
        self.probing.begin_update(self.update + 1)  # keeps the parameters, which the update changes
        self.metrics.unread.append(self.trainer.update(samples, computed))

        # The processes agree on what is due, because the steps below communicate; a stop makes a save due.
        train = self.experiment.train
        at_end = not self.updates_left.has_next() or self.finished
        due = self.group.any(bool(self.stop) or time.monotonic() - self.last_saved > 60 * train.save_minutes)
        stop = due and self.group.any(bool(self.stop))
        ends = at_end and (self.stacked == 1 or self.finished)  # a stack would wait for all runs in turn
        state_due = due or ends or self.update % (train.save_every or math.inf) == 0
        report_due = state_due or at_end or self.update % train.log_every == 0
        probe_due = self.probing.due(self.update)

        # The order matters: a run may be stopped or killed after any of these steps.
        if report_due or probe_due:  # before anything is written: a divergence ends the run here
            self.metrics.flush(self.group)
        if report_due and self.update > self.reported:
            self._report()
        if probe_due:  # after the report, so that its time belongs to the next window
            self._probe()
        if state_due:  # after the events, which a resumed run needs up to its state
            self._save_state(at_end)
        if at_end:  # after the state, so that a stop or a crash in the validation costs no update
            self._end_epoch()
            if self.stopped and not state_due:  # in the validation
                self._save_state(at_end)
        self.stopped = self.stopped or (stop and not self.finished)  # not one that has just finished

    def _probe(self) -> None:
        for values in self.probing.values():
            self._write("probe", **values)

    def _end_epoch(self) -> None:
        """Validate, then save the weights, which mark the epoch as complete."""
        if self._validate():
            self._save("weights", self._write_weights)
            self._check_divergence()

    def _check_divergence(self) -> None:
        """Raise `Diverged` if the run has diverged by the rule, given its validations so far."""
        reason, ramp = None, self.experiment.schedule.warmup_updates
        if self.experiment.stop_on_divergence and self.group.rank.leads:  # only this process has the events
            events = [event for event in self.events.read() if event["kind"] == "valid"]
            validations = [(event["update"], event["nll_loss"]) for event in events]
            reason = stuck(validations, self.inputs.unigram_bits, ramp, self.experiment.divergence.updates)
        if reason := self.group.share(reason):
            raise Diverged("stuck", reason)

    def _validate(self) -> bool:
        """Report the validation loss; return False if a stop was requested before the end."""
        began, logs = time.monotonic(), []
        model = self.trainer.get_model().eval()
        for sample in self.trainer.get_valid_iterator("valid").next_epoch_itr(shuffle=False):
            if self.group.any(bool(self.stop)):
                self.stopped = True
                return False
            logs.append(self.trainer.valid_step(sample))
        model.train()
        values = self.trainer.task.metrics(on_host(self.trainer.over_processes(logs)))
        self._write("valid", **values, ppl=2 ** min(values["nll_loss"], 1000.0))
        if not math.isfinite(values["loss"]):
            raise Diverged(NOT_FINITE, "the validation loss is not finite")
        self.window_began += time.monotonic() - began
        return True

    def _report(self) -> None:
        """Report the updates since the last report; ``seconds`` includes ``saving``, but no validation."""
        seconds, updates = time.monotonic() - self.window_began, self.update - self.reported
        tokens = sum(int(log["sample_size"]) for log in self.metrics.logs)
        self.tokens += tokens
        last = self.metrics.last
        self._write(
            "train",
            **per_token(self.metrics.logs),
            lr=last.lr,
            gnorm=last.gnorm,
            tokens=tokens,
            seconds=round(seconds, 3),
            saving=round(self.saving_seconds, 3),
            tokens_per_s=round(tokens / seconds, 1),
            updates_per_s=round(updates / seconds, 3),
        )
        self._open_window()

    def _open_window(self) -> None:
        """Begin to collect what the next `_report` covers: the updates after ``reported`` ones, and their time."""
        self.metrics.logs.clear()
        self.reported, self.window_began, self.saving_seconds = self.update, time.monotonic(), 0.0

    def _save_state(self, ended: bool) -> None:
        """Save everything that an exact resume needs; ``ended`` says whether the last update of the epoch is done."""
        state = State(
            train_iterator=self.batches.state_dict(),
            ended=self.epoch if ended else None,
            last_loss=self.metrics.last_loss,
            tokens=self.tokens,
            processes=self.group.rank.size,
        )
        self._save("state", lambda path: self.trainer.save_state(path, state))
        self.last_saved = time.monotonic()

    def _save(self, kind: CheckpointKind, write: Callable[[Path], None]) -> None:
        """Save a checkpoint from the first process, after the events."""
        began = time.monotonic()
        if self.group.rank.leads:
            self._check_lock()
            sync(self.events.path)
            self.checkpoints.save(kind, self.update, self.epoch, write)
        self.saving_seconds += time.monotonic() - began

    def _write_weights(self, path: Path) -> None:
        save({"model": self.trainer.get_model().state_dict()}, path)

    def _write(self, kind: str, **values: object) -> None:
        """Write an event from the first process."""
        if self.group.rank.leads:
            self._check_lock()
            self.events.write(kind, self.update, self.epoch, **values)

    def _check_lock(self) -> None:
        """Raise an error if the run is another process's now: its command was suspended, or its directory deleted."""
        if lost(folder := self.events.path.parent, self.session):
            raise LnReproError(f"{folder} was deleted or taken over by another process")


class MetricBuffer:
    """Collects updates, then reads and checks them in order.

    ``done`` is the number of updates before this session, and ``last_loss`` the loss of the last one, in bits.
    """

    def __init__(self, done: int, last_loss: float | None) -> None:
        self.last_loss = last_loss
        self.last = Update(done, math.nan, (), math.nan)  # the last update with finite numbers
        self.logs: list[Log] = []  # the logs of mini-batches that were read since the last report
        self.unread: list[Update] = []  # the updates whose numbers have not been read

    def flush(self, group: Group) -> None:
        """Read and check all unread updates; those after a divergence are dropped.

        Raises:
            Diverged: a loss or a gradient is not finite; the update is not counted.
            RuntimeError: the processes have different gradients.
        """
        updates, self.unread = self.unread, []
        numbers = on_host([{"logs": update.logs, "gnorm": update.gnorm} for update in updates])
        if not group.same([values["gnorm"] for values in numbers]):
            raise RuntimeError("the processes of this run have different gradients; use GPUs of one type")
        for update, values in zip(updates, numbers, strict=True):
            if not math.isfinite(values["gnorm"]):
                raise Diverged(NOT_FINITE, "gradients are Nan/Inf")  # fairseq's message; it skips such a step
            loss = per_token(values["logs"])["loss"]
            if not math.isfinite(loss):
                raise Diverged(NOT_FINITE, "the loss is not finite")
            self.last = replace(update, **values)
            self.logs += values["logs"]
            self.last_loss = loss


def on_host(nested: list[Any]) -> list[Any]:
    """Return nested lists and dicts with every scalar tensor replaced by a number, in a single transfer."""
    scalars: list[Tensor] = []
    utils.apply_to_sample(scalars.append, nested)
    numbers = iter(torch.stack(scalars).tolist() if scalars else [])
    return utils.apply_to_sample(lambda _: next(numbers), nested) if nested else []
