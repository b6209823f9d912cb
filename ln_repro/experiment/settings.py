"""The settings of a run, typed, validated and immutable, and the ids derived from them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ln_repro.experiment.data import LABELLED, Data
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.model import TASKS, Model, OwnNorm, Start
from ln_repro.experiment.validation import (
    NOT_IN_ARM,
    NOT_IN_ID,
    Count,
    FileName,
    Fraction,
    Natural,
    NotNegative,
    Positive,
    Section,
    UserPath,
    validate,
)
from ln_repro.system.files import Json
from ln_repro.system.paths import not_a_folder
from ln_repro.version import NUMERICS


class Schedule(Section):
    """Warm-up ramp and tail of the learning rate (paper sections 3.2 and 4.1)."""

    warmup_updates: Natural  # length T of the linear ramp lr_max * t / T; with 0, training starts at the full rate
    decay: Literal["constant", "inverse_sqrt", "anchored", "literal", "linear", "step", "step_inverse_sqrt"]
    """The tail, defined in `ln_repro.experiment.learning_rate`."""
    anchor: Count = 4000  # for `anchored`: lr_max * min(1, sqrt(anchor / t))
    step_epoch: Count | None = None  # for `step` and `step_inverse_sqrt`: the last epoch at the full rate
    step_update: Count | None = None  # the same as a number of updates; only one of the two may be given
    step_reset: Literal["none", "optimizer", "encoder", "decoder", "encoder_weights"] = "none"
    """What starts anew after ``step_update``: the optimizer's state, that and a stack's weights, or these alone."""
    part: Literal["all", "encoder", "decoder"] = "all"
    """The stack that the ramp applies to; the other follows the same tail without a ramp."""
    embeddings: Literal["ramp", "full"] = "ramp"
    """Whether embeddings and output projection follow the ramp of a ``part`` or the tail without a ramp."""

    @property
    def resets_stack(self) -> bool:
        """Whether the step gives a stack new weights."""
        return self.step_reset not in ("none", "optimizer")

    @model_validator(mode="after")
    def _ramp_fits_tail(self) -> Self:
        if self.decay == "inverse_sqrt" and not self.warmup_updates:
            raise ValueError(
                "schedule.decay: inverse_sqrt needs schedule.warmup_updates of at least 1 "
                "(anchored is the same tail without a ramp)"
            )
        if self.decay.startswith("step") and not (self.step_epoch or self.step_update):
            raise ValueError(f"schedule.step_epoch: {self.decay} needs it, the last epoch at full rate (paper: 8)")
        if self.step_epoch and self.step_update:
            raise ValueError("schedule.step_update: the step is after an epoch already; set schedule.step_epoch=null")
        if self.step_update and not self.decay.startswith("step"):  # a setting may have a ``step_epoch`` for others
            raise ValueError("schedule.step_update: needs schedule.decay=step or step_inverse_sqrt")
        if self.step_reset != "none" and not (self.decay == "step" and self.step_update):
            raise ValueError("schedule.step_reset: needs schedule.decay=step with schedule.step_update")
        if self.decay == "literal" and self.warmup_updates:
            raise ValueError(
                "schedule.warmup_updates: literal has no ramp, so this must be 0 (or use schedule.decay=inverse_sqrt)"
            )
        if self.part != "all" and not self.warmup_updates:
            raise ValueError(f"schedule.part: {self.part} needs a ramp; set schedule.warmup_updates to at least 1")
        if self.part == "all" and self.embeddings == "full":
            raise ValueError("schedule.embeddings: full needs schedule.part=encoder or schedule.part=decoder")
        return self


class Optimizer(Section):
    """The optimizer, without learning rate and schedule."""

    name: Literal["adam", "sgd", "radam"]
    betas: tuple[Fraction, Fraction] | None = None  # decay rates of the moments; SGD has none
    eps: Positive | None = None
    weight_decay: NotNegative = 0.0
    equal_layer_norms: Annotated[bool, NOT_IN_ARM] = False
    """Before every step, scale each layer's gradient to the root mean square of the layers' gradient norms."""
    max_relative_update: Annotated[Positive | None, NOT_IN_ARM] = None
    """Maximum ||dW|| / ||W|| of a step for each matrix W; a longer step is shortened. None: no maximum."""
    second_moment: Annotated[Literal["zero", "gradient"], NOT_IN_ARM] = "zero"
    """Initial value of Adam's second moment; `gradient`: the first gradient squared (GI-Adam)."""

    @model_validator(mode="after")
    def _moments(self) -> Self:
        if self.name != "sgd" and not (self.betas and self.eps):
            raise ValueError(f"optimizer.betas: {self.name} needs betas and eps")
        if self.name == "sgd" and (self.betas or self.eps):
            raise ValueError("optimizer.betas: sgd has neither betas nor eps; leave them out, or use optimizer=adam")
        if self.name != "adam" and self.second_moment != "zero":
            raise ValueError(f"optimizer.second_moment: only adam takes it, this is {self.name}")
        return self


