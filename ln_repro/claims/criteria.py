"""Criteria of claims as data; both the printed rule and the verdict are derived from them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ln_repro.claims.evidence import TRAINS, Evidence
from ln_repro.claims.intervals import LEVEL, LINEAR, LOG, Interval, Scale, interval
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, all_of, any_of, outside, verdict
from ln_repro.claims.words import arm_words, region_words, rounded_mean, spoken
from ln_repro.records.archive import Run

SEEDS = 5
"""Number of seeds needed for a verdict on training."""
MORE = "more seeds"
MORE_SEEDS = f"{MORE}: the interval straddles a limit of the rule"
MIXED = f"{MORE}: some train and some do not"
SHARE = 0.8
"""Minimum share of the seeds that must train (fail) for an arm to count as trained (failed)."""


class Count(NamedTuple):
    """A number of runs out of all, "4 of 5"."""

    hits: int
    runs: int

    @classmethod
    def of(cls, condition: Callable[[Run], bool], runs: Iterable[Run]) -> "Count":
        """Count the runs that meet a condition."""
        met = [condition(run) for run in runs]
        return cls(sum(met), len(met))

    def __str__(self) -> str:
        return f"{self.hits} of {self.runs}"

    @property
    def share(self) -> float:
        """The share of the runs; there must be some."""
        return self.hits / self.runs

    @property
    def most(self) -> bool:
        """Whether at least `SHARE` of enough runs are hits."""
        return self.runs >= SEEDS and self.share >= SHARE

    @property
    def few(self) -> bool:
        """Whether at most 1 - `SHARE` of enough runs are hits."""
        return Count(self.runs - self.hits, self.runs).most


@dataclass(frozen=True)
class Finding:
    """The result of a criterion."""

    verdict: str  # one of those in `ln_repro.claims.verdict`
    words: str  # the measured values, as text
    needs: str | None = None  # what would resolve an inconclusive verdict
    runs: Sequence[Run] = ()  # those used in addition to the runs of the claim's arms
    plain: str = ""  # the most important of the values in a clause for a headline
    answer: str = ""  # if more seeds would not change an inconclusive verdict: what was found instead
    seeds: int | None = None  # the number that was measured, if it can be smaller than the number of runs


class Criterion(Protocol):
    """One condition of a claim."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms whose runs it needs."""

    def sentence(self) -> str:
        """Return the condition as text."""

    def judge(self, evidence: Evidence) -> Finding:
        """Apply the criterion to the runs of one setting."""


@dataclass(frozen=True)
class Metric:
    """A quantity measured on one run, or on several runs with the same seed."""

    words: str  # its name, with one ``{}`` per arm
    of: Callable[..., float]  # computes the quantity from one run per arm
    scale: Scale = LINEAR
    plain: str = ""  # a clause for headlines, with ``{}`` for each arm and ``{value}`` for the mean

    def name(self, arms: Sequence[str]) -> str:
        """Return the name of the quantity for the given arms."""
        return self.words.format(*map(arm_words, arms))

    def minus(self) -> "Metric":
        """Return the metric's difference between two arms."""
        return Metric(f"{self.words} minus that of {{}}", lambda one, other: self.of(one) - self.of(other))

    def over(self) -> "Metric":
        """Return the metric's ratio of two arms."""
        return Metric(f"{self.words} over that of {{}}", lambda one, other: self.of(one) / self.of(other), LOG)


def unmeasured(measured: int, seeds: int, arms: Sequence[str]) -> Finding | None:
    """Return the result if too few of the seeds of some arms have the probes or events that a criterion needs."""
    if measured >= min(SEEDS, seeds):
        return None
    needs = f"{MORE}: {SEEDS - measured} of {', '.join(arms)} that have the probes and events of this rule"
    return Finding(INCONCLUSIVE, "", needs, seeds=measured)


@dataclass(frozen=True)
class Within:
    """The confidence interval of a metric's mean over seeds lies between ``low`` and ``high``."""

    metric: Metric
    arms: tuple[str, ...]
    low: float = -math.inf
    high: float = math.inf
    contradicted: Interval | None = None  # the region that contradicts the claim; None: all outside ``low`` to ``high``
    neither: str = ""  # the answer if the interval lies in neither region
    level: float = LEVEL

    def sentence(self) -> str:
        words = f"{self.metric.name(self.arms)}: {region_words(self.low, self.high)}"
        words += f" (contradicted: {region_words(*self.contradicted)})" if self.contradicted else ""
        return words + (f" ({100 * self.level:g} % interval)" if self.level != LEVEL else "")

    def judge(self, evidence: Evidence) -> Finding:
        values, seeds = evidence.values(self.arms, self.metric.of), evidence.seeds(self.arms)
        if not seeds:
            return Finding(INCONCLUSIVE, "", f"{', '.join(self.arms)} with the same seeds")
        if any(map(math.isnan, values)):
            return Finding(INCONCLUSIVE, "", answer="losses that are compared are infinite")
        if short := unmeasured(len(values), len(seeds), self.arms):
            return short
        bounds = interval(values, self.metric.scale, self.level)
        regions = [(self.low, self.high), *filter(None, [self.contradicted])]
        result, beyond = verdict(bounds, *regions), all(outside(bounds, region) for region in regions)
        needs = MORE_SEEDS if result == INCONCLUSIVE and not beyond else None
        mean = self.metric.scale.mean(values) if self.metric.scale.has(values) else math.nan
        if needs and self.neither and all(outside((mean, mean), region) for region in regions):
            needs += f"; so far, {self.neither}"
        words = f"{self.metric.name(self.arms)} {spoken(values, self.metric.scale, level=self.level)}"
        words += f" (measured on {len(values)} of {len(seeds)} seeds)" if len(values) < len(seeds) else ""
        rounded, within = rounded_mean(values, self.metric.scale)
        clause = self.metric.plain and self.metric.plain.format(*map(arm_words, self.arms), value=rounded) + within
        return Finding(result, words, needs, plain=clause, answer=self.neither if beyond else "", seeds=len(values))


