"""The one description of a run: typed, frozen, validated, with an id.

Hydra composes YAML, the classes here validate it, and nothing after this point reads a loose dictionary.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ln_repro.experiment.data import Data
from ln_repro.experiment.divergence import RULES
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.model import Model, Start
from ln_repro.experiment.tasks import TASKS, Task
from ln_repro.experiment.validation import Count, Fraction, Natural, NotNegative, Positive, Section, validate
from ln_repro.version import NUMERICS

Seed = Annotated[Count, Field(le=4000)]
"""`Experiment.torch_seed` of it has to stay below 2^32, which is where NumPy's seeds end."""

NOT_OF_THE_RUN = ("hydra", "reference")
"""Hydra's own settings, and what only interpolations read."""


class Optimizer(Section):
    """The update rule (learning rate and schedule stand apart)."""

    name: Literal["adam", "sgd", "radam"]
    betas: tuple[Fraction, Fraction] | None = None
    """Decay of the two moments; the paper's (0.9, 0.98) unless said. SGD has none."""
    eps: Positive | None = None
    weight_decay: NotNegative = 0.0
    equal_layer_norms: bool = False
    """Scale, before every step, each layer's gradient to the root mean square of the layers' norms."""

    @model_validator(mode="before")
    @classmethod
    def _moments_have_constants(cls, values: Any) -> Any:
        """Fill in the paper's constants where the rule has moments and none are given."""
        if isinstance(values, Mapping) and values.get("name") in ("adam", "radam"):
            constants = {"betas": (0.9, 0.98), "eps": 1e-8}
            return {**constants, **{key: value for key, value in values.items() if value is not None}}
        return values

    @model_validator(mode="after")
    def _sgd_has_none(self) -> Self:
        if self.name == "sgd" and (self.betas or self.eps):
            raise ValueError("optimizer.betas: sgd has neither betas nor eps; leave them out, or take optimizer=adam")
        return self


class Schedule(Section):
    """Ramp and tail of the learning rate, two separate axes (paper section 3.2 and 4.1)."""

    warmup_updates: Natural
    """Length T of the linear ramp lr_max * t / T; 0 means that update 1 already takes the full rate."""
    decay: Literal["constant", "inverse_sqrt", "anchored", "literal", "linear", "step", "step_inverse_sqrt"]
    """The tail; each is a formula in `ln_repro.experiment.learning_rate`."""
    anchor: Count = 4000
    """`anchored`: lr_max * min(1, sqrt(anchor / t))."""
    step_epoch: Count | None = None
    """`step` and `step_inverse_sqrt`: the last epoch at full rate."""

    @model_validator(mode="after")
    def _ramp_suits_the_tail(self) -> Self:
        if self.decay == "inverse_sqrt" and not self.warmup_updates:
            raise ValueError(
                "schedule.decay: inverse_sqrt needs schedule.warmup_updates of at least 1 "
                "(anchored is the same tail without a ramp)"
            )
        if self.decay.startswith("step") and self.step_epoch is None:
            raise ValueError(f"schedule.step_epoch: {self.decay} needs it, the last epoch at full rate (paper: 8)")
        if self.decay == "literal" and self.warmup_updates:
            raise ValueError("schedule.warmup_updates: literal has no ramp, so this must be 0 (or take inverse_sqrt)")
        return self


class Training(Section):
    """Batches, length, and what is written on the way."""

    max_epoch: Count | None = None
    max_update: Count | None = None
    max_tokens: Count = 4096
    max_sentences: Count | None = None
    """Sentences of a mini-batch at most; None: as many as ``max_tokens`` holds."""
    block_tokens: Annotated[Count, Field(le=1024)] = 512
    """`masked_lm`: text is cut into blocks of so many tokens."""
    batches_per_update: Count = 1
    """Mini-batches whose gradients make one update (accumulated on one GPU, or spread over several)."""
    label_smoothing: Fraction = 0.1
    clip_norm: NotNegative = 0.0
    log_every: Count = 100
    save_every: Count = 1000
    """Updates between resumable checkpoints (one is also written at the end of each epoch)."""
    threads: Count = 1
    """CPU threads of the trainer; one keeps a run bit-reproducible whatever else the machine does."""
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @model_validator(mode="after")
    def _some_end(self) -> Self:
        if self.max_epoch is None and self.max_update is None:
            raise ValueError("train: give train.max_epoch or train.max_update, or training never ends")
        return self


