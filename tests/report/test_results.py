"""The few numbers in the text of docs/results.md and further.md that no table has are those of the records."""

import math
from collections import defaultdict
from statistics import fmean

import numpy as np
import pytest

from ln_repro.claims.causes import ARMS, VANISHING, area_under_curve, cosines, probes, relative_gradients, separation
from ln_repro.claims.evidence import TRAINS
from ln_repro.claims.lr50 import arms_of
from ln_repro.claims.metrics import TIMES_TO_FALL
from ln_repro.claims.rates import lowest_loss
from ln_repro.records.archive import Run
from ln_repro.report.figure_convergence import FASTER, SLOWER, catches_up, curves
from ln_repro.report.figure_delay import updates_to_learn
from ln_repro.report.figure_ramp import counted, maps
from tests import committed


def test_of_seeds_with_a_ramp_on_a_part_of_the_model_the_text_names_a_few() -> None:
    explored, evidence = (part["toy"] for part in (committed.archive().evidence, committed.archive().replication))
    second_reading = [run for run in committed.archive().kept.runs if run.experiment.schedule.embeddings == "full"]
    assert len(second_reading) == 5 and all(map(evidence.trained, second_reading))
    assert sorted(map(explored.trained, explored.curve("deepnorm_nowarm")[0.002])) == [False] * 3 + [True] * 2
    (failing,) = (run for run in evidence.curve("postln_warm_encoder")[0.002] if not evidence.trained(run))
    assert min(norm for curve in relative_gradients(failing).values() for norm in curve.values()) > 1e-4


def test_what_new_seeds_show_on_multi30k() -> None:
    evidence = committed.archive().replication["multi30k6"]
    ramped = [evidence.curve(arm)[0.001] for arm in ("postln_warm", "postln_warm_encoder")]
    both, encoder = (sorted(run.final_nll for run in runs) for runs in ramped)
    assert [f"{nll:.2f}" for nll in (encoder[0], encoder[-1], both[0], both[-1])] == ["2.89", "3.63", "2.81", "2.84"]
    assert len(both) == len(encoder) == 3
    below = [run.bleu for run in evidence.curve("postln_warm")[0.002] if not evidence.trained(run)]
    assert sorted(map(round, below)) == [34, 35]
    explored = min(run.bleu for run in committed.archive().evidence["multi30k6"].curve("postln_warm")[0.002])
    assert 2 < explored - max(below) < explored - min(below) < 3.5
    without = [run for runs in evidence.curve("postln_nowarm").values() for run in runs]
    assert len(without) >= 12 and not any(map(evidence.trained, without))
    low = [evidence.curve(arm)[0.0005] for arm in ("postln_warm", "postln_nowarm")]
    gains = [ramp.bleu - none.bleu for ramp, none in zip(*low, strict=True)]
    assert [round(gain, 1) for gain in gains] == [2.0, 3.8, 1.7]
    lowest = [run for part in (evidence, committed.archive().evidence["multi30k6"])
              for run in part.curve("postln_nowarm")[0.0005]]  # fmt: skip
    assert len(lowest) == 4 and 27.9 < min(run.bleu for run in lowest) < max(run.bleu for run in lowest) < 31
    alone = evidence.curve("postln_warm_encoder")[0.002]
    lows = [{stack: min(norms.values()) for stack, norms in relative_gradients(run).items()} for run in alone]
    assert len(alone) == 3 and max(run.bleu for run in alone) < 0.1
    assert all(low["encoder"] > 0.01 and low["decoder"] < 1e-6 for low in lows)
    assert all(0.03 < gradients[max(gradients)] < 0.12 for run in evidence.curve("postln_nowarm")[0.001]
               if (gradients := relative_gradients(run)["encoder"])), "they recover"  # fmt: skip
    high = evidence.curve("postln_warm")[0.004]
    assert len(high) == 3 and not any(map(evidence.trained, high))
    assert all(min(norms.values()) > 0.01 for run in high for norms in relative_gradients(run).values())
    shrunk = evidence.curve("shrunk_nowarm")[0.001]
    falls = [min(relative_gradients(run)["decoder"].values()) < 1e-4 for run in shrunk]
    assert falls == [not evidence.trained(run) for run in shrunk] == [True, False, False]
    assert 0.01 < max(relative_gradients(shrunk[0])["decoder"].items())[1] < 0.1, "it recovers in part"
    smaller = evidence.curve("shrunksignal_nowarm")[0.001]
    highest = max(max(cosines(run)["encoder"].values()) for run in smaller)
    assert [*map(evidence.trained, smaller)] == [False, True, True] and f"{highest:.2f}" == "0.93"
    assert 0.85 < smaller[0].bleu * (TRAINS / evidence.relative_bleu(smaller[0]) - 1) < 0.95
    faster, slower = (curves(evidence)[arm].means for arm in (FASTER, SLOWER))
    assert catches_up(faster, slower) == (8, 15)


