"""Evidence for claims: the runs of one setting by arm, learning rate and seed, and which of them train."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from statistics import fmean, mode

from ln_repro.experiment.name import Name
from ln_repro.experiment.settings import Experiment
from ln_repro.records.archive import Run

TRAINS, FAILS = 0.88, 0.44
"""A run trains at or above the first relative BLEU and fails below the second: 30 and 15 of the paper's 34 BLEU."""
BEST_SEEDS = 3
"""Minimum number of seeds of the best arm, which all runs are compared with, unless none with as many would train."""
TRAINED_BITS, FAILED_BITS = 0.5, 0.1
"""A masked-LM run, which has no BLEU, trains if its NLL is so far below the unigram entropy, and fails within the
second."""
FINE_TUNED_FROM = {"preln": "preln_nowarm_linear_high", "postln": "postln_warm_linear"}
"""The pre-training arm that the paper fine-tunes from (figure 5), by norm placement."""
PRETRAINED_IN = {"mrpc": "bert", "rte": "bert", "minimrpc": "wikinews", "minirte": "wikinews"}
"""The setting of the pre-training, by that of the fine-tuning."""
EXPLORED = 100
"""The largest seed of exploratory runs; those of the replication, whose rules were fixed before, are larger."""
INTERVENTIONS = {
    "model.branch_gain": 1.0,
    "optimizer.equal_layer_norms": False,
    "optimizer.max_relative_update": None,
    "optimizer.second_moment": "zero",
}
"""Settings with their defaults that change the training of an arm, to test a cause."""
LAYERS = "model.layers="  # start of the name of a variation in depth
Rate = float
Seed = int
Runs = Mapping[Seed, Run]
Entropies = Mapping[str, Mapping[str, float]]
"""``unigram_bits`` and ``source_blind_bits`` per token of corpora, by fingerprint."""


@dataclass(frozen=True)
class Arm:
    """The properties that a record must share with a named experiment to count as a run of it."""

    key: str
    lr: Rate
    init: str
    layers: int

    @classmethod
    def of(cls, experiment: Experiment) -> "Arm":
        return cls(experiment.arm_key(), experiment.lr, experiment.init, experiment.model.layers)


ArmOf = Callable[[str], Arm | None]  # returns the arm of a named experiment; None if there is no such name


