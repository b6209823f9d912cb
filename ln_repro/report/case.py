"""A case: the parts of a rule, each judged by its interval over seeds, and what they come to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ln_repro.paper.claims import SEEDS
from ln_repro.report.evidence import Evidence
from ln_repro.statistics import Interval, mean_interval, standard_error
from ln_repro.verdict import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED, together, verdict

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

    def within(self, name: str, values: Sequence[float], least: float = -math.inf, most: float = math.inf) -> None:
        """Ask that the mean of ``values``, one a seed, lies inside a region."""
        found = verdict(interval(values), (least, most))
        self.add(name, values, found)
        if found == INCONCLUSIVE:
            self.more.append(seeds_to_decide(values, (least, most)))

    def add(self, name: str, values: Sequence[float], found: str) -> None:
        """Take in a part that is judged already."""
        self.parts.append(found)
        self.tell(name, values)

    def count(self, name: str, hits: Sequence[bool], holds: bool) -> None:
        """Take in a part that asks in how many seeds something happened."""
        self.parts.append(REPRODUCED if holds else CONTRADICTED)
        self.words.append(f"{name} in {sum(hits)} of {len(hits)}")

    def tell(self, name: str, values: Sequence[float]) -> None:
        """Show numbers that the rule does not ask for."""
        self.say(f"{name} {spoken(values)}")

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


def interval(values: Sequence[float]) -> Interval:
    """Return the interval of the mean; of values that are not all finite, the span: a rule has to hold for each."""
    return mean_interval(values) if all(map(math.isfinite, values)) else (min(values), max(values))


def spoken(values: Sequence[float]) -> str:
    """Return a mean with its interval, in words."""
    low, high = interval(values)
    return f"{fmean(values):.3g}" + (f" [{low:.3g}, {high:.3g}]" if math.isfinite(low) else "")


def seeds_to_decide(values: Sequence[float], region: Interval) -> float:
    """Return how many seeds bring the interval to one side of the nearest edge, if the mean stays where it is."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return math.inf
    distance = min(abs(fmean(values) - edge) for edge in region)
    spread = standard_error(values) * math.sqrt(len(values))
    return max((2 * spread / distance) ** 2, len(values) + 1) if distance else math.inf


def any_of(found: Sequence[str]) -> str:
    """Judge a rule that one of its parts has to meet: the best of them decides."""
    return next((word for word in (REPRODUCED, INCONCLUSIVE) if word in found), found[0])
