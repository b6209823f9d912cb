"""Records as evidence: the runs of one corpus by arm and seed, and what rules ask of them."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ln_repro.divergence import NOT_FINITE
from ln_repro.events import Event
from ln_repro.experiment import Experiment
from ln_repro.record import Record, accuracy, started, task_of

UNIGRAM_ENTROPY = {"toy": 5.769, "multi30k": 8.171, "tatoeba": 8.165}
"""Bits per target token, the end of sentences included, of the training text's own word frequencies, by corpus."""
AXES = ("task", "data", "model", "norm", "init", "optimizer", "lr", "warmup_updates", "decay")
"""What makes a record one of its named experiment: a run with something else by the same name is none."""
SECTIONS = ("data", "model", "optimizer", "schedule", "train", "eval")
ANY_VALUE = {
    "data": {"name"}, "model": {"name"}, "optimizer": {"name"}, "schedule": {"warmup_updates", "decay"},
    "train": {"log_every", "save_every", "threads", "device"}, "eval": {"valid", "average"},
}  # fmt: skip
"""Of each section: what the axes have already, and what changes no result."""
READ_BY = {"anchor": "anchored", "step_epoch": "step"}
"""Of the schedule: what only tails of this name look at."""
FINE_TUNED_FROM = {"preln": "preln_nowarm_linear_high", "postln": "postln_warm_linear"}
"""The arm of pre-training that the paper fine-tunes from (figure 5), by norm placement."""


@dataclass(frozen=True)
class Run:
    """One record, and its events if they are there."""

    record: Record
    events: Sequence[Event] = ()

    @property
    def lost(self) -> bool:
        """Whether it diverged, by numbers that are not finite or by the rule that watched it."""
        return bool(self.record["status"] == "diverged")

    @property
    def finite(self) -> bool:
        """Whether it ended with a model: one whose numbers are not finite has failed, whatever it was before."""
        return not self.lost or (self.record.get("divergence") or {}).get("rule") != NOT_FINITE

    @property
    def bleu(self) -> float:
        """BLEU at the epoch of lowest validation loss, as the paper scores; 0 for a run that never got so far, or that
        ended without a model."""
        best = self.record["bleu"]["test_tokenised"]
        return float(best["score"]) if best and self.finite else 0.0

    @property
    def loss(self) -> float:
        """Lowest validation loss, bits per token; infinite where there is none, or no model in the end."""
        return self._lowest[0]

    @property
    def nll(self) -> float:
        """Validation loss without label smoothing, where the smoothed one is lowest."""
        return self._lowest[1]

    @property
    def _lowest(self) -> tuple[float, float]:
        rows = [(row["valid_loss"], row["valid_nll_loss"]) for row in self.record["epochs"] if self.finite]
        return min((row for row in rows if None not in row), default=(math.inf, math.inf))

    @property
    def accuracy(self) -> float:
        """Share of right answers after the last epoch; 0 for a run that never got so far."""
        return accuracy(self.record) or 0.0

    @property
    def started(self) -> int | None:
        """Updates of pre-training that it began with; None where there was none."""
        return started(self.record)

    def curve(self, name: str) -> dict[int, float]:
        """Return a column of the record's epochs."""
        return {row["epoch"]: float(row[name]) for row in self.record["epochs"] if row.get(name) is not None}


Quantity = Callable[[Run], float]