@dataclass(frozen=True)
class Evidence:
    """The runs of one setting.

    For fine-tuning, ``starts`` has the evidence by number of updates of the pre-training, and ``arms`` one run per
    seed, even if the seed was run from several checkpoints. The ``variations`` of a variation include, as "", the runs
    without it, so that `best` is the best of the whole setting for each.
    """

    arms: Mapping[str, Runs] = field(default_factory=dict)  # at the arm's own learning rate
    rates: Mapping[str, Mapping[Rate, Runs]] = field(default_factory=dict)  # at every peak learning rate, by arm
    starts: Mapping[int, "Evidence"] = field(default_factory=dict)
    entropies: Mapping[str, float] = field(default_factory=dict)  # of its corpus
    variations: Mapping[str, "Evidence"] = field(default_factory=dict)  # by what differs: "init=fairseq"
    _bests: dict[tuple[object, ...], tuple[float, float]] = field(default_factory=dict, init=False, compare=False)

    def missing(self, arms: Sequence[str]) -> list[str]:
        """Return the arms without a run."""
        return [arm for arm in arms if not self.arms.get(arm)]

    def seeds(self, arms: Sequence[str]) -> list[Seed]:
        """Return the seeds that all of the arms have."""
        return sorted(set.intersection(*({*self.arms.get(arm, {})} for arm in arms)))

    @property
    def by_depth(self) -> dict[int, "Evidence"]:
        """The evidence by number of layers, in ascending order."""
        depths = {
            int(name.removeprefix(LAYERS)): part
            for name, part in self.variations.items()
            if name.startswith(LAYERS) and "," not in name
        }
        if usual := next((run for runs in self.arms.values() for run in runs.values()), None):
            depths[usual.size[0]] = self
        return dict(sorted(depths.items()))

    def values(self, arms: Sequence[str], quantity: Callable[..., float]) -> list[float]:
        """Return a quantity for every seed that all of the arms have.

        A value of NaN for finite runs means that their records lack the probes or events that it needs; such seeds are
        left out.
        """
        by_seed = [[self.arms[arm][seed] for arm in arms] for seed in self.seeds(arms)]
        values = [(quantity(*runs), all(run.finite for run in runs)) for runs in by_seed]
        return [value for value, finite in values if not (math.isnan(value) and finite)]

    def curve(self, arm: str) -> dict[Rate, list[Run]]:
        """Return the runs of an arm by learning rate, in ascending order."""
        return {rate: [runs[seed] for seed in sorted(runs)] for rate, runs in sorted(self.rates.get(arm, {}).items())}

    def of_arms(self, arms: Iterable[str]) -> list[Run]:
        """Return the runs of some arms at all of their rates."""
        return [run for arm in arms for runs in self.curve(arm).values() for run in runs]

    def best(self, run: Run) -> tuple[float, float]:
        """Return the highest mean BLEU and the lowest mean NLL of any arm and rate, including variations.

        Only models of the same size as the run's are compared, trained for at most as many epochs. Arms with fewer than
        `BEST_SEEDS` at a rate count only if no arm with as many would train in comparison with them, by BLEU.
        """
        key = run.size, run.epochs
        if key not in self._bests:
            groups = [[*runs.values()] for evidence in (self, *self.variations.values())
                      for rates in evidence.rates.values() for runs in rates.values()]  # fmt: skip
            means = [
                (len(runs), fmean(run.bleu for run in runs), fmean(run.nll for run in runs))
                for runs in groups
                if runs[0].size == run.size and runs[0].epochs <= run.epochs
            ]
            several = [mean for mean in means if mean[0] >= BEST_SEEDS]
            if several and max(bleu for _, bleu, _ in several) >= TRAINS * max(bleu for _, bleu, _ in means):
                means = several
            self._bests[key] = max(bleu for _, bleu, _ in means), min(nll for *_, nll in means)
        return self._bests[key]

    def relative_bleu(self, run: Run) -> float:
        """Return a run's BLEU divided by that of the best arm."""
        best, _ = self.best(run)
        return run.bleu / best if best else 0.0

    def skill(self, run: Run) -> float:
        """Return a run's progress from a model that ignores the source (0) to the best arm (1).

        It is NaN if the entropy is unknown or if no arm is better.
        """
        entropy, (_, best) = self.entropies.get("source_blind_bits", math.nan), self.best(run)
        return math.nan if best >= entropy else (entropy - run.nll) / (entropy - best)

    def trained(self, run: Run) -> bool:
        """Return whether a run counts as trained; one whose numbers are not finite has no BLEU and an infinite NLL."""
        if run.record.axes.task == "masked_lm":
            return self._below_unigrams(run) >= TRAINED_BITS
        return self.relative_bleu(run) >= TRAINS

    def failed(self, run: Run) -> bool:
        """Return whether a run counts as failed; one that neither trained nor failed is partial."""
        if run.record.axes.task == "masked_lm":
            return self._below_unigrams(run) <= FAILED_BITS
        return self.relative_bleu(run) < FAILS

    def _below_unigrams(self, run: Run) -> float:
        return self.entropies.get("unigram_bits", math.nan) - run.nll


def gather(runs: Sequence[Run], arm_named: ArmOf, arms: Iterable[str], entropies: Entropies) -> dict[str, Evidence]:
    """Return the evidence by setting, with one run per seed.

    A run counts for every arm with the same settings, regardless of the name under which it was started, if it was run
    on the published text of its corpus, and on the same text as most runs of its setting. Runs on a part of the
    training text are a setting of their own (`Record.setting`).

    Args:
        runs: those that may count.
        arm_named: looks up arms.
        arms: those considered in addition to the ones that runs are named after.
        entropies: those of the corpora that are known.
    """
    names = sorted({Name.of(run.record.exp).arm for run in runs} | {*arms})
    runs = [
        run for run in runs if run.record.data.published and scored(run) and not foreign_start(run, runs, arm_named)
    ]
    setting_of = attrgetter("record.setting")
    every = {
        setting: _of_setting([*of_setting], names, arm_named, entropies)
        for setting, of_setting in groupby(sorted(runs, key=setting_of), setting_of)
    }
    return {
        setting: evidence
        for setting, evidence in every.items()
        if evidence.arms or evidence.rates or evidence.variations
    }


