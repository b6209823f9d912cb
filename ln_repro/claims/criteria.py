"""Criteria of claims as data; both the printed rule and the verdict are derived from them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ln_repro.claims.evidence import TRAINS, Evidence
from ln_repro.claims.intervals import LEVEL, LINEAR, LOG, Interval, Scale, interval
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, all_of, any_of, verdict
from ln_repro.claims.words import arm_words, region_words, rounded_mean, spoken
from ln_repro.records.archive import Run

SEEDS = 5
"""Number of seeds needed for a verdict on training."""
MORE_SEEDS = "more seeds: the interval crosses the edge"
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
    """The result of a criterion.

    Attributes:
        verdict: one of those in `ln_repro.claims.verdict`.
        words: the measured values, as text.
        needs: what would resolve an inconclusive verdict.
        runs: runs that it used in addition to those of the claim's arms.
        plain: the most important of the values in a clause for a headline.
    """

    verdict: str
    words: str
    needs: str | None = None
    runs: Sequence[Run] = ()
    plain: str = ""


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
    """A quantity measured on one run, or on several runs with the same seed.

    Args:
        words: its name, with one ``{}`` per arm.
        of: computes the quantity; takes one run per arm.
        scale: the scale of means and intervals.
        plain: a clause for headlines, with ``{}`` for each arm and ``{value}`` for the mean.
    """

    words: str
    of: Callable[..., float]
    scale: Scale = LINEAR
    plain: str = ""

    def name(self, arms: Sequence[str]) -> str:
        """Return the name of the quantity for the given arms."""
        return self.words.format(*map(arm_words, arms))

    def minus(self) -> "Metric":
        """Return the metric's difference between two arms."""
        return Metric(f"{self.words} minus that of {{}}", lambda one, other: self.of(one) - self.of(other))

    def over(self) -> "Metric":
        """Return the metric's ratio of two arms."""
        return Metric(f"{self.words} over that of {{}}", lambda one, other: self.of(one) / self.of(other), LOG)


@dataclass(frozen=True)
class Within:
    """The confidence interval of a metric's mean over seeds lies between ``low`` and ``high``.

    Args:
        contradicted: the region that contradicts the claim; None: everything outside ``low`` to ``high``.
        level: the confidence level.
    """

    metric: Metric
    arms: tuple[str, ...]
    low: float = -math.inf
    high: float = math.inf
    contradicted: Interval | None = None
    level: float = LEVEL

    def sentence(self) -> str:
        words = f"{self.metric.name(self.arms)}: {region_words(self.low, self.high)}"
        if self.contradicted:
            words += f" (contradicted: {region_words(*self.contradicted)})"
        return words + (f" ({100 * self.level:g} % interval)" if self.level != LEVEL else "")

    def judge(self, evidence: Evidence) -> Finding:
        values = evidence.values(self.arms, self.metric.of)
        if not values:
            return Finding(INCONCLUSIVE, "", f"{', '.join(self.arms)} with the same seeds")
        if any(map(math.isnan, values)):
            return Finding(INCONCLUSIVE, "", f"{', '.join(self.arms)}: measured in every seed (probes, events)")
        bounds = interval(values, self.metric.scale, self.level)
        result = verdict(bounds, (self.low, self.high))
        if self.contradicted and result != REPRODUCED:
            result = CONTRADICTED if verdict(bounds, self.contradicted) == REPRODUCED else INCONCLUSIVE
        words = f"{self.metric.name(self.arms)} {spoken(values, self.metric.scale)}"
        mean, within = rounded_mean(values, self.metric.scale)
        clause = self.metric.plain and self.metric.plain.format(*map(arm_words, self.arms), value=mean) + within
        return Finding(result, words, MORE_SEEDS if result == INCONCLUSIVE else None, plain=clause)


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
    """The share of an arm's seeds that train lies between ``least`` and ``most``.

    Args:
        bleu: minimum BLEU of a run that trains; None: `TRAINS` times that of the best arm.
    """

    arm: str
    least: float = 0.0
    most: float = 1.0
    bleu: float | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        return (self.arm,)

    def sentence(self) -> str:
        bleu = f"{TRAINS} of the best arm's" if self.bleu is None else f"{self.bleu:g}"
        share = "all" if self.least == 1 else f"at least {self.least:.0%}" if self.least else f"at most {self.most:.0%}"
        return f"{arm_words(self.arm)} trains (BLEU at least {bleu}) in {share} of its seeds"

    def judge(self, evidence: Evidence) -> Finding:
        def trained(run: Run) -> bool:
            return evidence.trained(run) if self.bleu is None else run.finite and run.bleu >= self.bleu

        count = Count.of(trained, evidence.arms[self.arm].values())
        holds = self.least <= count.share <= self.most
        return Finding(REPRODUCED if holds else CONTRADICTED, f"{arm_words(self.arm)} trains in {count}")


