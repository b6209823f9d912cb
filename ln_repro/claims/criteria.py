"""Criteria: what has to hold for a claim to be reproduced, as data; printed rule and verdict both come from it."""

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
"""Runs that a verdict on training needs at least."""
SHARE = 0.8
"""Of the seeds that train (fail) where an arm does."""


@dataclass(frozen=True)
class Finding:
    """What a criterion came to: its verdict, our numbers in words, and what would decide it if it is open.

    ``runs`` are those that it looked at beyond the arms of the claim.
    """

    verdict: str
    words: str
    needs: str | None = None
    runs: Sequence[Run] = ()


class Criterion(Protocol):
    """One condition of a claim."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The named experiments it needs runs of."""

    def sentence(self) -> str:
        """Return the condition in words."""

    def judge(self, evidence: Evidence) -> Finding:
        """Return what the evidence says of it."""


@dataclass(frozen=True)
class Metric:
    """A quantity of one run or of several that share a seed.

    Args:
        words: with one ``{}`` for each arm.
        of: takes as many runs.
        scale: on which means and intervals are taken, and within which bounds.
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
    """The interval over seeds of a metric's mean lies in a region.

    Args:
        metric: the quantity.
        arms: of which arms.
        low, high: the region.
        contradicted: where the whole interval has to lie for the opposite verdict; None: anywhere outside the region.
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
        """Return what the evidence says of it."""
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
    """A quantity that is shown beside the criteria and decides nothing; without runs it is not."""

    metric: Metric
    arms: tuple[str, ...]

    def sentence(self) -> str:
        """Say nothing: it is no condition."""
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
    """An arm trains in a share of its seeds: at least, or at most where it is to fail.

    Args:
        arm: which.
        least, most: the share.
        bleu: from which BLEU on a run has trained; None: from `TRAINS` times the best arm's.
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
        """Return what the evidence says of it."""
        runs = [run for _, run in sorted(evidence.arms[self.arm].items())]
        hits = sum(evidence.trained(run) if self.bleu is None else run.finite and run.bleu >= self.bleu for run in runs)
        held = self.least <= hits / len(runs) <= self.most
        return Finding(REPRODUCED if held else CONTRADICTED, f"{arm_words(self.arm)} trains in {hits} of {len(runs)}")


@dataclass(frozen=True)
class AnyOf:
    """At least one of several holds, each of them criteria that hold together.

    Args:
        parts: the several.
        words: what they are.
        alike: by part, the arm that it is about, if the parts differ in nothing else: the rule then says "it".
    """

    parts: tuple[tuple[Criterion, ...], ...]
    words: str = "for one of these"
    alike: tuple[str, ...] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        """All of theirs."""
        return tuple(dict.fromkeys(arm for part in self.parts for one in part for arm in one.arms))

    def sentence(self) -> str:
        """Return the condition in words."""
        told = ["; ".join(filter(None, (one.sentence() for one in part))) for part in self.parts]
        if self.alike:
            named = ", ".join(map(arm_words, self.alike))
            return f"{self.words} ({named}): {told[0].replace(arm_words(self.alike[0]), 'it')}"
        return f"{self.words}: " + "; or ".join(told)

    def judge(self, evidence: Evidence) -> Finding:
        """Return what the evidence says of it: the best part decides."""
        found = [[one.judge(evidence) for one in part] for part in self.parts]
        verdicts = [all_of(finding.verdict for finding in part) for part in found]
        judged = any_of(verdicts)
        needs = next((finding.needs for part, one in zip(found, verdicts, strict=True) if one == judged
                      for finding in part if finding.needs), None)  # fmt: skip
        words = "; ".join(finding.words for part in found for finding in part if finding.words)
        return Finding(judged, words, needs, [run for part in found for finding in part for run in finding.runs])


@dataclass(frozen=True)
class Rule:
    """The criteria of a claim on some data: it is reproduced if all of them hold, contradicted if one is contradicted.

    Args:
        criteria: of which.
        written: when, ISO 8601; records made before are said to be older than their rule.
        source: where the thresholds come from.
        seeds: runs that every arm needs at least.
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
    """Yield every criterion, those inside of others too."""
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
        place: where it is made.
        paper: its number, and how it was obtained.
        rule: when it is reproduced on its own data.
        others: when the same question is answered alike on other data; None if it is not asked there.
        setting: its own data.
        grid: of `ln-repro sweep`, where a rule needs arms at several rates.
        controls: arms that tell between explanations; the rules do without.
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