class Evaluation(Section):
    """Beam search and what is scored."""

    beam: Count = 5
    lenpen: Positive = 1.2
    max_len_a: NotNegative = 1.2
    max_len_b: Count = 10
    """Hypotheses are cut at max_len_a * source length + max_len_b tokens: an untrained model never ends."""
    valid: bool = False
    """Decode the validation set too (the test set always is), after every epoch."""
    average: Natural = 0
    """Once training has ended, score the mean of the weights of the last so many epochs as well; 0 scores none."""

    @model_validator(mode="after")
    def _an_average_is_of_several(self) -> Self:
        if self.average == 1:
            raise ValueError("eval.average: the average of 1 epoch is that epoch; give 2 or more, or 0 for none")
        return self


class Divergence(Section):
    """What counts as lost, besides numbers that are not finite (which always end a run)."""

    rule: str = "stuck"
    """One of `ln_repro.experiment.divergence.RULES`."""
    updates: Count = 2000
    """After the ramp, the updates between the validations that a rule judges by, at least."""

    @model_validator(mode="after")
    def _known_rule(self) -> Self:
        if self.rule not in RULES:
            raise ValueError(f"divergence.rule: there is no {self.rule!r}; known: {', '.join(RULES)}")
        return self


class Tracker(Section):
    """The mirror of a run's events; losing it loses nothing."""

    name: Literal["wandb", "none"]
    mode: Literal["auto", "online", "offline", "disabled"] = "auto"
    """`auto`: online when a key is configured, else offline."""
    project: str = "ln-repro"


