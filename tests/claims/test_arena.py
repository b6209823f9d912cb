"""The ranking of schemes, on made-up runs."""

import json
import math
from dataclasses import replace

import pytest

from ln_repro.claims.arena import PROBED, Unevenness, arena
from ln_repro.report.arena import arena_data, arena_tables, by_rate
from tests.claims.made import gathered, made, on_rates

LOSSES = {"preln": [6.0, 5.0, 4.0], "deepnorm": [5.0, 4.0, 4.0], "postln": [7.0, 6.0, 5.0]}
RATES = {
    "preln_nowarm_anchored": {1e-3: [29.8, 30.0, 30.2], 2e-3: [28.0, 28.0, 28.0]},
    "deepnorm_nowarm": {1e-3: [31.0, 31.2, 31.4], 2e-3: [2.0, 2.0, 2.0]},
    "postln_nowarm": {1e-3: [1.0, 2.0, 1.0], 2e-3: [1.0, 1.0, 1.0]},
    "postln_warm": {1e-3: [29.0, 30.1, 29.5], 2e-3: [29.0, 29.0, 29.0]},
}
WORSE = {"postln_warm": {1e-3: [20.0] * 3}}


@pytest.fixture(scope="module")
def entries():
    """Return the entries of three schemes, one of which trains only with warm-up."""
    runs = []
    for arm, rates in RATES.items():
        losses = [loss + (arm == "postln_nowarm") for loss in LOSSES[arm.partition("_")[0]]]
        for rate, bleus in rates.items():
            later = [loss + (rate > 1e-3) for loss in losses]
            runs += on_rates("toy", {arm: {rate: bleus}}, losses=later, bleus=[None] * 3)
    return {entry.scheme: entry for entry in arena(gathered(runs)["toy"])}


def test_schemes_are_ranked_by_bleu_at_their_best_rate_with_or_without_warm_up(entries):
    assert [*entries] == ["deepnorm", "preln", "postln"]
    assert (entries["postln"].arm, entries["postln"].rate) == ("postln_warm", 1e-3)
    assert entries["deepnorm"].rank == (1, 1) and entries["preln"].rank[0] >= 2
    assert entries["postln"].rank == (2, 3) == entries["preln"].rank  # their seeds overlap


def test_schemes_with_the_same_mean_share_their_rank():
    arms = {"preln_nowarm_anchored": {1e-3: [30.0] * 3}, "rezero_nowarm": {1e-3: [30.0] * 3}, **WORSE}
    entries = arena(gathered(on_rates("toy", arms))["toy"])
    ranks = {entry.scheme: entry.rank for entry in entries}
    assert ranks == {"preln": (1.5, 1.5), "rezero": (1.5, 1.5), "postln": (3, 3)}
    assert [row[5] for row in arena_tables(entries, {})[0]["rows"]] == ["1-2", "1-2", "3"]


def test_the_probability_of_improvement_counts_pairs_of_seeds(entries):
    assert entries["deepnorm"].improvement == (1, (1, 1)) and entries["preln"].improvement is None
    mean, (low, high) = entries["postln"].improvement
    assert mean == pytest.approx(2 / 9)  # 30.1 beats 29.8 and 30.0
    assert low == 0 and 1 / 3 < high <= 1  # all three draws of a seed may be that of 29.0, or that of 30.1


def test_ceilings_and_epochs_are_relative_to_the_grid_and_to_pre_ln(entries):
    deepnorm, postln = entries["deepnorm"], entries["postln"]
    assert (deepnorm.without.rate, deepnorm.without.above) == (1e-3, 2e-3) and not deepnorm.with_ramp.rates
    assert postln.without.rate is None and postln.with_ramp.rate == 2e-3
    assert deepnorm.epochs == pytest.approx(1 / 1.5)  # the loss of Pre-LN after 1.5 of 3 epochs is 5.5
    assert postln.epochs == pytest.approx(2.5 / 1.5)


def test_a_scheme_that_never_reaches_the_loss_has_no_number_of_epochs():
    runs = on_rates("toy", {"preln_nowarm_anchored": {1e-3: [30.0] * 3}}, losses=[5.0, 4.0, 3.0], bleus=[None] * 3)
    runs += on_rates("toy", {"rezero_nowarm": {1e-3: [5.0] * 3}}, losses=[9.0] * 3, bleus=[None] * 3)
    entry = next(one for one in arena(gathered(runs)["toy"]) if one.scheme == "rezero")
    assert math.isinf(entry.epochs)
    (row,) = arena_tables([entry], {})[0]["rows"]
    assert row[:5] == ["ReZero", "5.0", "3", "0.001", "no"] and row[7] == "-"


@pytest.mark.parametrize("lost", [[9.0] * 3, [None]])
def test_no_number_of_epochs_is_relative_to_a_run_of_pre_ln_that_does_not_reach_the_loss(lost):
    runs = on_rates("toy", {"rezero_nowarm": {1e-3: [30.0] * 3}}, losses=[5.0, 4.0, 3.0], bleus=[None] * 3)
    for seed, losses in enumerate(([5.0, 4.0, 3.0], [5.0, 4.0, 3.0], lost), 1):
        runs.append(made("toy_preln_nowarm_anchored", seed, losses=losses, bleus=[None] * len(losses)))
    assert all(math.isnan(entry.epochs) for entry in arena(gathered(runs)["toy"]))