def _of_setting(runs: Sequence[Run], names: Sequence[str], arm_named: ArmOf, entropies: Entropies) -> Evidence:
    """Return the evidence from the runs of one setting, of which there is at least one."""
    setting = Name.of(runs[0].record.exp).setting
    if runs[0].experiment.task != "classification":  # its fingerprint depends on the pre-training corpus
        text = mode(run.record.data.fingerprint for run in runs)
        runs = [run for run in runs if run.record.data.fingerprint == text]
    arms = {name: arm for name in names if (arm := arm_named(f"{setting}_{name}"))}
    groups: dict[tuple[str, int | None], dict[str, dict[Rate, dict[Seed, Run]]]] = {}
    for run in runs:
        start = run.experiment.start.update if run.experiment.start else None
        for name, arm in arms.items():
            if arm.key == run.arm_key:
                group = groups.setdefault((variation(run.experiment, arm), start), {})
                group.setdefault(name, {}).setdefault(run.experiment.lr, {}).setdefault(run.seed, run)
    known = next((entropies[key] for run in runs if (key := run.record.data.fingerprint) in entropies), {})

    def evidence(varied: str, start: int | None) -> Evidence:
        rates = groups.get((varied, start), {})
        usual = {name: of_rate[arms[name].lr] for name, of_rate in rates.items() if arms[name].lr in of_rate}
        return Evidence(usual, rates, entropies=known)

    starts = {start: evidence("", start) for start in sorted({start for _, start in groups if start is not None})}
    variations = {varied: evidence(varied, None) for varied, start in groups if varied and start is None}
    if not starts:
        unvaried = evidence("", None)
        whole = {"": unvaried, **variations}
        return replace(unvaried, variations={name: replace(variations[name], variations=whole) for name in variations})
    merged: dict[str, dict[Seed, Run]] = {}
    for part in starts.values():
        for name, of_seed in part.arms.items():
            merged[name] = {**of_seed, **merged.get(name, {})}
    return Evidence(merged, starts=starts, variations=variations)


def variation(experiment: Experiment, arm: Arm) -> str:
    """Return the settings in which an experiment with the arm's key differs from the arm, apart from rate and seed."""
    differing = [f"init={experiment.init}"] if experiment.init != arm.init else []
    differing += [f"{LAYERS}{experiment.model.layers}"] if experiment.model.layers != arm.layers else []
    return ", ".join(differing + interventions(experiment))


def interventions(experiment: Experiment) -> list[str]:
    """Return the settings of `INTERVENTIONS` that an experiment changes."""
    values = {key: attrgetter(key)(experiment) for key in INTERVENTIONS}
    return [f"{key}={str(value).lower()}" for key, value in values.items() if value != INTERVENTIONS[key]]


def scored(run: Run) -> bool:
    """Return whether a run has its scores; a finished translation may lack them if `eval.epochs` named later epochs."""
    translated = run.record.axes.task == "translation" and run.record.status == "finished"
    return not translated or run.record.bleu.test_tokenised is not None


def foreign_start(run: Run, runs: Sequence[Run], arm_named: ArmOf) -> bool:
    """Return whether a run starts from weights that the paper does not fine-tune from.

    The record of the pre-training, if it is among the runs, decides; otherwise, the name of its experiment does.
    """
    start = run.experiment.start
    if start is None or start.exp is None:
        return False
    setting, name = Name.of(start.exp)
    if setting != PRETRAINED_IN.get(Name.of(run.record.exp).setting, setting):
        return True
    expected = FINE_TUNED_FROM.get(run.record.axes.norm)
    pretrained = next((other.experiment for other in runs if other.record.id == start.run), None)
    if pretrained is None:
        return name != expected
    return bool(arm_named(f"{setting}_{expected}") != Arm.of(pretrained) or interventions(pretrained))
