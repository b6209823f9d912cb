"""Every threshold decides: evidence just inside of it, and the threshold moved past, give two verdicts."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from ln_repro.claims import bert, ceilings, criteria, depth, evidence, probes, rates, schemes
from ln_repro.claims.bert import FineTunesFaster, NotTrained
from ln_repro.claims.criteria import AnyOf, Criterion, Report, Trains, Within
from ln_repro.claims.depth import AtDepth
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import LOG, mean_interval
from ln_repro.claims.judge import CLAIMS
from ln_repro.claims.rates import BestRates, Ceilings, ReportCeiling, TrainsWhereFails
from ln_repro.claims.schemes import Even, MatchesBest
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED
from tests.claims.made import held, made

PAST = {
    "TRAINS": evidence.TRAINS + 0.02, "PRETRAINED_TRAINS": evidence.PRETRAINED_TRAINS + 0.02,
    "FAILS": evidence.FAILS - 0.02, "SHARE": 0.9, "FACTOR": rates.FACTOR + 0.1, "SIGNIFICANT": 0.04, "CURVE_SEEDS": 4,
    "SEEDS": 6, "LEAST_DEPTHS": 4, "CHECKPOINT_SHARE": 0.7, "FINE_TUNING_SEEDS": 7, "EVEN": schemes.EVEN - 0.2,
    "PROBE_BATCHES": schemes.PROBE_BATCHES + 1, "NEAR": schemes.NEAR - 0.01, "LEAST_CHECKPOINTS": 4,
}  # fmt: skip
"""Constants moved past the evidence, where that is the same for all criteria that read them."""
UNPRINTED = ("CURVE_SEEDS", "SEEDS", "FINE_TUNING_SEEDS", "LEAST_DEPTHS")
"""They stand in what is needed, not in the condition."""
EDGE, SPREAD = 0.02, (-2.0, -1.0, 0.0, 1.0, 2.0)
Edge = tuple[Any, str, Any]
"""Evidence, its verdict, and the threshold past it; None: that of `PAST`."""


def constants(criterion: Criterion) -> str:
    """Return what a criterion reads besides its own fields, separated by spaces."""
    match criterion:
        case Trains(bleu=None):
            return "TRAINS"
        case Ceilings(masked=masked):
            return f"{'PRETRAINED_' * masked}TRAINS FACTOR SHARE SIGNIFICANT CURVE_SEEDS SEEDS"
        case TrainsWhereFails():
            return "TRAINS FAILS SHARE SIGNIFICANT CURVE_SEEDS SEEDS"
        case BestRates():
            return "CURVE_SEEDS SEEDS"
        case AtDepth(layers=layers):
            return "SEEDS" if layers else "SEEDS LEAST_DEPTHS"
        case MatchesBest():
            return "NON_INFERIOR_BLEU"
        case NotTrained():
            return "NOT_TRAINED_MARGIN"
        case FineTunesFaster():
            return "CHECKPOINT_SHARE LEAST_CHECKPOINTS FINE_TUNING_SEEDS"
        case Even():
            return "EVEN PROBE_BATCHES NEAR"
    return ""


def thresholds(criterion: Criterion) -> Iterator[str]:
    """Yield the names of its fields and constants that are thresholds."""
    for field in fields(criterion):  # type: ignore[arg-type]
        value = getattr(criterion, field.name)
        if field.name == "contradicted" and value:
            yield "contradicted"
        unused = isinstance(criterion, Trains) and (field.name, value) in (("least", 0), ("most", 1))
        if type(value) in (int, float) and math.isfinite(value) and not unused:
            yield field.name
    yield from constants(criterion).split()


def leaves(criteria: Iterable[Criterion]) -> Iterator[Criterion]:
    """Yield the criteria that judge, including those of groups."""
    for one in criteria:
        if isinstance(one, AnyOf):
            yield from leaves(chain(*one.parts))
        elif isinstance(one, AtDepth):
            yield from (one, *one.parts)
        elif not isinstance(one, Report | ReportCeiling):
            yield one


FOUND = {
    (one, name): f"{claim.id} {name}"
    for claim in CLAIMS for rule in (claim.rule, claim.others) if rule
    for one in leaves(rule.criteria) for name in thresholds(one)
}  # fmt: skip


def given(*values: float) -> Any:
    """Return evidence for a criterion that asks for nothing but the values of its metric."""
    return SimpleNamespace(values=lambda arms, quantity: list(values), seeds=lambda arms: [*range(len(values))])


def within_edge(one: Within, name: str) -> Edge:
    """Return values a little inside of a bound, and the bound moved as far again past them."""
    log = one.metric.scale is LOG

    def beside(bound: float, by: float) -> float:
        return bound * math.exp(by) if log else bound + by * (abs(bound) or 1.0)

    if name == "contradicted":
        assert one.contradicted
        low, high = one.contradicted
        if math.isinf(low):
            return given(*[beside(high, -EDGE)] * 5), CONTRADICTED, (low, beside(high, -2 * EDGE))
        return given(*[beside(low, EDGE)] * 5), CONTRADICTED, (beside(low, 2 * EDGE), high)
    bound, sign = (one.low, 1) if math.isfinite(one.low) else (one.high, -1)
    if name == "level":
        noise = [EDGE / 10 * value for value in SPREAD]
        reach = mean_interval(noise, one.level)[1] * 1.01
        return given(*(beside(bound, sign * reach + value) for value in noise)), REPRODUCED, (1 + one.level) / 2
    bound, sign = (one.low, 1) if name == "low" else (one.high, -1)
    return given(*[beside(bound, sign * EDGE)] * 5), REPRODUCED, beside(bound, 2 * sign * EDGE)


def trains_edge(one: Trains, name: str) -> Edge:
    few = one.most < 1
    trained = one.bleu or 100 * evidence.TRAINS

    def shares(hits: int, at: float = trained + 50) -> Evidence:
        return held({one.arm: {1.0: [at] * hits + [0.0] * (5 - hits)}, "best": {1.0: [100.0] * 3}})

    if name in ("least", "most"):
        return shares(1 if few else round(5 * one.least)), REPRODUCED, 0.1 if few else one.least + 0.1
    inside = trained - 0.1 if few else trained + 0.1
    past = trained - 0.2 if few else trained + 0.2
    return shares(5, inside), REPRODUCED, past if one.bleu else past / 100


def ceilings_edge(one: Ceilings, name: str) -> Edge:
    """Return arms of which the first trains up to twice the rate of the second, if just so."""
    trains = evidence.PRETRAINED_TRAINS if one.masked else evidence.TRAINS
    best, fails = [100.0] * 5, [0.0] * 5
    edge = {"SHARE": [*best[:4], 0.0], "TRAINS": [100 * trains + 1] * 5}.get(name.removeprefix("PRETRAINED_"), best)
    low = [100.0, *fails[:4]] if name == "SIGNIFICANT" else fails
    few = fails[:3] if name == "CURVE_SEEDS" else fails
    curves = {one.first: {1.0: best, 2.0: edge, 4.0: few, 8.0: fails}, one.second: {1.0: best, 2.0: low, 4.0: fails}}
    found = held(curves, "toybert_preln_warm" if one.masked else "toy_preln_warm")
    return found, INCONCLUSIVE if name == "CURVE_SEEDS" else REPRODUCED, None


def where_edge(one: TrainsWhereFails, name: str) -> Edge:
    best, partial, edge = [100.0] * 5, [60.0] * 5, 100 * evidence.FAILS - 1
    first, second = {
        "TRAINS": ([100 * evidence.TRAINS + 1] * 5, [0.0] * 5), "FAILS": (best, [edge] * 5),
        "SHARE": ([*best[:4], 0.0], [0.0] * 5), "SIGNIFICANT": (best, [100.0, *[0.0] * 4]),
        "CURVE_SEEDS": (best, partial), "SEEDS": (best, partial),
    }[name]  # fmt: skip
    few = {2.0: partial[:3]} if name == "CURVE_SEEDS" else {}  # a rate that counts, but has too few seeds for a verdict
    curves = {one.first: {1.0: first, 1.5: [0.0] * 5} | few, one.second: {1.0: second, 1.5: partial} | few}
    found = held(
        {**curves, "best": {9.0: [100.0] * 3}}
    )  # at 1.5 the first arm does not train: no higher rate will help
    return found, {"CURVE_SEEDS": INCONCLUSIVE, "SEEDS": CONTRADICTED}.get(name, REPRODUCED), None


def best_edge(one: BestRates, name: str) -> Edge:
    gap = {"low": one.low + 0.05, "high": one.high - 0.05, "contradicted": one.low - 0.05}.get(name, 0.0)
    found = held({one.first: {1.0: [30 + gap] * 5}, one.second: {1.0: [30.0] * 5}})
    if name == "CURVE_SEEDS":
        lower = held({one.first: {4.0: [30.0] * 3}}, loss=3.0)
        found = Evidence({}, {**found.rates, one.first: {**found.rates[one.first], **lower.rates[one.first]}})
    around = held({arm: {0.5: [20.0] * 5, 2.0: [20.0] * 5} for arm in one.compared}, loss=5.0)  # 1.0 is the best rate
    found = Evidence({}, {arm: {**found.rates[arm], **around.rates[arm]} for arm in one.compared})
    past = {"low": one.low + 0.1, "high": one.high - 0.1, "contradicted": (-math.inf, one.low - 0.1)}.get(name)
    return found, {"CURVE_SEEDS": INCONCLUSIVE, "contradicted": CONTRADICTED}.get(name, REPRODUCED), past


def lost_edge(one: NotTrained, _: str) -> Edge:
    by = 0.01 if one.most else -0.01
    arms = {one.arm: 4 + bert.NOT_TRAINED_MARGIN + by, one.reference: 4.0}
    runs = {arm: {seed: made(seed=seed, loss=loss) for seed in range(1, 6)} for arm, loss in arms.items()}
    return Evidence(runs), REPRODUCED, bert.NOT_TRAINED_MARGIN + 5 * by


def fine_tuning_edge(one: FineTunesFaster, name: str) -> Edge:
    """Return three checkpoints; the first arm is a point above, below at the last if that is what decides."""
    gains = (0.02, 0.02, -0.01) if name == "CHECKPOINT_SHARE" else (0.01, 0.01, 0.01)
    starts = {}
    for start, gain in enumerate(gains):
        arms = {arm: {seed: made(seed=seed) for seed in range(1, 7)} for arm in one.arms}
        for arm, runs in arms.items():
            for run in runs.values():
                run.record.epochs[-1].valid_accuracy = 0.7 + gain * (arm == one.arms[0])
        starts[start] = Evidence(arms)
    return Evidence(starts[0].arms, starts=starts), REPRODUCED, None


def depth_edge(one: AtDepth, _: str) -> Edge:
    """Return arms that all train, at the depths of the rule or at three."""
    depths = one.layers or (6, 12, 24)
    parts = {layers: held({arm: {1.0: [100.0] * 5} for arm in one.compared}, model__layers=layers) for layers in depths}
    others = {f"{evidence.LAYERS}{layers}": part for layers, part in parts.items()}
    return Evidence(others=others), CONTRADICTED, None


def scheme_edge(one: Any, name: str) -> Edge:
    if isinstance(one, Even):
        updates = made().record.updates
        points = (0, updates / 15, updates / 3 + schemes.NEAR * updates - 1, updates)
        gradients = {round(at): [1.0, schemes.EVEN - 0.1] for at in points}
        found = Evidence({one.arm: {seed: made(seed=seed, probes=gradients) for seed in range(1, 6)}})
        return found, REPRODUCED, None
    by = 0.05
    arms = {arm: made(bleu=30.0) for arm in one.tuned} | {one.arm: made(bleu=30 + schemes.NON_INFERIOR_BLEU + by)}
    found = Evidence({arm: dict.fromkeys(range(1, 6), run) for arm, run in arms.items()})
    return found, REPRODUCED, getattr(schemes, name) + 2 * by


EDGES: dict[type, Callable[[Any, str], Edge]] = {
    Within: within_edge, Trains: trains_edge, Ceilings: ceilings_edge, TrainsWhereFails: where_edge,
    BestRates: best_edge, NotTrained: lost_edge, FineTunesFaster: fine_tuning_edge, Even: scheme_edge,
    MatchesBest: scheme_edge, AtDepth: depth_edge,
}  # fmt: skip


@pytest.mark.parametrize(("one", "name"), FOUND, ids=[*FOUND.values()])
def test_a_threshold_moved_past_the_evidence_changes_the_verdict_and_the_sentence(
    one: Criterion, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, before, past = EDGES[type(one)](one, name)
    sentence = one.sentence()
    judged = one.judge(found)
    assert judged.verdict == before, judged.words
    if name.isupper():
        for module in (criteria, depth, evidence, bert, ceilings, probes, rates, schemes):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, PAST[name] if past is None else past)
    else:
        one = replace(one, **{name: past})  # type: ignore[type-var]
    assert one.judge(found).verdict != before
    assert (one.sentence() == sentence) == (name in UNPRINTED)