def test_the_unevenness_of_gradients_is_that_before_training_and_the_worst_of_six_points_after_it():
    probes = {0: [2.0, 1.0], **{round(part * 300): [1.0, 1.0] for part in PROBED}, 135: [1.0, 4.0]}
    more = {"probes": probes | {15: [9.0, 1.0]}, "losses": [5.0] * 3}  # at 15 there is no point, of 300 updates
    runs = on_rates("toy", {"preln_nowarm_anchored": {1e-3: [30.0] * 3}}, **more)
    for probe in runs[0].record.probes:
        probe.batches, probe.values = 4, {"norm_of_mean": {"decoder.w2": [9.0, 1.0]}}  # too few to count
    (entry,) = arena(gathered(runs)["toy"])
    assert entry.unevenness == pytest.approx((2.0, 4.0, 2, 100))
    assert arena_tables([entry], {})[1]["rows"] == [["Pre-LN", "-", "2", "4", "2", "100", "1.00", "1.00"]]


def test_a_run_that_was_not_probed_throughout_has_no_unevenness():
    more = {"probes": {0: [2.0, 1.0], 45: [1.0, 1.0]}, "losses": [5.0] * 3}
    (entry,) = arena(gathered(on_rates("toy", {"preln_nowarm_anchored": {1e-3: [30.0] * 3}}, **more))["toy"])
    assert entry.unevenness is None


def test_the_seeds_that_train_are_listed_by_rate_without_and_with_warm_up():
    arms = {"rezero_nowarm": {1e-3: [30.0, 30.0, 5.0], 2e-3: [0.0] * 3}, "preln_nowarm_anchored": {1e-3: [30.0] * 3}}
    evidence = gathered(on_rates("toy", {**arms, "rezero_warm": {2e-3: [29.0, 30.0, 30.0]}}))["toy"]
    without, with_ramp = by_rate(evidence, sorted(arena(evidence), key=lambda entry: entry.scheme))
    assert without["columns"] == ["scheme", "0.001", "0.002"] and with_ramp["columns"] == ["scheme", "0.002"]
    assert without["rows"] == [["Pre-LN", "3/3 (30.0-30.0)", "-"], ["ReZero", "2/3 (5.0-30.0)", "0/3 (0.0-0.0)"]]
    assert with_ramp["rows"] == [["Pre-LN", "-"], ["ReZero", "3/3 (29.0-30.0)"]]


def test_costs_are_over_those_of_pre_ln(entries):
    _, table = arena_tables([*entries.values()], {"deepnorm": {"ratio": 0.8, "saved": 1.5}})
    assert table["rows"] == [
        ["DeepNorm", *["-"] * 5, "1.25", "1.50"],
        ["Pre-LN", *["-"] * 5, "1.00", "1.00"],
        ["Post-LN", *["-"] * 7],
    ]


def test_as_data_unknown_and_infinite_numbers_are_null(entries):
    costs = {"deepnorm": {"ratio": 0.8, "saved": 1.5}}
    found = json.loads(json.dumps(arena_data([*entries.values()], costs), allow_nan=False))
    assert [one["scheme"] for one in found] == ["deepnorm", "preln", "postln"]
    deepnorm, preln, postln = found
    assert (postln["arm"], postln["rate"], postln["bleu"]) == ("postln_warm", 1e-3, [29.0, 30.1, 29.5])
    assert postln["rank"] == [2, 3] and preln["improvement"] is None and deepnorm["improvement"] == 1
    assert postln["ceiling_without_warmup"] == {"rate": None, "above": 1e-3}
    assert postln["ceiling_with_warmup"] == {"rate": 2e-3, "above": None}
    assert deepnorm["ceiling_without_warmup"] == {"rate": 1e-3, "above": 2e-3}
    assert deepnorm["ceiling_with_warmup"] is None and deepnorm["unevenness"] is None
    times = [(one["time"], one["memory"]) for one in found]
    assert times == [(1.25, 1.5), (1, 1), (None, None)]
    never = replace(entries["postln"], epochs=math.inf, improvement=None, unevenness=Unevenness(1.5, math.inf, 3, 5))
    (one,) = arena_data([never], {})
    assert (one["epochs"], one["improvement"], one["unevenness"]) == (None, None, [1.5, None])


def test_the_command_prints_the_ranking_as_json(call):
    code, out, _ = call("arena", "--json")
    found = json.loads(out)
    means = [sum(one["bleu"]) / len(one["bleu"]) for one in found]
    assert code == 0 and found[0].keys() >= {"scheme", "sensitivity", "epochs"} and means == sorted(means, reverse=True)


def test_the_command_names_the_schemes_that_are_left_out(call):
    assert "left out, with fewer than three seeds at any rate: LN-Scaling" in call("arena", "multi30k6")[2]
    code, _, error = call("arena", "nosuch")
    assert code == 2 and "'nosuch' is no setting with a scheme of three seeds; give one of: " in error
