"""Records as evidence: the runs of one setting by arm, learning rate and seed, and what is measured of a run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from ln_repro.experiment.settings import Experiment
from ln_repro.records.archive import Run

TRAINS, FAILS = 0.88, 0.44
"""Relative BLEU from which on a run trains, and below which it fails: 30 and 15 of the paper's 34 BLEU."""
PRETRAINED_TRAINS = 0.8
"""The same of a run of masked words, without BLEU: its progress from the unigram entropy to the best arm's loss."""
FINE_TUNED_FROM = {"preln": "preln_nowarm_linear_high", "postln": "postln_warm_linear"}
"""The arm of pre-training that the paper fine-tunes from (figure 5), by norm placement."""
Rate = float
Seed = int


@dataclass(frozen=True)
class Arm:
    """What a named experiment is, as far as records have to agree with it (`Experiment.arm_key`)."""

    key: str
    lr: Rate
    init: str


Named = Callable[[str], Arm | None]
"""The arm of a named experiment; None if there is no such name."""


Runs = Mapping[Seed, Run]


@dataclass(frozen=True)
class Evidence:
    """The runs of one setting.

    Attributes:
        setting: the first part of its experiments' names.
        arms: by arm, the runs of the named experiment by seed.
        rates: by arm, its runs at every peak learning rate, by rate, then by seed.
        starts: of runs that begin with others' weights: by the updates that those were trained for. Of a seed that was
            run from several, ``arms`` has one.
        entropies: bits per target token of a unigram model and of one that never sees the source, if they are known.
        others: variations of the arms, by what differs ("init=fairseq").
    """

    setting: str
    arms: Mapping[str, Runs] = field(default_factory=dict)
    rates: Mapping[str, Mapping[Rate, Runs]] = field(default_factory=dict)
    starts: Mapping[int, "Evidence"] = field(default_factory=dict)
    entropies: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, "Evidence"] = field(default_factory=dict)

    def missing(self, arms: Sequence[str]) -> list[str]:
        """Return the arms without a run."""
        return [arm for arm in arms if not self.arms.get(arm)]

    def seeds(self, arms: Sequence[str]) -> list[Seed]:
        """Return the seeds that every one of the arms has."""
        return sorted(set.intersection(*({*self.arms.get(arm, {})} for arm in arms)))

    @property
    def by_start(self) -> Sequence["Evidence"]:
        """Return the parts of it, one for every start; itself where runs begin with no others' weights."""
        return list(self.starts.values()) or [self]

    def values(self, arms: Sequence[str], quantity: Callable[..., float]) -> list[float]:
        """Return a quantity of the runs of one or several arms that share a seed, seed by seed."""
        return [quantity(*(self.arms[arm][seed] for arm in arms)) for seed in self.seeds(arms)]

    def curve(self, arm: str) -> dict[Rate, list[Run]]:
        """Return the runs of an arm by rate, in order."""
        return {rate: [runs[seed] for seed in sorted(runs)] for rate, runs in sorted(self.rates.get(arm, {}).items())}

    @cached_property
    def _groups(self) -> list[Sequence[Run]]:
        """Return the runs of every arm at every rate, those of variations too; an arm of two names comes twice."""
        runs = [list(of_rate.values()) for one in (self, *self.others.values()) for arm in one.rates.values()
                for of_rate in arm.values()]  # fmt: skip
        return [group for group in runs if group]

    @cached_property
    def _bests(self) -> dict[tuple[tuple[int, ...], float], tuple[float, float]]:
        return {}

    def best(self, run: Run) -> tuple[float, float]:
        """Return the highest mean BLEU and lowest mean NLL of any arm and rate (of this size, at most these epochs)."""
        key = (run.size, run.epochs)
        if key not in self._bests:
            groups = [group for group in self._groups if group[0].size == run.size and group[0].epochs <= run.epochs]
            self._bests[key] = (
                max(fmean(one.bleu for one in group) for group in groups),
                min(fmean(one.nll for one in group) for group in groups),
            )
        return self._bests[key]

    def relative_bleu(self, run: Run) -> float:
        """Return a run's BLEU over that of the best arm."""
        best, _ = self.best(run)
        return run.bleu / best if best else 0.0

    def progress(self, run: Run) -> float:
        """Return how far a run of masked words came from the unigram entropy (0) to the best arm's loss (1)."""
        entropy, (_, best) = self.entropies.get("unigram_bits", math.nan), self.best(run)
        return (entropy - run.nll) / (entropy - best) if run.finite else 0.0

    def skill(self, run: Run) -> float:
        """Return how far a run came from a model that never sees the source (0) to the best arm (1); NaN if unknown."""
        entropy, (_, best) = self.entropies.get("source_blind_bits", math.nan), self.best(run)
        return (entropy - run.nll) / (entropy - best)

    def trained(self, run: Run) -> bool:
        """Return whether a run trains."""
        if run.record["axes"].get("task", "translation") == "masked_lm":
            return self.progress(run) >= PRETRAINED_TRAINS
        return run.finite and self.relative_bleu(run) >= TRAINS

    def failed(self, run: Run) -> bool:
        """Return whether a run fails; one that neither trains nor fails is partial."""
        return not run.finite or self.relative_bleu(run) < FAILS


