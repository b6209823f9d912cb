"""Criteria, what has to hold for a claim to be reproduced, as data: the printed rule and the verdict come from them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ln_repro.claims.evidence import TRAINS, Evidence
from ln_repro.claims.intervals import LEVEL, LINEAR, LOG, Interval, Scale, interval
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, all_of, any_of, verdict
from ln_repro.claims.words import arm_words, region_words, spoken
from ln_repro.records.archive import Run

SEEDS = 5
"""Seeds that a verdict on training needs."""
SHARE = 0.8
"""The share of seeds that train (fail) from which on an arm trains (fails)."""


@dataclass(frozen=True)
class Finding:
    """What a criterion came to: its verdict, our numbers in words, and what would resolve it if it is open.

    ``runs`` are the runs that it used beyond those of the claim's arms.
    """

    verdict: str
    words: str
    needs: str | None = None
    runs: Sequence[Run] = ()


class Criterion(Protocol):
    """One condition of a claim."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that it needs runs of."""

    def sentence(self) -> str:
        """Return the condition in words."""

    def judge(self, evidence: Evidence) -> Finding:
        """Return the finding."""


@dataclass(frozen=True)
class Metric:
    """A quantity of one run or of several that share a seed.

    Args:
        words: its name, with one ``{}`` for each arm.
        of: the function of as many runs.
        scale: of means and intervals.
    """

    words: str
    of: Callable[..., float]
    scale: Scale = LINEAR

    def minus(self) -> "Metric":
        """Return the difference of two arms."""
        return Metric(f"{self.words} minus that of {{}}", lambda one, other: self.of(one) - self.of(other))

    def over(self) -> "Metric":
        """Return the ratio of two arms."""
        return Metric(f"{self.words} over that of {{}}", lambda one, other: self.of(one) / self.of(other), LOG)


@dataclass(frozen=True)
class Within:
    """The interval of a metric's mean over seeds lies in a region.

    Args:
        metric: the quantity.
        arms: of which arms.
        low, high: the region.
        contradicted: the region in which the interval contradicts the claim; None: outside ``low`` to ``high``.
        level: of the interval.
    """

    metric: Metric
    arms: tuple[str, ...]
    low: float = -math.inf
    high: float = math.inf
    contradicted: Interval | None = None
    level: float = LEVEL

    def sentence(self) -> str:
        """Return the condition in words."""
        words = f"{self.metric.words.format(*map(arm_words, self.arms))}: {region_words(self.low, self.high)}"
        if self.contradicted:
            words += f" (contradicted: {region_words(*self.contradicted)})"
        return words + (f" ({100 * self.level:g} % interval)" if self.level != LEVEL else "")

    def judge(self, evidence: Evidence) -> Finding:
        """Return the finding."""
        values = evidence.values(self.arms, self.metric.of)
        if not values:
            return Finding(INCONCLUSIVE, "", f"{', '.join(self.arms)} with the same seeds")
        if any(map(math.isnan, values)):
            return Finding(INCONCLUSIVE, "", f"{', '.join(self.arms)}: measured in every seed (probes, events)")
        words = f"{self.metric.words.format(*map(arm_words, self.arms))} {spoken(values, self.metric.scale)}"
        found = interval(values, self.metric.scale, self.level)
        judged = verdict(found, (self.low, self.high))
        if self.contradicted and judged != REPRODUCED:
            judged = CONTRADICTED if verdict(found, self.contradicted) == REPRODUCED else INCONCLUSIVE
        return Finding(judged, words, None if judged != INCONCLUSIVE else "more seeds: the interval crosses the edge")


@dataclass(frozen=True)
class Report:
    """A quantity that is shown beside the criteria and decides nothing; without runs it is left out."""

    metric: Metric
    arms: tuple[str, ...]

    def sentence(self) -> str:
        """Return nothing: it is no condition."""
        return ""

    def judge(self, evidence: Evidence) -> Finding:
        """Return the quantity in words."""
        if not evidence.seeds(self.arms):
            return Finding(REPRODUCED, "")
        values = evidence.values(self.arms, self.metric.of)
        if any(map(math.isnan, values)):
            return Finding(REPRODUCED, "")
        words = self.metric.words.format(*map(arm_words, self.arms))
        return Finding(REPRODUCED, f"{words} {spoken(values, self.metric.scale)}")


