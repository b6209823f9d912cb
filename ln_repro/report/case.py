"""A case: the parts of a rule, each judged by its interval over seeds, and what they come to."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, geometric_mean

from ln_repro.paper.claims import SEEDS
from ln_repro.report.evidence import Evidence
from ln_repro.statistics import Interval, mean_interval, ratio_interval, standard_error
from ln_repro.verdict import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED, together, verdict


@dataclass(frozen=True)
class Scale:
    """What means and intervals are taken on: the numbers themselves, or their logarithms."""

    mean: Callable[[Sequence[float]], float]
    interval: Callable[[Sequence[float]], Interval]
    to: Callable[[float], float]
    """Takes a number there."""
    least: float
    """Numbers have to lie above it."""


PLAIN = Scale(fmean, mean_interval, float, -math.inf)
RATIO = Scale(geometric_mean, ratio_interval, math.log, 0.0)
"""Of ratios: twice as long and half as long are equally far from even."""
HOPELESS = 100
"""More runs than this are not worth asking for: the mean lies too near the edge of the rule."""


@dataclass(frozen=True)
class Judged:
    """What a rule came to on one corpus.

    Args:
        verdict: one of four.
        ours: the numbers, in words; None if there are none.
        seeds: over how many.
        evidence: ids of the records.
        needs: what more would decide it; None if it is decided.
    """

    verdict: str
    ours: str | None = None
    seeds: int = 0
    evidence: Sequence[str] = ()
    needs: str | None = None


@dataclass
class Case:
    """Gathers the parts of a rule."""

    evidence: Evidence
    arms: Sequence[str]
    parts: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    more: list[float] = field(default_factory=list)
    """Estimates of how many seeds would decide the parts that are open."""
    shared: int | None = None
    """Seeds that count; None: all that the arms share."""
    wanted: int = SEEDS
    """Seeds that a verdict needs at least."""

    def within(
        self, name: str, values: Sequence[float], least: float = -math.inf, most: float = math.inf, scale: Scale = PLAIN
    ) -> None:
        """Ask that the mean of ``values``, one a seed, lies inside a region."""
        found = verdict(interval(values, scale), (least, most))
        self.add(name, values, found, scale)
        if found == INCONCLUSIVE:
            self.more.append(seeds_to_decide(values, (least, most), scale))

    def add(self, name: str, values: Sequence[float], found: str, scale: Scale = PLAIN) -> None:
        """Take in a part that is judged already."""
        self.parts.append(found)
        self.tell(name, values, scale)

    def count(self, name: str, hits: Sequence[bool], holds: bool) -> None:
        """Take in a part that asks in how many seeds something happened."""
        self.parts.append(REPRODUCED if holds else CONTRADICTED)
        self.words.append(f"{name} in {sum(hits)} of {len(hits)}")

    def tell(self, name: str, values: Sequence[float], scale: Scale = PLAIN) -> None:
        """Show numbers that the rule does not ask for."""
        self.say(f"{name} {spoken(values, scale)}")

    def say(self, words: str) -> None:
        """Say something of what was found."""
        self.words.append(words)

    def judged(self) -> Judged:
        """Return what the parts come to; too few seeds decide nothing."""
        seeds = self.evidence.seeds(self.arms) if self.shared is None else self.shared
        found = together(self.parts, seeds, self.wanted)
        return Judged(found, "; ".join(self.words), seeds, self.evidence.records(self.arms), self._needs(found, seeds))

    def _needs(self, found: str, seeds: int) -> str | None:
        if found != INCONCLUSIVE:
            return None
        if seeds < self.wanted:
            return more_seeds(self.wanted - seeds)
        enough = max(self.more, default=math.inf)
        if enough > HOPELESS:
            return "the mean lies too near the edge of the rule to be decided by more seeds"
        return f"about {more_seeds(math.ceil(enough) - seeds)}"


def more_seeds(number: int) -> str:
    """Return so many more seeds, in words."""
    return f"{number} more seed{'s' * (number > 1)}"


def not_run(missing: Sequence[str]) -> Judged:
    """Return the verdict on a claim of which some arms have no run."""
    return Judged(NOT_RUN, needs=f"no run of {', '.join(missing)}")


def interval(values: Sequence[float], scale: Scale = PLAIN) -> Interval:
    """Return the interval of the mean; where a value is infinite, the span, since a rule has to hold for each.

    What is no number at all, as the difference of two infinities, decides nothing.
    """
    if any(map(math.isnan, values)):
        return -math.inf, math.inf
    return scale.interval(values) if averages(values, scale) else (min(values), max(values))


def averages(values: Sequence[float], scale: Scale) -> bool:
    """Return whether there is a mean: every value is finite and has its place on the scale."""
    return all(scale.least < value < math.inf for value in values)


def spoken(values: Sequence[float], scale: Scale = PLAIN) -> str:
    """Return a mean with its interval, in words."""
    low, high = interval(values, scale)
    mean = scale.mean(values) if averages(values, scale) else fmean(values)
    return f"{mean:.3g}" + (f" [{low:.3g}, {high:.3g}]" if math.isfinite(high) else "")


def seeds_to_decide(values: Sequence[float], region: Interval, scale: Scale = PLAIN) -> float:
    """Return how many seeds bring the interval to one side of the nearest edge, if the mean stays where it is."""
    if len(values) < 2 or not averages(values, scale):
        return math.inf
    values = [scale.to(value) for value in values]
    distance = min(abs(fmean(values) - scale.to(edge)) for edge in region if scale.least < edge < math.inf)
    spread = standard_error(values) * math.sqrt(len(values))
    return max((2 * spread / distance) ** 2, len(values) + 1) if distance else math.inf


def any_of(found: Sequence[str]) -> str:
    """Judge a rule that one of its parts has to meet: the best of them decides."""
    return next((word for word in (REPRODUCED, INCONCLUSIVE) if word in found), found[0])