def test_the_ramp_that_post_ln_needs_grows_with_the_rate_and_pre_ln_hardly_needs_any() -> None:
    archive = committed.archive()
    post, pre = (counted(archive, maps(archive)[norm]) for norm in ("postln", "preln"))
    needed = {0.001: 0, 0.002: 100, 0.004: 400, 0.008: 800}
    for (length, rate), (trained, runs) in post.items():
        assert runs >= 3 and (trained == runs) is (length >= needed[rate] and (length, rate) != (12, 0.001))
    assert all((trained == runs) is ((length, rate) != (0, 0.008)) for (length, rate), (trained, runs) in pre.items())
    assert pre[0, 0.008] == (5, 10) and len(post) == len(pre) == 8 * 4


def test_by_smoothed_loss_the_arms_are_best_below_their_limits_and_nll_does_not_rank_them() -> None:
    evidence, best = committed.archive().replication["toy"], {}
    for arm in (*arms_of("postln"), *arms_of("preln")):
        curve = evidence.curve(arm)
        rate = lowest_loss(curve)
        best[arm] = rate, round(fmean(run.loss for run in curve[rate]), 3)
        assert fmean(run.nll for run in curve[rate]) < 0.13 < -math.log2(0.9)
    assert best == {
        "postln_nowarm": (0.001, 1.442), "postln_warm": (0.002, 1.354),
        "preln_nowarm_anchored": (0.002, 1.33), "preln_warm": (0.004, 1.327),
    }  # fmt: skip
    explored = committed.archive().evidence["toy"].arms
    (nll, loss), (other_nll, other_loss) = (
        (fmean(run.final_nll for run in explored[arm].values()), fmean(run.loss for run in explored[arm].values()))
        for arm in ("admin_warm", "postln_warm")
    )
    assert [round(value, 3) for value in (nll, loss, other_nll, other_loss)] == [0.115, 1.332, 0.099, 1.353]


def test_at_two_rates_on_multi30k_no_run_of_post_ln_trains_without_warm_up_and_most_do_with_it() -> None:
    parts = [part["multi30k6"] for part in (committed.archive().evidence, committed.archive().replication)]

    def trained(arm: str) -> tuple[int, int]:
        runs = [part.trained(run) for part in parts for rate in (0.001, 0.002) for run in part.curve(arm).get(rate, ())]
        return sum(runs), len(runs)

    assert (trained("postln_nowarm"), trained("postln_warm")) == ((0, 18), (14, 16))
    for arm in arms_of("preln"):
        trains, runs = trained(arm)
        assert trains == runs >= 11
    none, ramp = (part.curve(arm) for part, arm in zip(parts, arms_of("preln"), strict=True))
    assert [sum(map(parts[0].trained, none[rate])) for rate in (0.004, 0.008)] == [2, 0]
    assert [[*map(parts[1].trained, ramp[rate])] for rate in (0.004, 0.008)] == [[True] * 3] * 2
    assert [*map(parts[1].trained, ramp[0.016])] == [False] * 3


@pytest.mark.parametrize(("setting", "gains"), [
    ("toy", {0.0005: 1.37, 0.001: 1.33, 0.002: 1.44, 0.004: 2.08}),
    ("multi30k6", {0.001: 1.56, 0.002: 2.23}),
])  # fmt: skip
def test_pre_ln_is_faster_at_every_rate_and_most_near_post_lns_limit(setting: str, gains: dict[float, float]) -> None:
    evidence, speed = committed.archive().replication[setting], TIMES_TO_FALL[0.9]
    for rate, gain in gains.items():
        slow, fast = ({run.seed: run for run in evidence.curve(arm)[rate]} for arm in ("postln_warm", "preln_warm"))
        assert round(speed.effect([speed.of(slow[seed], fast[seed]) for seed in slow]).value, 2) == gain


def test_tokens_become_alike_in_every_run_of_post_ln_at_too_high_a_rate_and_without_warm_up_at_once() -> None:
    evidence, collapsed = committed.archive().replication["toy"], 0
    highest: list[float] = []
    for arm, early in (("postln_nowarm", True), ("postln_warm", False), ("preln_nowarm_anchored", True)):
        curve = evidence.curve(arm)
        above = [run for rate, runs in curve.items() if rate >= lowest_loss(curve) for run in runs]
        failing = [run for run in above if not evidence.trained(run)]
        alike = [cosines(run)["encoder"] for run in failing]
        assert len(alike) >= 12 and all((curve[8] > 0.99) is early for curve in alike)
        if arm.startswith("postln"):
            collapsed += len(failing)
            assert all(curve[max(curve)] > 0.75 and max(curve.values()) > 0.98 for curve in alike)
            assert all(min(relative_gradients(run)["encoder"].values()) < 1e-4 for run in failing)
            of_arm = [run for runs in curve.values() for run in runs if evidence.trained(run)]
            assert all(min(relative_gradients(run)["encoder"].values()) > 1e-3 for run in of_arm)
            highest += [max(cosines(run)["encoder"].values()) for run in of_arm]
    assert collapsed == 40
    assert [sum(cosine > limit for cosine in highest) for limit in (0, 0.98, 0.999)] == [30, 12, 5]
    last = [probes(run, "collapse") for run in evidence.curve("postln_nowarm")[0.004]]
    losses = [values[max(values)]["nll"] for values in last]
    assert all(7 < loss["eval"] < 9 and 5 < loss["dropout"] < 5.5 for loss in losses)


