"""What the verdicts on the committed records rest on is what numpy finds in their files (`tests.claims.recomputed`)."""

import math

import pytest

from ln_repro.claims.ceilings import ceiling as our_ceiling
from ln_repro.claims.intervals import interval
from ln_repro.claims.judge import CLAIMS, arms_of_rules
from ln_repro.claims.rates import BestRates, TrainsWhereFails
from ln_repro.experiment.compose import CONF
from ln_repro.experiment.named import registered
from tests.claims import recomputed
from tests.committed import archive

SETTINGS = ("toy", "multi30k", "multi30k6")
RATIOS = {"rel": 1e-9, "abs": 0.0}
MT_4, MT_5 = (next(claim for claim in CLAIMS if claim.id == id) for id in ("MT-4", "MT-5"))


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> str:
    if request.param not in archive().evidence:
        pytest.skip(f"no records of {request.param}")
    return str(request.param)


def known(setting: str) -> frozenset[str]:
    """Return every arm of a setting."""
    return frozenset(name.partition("_")[2] for name, one in registered(CONF).items() if one.setting == setting)


def test_every_arm_has_the_same_runs_of_which_as_many_train_and_fail(setting: str) -> None:
    ours, arms = archive().evidence[setting], known(setting)
    assert {arm for arm in arms_of_rules() if arm in arms and recomputed.by_rate(setting, arm)} <= {*ours.rates} <= arms
    for arm in ours.rates:
        theirs = recomputed.by_rate(setting, arm)
        assert {rate: [run.record.id for run in runs] for rate, runs in ours.curve(arm).items()} == {
            rate: [runs[seed]["id"] for seed in sorted(runs)] for rate, runs in theirs.items()
        }, arm
        for rate, runs in ours.curve(arm).items():
            for run in runs:
                assert ours.relative_bleu(run) == pytest.approx(recomputed.relative(run.record.plain(), arms), **RATIOS)
            counted = sum(map(ours.trained, runs)), sum(map(ours.failed, runs)), len(runs)
            assert counted == recomputed.counts(theirs[rate].values(), arms), (arm, rate)
        found = our_ceiling(ours, arm)
        assert (found.rate, found.above) == recomputed.ceiling(setting, arm, arms), arm


def test_the_intervals_of_mt_4_are_the_same(setting: str) -> None:
    assert MT_4.others
    where, best = MT_4.others.criteria
    assert isinstance(where, TrainsWhereFails) and isinstance(best, BestRates)
    arms = (best.first, best.second)
    if any(max(map(len, recomputed.by_rate(setting, arm).values()), default=0) < 3 for arm in arms):
        pytest.skip(f"no rate with three seeds on {setting}")
    rates = [recomputed.best_rate(setting, arm) for arm in arms]
    first, second = (recomputed.by_rate(setting, arm)[rate] for arm, rate in zip(arms, rates, strict=True))
    gaps = [recomputed.bleu(first[seed]) - recomputed.bleu(second[seed]) for seed in sorted({*first} & {*second})]
    low, high = recomputed.student(gaps)
    at = f"{rates[0]:g}" if rates[0] == rates[1] else f"{rates[0]:g} and {rates[1]:g}"
    told = f"{sum(gaps) / len(gaps):.3g} [{low:.3g}, {high:.3g}] (at {at})"
    assert best.judge(archive().evidence[setting]).words.endswith(told)
    curves = [archive().evidence[setting].rates[arm][rate] for arm, rate in zip(arms, rates, strict=True)]
    seeds = sorted(set.intersection(*map(set, curves)))
    ours = [best.metric.of(curves[0][seed]) - best.metric.of(curves[1][seed]) for seed in seeds]
    assert interval(ours) == pytest.approx((low, high), **RATIOS)


def test_the_intervals_of_mt_5_are_the_same(setting: str) -> None:
    assert MT_5.others
    found = archive().evidence[setting]
    for one in MT_5.others.criteria:
        slow, fast = (found.arms.get(arm, {}) for arm in one.arms)
        if len({*slow} & {*fast}) < 2:
            continue
        seeds = sorted({*slow} & {*fast})
        ratios = [recomputed.speed(slow[seed].record.plain(), fast[seed].record.plain()) for seed in seeds]
        low, high = map(math.exp, recomputed.student(map(math.log, ratios)))
        metric = one.metric  # type: ignore[attr-defined]
        ours = interval(found.values(one.arms, metric.of), metric.scale)
        assert ours == pytest.approx((low, high), **RATIOS), one.arms