class Training(Section):
    """Batches, length, logging and checkpoints."""

    max_epoch: Annotated[Count, Field(le=10_000)] | None = None
    max_update: Annotated[Count, Field(le=1_000_000)] | None = None
    max_tokens: Count = 4096
    max_sentences: Count | None = None
    """Maximum number of sentences per mini-batch; None: limited only by ``max_tokens``."""
    block_tokens: Annotated[Count, Field(ge=2, le=1024)] = 512  # tokens per block of text, for `masked_lm`
    batches_per_update: Count = 1  # mini-batches per update, accumulated on one GPU or distributed over several
    label_smoothing: Fraction = 0.1
    clip_norm: NotNegative = 0.0
    log_every: Annotated[Count, NOT_IN_ID] = 100
    save_every: Annotated[Count | None, NOT_IN_ID] = None
    save_minutes: Annotated[Positive, NOT_IN_ID] = 10.0
    """Maximum number of updates and of minutes between resumable checkpoints; a run that is not in a stack also writes
    one at the end of every epoch."""
    threads: Annotated[Count, NOT_IN_ID] = 1
    """CPU threads of the trainer; with one thread, results are bitwise reproducible."""
    device: Annotated[Literal["auto", "cpu", "cuda"], NOT_IN_ID] = "auto"

    def updates(self, per_epoch: int) -> int:
        """Return the number of updates of a run, given that of an epoch."""
        ends = (self.max_update, self.max_epoch and self.max_epoch * per_epoch)
        return min(end for end in ends if end)

    @model_validator(mode="after")
    def _training_ends(self) -> Self:
        if self.max_epoch is None and self.max_update is None:
            raise ValueError("train: give train.max_epoch or train.max_update, or training never ends")
        return self


class Evaluation(Section):
    """Beam search, and the choice of what is decoded and scored."""

    beam: Count = 5
    lenpen: Positive = 1.2
    max_len_a: NotNegative = 1.2
    max_len_b: Count = 10  # hypotheses have at most max_len_a * source length + max_len_b tokens
    valid: Annotated[bool, NOT_IN_ARM] = False  # decode the validation set as well as the test set after every epoch
    epochs: Annotated[Annotated[tuple[Count, ...], Field(min_length=1)] | None, NOT_IN_ARM] = None
    """The epochs after which to decode; None: all. The scored epoch is the best of those."""
    average: Annotated[Natural, NOT_IN_ARM] = 0
    """Number of final epochs whose averaged weights are scored after training; 0: none."""

    def decodes(self, epoch: int) -> bool:
        """Return whether the weights after ``epoch`` are decoded."""
        return self.epochs is None or epoch in self.epochs

    @model_validator(mode="after")
    def _average_of_several(self) -> Self:
        if self.average == 1:
            raise ValueError("eval.average: the average of 1 epoch is that epoch; give 2 or more, or 0 for none")
        return self


class Divergence(Section):
    """When a run counts as diverged; a loss or gradient that is not finite always ends the run."""

    rule: Literal["stuck"] = "stuck"
    """Defined in `ln_repro.experiment.divergence`; it applies with `stop_on_divergence`."""
    updates: Count = 2000  # minimum number of updates, after warm-up, between the validations that the rule compares


class Tracker(Section):
    """Where the events of a run are mirrored."""

    name: Literal["wandb", "none"]
    mode: Literal["auto", "online", "offline", "disabled"] = "auto"
    """`auto`: online if an API key is configured, otherwise offline."""
    project: Annotated[str, Field(pattern=r"^[^/\\#?%:]{1,128}$")] = "ln-repro"  # what wandb accepts