@dataclass(frozen=True)
class AnyOf:
    """At least one of several groups of criteria holds; the group with the best verdict decides.

    Args:
        parts: the groups.
        words: introduces the groups in the printed rule.
        alike: the arm of each group, if the groups are identical otherwise; the rule is then printed once, with "it".
    """

    parts: tuple[tuple[Criterion, ...], ...]
    words: str = "for one of these"
    alike: tuple[str, ...] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm for part in self.parts for one in part for arm in one.arms))

    def sentence(self) -> str:
        sentences = ["; ".join(filter(None, (criterion.sentence() for criterion in part))) for part in self.parts]
        if self.alike:
            arms = ", ".join(map(arm_words, self.alike))
            return f"{self.words} ({arms}): {sentences[0].replace(arm_words(self.alike[0]), 'it')}"
        return f"{self.words}: " + "; or ".join(sentences)

    def judge(self, evidence: Evidence) -> Finding:
        groups = [[criterion.judge(evidence) for criterion in part] for part in self.parts]
        verdicts = [all_of(finding.verdict for finding in group) for group in groups]
        result = any_of(verdicts)
        findings = [finding for group in groups for finding in group]
        needs = next((finding.needs for group, verdict in zip(groups, verdicts, strict=True) if verdict == result
                      for finding in group if finding.needs), None)  # fmt: skip
        words = "; ".join(finding.words for finding in findings if finding.words)
        return Finding(result, words, needs, [run for finding in findings for run in finding.runs])


@dataclass(frozen=True)
class Rule:
    """The criteria for a claim on one kind of data: reproduced if all hold, contradicted if one is contradicted.

    Args:
        criteria: the criteria.
        written: when the rule was written, in ISO 8601; records made before that are older than their rule.
        source: where the thresholds come from.
        seeds: number of seeds needed for every arm.
    """

    criteria: tuple[Criterion, ...]
    written: str
    source: str
    seeds: int = SEEDS

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are required for a verdict."""
        return tuple(dict.fromkeys(arm for one in self.criteria if not isinstance(one, Report) for arm in one.arms))

    def sentence(self) -> str:
        """Return the rule as text."""
        return "; ".join(filter(None, (one.sentence() for one in self.criteria)))


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, or of the authors of a later scheme.

    Args:
        id: its identifier. With the suffix ``.anchored``, "no warm-up" means that only the ramp is left out; without
            it, the paper's literal reading, T = 1 in the formula of the schedule.
        claim: the claim in one sentence.
        place: the section or figure of the paper.
        paper: the paper's number and how it was obtained.
        rule: the rule on the paper's data.
        others: the rule on other data; None if the claim is not judged there.
        setting: the setting that uses the paper's data.
        grid: the grid of `ln-repro sweep` that provides runs at several learning rates, if the rule needs them.
        controls: arms that discriminate between explanations but are not part of the rules.
    """

    id: str
    claim: str
    place: str
    paper: str
    rule: Rule
    others: Rule | None = None
    setting: str = "iwslt"
    grid: str = ""
    controls: tuple[str, ...] = ()
