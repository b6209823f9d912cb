"""The arena of schemes, the causes of failure, and claim X-5, on made-up runs."""

import json
import math

import pytest

from ln_repro.claims.arena import arena
from ln_repro.claims.causes import ARMS, CAUSES, VANISHING, area_under_curve, separation, separations, unevenness_after
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.rules.x import UNEVEN, Predicts
from ln_repro.report.arena import arena_data, arena_table
from tests.claims.made import collapsing, gathered, made, on_rates
from tests.examples import diverged, recorded, with_events

RATES = {
    "preln_nowarm_anchored": {1e-3: [30.0] * 3, 2e-3: [30.0] * 3, 4e-3: [30.0] * 3},
    "deepnorm_nowarm": {1e-3: [30.0] * 3, 2e-3: [30.0] * 3, 4e-3: [2.0] * 3},
    "postln_nowarm": {1e-3: [1.0] * 3, 2e-3: [1.0] * 3, 4e-3: [1.0] * 3},
    "postln_warm": {1e-3: [29.0] * 3, 2e-3: [1.0] * 3},
}


def test_the_widest_range_without_warm_up_comes_first():
    """Of three schemes, one trains only with warm-up."""
    runs = [run for arm, rates in RATES.items() for rate, bleus in rates.items()
            for run in on_rates("toy", {arm: {rate: bleus}}, loss=5.0 if bleus[0] < 5 else 3 + 100 * rate)]  # fmt: skip
    evidence = gathered(runs)["toy"]
    preln, deepnorm, postln = entries = arena(evidence)
    assert [entry.scheme for entry in entries] == ["preln", "deepnorm", "postln"]
    assert (preln.without.octaves, deepnorm.without.octaves, postln.without) == (2.0, 1.0, None)
    assert (postln.arm, postln.rate, postln.sensitivity) == ("postln_warm", 1e-3, None)
    assert math.isinf(preln.limit.median) and 2e-3 < deepnorm.limit.median < 4e-3
    assert deepnorm.nll.value == pytest.approx(3.1 - 1) and deepnorm.seeds == 3
    costs = {"deepnorm": {"ratio": 0.5, "saved": 1.25, "rounds": [0.4, 0.6]}}
    table = arena_table(entries, costs)
    assert [row[7:] for row in table.rows] == [["1.00", "1.00"], ["2.00", "1.25"], [None, None]]
    assert table.notes[-1].endswith("0.10")
    data = arena_data(entries, costs)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data[1]["range_without_warmup"] == {"low": 1e-3, "high": 2e-3, "octaves": 1.0, "open": [True, False]}
    assert (data[0]["lr50"], data[2]["range_without_warmup"]) == (None, None)
    lost = on_rates("toy", {"admin_nowarm": {1e-3: [0.0] * 3}}, losses=[None], bleus=[None], rule="not_finite")
    *_, last = arena_table(arena(gathered([*lost, *runs])["toy"]), {}).rows
    assert (last[0], last[5]) == ("Admin", None), "it has no NLL"


def evidence_of_collapse(kept_in_failing: float, seeds: int = 3) -> Evidence:
    """Return as many seeds that fail as seeds that train, of two arms: by what is left of a gradient at update 32."""
    runs = {arm: {seed: collapsing(f"toy_{arm}", 1e-3 * (1 + bleu), bleu, (4.0, 4 * kept, 4.0), seed)
                  for seed in range(101, 101 + seeds)}
            for arm, bleu, kept in (("postln_nowarm", 1.0, kept_in_failing), ("postln_warm", 80.0, 0.5))}  # fmt: skip
    return Evidence(runs, {arm: {1e-3: of_arm} for arm, of_arm in runs.items()})


def test_a_measure_that_separates_has_an_area_of_one():
    measured = separation(evidence_of_collapse(1e-4), VANISHING)
    assert (measured.effect.value, measured.effect.interval) == (1.0, (1.0, 1.0))
    assert (measured.failing, measured.training, measured.arms) == (3, 3, 2)
    assert separation(evidence_of_collapse(0.9), VANISHING).effect.value == 0.0
    causes = [measured.cause for measured in separations(evidence_of_collapse(1e-4))]
    assert causes == [*CAUSES[:2]], "the others were not probed"
    assert not separations(Evidence())
    closed = collapsing("toy_rezero_nowarm", 1e-3, 80.0, (0.0, 0.5))
    assert VANISHING.of(closed) == -1.0, "the stack that has a gradient"


def test_a_run_whose_first_update_is_not_finite_has_only_the_gradients_before_it():
    values = {kind: {"decoder.w2": [1.0, 2.0]} for kind in ("norm_of_mean", "mean_of_norms")}
    probe = {"kind": "probe", "name": "gradients", "update": 0, "batches": 100, "values": values}
    run = with_events(recorded(**diverged(updates=0)), [probe])
    assert unevenness_after(run, 0.0) == 2.0 and math.isnan(unevenness_after(run, 1.0))


def test_gradients_throughout_a_run_are_unknown_if_one_of_the_four_points_was_not_probed():
    probes = {0: [1.0, 2.0], 100: [1.0, 9.0], 500: [1.0, 3.0], 1500: [1.0, 4.0]}
    assert UNEVEN.of(made(probes=probes)) == 9.0
    for lacking in probes:
        assert math.isnan(UNEVEN.of(made(probes={at: norms for at, norms in probes.items() if at != lacking})))


def test_the_area_counts_pairs_and_its_interval_draws_seeds_with_all_of_their_runs():
    area = area_under_curve([(1, 3.0), (2, 2.0)], [(1, 1.0), (2, 2.0), (2, 2.5)])
    assert area.value == pytest.approx((3 + 1.5) / 6)
    assert area.interval == pytest.approx((0.25, 1.0))  # seed 2 alone, where 2.0 meets 2.0 and 2.5, and seed 1 alone


def test_prediction_is_judged_once_all_arms_were_run():
    evidence = evidence_of_collapse(1e-4)
    finding = Predicts(ARMS).judge(evidence)
    assert (finding.verdict, finding.needs) == ("inconclusive", f"{len(ARMS) - 2} more arms, 2 more seeds")
    alone = evidence_of_collapse(1e-4, seeds=1).rates
    finding = Predicts(ARMS).judge(Evidence({}, dict.fromkeys(ARMS, alone["postln_warm"]) | alone))
    assert (finding.verdict, finding.needs, str(finding.effect)) == ("inconclusive", "4 more seeds", "area 1.00")
    evidence = evidence_of_collapse(1e-4, seeds=5)
    whole = dict.fromkeys(ARMS, evidence.rates["postln_warm"]) | evidence.rates
    assert Predicts(ARMS).judge(Evidence({}, whole)).verdict == "reproduced"
    lost = evidence_of_collapse(0.9, seeds=5).rates["postln_nowarm"]
    assert Predicts(ARMS).judge(Evidence({}, {**whole, "postln_nowarm": lost})).verdict == "contradicted"