@dataclass(frozen=True)
class Report:
    """A quantity that is reported but does not affect the verdict; it is left out if there are no runs."""

    metric: Metric
    arms: tuple[str, ...]

    def sentence(self) -> str:
        return ""

    def judge(self, evidence: Evidence) -> Finding:
        values = evidence.values(self.arms, self.metric.of)
        if not values or any(map(math.isnan, values)):
            return Finding(REPRODUCED, "")
        return Finding(REPRODUCED, f"{self.metric.name(self.arms)} {spoken(values, self.metric.scale)}")


@dataclass(frozen=True)
class Trains:
    """The share of an arm's seeds that train lies between ``least`` and ``most``."""

    arm: str
    least: float = 0.0
    most: float = 1.0
    bleu: float | None = None  # minimum BLEU of a run that trains; None: `TRAINS` times that of the best arm

    @property
    def arms(self) -> tuple[str, ...]:
        return (self.arm,)

    def sentence(self) -> str:
        bleu = f"{TRAINS} of the best arm's" if self.bleu is None else f"{self.bleu:g}"
        share = "all" if self.least == 1 else f"at least {self.least:.0%}" if self.least else f"at most {self.most:.0%}"
        mixed = f" (contradicted: at most {1 - SHARE:.0%})" if self.least == SHARE else ""
        return f"{arm_words(self.arm)} trains (BLEU at least {bleu}) in {share} of its seeds{mixed}"

    def judge(self, evidence: Evidence) -> Finding:
        def trained(run: Run) -> bool:
            return evidence.trained(run) if self.bleu is None else run.finite and run.bleu >= self.bleu

        count = Count.of(trained, evidence.arms[self.arm].values())
        words = f"{arm_words(self.arm)} trains in {count}"
        if self.least <= count.share <= self.most:
            return Finding(REPRODUCED, words)
        if self.least == SHARE and not count.few:
            return Finding(INCONCLUSIVE, words, MIXED)
        return Finding(CONTRADICTED, words)


@dataclass(frozen=True)
class AnyOf:
    """At least one of several groups of criteria holds; the group with the best verdict decides.

    If the groups differ only in their arm, ``alike`` has these arms, and the rule is printed once, with "the scheme".
    """

    parts: tuple[tuple[Criterion, ...], ...]
    words: str  # introduces the groups in the printed rule
    alike: tuple[str, ...] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm for part in self.parts for one in part for arm in one.arms))

    def sentence(self) -> str:
        sentences = ["; ".join(filter(None, (criterion.sentence() for criterion in part))) for part in self.parts]
        if self.alike:
            arms = ", ".join(map(arm_words, self.alike))
            return f"{self.words} ({arms}): {sentences[0].replace(arm_words(self.alike[0]), 'the scheme')}"
        return f"{self.words}: " + "; or ".join(sentences)

    def judge(self, evidence: Evidence) -> Finding:
        groups = [[criterion.judge(evidence) for criterion in part] for part in self.parts]
        verdicts = [all_of(finding.verdict for finding in group) for group in groups]
        result = any_of(verdicts)
        findings = [finding for group in groups for finding in group]
        needs = next((finding.needs for group, verdict in zip(groups, verdicts, strict=True) if verdict == result
                      for finding in group if finding.needs), None)  # fmt: skip
        words = "; ".join(finding.words for finding in findings if finding.words)
        measured = [min((one.seeds for one in group if one.seeds is not None), default=None) for group in groups]
        seeds = max((number for number in measured if number is not None), default=None)
        return Finding(result, words, needs, [run for finding in findings for run in finding.runs], seeds=seeds)


@dataclass(frozen=True)
class Rule:
    """The criteria for a claim on one kind of data: reproduced if all hold, contradicted if one is contradicted."""

    criteria: tuple[Criterion, ...]
    written: str  # when, in ISO 8601; records made before that are older than their rule
    source: str  # where the thresholds come from
    seeds: int = SEEDS  # number needed for every arm

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are required for a verdict."""
        return tuple(dict.fromkeys(arm for one in self.criteria if not isinstance(one, Report) for arm in one.arms))

    def sentence(self) -> str:
        return "; ".join(filter(None, (one.sentence() for one in self.criteria)))


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, or of the authors of a later scheme.

    In claims with the suffix ``.anchored``, "no warm-up" means that only the ramp is left out; without it, the paper's
    literal reading, T = 1 in the formula of the schedule.
    """

    id: str
    claim: str  # in one sentence
    place: str  # the section or figure of the paper
    paper: str  # the paper's number and how it was obtained
    rule: Rule  # on the paper's data
    others: Rule | None = None  # on other data; None if the claim is not judged there
    setting: str = "iwslt"  # the one that uses the paper's data
    grid: str = ""  # of `ln-repro sweep`, with its arms, if the rule needs runs at several learning rates
    controls: tuple[str, ...] = ()  # arms that discriminate between explanations but are not part of the rules
