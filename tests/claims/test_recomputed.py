"""What the verdicts on the committed records rest on is what numpy finds in their files (`tests.claims.recomputed`)."""

import math

import pytest

from ln_repro.claims.causes import ARMS, VANISHING, separation
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import CLAIMS, arms_of_rules
from ln_repro.claims.metrics import TIMES_TO_FALL
from ln_repro.claims.over_rates import AtBestRates
from ln_repro.claims.rates import multiverse, usable_range
from ln_repro.experiment.compose import CONF
from ln_repro.experiment.registry import registered
from tests.claims import recomputed
from tests.committed import archive

DECIDED = ("toy", "multi30k6", f"toy{recomputed.NEW}", f"multi30k6{recomputed.NEW}")
"""The parts of the records with several seeds an arm."""
RATIOS = {"rel": 1e-9, "abs": 0.0}
MT_4 = next(claim for claim in CLAIMS if claim.id == "MT-4")


def evidence(part: str) -> Evidence:
    """Return what the project makes of a part of the records."""
    parts = archive().replication if part.endswith(recomputed.NEW) else archive().evidence
    return parts[part.removesuffix(recomputed.NEW)]


def known(part: str) -> frozenset[str]:
    """Return every arm of a part's setting."""
    setting = part.removesuffix(recomputed.NEW)
    names = [name for name, experiment in registered(CONF).items() if experiment.setting == setting]
    return frozenset(name.partition("_")[2] for name in names)


@pytest.mark.parametrize("part", [*DECIDED, "multi30k"])
def test_every_arm_has_the_same_runs_of_which_as_many_train_and_fail(part: str) -> None:
    ours, arms = evidence(part), known(part)
    assert {arm for arm in arms_of_rules() if arm in arms and recomputed.by_rate(part, arm)} <= {*ours.rates} <= arms
    for arm in ours.rates:
        theirs = recomputed.by_rate(part, arm)
        assert {rate: [run.record.id for run in runs] for rate, runs in ours.curve(arm).items()} == {
            rate: [runs[seed]["id"] for seed in sorted(runs)] for rate, runs in theirs.items()
        }, arm
        for rate, runs in ours.curve(arm).items():
            for run in runs:
                assert ours.relative_bleu(run) == pytest.approx(recomputed.relative(run.record.plain(), arms), **RATIOS)
            counted = sum(map(ours.trained, runs)), sum(map(ours.failed, runs)), len(runs)
            assert counted == recomputed.counts(theirs[rate].values(), arms), (arm, rate)
        limits = usable_range(ours, arm)
        assert (limits and (limits.low, limits.high)) == recomputed.usable(part, arm, arms), arm


@pytest.mark.parametrize("part", DECIDED)
def test_the_intervals_of_mt_4_are_the_same(part: str) -> None:
    assert MT_4.others
    (best,) = MT_4.others.criteria
    assert isinstance(best, AtBestRates)
    rates = [recomputed.best_rate(part, arm) for arm in best.arms]
    first, second = (recomputed.by_rate(part, arm)[rate] for arm, rate in zip(best.arms, rates, strict=True))
    finding, seeds = best.judge(evidence(part)), sorted({*first} & {*second})
    if finding.note == "saturated":
        assert max(recomputed.bleu(run) for run in (*first.values(), *second.values())) > 95
    low, high = recomputed.student(recomputed.bleu(first[seed]) - recomputed.bleu(second[seed]) for seed in seeds)
    assert finding.effect and finding.effect.interval == pytest.approx((low, high), **RATIOS)


@pytest.mark.parametrize("part", DECIDED)
@pytest.mark.parametrize("fast", ["preln_warm", "preln_nowarm_anchored"])
def test_the_intervals_of_mt_5_are_the_same(part: str, fast: str) -> None:
    slow_runs, fast_runs = (evidence(part).arms[arm] for arm in ("postln_warm", fast))
    shared = sorted({*slow_runs} & {*fast_runs})
    ratios = [recomputed.speed(slow_runs[seed].record.plain(), fast_runs[seed].record.plain()) for seed in shared]
    low, high = map(math.exp, recomputed.student(map(math.log, ratios)))
    metric = TIMES_TO_FALL[0.9]
    values = evidence(part).values(("postln_warm", fast), metric.of)
    assert metric.scale.interval(values) == pytest.approx((low, high), **RATIOS)


@pytest.mark.parametrize(
    ("part", "without"),
    [*((part, "postln_nowarm") for part in DECIDED), ("toy", "postln_nowarm_literal"),
     ("multi30k6", "postln_nowarm_literal")],
)  # fmt: skip
def test_the_multiverse_has_the_same_counts(part: str, without: str) -> None:
    ours = multiverse(evidence(part), "postln_warm", without)
    theirs = recomputed.multiverse(part, "postln_warm", without, known(part))
    assert ours and dict(ours) == {verdict: number for verdict, number in theirs.items() if number}


def test_the_area_under_the_curve_of_collapse_is_that_of_ranks() -> None:
    evidence = archive().replication["toy"]
    groups: dict[bool, list[float]] = {True: [], False: []}
    for arm in ARMS:
        for runs in evidence.curve(arm).values():
            for run in runs:
                norms = {probe.update: probe.values["gradient"] for probe in run.record.probes
                         if probe.name == "collapse" and probe.update in (0, 32)}  # fmt: skip
                if len(norms) == 2 and evidence.failed(run) != evidence.trained(run):
                    start, later = ([norms[at][f"{stack}.w2"] for stack in ("encoder", "decoder")] for at in (0, 32))
                    ratios = [b / a if a else math.inf for a, b in zip(start, later, strict=True)]
                    groups[evidence.failed(run)].append(-min(ratios))
    assert separation(evidence, VANISHING).effect.value == pytest.approx(
        recomputed.area(groups[True], groups[False]), rel=1e-12
    )