@dataclass(frozen=True)
class Trains:
    """An arm trains in at least (or at most) a share of its seeds.

    Args:
        arm: which.
        least, most: the share.
        bleu: the BLEU from which on a run trains; None: `TRAINS` times the best arm's.
    """

    arm: str
    least: float = 0.0
    most: float = 1.0
    bleu: float | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """The arm."""
        return (self.arm,)

    def sentence(self) -> str:
        """Return the condition in words."""
        meant = f"BLEU at least {self.bleu:g}" if self.bleu is not None else f"BLEU at least {TRAINS} of the best arm's"
        share = "all" if self.least == 1 else f"at least {self.least:.0%}" if self.least else f"at most {self.most:.0%}"
        return f"{arm_words(self.arm)} trains ({meant}) in {share} of its seeds"

    def judge(self, evidence: Evidence) -> Finding:
        """Return the finding."""
        runs = [run for _, run in sorted(evidence.arms[self.arm].items())]
        hits = sum(evidence.trained(run) if self.bleu is None else run.finite and run.bleu >= self.bleu for run in runs)
        held = self.least <= hits / len(runs) <= self.most
        return Finding(REPRODUCED if held else CONTRADICTED, f"{arm_words(self.arm)} trains in {hits} of {len(runs)}")


@dataclass(frozen=True)
class AnyOf:
    """At least one of several groups of criteria holds.

    Args:
        parts: the groups.
        words: what they are.
        alike: the arm of each group, if the groups differ in nothing else: the sentence then says "it".
    """

    parts: tuple[tuple[Criterion, ...], ...]
    words: str = "for one of these"
    alike: tuple[str, ...] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms of every group."""
        return tuple(dict.fromkeys(arm for part in self.parts for one in part for arm in one.arms))

    def sentence(self) -> str:
        """Return the condition in words."""
        told = ["; ".join(filter(None, (one.sentence() for one in part))) for part in self.parts]
        if self.alike:
            named = ", ".join(map(arm_words, self.alike))
            return f"{self.words} ({named}): {told[0].replace(arm_words(self.alike[0]), 'it')}"
        return f"{self.words}: " + "; or ".join(told)

    def judge(self, evidence: Evidence) -> Finding:
        """Return the finding: the best group decides."""
        found = [[one.judge(evidence) for one in part] for part in self.parts]
        verdicts = [all_of(finding.verdict for finding in part) for part in found]
        judged = any_of(verdicts)
        needs = next((finding.needs for part, one in zip(found, verdicts, strict=True) if one == judged
                      for finding in part if finding.needs), None)  # fmt: skip
        words = "; ".join(finding.words for part in found for finding in part if finding.words)
        return Finding(judged, words, needs, [run for part in found for finding in part for run in finding.runs])


@dataclass(frozen=True)
class Rule:
    """The criteria of a claim on some data: it is reproduced if all hold, contradicted if one is contradicted.

    Args:
        criteria: the criteria.
        written: the time in ISO 8601; records made before it are older than their rule.
        source: where the thresholds come from.
        seeds: runs that every arm needs.
    """

    criteria: tuple[Criterion, ...]
    written: str
    source: str
    seeds: int = SEEDS

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the arms without which it cannot be judged."""
        return tuple(dict.fromkeys(arm for one in self.criteria if not isinstance(one, Report) for arm in one.arms))

    def sentence(self) -> str:
        """Return the rule in words."""
        return "; ".join(filter(None, (one.sentence() for one in self.criteria)))


def leaves(criteria: Sequence[Criterion]) -> Iterator[Criterion]:
    """Yield every criterion, including nested ones."""
    for one in criteria:
        if isinstance(one, AnyOf):
            for part in one.parts:
                yield from leaves(part)
        else:
            yield one


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, or of a scheme that followed.

    Args:
        id: in the registry. ``.anchored`` takes "no warm-up" to mean that the ramp alone is left out; without it, the
            paper's literal reading, T = 1 in the formula of the schedule.
        claim: the sentence.
        place: where the paper makes it.
        paper: the paper's number, and how it was obtained.
        rule: its rule on the paper's data.
        others: its rule on other data; None if the claim is not judged there.
        setting: the setting of the paper's data.
        grid: the grid of `ln-repro sweep` that a rule over several rates needs.
        controls: arms that discriminate between explanations; the rules do not use them.
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
