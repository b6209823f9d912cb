"""Criteria of claims as data; both the printed rule and the verdict are derived from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ln_repro.claims import intervals
from ln_repro.claims.evidence import TRAINS, Evidence
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, LEVEL, LOG, REPRODUCED, Interval, verdict
from ln_repro.claims.metrics import SEEDS, SHARE, Count, Effect, Metric, more_seeds
from ln_repro.claims.words import arm_words, region_words
from ln_repro.records.archive import Run
from ln_repro.system.progress import plural


@dataclass(frozen=True)
class Finding:
    """The result of a criterion."""

    verdict: str  # one of `ln_repro.claims.intervals.VERDICTS`
    effect: Effect | None = None
    text: str = ""  # the measured values; that of the effect unless it says more
    needs: str | None = None  # how many seeds, rates or runs would resolve an inconclusive verdict
    runs: Sequence[Run] = ()  # those used in addition to the runs of the claim's arms
    seeds: int | None = None  # the number that was measured, if it can be smaller than the number of runs
    note: str = ""  # a word that qualifies the verdict: "saturated", "starvation"

    def __str__(self) -> str:
        return self.text or str(self.effect or "")


class Criterion(Protocol):
    """One condition of a claim."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that it compares, which need runs at their own rates unless it is one of `OverRates`."""

    def sentence(self) -> str:
        """Return the condition as text; empty if it is none."""

    def judge(self, evidence: Evidence) -> Finding:
        """Apply the criterion to the runs of one setting."""


@dataclass(frozen=True)
class Within:
    """The confidence interval of a metric's mean over seeds lies between ``low`` and ``high``."""

    metric: Metric
    arms: tuple[str, ...]
    low: float = -math.inf
    high: float = math.inf
    contradicted: Interval | None = None  # the region that contradicts the claim; None: all outside ``low`` to ``high``
    level: float = LEVEL

    def sentence(self) -> str:
        words = f"{self.metric.name(self.arms)}: {region_words(self.low, self.high)}"
        words += f" (contradicted: {region_words(*self.contradicted)})" if self.contradicted else ""
        return words + (f" ({100 * self.level:g} % interval)" if self.level != LEVEL else "")

    def judge(self, evidence: Evidence) -> Finding:
        values, seeds = evidence.values(self.arms, self.metric.of), evidence.seeds(self.arms)
        if not seeds:
            return Finding(INCONCLUSIVE, needs=f"{', '.join(self.arms)} with the same seeds")
        if any(map(math.isnan, values)):
            return Finding(INCONCLUSIVE, note="infinite losses")
        if len(values) < min(SEEDS, len(seeds)):
            lacking = plural(SEEDS - len(values), "seed")
            needs = f"{lacking} of {', '.join(self.arms)} with the probes and events of this rule"
            return Finding(INCONCLUSIVE, needs=needs, seeds=len(values))
        regions = [(self.low, self.high), *filter(None, [self.contradicted])]
        result = verdict(self.metric.scale.interval(values, self.level), *regions)
        more = more_seeds(values, regions, self.metric.scale, self.level) if result == INCONCLUSIVE else None
        effect, quantity = self.metric.effect(values, self.level), self.metric.unit.rpartition(" ")[2]
        missed = quantity in ("epochs", "updates") and math.isnan(effect.value)  # a time is infinite
        return Finding(result, effect, f"{quantity}: not within every run" if missed else "", more, seeds=len(values))


@dataclass(frozen=True)
class Either:
    """At least one of two criteria holds; the one with the better verdict decides."""

    parts: tuple[Criterion, Criterion]
    words: str  # introduces the criteria in the printed rule

    @property
    def arms(self) -> tuple[str, ...]:
        return (*self.parts[0].arms, *self.parts[1].arms)

    def sentence(self) -> str:
        return f"{self.words}: " + "; or ".join(part.sentence() for part in self.parts)

    def judge(self, evidence: Evidence) -> Finding:
        findings = [part.judge(evidence) for part in self.parts]
        best = min(findings, key=lambda finding: intervals.VERDICTS.index(finding.verdict))
        return Finding(best.verdict, findings[0].effect, "; ".join(filter(None, map(str, findings))), best.needs)


