"""Claims about the depth of a model: arms at several numbers of layers."""

from dataclasses import dataclass

from ln_repro.claims.criteria import Finding, Trains
from ln_repro.claims.effects import SEEDS
from ln_repro.claims.evidence import LAYERS, Evidence
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, all_of, any_of
from ln_repro.records.archive import Run

LEAST_DEPTHS = 3
"""Minimum number of depths for a contradiction, where the rule names none."""


def by_depth(evidence: Evidence) -> dict[int, Evidence]:
    """Return the evidence of a setting by number of layers, in ascending order."""
    found = {int(name.removeprefix(LAYERS)): part
             for name, part in evidence.others.items() if name.startswith(LAYERS) and "," not in name}  # fmt: skip
    own = next((run for runs in evidence.arms.values() for run in runs.values()), None)
    if own:
        found[own.size[0]] = evidence
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class AtDepth:
    """All ``parts`` hold at one or more numbers of layers."""

    parts: tuple[Trains, ...]
    layers: tuple[int, ...] = ()  # none: all that were run

    arms = ()

    @property
    def compared(self) -> tuple[str, ...]:
        return tuple(part.arm for part in self.parts)

    def cost(self) -> float:
        """Return the cost of one seed, in runs with 6 layers."""
        return len(self.parts) * sum(self.layers) / 6

    def sentence(self) -> str:
        among = f" among {', '.join(map(str, self.layers))}" if len(self.layers) > 1 else ""
        depths = f"with {self.layers[0]} layers" if len(self.layers) == 1 else f"at some number of layers{among}"
        return f"{depths}: " + "; ".join(part.sentence() for part in self.parts)

    def judge(self, evidence: Evidence) -> Finding:
        verdicts, texts, runs, seeds = [], [], list[Run](), list[int]()
        for depth, part in by_depth(evidence).items():
            of_arms = [[*part.arms.get(arm, {}).values()] for arm in self.compared]
            if (self.layers and depth not in self.layers) or not all(of_arms):
                continue
            findings = [criterion.judge(part) for criterion in self.parts]
            seeds.append(min(map(len, of_arms)))
            verdicts.append(all_of(finding.verdict for finding in findings) if seeds[-1] >= SEEDS else INCONCLUSIVE)
            texts.append(f"{depth} layers: {', '.join(map(str, findings))}")
            runs += [run for of_arm in of_arms for run in of_arm]
        result = any_of(verdicts)
        depths = len(self.layers) or LEAST_DEPTHS
        if result == CONTRADICTED and len(verdicts) < depths:
            result = INCONCLUSIVE
        needs = f"{SEEDS} seeds at each of {depths} depths" if result == INCONCLUSIVE else None
        deciding = [text for text, verdict in zip(texts, verdicts, strict=True) if verdict == result]
        return Finding(result, text="; ".join(deciding), needs=needs, runs=runs, seeds=min(seeds, default=0))