class Paths(Section):
    """The folders of runs and of corpora."""

    runs: UserPath
    data: UserPath

    @field_validator("runs", "data", mode="before")
    @classmethod
    def _refuse_file(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject a file, and an empty path, which would be the working directory."""
        if isinstance(value, str) and (problem := not_a_folder(value)):
            name = f"{info.field_name}"
            raise ValueError(f"paths.{name}: {problem}; name a folder (unset LN_REPRO_{name.upper()} for ./{name})")
        return value


MOST_SEEDS = 4000  # the largest seed; it keeps `torch_seed` below 2^32, the limit of NumPy


class Experiment(Section):
    """All settings of one run. Fields that are not marked otherwise are part of both `id` and `arm_key`."""

    exp: Annotated[FileName, NOT_IN_ID]
    task: Literal["translation", "masked_lm", "classification"] = "translation"
    seed: Annotated[Count, Field(le=MOST_SEEDS), NOT_IN_ARM]
    norm: str  # the norm placement, the name of a file in `conf/norm` or of a class of the user's own
    norm_file: OwnNorm | None = None
    init: Annotated[Literal["xavier_legacy", "xavier", "theory", "fairseq"], NOT_IN_ARM]
    lr: Annotated[Positive, NOT_IN_ARM]
    precision: Annotated[Literal["auto", "fp32", "bf16"], NOT_IN_ARM]
    """`auto` is resolved before the id is computed (`ln_repro.experiment.precision`)."""
    data: Annotated[Data, NOT_IN_ID]  # the id contains the fingerprint of the prepared corpus instead
    model: Model
    start: Annotated[Start | None, NOT_IN_ARM] = None
    """The pre-trained weights to start from, RUN@EPOCH; None: random initialisation."""
    optimizer: Optimizer
    schedule: Schedule
    train: Training
    eval: Evaluation
    divergence: Annotated[Divergence, NOT_IN_ID] = Divergence()
    probe: Annotated[Literal["none", "gradients", "updates", "curvature", "collapse", "all"], NOT_IN_ID] = "none"
    """Statistics that are computed during training without changing it (`ln_repro.engine.probing`)."""
    every: Annotated[Count, NOT_IN_ID] = 200
    """Updates between two probes; the first probe is computed before training. See `ln_repro.engine.probing`."""
    probe_batches: Annotated[Count, NOT_IN_ID] = 5
    """Number of mini-batches that each probe averages over; they are the same for every probe."""
    stop_on_divergence: Annotated[bool, NOT_IN_ID] = False
    """Stop at the end of the epoch in which the rule finds that the run has diverged."""
    tracker: Annotated[Tracker, NOT_IN_ID]
    paths: Annotated[Paths, NOT_IN_ID]
    rerun: Annotated[bool, NOT_IN_ID] = False

    @model_validator(mode="after")
    def _sections_fit_together(self) -> Self:
        name, train, average, block = self.data.name, self.train, self.eval.average, self.train.block_tokens
        classifies = self.task == "classification"
        if train.max_epoch is not None and train.max_epoch < average:
            raise ValueError(f"eval.average: {average} epochs cannot be averaged, train.max_epoch is {train.max_epoch}")
        if (epochs := self.eval.epochs) and train.max_epoch and min(epochs) > train.max_epoch:
            raise ValueError(f"eval.epochs: {list(epochs)} has no epoch up to train.max_epoch={train.max_epoch}")
        if self.start is not None and not classifies:
            raise ValueError(f"start: only for task=classification; this run has task={self.task}")
        if classifies != (name in LABELLED):
            raise ValueError(
                f"data.name: task=classification takes {' or '.join(LABELLED)}, which have class labels and are "
                f"for no other task; found {name} with task={self.task}"
            )
        if self.task == "translation" and name in ("text", "wikinews"):
            raise ValueError(f"data.name: {name} has one language, for task=masked_lm; translation needs two")
        if not TASKS[self.task].decodes and (self.eval.valid or average or self.eval.epochs):
            raise ValueError(f"eval.valid, eval.epochs, eval.average: task={self.task} decodes nothing; leave them out")
        if self.norm == "ngpt" and self.model.branch_gain != 1:
            raise ValueError("model.branch_gain: norm=ngpt normalises all weights, so that it would have no effect")
        if self.probe in ("curvature", "all") and (classifies or self.optimizer.name == "radam"):
            raise ValueError(f"probe: {self.probe} needs adam or sgd, and task=translation or masked_lm")
        scaled = train.clip_norm or self.optimizer.equal_layer_norms or self.optimizer.max_relative_update
        if self.probe == "curvature" and scaled:  # `all` has other probes
            raise ValueError("probe: curvature cannot be measured if gradients are clipped or scaled, or steps capped")
        if self.probe == "collapse" and classifies:
            raise ValueError("probe: collapse needs task=translation or masked_lm")
        if self.schedule.part != "all" and self.task != "translation":
            raise ValueError(f"schedule.part: task={self.task} has one stack; leave it out")
        if self.schedule.step_reset == "optimizer" and self.optimizer.name == "sgd":
            raise ValueError("schedule.step_reset: sgd has no state to reset; leave it out")
        if self.schedule.resets_stack and self.task != "translation":
            raise ValueError(f"schedule.step_reset: task={self.task} has one stack; it can be none or optimizer")
        if self.schedule.resets_stack and self.norm == "admin":
            raise ValueError("schedule.step_reset: norm=admin has scales of the first batches; use norm=admin_closed")
        if self.schedule.part != "all" and self.probe in ("curvature", "all"):
            raise ValueError(f"probe: {self.probe} needs one learning rate for all parameters, not schedule.part")
        if self.task == "masked_lm" and train.max_tokens < block:
            raise ValueError(f"train.max_tokens: needs at least train.block_tokens={block}, found {train.max_tokens}")
        return self

    @property
    def decoded_splits(self) -> tuple[str, ...]:
        """The splits that are decoded and scored after every epoch."""
        splits = ("test", "valid") if self.eval.valid else ("test",)
        return splits if TASKS[self.task].decodes else ()

    @property
    def axes(self) -> Json:
        """The axes of the study, by their names in a record."""
        return {
            "task": self.task, "data": self.data.name, "model": self.model.name, "norm": self.norm, "init": self.init,
            "optimizer": self.optimizer.name, "lr": self.lr, "warmup_updates": self.schedule.warmup_updates,
            "decay": self.schedule.decay, "seed": self.seed, "precision": self.precision,
            **({"part": self.schedule.part} if self.schedule.part != "all" else {}),
            **({"start": f"{self.start.exp}@{self.start.update}"} if self.start else {}),
        }  # fmt: skip

    @property
    def torch_seed(self) -> int:
        """The seed for fairseq.

        fairseq reseeds before every update with ``seed + update``, so that consecutive seeds would share dropout masks,
        shifted by one update. Multiples of a large prime are further apart than the number of updates of any run.
        """
        return (self.seed - 1) * 1_000_003 + 1

    def learning_rate(self, updates_per_epoch: int) -> LearningRate:
        """Return the learning-rate schedule of the run."""
        schedule, total = self.schedule, self.train.updates(updates_per_epoch)
        before_step = schedule.step_update or (schedule.step_epoch or 0) * updates_per_epoch
        return LearningRate(self.lr, schedule.warmup_updates, schedule.decay, schedule.anchor, before_step, total)

    def settings(self, *, defaults: bool = True) -> Json:
        """Return the settings without paths and tracker; without ``defaults``, only those that differ from them."""
        left_out: Any = {"paths": True, "tracker": True, "rerun": True, "data": True, "start": {"given", "path"}}
        kept = self.model_dump(mode="json", exclude=left_out, exclude_defaults=not defaults)
        return {**kept, "data": self.data.recipe()}

    def id(self, data_fingerprint: str) -> str:
        """Return a short hash of exactly those settings that can change a result.

        Settings with their default value are left out, so that new settings do not change the ids of older runs.
        """
        assert self.precision != "auto" and (self.start is None or self.start.sha256)
        content = self.model_dump(mode="json", exclude_defaults=True, exclude=self.marked(NOT_IN_ID))
        return _short_hash([NUMERICS, data_fingerprint, content])

    def arm_key(self) -> str:
        """Return a short hash that is the same for all runs of an arm.

        They may differ in the marked fields, in parameters of the schedule that its tail does not use and, in
        fine-tuning, in the preparation of the corpus, which follows that of the pre-training corpus.
        """
        unused = {"anchor"} if self.schedule.decay != "anchored" else set()
        unused |= set() if self.schedule.decay.startswith("step") else {"step_epoch", "step_update"}
        left_out = {**self.marked(NOT_IN_ID, NOT_IN_ARM), "schedule": unused}
        corpus = {"name": self.data.name} if self.task == "classification" else self.data.recipe()
        return _short_hash([corpus, self.model_dump(mode="json", exclude_defaults=True, exclude=left_out)])


def _short_hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def build(settings: Mapping[str, object]) -> Experiment:
    """Validate composed settings, ignoring Hydra's own and those that only serve interpolations.

    Raises:
        UserError: a value is invalid; the message has the key, what is accepted and what was found.
    """
    return validate(Experiment, {key: value for key, value in settings.items() if key not in ("hydra", "reference")})