def test_a_burst_of_16_updates_delays_post_ln_unless_the_encoder_is_new() -> None:
    evidence = committed.archive().replication["toy"]

    def seeds(arm: str, rate: float) -> list[Run]:
        runs = evidence.curve(f"{arm}_nowarm_burst{'' if rate < 0 else '16'}")[abs(rate)]
        assert len(runs) == 5
        return runs

    pre, post = seeds("preln", 0.02), seeds("postln", 0.005)
    assert not any(map(evidence.trained, seeds("preln", -0.02)))
    for run in (*pre, *post):
        curve = cosines(run)["encoder"]
        assert curve[16] > 0.99, "they collapse"
        if run in pre:
            assert 0.15 < curve[max(curve)] < 0.305
    assert all(map(evidence.trained, evidence.curve("postln_nowarm_burst16_newencoderweights")[0.005]))
    for reset, low, high in (("", 5.8, 6.0), ("_newadam", 3.1, 4.6)):
        runs = evidence.curve(f"postln_nowarm_burst16{reset}")[0.005]
        assert all(low < (run.record.epochs[0].valid_nll_loss or 0) < high for run in runs)
    bursts = [run for run in committed.archive().kept.runs if "_burst16" in run.record.exp]
    longer = {(run.record.exp, run.seed): run.bleu for run in bursts if run.experiment.train.max_epoch == 9}
    smaller = [run.bleu for run in bursts if run.experiment.optimizer.eps == 1e-14]
    assert len(smaller) == 4 and max(smaller) < 12
    assert {place: round(bleu) for place, bleu in longer.items()} == {
        ("toy_postln_nowarm_burst16", 101): 17, ("toy_postln_nowarm_burst16", 102): 17,
        ("toy_postln_nowarm_burst16_newdecoder", 101): 99, ("toy_postln_nowarm_burst16_newdecoder", 102): 34,
    }  # fmt: skip


def test_of_changed_branches_only_those_centred_in_both_passes_need_no_ramp() -> None:
    evidence = committed.archive().replication["toy"]

    def alike(norm: str, rate: float, at: int) -> tuple[list[float], list[float]]:
        """Return mean cosine and mean squared cosine of the encoder's tokens in each run of an arm."""
        probed = [probes(run, "collapse")[at] for run in evidence.curve(f"{norm}_nowarm")[rate]]
        return ([values["cosine"]["encoder"][-1] for values in probed],
                [values["squared_cosine"]["encoder"] for values in probed])  # fmt: skip

    assert sorted(round(run.bleu) for run in evidence.curve("shrunk_nowarm")[0.002]) == [2, 13, 24, 31, 100]
    assert max(alike("centred", 0.002, 256)[1]) < 0.1, "never alike"
    assert min(alike("shrunk", 0.002, 32)[0]) > 0.99, "alike at first"
    cosines, squared = alike("centredfull", 0.002, 1200)
    assert max(map(abs, cosines)) < 0.1 and min(squared) > 0.99, "on a line, in both directions"
    higher = evidence.curve("centred_nowarm")[0.004]
    assert len(higher) == 3 and max(run.bleu for run in higher) < 1
    assert all(relative_gradients(run)["decoder"][256] < 2e-5 for run in higher)
    _, partly = alike("centredforward", 0.002, 1200)
    assert min(partly) > 0.39 and max(partly) < 0.94
    forwards = evidence.curve("centredforward_nowarm")[0.002]
    assert all(relative_gradients(run)["encoder"][1200] > 0.02 for run in forwards), "the gradient remains"
    full = evidence.curve("centredfull_nowarm")[0.002]
    assert all(relative_gradients(run)["encoder"][1200] < 1e-4 for run in full)
    with_ramps = [updates_to_learn(evidence, "postln", arm) for arm in ("warm", "warm_encoder", "warm_decoder")]
    assert min(min(seeds) for of_arm in with_ramps for seeds in of_arm.values()) > 400
    assert max(updates_to_learn(evidence, "centred", "nowarm")[0.002]) < 310
    assert sorted(updates_to_learn(evidence, "shrunksignal", "nowarm")[0.002])[2] < 410, "three are almost as fast"