def gather(
    runs: Sequence[Run],
    named: Named,
    arms: Sequence[str] = (),
    entropies: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Evidence]:
    """Return the evidence by setting, one run a seed.

    A run counts for every arm whose settings it has, whatever it was called when it was started.

    Args:
        runs: all of them.
        named: the arms.
        arms: those that may be asked for, besides the ones that runs are named after.
        entropies: of corpora, by fingerprint.
    """
    settings = sorted({run.record["exp"].partition("_")[0] for run in runs})
    asked = sorted({run.record["exp"].partition("_")[2] for run in runs} | {*arms})
    return {
        setting: found
        for setting in settings
        if (found := _of_setting(setting, runs, asked, named, entropies or {})).arms or found.rates or found.others
    }


def _of_setting(
    setting: str, runs: Sequence[Run], asked: Sequence[str], named: Named, entropies: Mapping[str, Mapping[str, Any]]
) -> Evidence:
    runs = [run for run in runs if run.record["exp"].partition("_")[0] == setting and not foreign_start(run)]
    arms = {name: arm for name in asked if (arm := named(f"{setting}_{name}"))}
    by_key: dict[str, dict[str, list[str]]] = {}
    for name, arm in arms.items():
        by_key.setdefault(arm.key, {}).setdefault(arm.init, []).append(name)
    found: dict[tuple[str, int | None], dict[str, dict[Rate, dict[Seed, Run]]]] = {}
    for run in runs:
        for init, names in by_key.get(run.experiment.arm_key(), {}).items():
            of_variation = found.setdefault((variation(run.experiment, init), run.started), {})
            for name in names:
                of_variation.setdefault(name, {}).setdefault(run.experiment.lr, {}).setdefault(run.seed, run)
    known = next((entropies[key] for run in runs if (key := run.record["data"].get("fingerprint")) in entropies), {})

    def evidence(variation: str, start: int | None) -> Evidence:
        rates = found.get((variation, start), {})
        own = {name: of_rate[arms[name].lr] for name, of_rate in rates.items() if arms[name].lr in of_rate}
        return Evidence(setting, own, rates, entropies={k: v for k, v in known.items() if isinstance(v, float)})

    starts = {start: evidence("", start) for _, start in sorted(found, key=str) if start is not None}
    others = {variation: evidence(variation, None) for variation, start in found if variation and start is None}
    whole = evidence("", None) if not starts else Evidence(setting, _merged(starts.values()))
    return Evidence(setting, whole.arms, whole.rates, dict(sorted(starts.items())), whole.entropies, others)


def variation(experiment: Experiment, init: str) -> str:
    """Return what of an experiment differs from an arm that starts with ``init``, besides rate and seed."""
    told: dict[str, str] = {"init": experiment.init} if experiment.init != init else {}
    if experiment.optimizer.equal_layer_norms:
        told["optimizer.equal_layer_norms"] = "true"
    return ", ".join(f"{name}={value}" for name, value in told.items())


def _merged(starts: Any) -> dict[str, Runs]:
    """Return the arms of several starts as one; of a seed, the run of the first."""
    merged: dict[str, dict[Seed, Run]] = {}
    for one in starts:
        for arm, runs in one.arms.items():
            merged[arm] = {**runs, **merged.get(arm, {})}
    return dict(merged)


def foreign_start(run: Run) -> bool:
    """Return whether a run begins with weights that the paper does not fine-tune from."""
    start = run.record["axes"].get("start")
    return bool(start) and FINE_TUNED_FROM.get(run.record["axes"]["norm"]) != start.partition("@")[0].partition("_")[2]