@dataclass(frozen=True)
class Report:
    """A quantity that is reported but does not affect the verdict; it is left out if there are no runs.

    Its own verdict is the best one, since a rule has the worst verdict of its criteria.
    """

    metric: Metric
    arms: tuple[str, ...]
    label: str = ""  # in place of the metric's name

    def sentence(self) -> str:
        return ""

    def judge(self, evidence: Evidence) -> Finding:
        values = evidence.values(self.arms, self.metric.of)
        effect, label = self.metric.effect(values), self.label or self.metric.name(self.arms)
        if missing := values.count(0) * (self.metric.scale is LOG):
            where = "the run" if missing == len(values) else f"{missing} of {len(values)} runs"
            return Finding(REPRODUCED, text=f"{label}: not within {where}")
        if math.isnan(effect.value):
            return Finding(REPRODUCED)
        return Finding(REPRODUCED, effect, f"{label}: {effect}", seeds=len(values))


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
        least = self.bleu
        trained = evidence.trained if least is None else lambda run: run.bleu >= least
        count = Count.of(trained, evidence.arms[self.arm].values())
        result = REPRODUCED if self.least <= count.share <= self.most else CONTRADICTED
        if result == CONTRADICTED and self.least == SHARE and 1 - count.share < SHARE:
            result = INCONCLUSIVE
        needs = f"{2 * max(SEEDS, count.runs)} seeds" if result == INCONCLUSIVE else None
        effect = Effect(100 * count.share, unit="{} % train")
        return Finding(result, effect, f"{arm_words(self.arm)} trains in {count}", needs)


@dataclass(frozen=True)
class OverRates:
    """A comparison of arms over all of their learning rates or depths; it needs no run at an arm's own rate."""

    arms: tuple[str, ...]

    def too_few(self, evidence: Evidence, needs: str = "", runs: Sequence[Run] = ()) -> Finding:
        """Return the result without enough runs, which needs more if an arm was not run at all."""
        if missing := [arm for arm in self.arms if not evidence.curve(arm)]:
            return Finding(INCONCLUSIVE, needs=f"runs of {', '.join(missing)}")
        return Finding(INCONCLUSIVE, needs=needs, runs=runs)

    def most_seeds(self, evidence: Evidence) -> int:
        """Return the largest number of seeds that all arms have at rates of their own."""
        return min(max(map(len, evidence.curve(arm).values()), default=0) for arm in self.arms)


class Origin(NamedTuple):
    """When a rule was written, in ISO 8601, and where its thresholds come from; records made before are older."""

    written: str
    source: str


@dataclass(frozen=True)
class Rule:
    """The criteria for a claim on one kind of data: reproduced if all hold, contradicted if one is contradicted."""

    criteria: tuple[Criterion, ...]
    origin: Origin
    seeds: int = SEEDS  # number needed for every arm
    judged: bool = True  # whether there is a verdict; otherwise the quantities are only shown

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are required for a verdict, with runs at their own rates."""
        optional = (OverRates, Report) if self.judged else OverRates
        required = (criterion for criterion in self.criteria if not isinstance(criterion, optional))
        return tuple(dict.fromkeys(arm for criterion in required for arm in criterion.arms))

    def sentence(self) -> str:
        if not self.judged:
            return "shown, not judged"
        return "; ".join(filter(None, (criterion.sentence() for criterion in self.criteria)))


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, of the authors of a later scheme, or of this project.

    In claims with the suffix ``.anchored``, "no warm-up" means that only the ramp is left out; without it, the paper's
    literal reading, T = 1 in the formula of the schedule.
    """

    id: str
    claim: str  # in one sentence
    place: str  # the section or figure of the paper
    paper: str  # the paper's number and how it was obtained
    number: str  # the same, for a cell of a table
    rule: Rule | None  # on the paper's data; None if the claim is not about them
    others: Rule | None = None  # on other data; None if the claim is not judged there
    setting: str = "iwslt"  # the one that uses the paper's data
    grid: str = ""  # of `ln-repro sweep`, with its arms, if the rule needs runs at several learning rates or depths
    options: str = ""  # of the commands that make its runs, with a space before each: its probe
    controls: tuple[str, ...] = ()  # arms that discriminate between explanations but are not part of the rules
    by_setting: Mapping[str, Rule] = field(default_factory=dict)  # rules on other data for some settings alone
    explored: bool = True  # whether exploratory runs count; not if they suggested the claim