def test_the_rate_alone_separates_the_probed_runs_almost_as_well_as_the_gradient() -> None:
    evidence = committed.archive().replication["toy"]
    probed = [run for run in evidence.of_arms(ARMS) if not np.isnan(VANISHING.of(run))]
    failing, training = ([(run.seed, run.record.axes.lr) for run in probed if outcome(run)]
                         for outcome in (evidence.failed, evidence.trained))  # fmt: skip
    assert f"{area_under_curve(failing, training).value:.2f}" == "0.90"
    assert f"{separation(evidence, VANISHING).effect.value:.2f}" == "0.93"
    assert {len({run.seed for run in evidence.of_arms([arm])}) for arm in ARMS[3:]} == {3}


def test_in_the_papers_model_the_stacks_without_a_ramp_collapse_in_the_first_epochs() -> None:
    archive = committed.archive()
    ended = [run for run in archive.kept.runs if run.record.setting == "iwslt-60"]
    scored = {run.record.exp: round(run.record.bleu.test.score, 1) for run in ended if run.record.bleu.test}
    assert scored == {"iwslt_preln_nowarm_anchored": 21.7, "iwslt_preln_warm": 17.1}
    assert len(archive.stopped) == 4 and not any(run.record.bleu.test for run in archive.stopped)
    (falling,) = (run for run in archive.stopped if run.record.exp.endswith("_decoder"))
    assert falling.final_nll == min(row.valid_nll_loss or 0 for row in falling.record.epochs)
    (in_fp32,) = (run for run in ended if run.record.axes.precision == "fp32")
    for run in (in_fp32, *archive.stopped):
        start, early = (probes(run, "collapse")[update] for update in (0, 32))
        for stack in ("encoder", "decoder"):
            ramp = run.record.exp.endswith(("_warm", f"_warm_{stack}"))
            gradient = early["gradient"][f"{stack}.w2"] / start["gradient"][f"{stack}.w2"]
            assert (early["cosine"][stack][-1] > 0.999, gradient < 1e-4) == (not ramp, not ramp)


def test_new_seeds_of_berts_largest_rates() -> None:
    evidence = committed.archive().replication["wikinews"]
    trained = {(exp, rate): [*map(evidence.trained, runs)] for exp in ("postln_warm_linear", "preln_nowarm_linear")
               for rate, runs in evidence.curve(exp).items()}  # fmt: skip
    assert {key: (sum(seeds), len(seeds)) for key, seeds in trained.items()} == {
        ("postln_warm_linear", 0.003): (5, 5), ("postln_warm_linear", 0.01): (0, 5),
        ("preln_nowarm_linear", 0.003): (5, 5), ("preln_nowarm_linear", 0.01): (5, 5),
        ("preln_nowarm_linear", 0.02): (2, 5),
    }  # fmt: skip


def test_under_sgd_equal_layer_norms_harm_post_ln() -> None:
    runs = [run for run in committed.archive().kept.runs if run.record.exp.endswith("_sgd_long")]
    bleus = defaultdict[tuple[float, bool, str], list[int]](list)
    for run in (run for run in runs if (run.experiment.lr, run.seed > 100) in ((0.2, True), (0.5, False))):
        equal = run.experiment.optimizer.equal_layer_norms
        bleus[run.experiment.lr, equal, run.record.exp.split("_")[2]].append(round(run.bleu))
    assert {key: sorted(of_key) for key, of_key in bleus.items()} == {
        (0.2, False, "warm"): [99, 100, 100, 100, 100], (0.2, False, "nowarm"): [99, 99, 99, 99, 99],
        (0.2, True, "warm"): [80, 96, 99, 99, 99], (0.2, True, "nowarm"): [61, 64, 65, 69, 76],
        (0.5, False, "warm"): [59], (0.5, False, "nowarm"): [96], (0.5, True, "warm"): [54], (0.5, True, "nowarm"): [8],
    }  # fmt: skip


def test_under_sgd_every_seed_of_post_ln_is_faster_with_warm_up() -> None:
    toy = committed.archive().replication["toy"]
    ramped, plain = (toy.curve(f"postln_{warmup}_sgd_long")[0.2] for warmup in ("warm", "nowarm"))
    early = [sorted(round(run.curve("test_bleu_tokenised")[5]) for run in runs) for runs in (ramped, plain)]
    assert [(bleu[0], bleu[-1]) for bleu in early] == [(62, 99), (48, 84)]
    for with_ramp, without in zip(ramped, plain, strict=True):
        assert with_ramp.seed == without.seed and with_ramp.nll < without.nll
        assert with_ramp.curve("test_bleu_tokenised")[5] > without.curve("test_bleu_tokenised")[5]