@dataclass(frozen=True)
class Evidence:
    """The runs of one corpus, by arm, then by seed."""

    corpus: str
    arms: Mapping[str, Mapping[int, Run]] = field(default_factory=dict)
    starts: Mapping[int, "Evidence"] = field(default_factory=dict)
    """Of runs that began with others' weights: by the updates that those were trained for. Of a seed that was run from
    several, `arms` has one."""

    def missing(self, arms: Sequence[str]) -> list[str]:
        """Return the arms without a run."""
        return [arm for arm in arms if not self.arms.get(arm)]

    def seeds(self, arms: Sequence[str]) -> int:
        """Return how many seeds every one of the arms has."""
        return len(set.intersection(*({*self.arms.get(arm, {})} for arm in arms)))

    def records(self, arms: Sequence[str]) -> list[str]:
        """Return the ids of the arms' records, from whatever start."""
        runs = [run for arm in arms for one in self.by_start for _, run in sorted(one.arms.get(arm, {}).items())]
        return [run.record["id"] for run in runs]

    @property
    def by_start(self) -> Sequence["Evidence"]:
        """Return the parts of it, one for every start; itself where runs begin with no others' weights."""
        return list(self.starts.values()) or [self]

    def of(self, arm: str, quantity: Quantity) -> list[float]:
        """Return a quantity of every run of an arm, by seed."""
        return [quantity(run) for _, run in sorted(self.arms[arm].items())]

    def together(self, arms: Sequence[str], quantity: Callable[..., float]) -> list[float]:
        """Return a quantity of the runs of several arms that share a seed, seed by seed."""
        shared = set.intersection(*({*self.arms[arm]} for arm in arms))
        return [quantity(*(self.arms[arm][seed] for arm in arms)) for seed in sorted(shared)]

    def difference(self, first: str, second: str, quantity: Quantity) -> list[float]:
        """Return how much more of a quantity the first arm has, seed by seed."""
        return self.together((first, second), lambda one, other: quantity(one) - quantity(other))

    def progress(self, arm: str) -> list[float]:
        """Return how far each run came from the unigram entropy (0) to the best arm's loss (1); one that is lost: 0."""
        entropy = UNIGRAM_ENTROPY[self.corpus]
        best = min(fmean(run.nll for run in runs.values()) for runs in self.arms.values())
        return self.of(arm, lambda run: 0.0 if run.lost else (entropy - run.nll) / (entropy - best))


Named = Callable[[str], Experiment | None]
"""The experiment of a name; None if there is none."""


def gather(runs: Sequence[Run], named: Named) -> dict[str, Evidence]:
    """Return the evidence by corpus: runs that are what their name says, one a seed and start."""
    found: dict[str, dict[int | None, dict[str, dict[int, Run]]]] = {}
    for run in runs:
        corpus, _, arm = run.record["exp"].partition("_")
        if not difference(run, named):
            arms = found.setdefault(corpus, {}).setdefault(run.started, {})
            arms.setdefault(arm, {}).setdefault(run.record["axes"]["seed"], run)
    return {corpus: _by_start(corpus, starts) for corpus, starts in found.items()}


def _by_start(corpus: str, found: Mapping[int | None, Mapping[str, Mapping[int, Run]]]) -> Evidence:
    """Return the evidence of one corpus; if runs of it have a start, of these alone."""
    starts = {update: Evidence(corpus, found[update]) for update in found if update is not None}
    if not starts:
        return Evidence(corpus, found[None])
    merged: dict[str, dict[int, Run]] = {}
    for one in starts.values():
        for arm, runs in one.arms.items():
            merged[arm] = {**runs, **merged.get(arm, {})}
    return Evidence(corpus, merged, dict(sorted(starts.items())))


def difference(run: Run, named: Named) -> str:
    """Return in what a run differs from the experiment that it is named after; nothing if it does not."""
    expected, axes = named(run.record["exp"]), {**run.record["axes"], "task": task_of(run.record)}
    if expected is None:
        return "no experiment of that name"
    if (start := axes.get("start")) and FINE_TUNED_FROM.get(axes["norm"]) != start.partition("@")[0].partition("_")[2]:
        return f"{start=!s}"
    apart = {axis: axes.get(axis) for axis in AXES if axes.get(axis) != expected.axes[axis]}
    wanted = expected.settings()
    for section in SECTIONS[1:] if start else SECTIONS:  # a start brings its own vocabulary
        found = run.record.get("experiment", {}).get(section, {})
        free = ANY_VALUE[section] | {name for name, decay in READ_BY.items() if not axes["decay"].startswith(decay)}
        differing = {name for name in wanted[section].keys() & found if wanted[section][name] != found[name]}
        apart |= {f"{section}.{name}": found[name] for name in sorted(differing - free)}
    return ", ".join(f"{name}={value}" for name, value in apart.items())


def strays(runs: Sequence[Run], named: Named) -> list[str]:
    """Return a line for every kind of run that is no evidence: other settings than its name says, or a seed again."""
    counted = {id for one in gather(runs, named).values() for id in one.records(list(one.arms))}
    told = Counter(
        f"{run.record['exp']}: {difference(run, named) or 'a seed again'}"
        for run in runs
        if run.record["id"] not in counted
    )
    return [f"{line} ({number} of its records)" for line, number in told.items()]