class Paths(Section):
    """Where everything is written."""

    runs: Path
    data: Path

    @field_validator("runs", "data", mode="before")
    @classmethod
    def _named(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse nothing at all, which would be the folder that we are in."""
        if isinstance(value, str) and not value.strip():
            name = f"{info.field_name}"
            raise ValueError(f"paths.{name}: is empty; name a folder (unset LN_REPRO_{name.upper()} for ./{name})")
        return value


class Experiment(Section):
    """One run, from corpus to record."""

    exp: str
    task: Literal["translation", "masked_lm", "classification"] = "translation"
    seed: Seed
    norm: str
    """A scheme of the engine; the names are the files of `conf/norm`."""
    init: Literal["xavier_legacy", "xavier", "theory", "fairseq"]
    lr: Positive
    precision: Literal["auto", "fp32", "bf16", "fp16"]
    """`auto` is settled before a run has an id (`ln_repro.engine.device`)."""
    data: Data
    model: Model
    start: Start | None = None
    """The weights it begins with, RUN@EPOCH; None: it draws its own."""
    optimizer: Optimizer
    schedule: Schedule
    train: Training
    eval: Evaluation
    divergence: Divergence = Divergence()
    probe: Literal["none", "gradients"] = "none"
    """Statistics taken during training, without touching it (`ln_repro.engine.plugin.probes`)."""
    every: Count = 200
    """Updates between two probes; the first is taken before training."""
    probe_batches: Count = 5
    """Mini-batches that a probe averages over, the same every time."""
    stop_on_divergence: bool = False
    """End a run once the rule calls it lost, at the end of an epoch; what it had learnt until then is recorded."""
    tracker: Tracker
    paths: Paths
    rerun: bool = False

    @model_validator(mode="after")
    def _enough_epochs_to_average(self) -> Self:
        epochs, average = self.train.max_epoch, self.eval.average
        if epochs is not None and epochs < average:
            raise ValueError(f"eval.average: {average} epochs cannot be averaged when train.max_epoch is {epochs}")
        return self

    @model_validator(mode="after")
    def _the_task_can_be_done(self) -> Self:
        if misfit := self.task_spec.misfit(self):
            raise ValueError(misfit)
        return self

    @property
    def task_spec(self) -> Task:
        """Return the task."""
        return TASKS[self.task]

    @property
    def axes(self) -> dict[str, Any]:
        """Return the axes of the study, as the record names them."""
        return {
            "task": self.task, "data": self.data.name, "model": self.model.name, "norm": self.norm, "init": self.init,
            "optimizer": self.optimizer.name, "lr": self.lr, "warmup_updates": self.schedule.warmup_updates,
            "decay": self.schedule.decay, "seed": self.seed, "precision": self.precision,
            **({"start": f"{self.start.exp}@{self.start.update}"} if self.start else {}),
        }  # fmt: skip

    @property
    def torch_seed(self) -> int:
        """Return the seed that fairseq gets.

        fairseq reseeds before every update with ``seed + update``, so neighbouring seeds would share
        dropout masks, shifted by one; a large prime keeps them apart for any length of run.
        """
        return (self.seed - 1) * 1_000_003 + 1

    def learning_rate(self, updates_per_epoch: int) -> LearningRate:
        """Return the rate of every update, for a corpus of so many updates an epoch."""
        ends = (self.train.max_update, self.train.max_epoch and self.train.max_epoch * updates_per_epoch)
        axes = self.schedule
        return LearningRate(
            self.lr, axes.warmup_updates, axes.decay, axes.anchor, axes.step_epoch, updates_per_epoch,
            total=min(end for end in ends if end),
        )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """Return the settings without where things lie and who watches: what a record keeps."""
        left_out: Any = {"paths": True, "tracker": True, "rerun": True, "data": True, "start": {"given", "path"}}
        settings = self.model_dump(mode="json", exclude=left_out)
        return {**settings, "data": self.data.recipe()}

    def id(self, data_fingerprint: str) -> str:
        """Return the short hash over everything that can change a result, and over nothing else.

        Settings at their default are left out, so that a new axis does not rename the runs that came before it.
        Whether a run is stopped early is not part of it: the updates that were taken are the same.
        """
        assert self.precision != "auto" and (self.start is None or self.start.sha256)
        kept = self._decisive({"exp": True, "start": {*Start.model_fields} - {"sha256"}})
        text = json.dumps([NUMERICS, data_fingerprint, kept], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def arm_key(self) -> str:
        """Return a hash that the runs of one arm share, whatever their seed, peak learning rate and precision.

        Variations of an arm (its initialisation, scaled gradients), the weights that it starts from, how those had
        their text prepared, and what a tail does not read are set aside, too.
        """
        unread = {"anchor"} if self.schedule.decay != "anchored" else set()
        unread |= set() if self.schedule.decay.startswith("step") else {"step_epoch"}
        kept = self._decisive({
            "exp": True, "seed": True, "lr": True, "precision": True, "start": True, "init": True, "schedule": unread,
            "optimizer": {"equal_layer_norms"}, "eval": {"valid", "average"},
        })  # fmt: skip
        corpus = {"name": self.data.name} if self.task == "classification" else self.data.recipe()
        return hashlib.sha256(json.dumps([corpus, kept], sort_keys=True).encode()).hexdigest()[:10]

    def _decisive(self, but: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that can change a result, ``but`` some; those at their default are left out."""
        return self.model_dump(
            mode="json",
            exclude_defaults=True,
            exclude={
                "tracker": True, "paths": True, "rerun": True, "data": True,
                "divergence": True, "stop_on_divergence": True, "probe": True, "every": True, "probe_batches": True,
                "model": {"name"}, "train": {"log_every", "save_every", "threads", "device"}, **but,
            },
        )  # fmt: skip


def build(settings: Mapping[str, Any]) -> Experiment:
    """Validate composed settings (Hydra's own, and what only interpolations read, are left out).

    Raises:
        UserError: one line with the key, what is accepted, and what was found.
    """
    return validate(Experiment, {key: value for key, value in settings.items() if key not in NOT_OF_THE_RUN})
