"""What the paper found reproduces each claim, what lies beyond its limits does not, and few seeds say nothing."""

import math

import pytest

from ln_repro.claims import metrics
from ln_repro.claims.criteria import Claim, OverRates, Trains, Within
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import LINEAR
from ln_repro.claims.judge import CLAIMS as ALL
from ln_repro.claims.judge import Archive, Judged, Row, claim_rows, row_of
from ln_repro.claims.metrics import BLEU, SEEDS, SHARE, more_seeds
from ln_repro.claims.over_rates import JustAboveNothing
from ln_repro.claims.rules.bert import FINE_TUNING
from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.claims.rules.x import DeepAlone
from ln_repro.experiment.compose import compose, expand
from ln_repro.experiment.settings import build
from ln_repro.records.archive import Kept, Run
from ln_repro.sweep.grid import parse_request
from tests.claims.made import EPOCHS, Arms, gathered, line, made, made_runs, named, on_rates

CLAIMS = {claim.id: claim for claim in ALL}
MEASURED = [claim.id for claim in ALL if claim.rule and claim.rule.judged and claim not in FINE_TUNING
            and not any(isinstance(part, DeepAlone) for part in claim.rule.criteria)]  # fmt: skip
"""Those judged on the paper's data by loss or BLEU at one depth; of the others see below and test_bert."""
FAST = {"bleu": 33.4, "bleus": [*line(0, 33, 10)[1:], *line(33, 33.4, 7)[1:]], "losses": [*line(9, 4, 9), *[4.0] * 6]}
SLOW = {"bleu": 33.1, "bleus": line(0, 33.1, EPOCHS + 1)[1:], "losses": line(9, 4, EPOCHS)}
"""Pre-LN and Post-LN by epoch."""
STEEP, FLAT = line(8, 3, EPOCHS), line(8, 8 - 5 / 1.4, EPOCHS)
"""A validation loss that falls as long as the run lasts."""
PROBES = {0: [0.1, 0.5, 1.6], 4000: [0.015] * 3}
PAPER: Arms = {  # what the paper found, by arm
    "postln_warm": {**SLOW, "probes": PROBES, "axes": {"warmup_updates": 4000}}, "postln_warm_high": SLOW,
    "postln_nowarm": {"bleu": 8.45, "loss": 7.0}, "postln_nowarm_literal": {"bleu": 8.45, "loss": 7.0},
    "postln_nowarm_literal_high": {"bleu": 2.0, "loss": 7.5},
    "postln_warm_short": {"bleu": 31.16}, "postln_warm_short_high": {"bleu": 2.77, "loss": 7.0},
    "postln_warm_sgd": {"bleu": 12.0}, "postln_warm_sgd_low": {"bleu": 4.0},
    "postln_nowarm_sgd": {"bleu": 1.0}, "postln_nowarm_sgd_low": {"bleu": 0.5},
    "postln_nowarm_sgd_literal": {"bleu": 1.0}, "postln_nowarm_sgd_low_literal": {"bleu": 0.5},
    "preln_nowarm": FAST, "preln_nowarm_high": FAST,
    "postln_nowarm_radam": {"bleu": 32.1}, "preln_nowarm_radam": {"bleu": 33.5},
    "postln_nowarm_fixed": {"loss": 4.3},
    "rezero_nowarm": {"bleu": 32.0}, "rezero_nowarm_step": {"bleu": 32.0}, "preln_nowarm_anchored": {"bleu": 33.0},
    "admin_warm": {"bleu": 33.2}, "admin_warm_closed": {"bleu": 33.0},
    "preln_nowarm_literal": {"bleu": 15.6},
    "postln_warm_linear": {"losses": FLAT, "loss": FLAT[-1]}, "postln_warm_linear_high": {"loss": 7.0},
    "preln_nowarm_linear_high": {"losses": STEEP, "loss": 3.0},
}  # fmt: skip
RISING = [made(bleus=line(0, end, EPOCHS + 1)[1:]) for end in (30, 45)]
FALLING = [made(losses=[9 - bleu / 10 for bleu in line(0, end, EPOCHS + 1)[1:]]) for end in (30, 45)]
UNEQUAL = [made(losses=losses) for losses in ((3.0, 2.5, 1.0), (4.0, 4.0), (2.0, 2.25))]
"""Losses after every epoch of runs that are compared after the same number of epochs."""


@pytest.mark.parametrize(("metric", "runs", "value"), [
    (metrics.EPOCHS_TO_BLEU, RISING, 1.5),  # 45 BLEU in 15 epochs has the other's 18 of epoch 9 after 6
    (metrics.EPOCHS_TO_LOSS, FALLING, 1.5),
    (metrics.LATE_MINUS_EARLY, RISING, 3.0),
    (metrics.LOSS_GAP, [UNEQUAL[0], UNEQUAL[2]], 0.25),
    (metrics.ABOVE_THE_BETTER, UNEQUAL, 0.25),
    (metrics.DOMINANCE_BLEU, [made(bleu=bleu) for bleu in (30, 33, 35)], 1.0),
    (metrics.DOMINANCE_LOSS, [made(loss=loss) for loss in (4, 3, 3.5)], 0.5),
    (metrics.RAMP_BY_RATE, [made(loss=loss) for loss in (5, 4, 3, 8, 7, 5)], 1.0),
    (metrics.TIMES_TO_FINAL_BLEU, RISING, 1.5),
])  # fmt: skip
def test_metrics_by_hand(metric: metrics.Metric, runs: list[Run], value: float) -> None:
    assert metric.of(*runs) == pytest.approx(value)


def of_paper(id: str, changed: Arms | None = None) -> Arms:
    """Return what the paper found of a claim's arms, some of it changed."""
    return {arm: {**PAPER[arm], **(changed or {}).get(arm, {})} for arm in CLAIMS[id].rule.arms}


def on_paper(id: str, changed: Arms | None = None, seeds: int = SEEDS) -> Judged:
    return row(id, made_runs(CLAIMS[id].setting, of_paper(id, changed), seeds)).own


def row(id: str, explored: list[Run], replication: list[Run] | None = None) -> Row:
    return row_of(CLAIMS[id], gathered(explored), gathered(replication or []))


@pytest.mark.parametrize("id", MEASURED)
def test_what_the_paper_found_reproduces_the_claim_over_enough_seeds(id: str) -> None:
    found = on_paper(id)
    assert (found.verdict, found.needs, found.seeds) == ("reproduced", None, SEEDS), found.ours
    assert len(found.evidence) == len(set(found.evidence)) == len(CLAIMS[id].rule.arms) * SEEDS
    few = on_paper(id, seeds=3)
    assert (few.verdict, few.needs) == ("inconclusive", "2 seeds")


@pytest.mark.parametrize(("id", "changed", "verdict"), [
    ("MT-1", {"postln_nowarm_literal": {"bleu": 1.0}}, "inconclusive"),  # it fails more than in the paper
    ("MT-1", {"postln_nowarm_literal": {"bleu": 16.0}}, "contradicted"),
    ("MT-2", {"postln_warm_short_high": {"bleu": 20.0}}, "contradicted"),
    ("MT-3", {"postln_nowarm_sgd_literal": {"bleu": 3.0}}, "contradicted"),
    ("MT-4", {"preln_nowarm": {"bleu": 30.0}}, "contradicted"),
    ("MT-5", {"preln_nowarm": {**FAST, "bleus": [*line(0, 34.5, 10)[1:], *[34.5] * 6]}}, "inconclusive"),
    ("MT-5", {"preln_nowarm": SLOW}, "contradicted"),
    ("MT-6", {"postln_nowarm_radam": {"bleu": 20.0}}, "contradicted"),
    ("MT-7", {"postln_nowarm_fixed": {"loss": 3.9}}, "contradicted"),
    ("BERT-1", {"postln_warm_linear": {"losses": line(8, 5.5, EPOCHS)}}, "inconclusive"),
    ("X-2", {"rezero_nowarm": {"bleu": 20.0}}, "contradicted"),
])  # fmt: skip
def test_what_lies_beyond_a_limit_is_not_reproduced(id: str, changed: Arms, verdict: str) -> None:
    assert on_paper(id, changed).verdict == verdict


def test_needed_seeds_follow_from_the_square_root() -> None:
    values = [value + 0.5 for value in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    half = 2.776 * 2.5**0.5 / 5**0.5  # it falls to the distance of 0.5 with about 16 times as many seeds
    assert more_seeds(values, [(0.0, math.inf)], LINEAR) == f"about {math.ceil(5 * (half / 0.5) ** 2)} seeds"
    assert more_seeds([2.0, 2.1, 1.9], [(0.0, 1.0)], LINEAR) is None
    assert more_seeds([1.0], [(0.0, 1.0)], LINEAR) == "5 seeds"


def test_the_replication_stands_once_it_is_decided_or_has_all_seeds() -> None:
    rates = (1e-3, 2e-3, 4e-3, 8e-3, 16e-3)
    both = {arm: {rate: [80.0 * (rate <= highest)] * 5 for rate in rates}
            for arm, highest in (("postln_warm", 8e-3), ("postln_nowarm", 1e-3))}  # fmt: skip
    none = {**both, "postln_nowarm": both["postln_warm"]}
    few = {arm: {rate: bleus[:2] for rate, bleus in rates.items()} for arm, rates in both.items()}
    for explored, new, standing, before, replicated in (
        (both, both, "reproduced", "reproduced", "reproduced"),
        (both, few, "reproduced", "reproduced", "inconclusive"),
        (both, none, "inconclusive", "reproduced", "inconclusive"),
        (both, {}, "reproduced", "reproduced", None),
        ({}, both, "reproduced", None, "reproduced"),
    ):
        (judged,) = row("MT-1.anchored", on_rates("toy", explored), on_rates("toy", new)).others
        assert (judged.verdict, judged.explored, judged.replicated) == (standing, before, replicated)
        assert f" seeds={'1-5' if new in (few, {}) else '101-105'} " in (judged.command or "")
    arms = {"postln_warm": SLOW, "preln_nowarm_anchored": FAST}
    (unjudged,) = row("MT-5.bleu", made_runs("toy", arms), made_runs("toy", arms, seeds=1)).others
    assert unjudged.replication.endswith("(1 seed)"), "it needs nothing"


def test_a_claim_that_runs_suggested_is_judged_on_new_ones_alone() -> None:
    whole, lone, two = [80.0] * 5, [0.0] * 4 + [80.0], [0.0] * 3 + [80.0] * 2
    encoder, decoder = "postln_warm_encoder", "postln_warm_decoder"
    plain, burst, new = "postln_nowarm", "postln_nowarm_burst", "postln_nowarm_burst16_new"
    learnt = "centredgradient_nowarm"
    for id, arms, verdict, needs in (
        ("X-5b", {encoder: {2e-3: whole}, decoder: {2e-3: lone}}, "reproduced", None),
        ("X-5b", {encoder: {2e-3: whole}, decoder: {2e-3: two}}, "contradicted", None),
        ("X-5b", {encoder: {2e-3: whole[:4]}, decoder: {2e-3: two}}, "inconclusive", f"seeds: 1 of {encoder} at 0.002"),
        ("X-5d", {plain: {5e-4: whole}, burst: {5e-3: lone}}, "reproduced", None),
        ("X-5d", {plain: {5e-4: whole}, burst: {5e-3: two}}, "contradicted", None),
        ("X-7a", {"preln_nowarm_burst16": {2e-2: whole}, "postln_nowarm_burst16": {5e-3: lone}}, "reproduced", None),
        ("X-7b", {f"{new}encoder": {5e-3: whole}, f"{new}decoder": {5e-3: lone}, f"{new}adam": {5e-3: two}},
         "contradicted", None),
        ("X-8a", {"centred_nowarm": {2e-3: whole}, plain: {2e-3: lone}}, "reproduced", None),
        ("X-8c", {learnt: {2e-3: whole[:4]}, plain: {2e-3: lone}}, "inconclusive", f"seeds: 1 of {learnt} at 0.002"),
        ("X-8b", {"shrunk_nowarm": {2e-3: whole}, "centredfull_nowarm": {2e-3: two}}, "contradicted", None),
    ):  # fmt: skip
        assert row(id, on_rates("toy", arms)).others == []
        (judged,) = row(id, [], on_rates("toy", arms)).others
        assert (judged.verdict, judged.needs) == (verdict, needs)
    expected = (([80.0] * 3, "reproduced"), ([80.0] * 2 + [0.0], "contradicted"), ([80.0] * 2, "inconclusive"))
    for bleus, verdict in expected:
        for id, scheme in (("X-8b", "shrunk"), ("X-8e", "shrunksignal")):
            arms = {f"{scheme}_nowarm": {1e-3: bleus}, plain: {1e-3: [0.0] * 3}}
            (judged,) = row(id, [], on_rates("multi30k6", arms)).others
            assert judged.verdict == verdict


@pytest.mark.parametrize(("encoder", "decoder", "seeds", "verdict"), [
    ("FAST", "SLOW", 5, "reproduced"), ("SLOW", "SLOW", 5, "contradicted"),
    ("FAST", "FAST", 5, "contradicted"), ("FAST", "SLOW", 4, "inconclusive"),
])  # fmt: skip
def test_x6_and_x8d_compare_speed_at_one_rate(encoder: str, decoder: str, seeds: int, verdict: str) -> None:
    arms = {"postln_nowarm": "SLOW", "postln_warm_encoder": encoder, "postln_warm_decoder": decoder,
            "centred_nowarm": encoder}  # fmt: skip
    curves = {"FAST": FAST["losses"], "SLOW": SLOW["losses"]}
    runs = [made(f"toy_{arm}", seed, lr=rate, losses=curves["SLOW" if rate > 5e-4 else speed])
            for arm, speed in arms.items() for rate in (5e-4, 1e-3) for seed in range(1, seeds + 1)]  # fmt: skip
    (judged,) = row("X-6", [], runs).others
    assert judged.verdict == verdict
    assert (judged.needs or "").count("1 seed of") == 2 * (seeds < 5)
    assert judged.effect and judged.effect.value == pytest.approx(13.6 / 8.2 if encoder == "FAST" else 1.0)
    (judged,) = row("X-8d", [], runs).others
    expected = "reproduced" if encoder == "FAST" else "contradicted"
    assert judged.verdict == (expected if seeds == 5 else "inconclusive")


def test_runs_without_the_probes_of_a_report_are_not_counted() -> None:
    probed = [made("toy_postln_warm", seed, probes={0: [4.0], 400: [1.0]}) for seed in (1, 2)]
    (judged,) = row("TH-10", [], [*probed, made("toy_postln_warm", 3)]).others
    assert judged.seeds == 2 and judged.effect and judged.effect.value == pytest.approx(0.25)


@pytest.mark.parametrize(("decoded", "effects"), [
    (tuple(range(1, EPOCHS + 1)), [1.5, 3.0, 1.5]), ((9, 15), [math.nan, 3.0, math.nan]), ((15,), [math.nan] * 3),
])  # fmt: skip
def test_bleu_after_an_epoch_that_was_not_decoded_is_unknown(decoded: tuple[int, ...], effects: list[float]) -> None:
    post, pre = (
        made(bleus=[bleu if epoch in decoded else None for epoch, bleu in enumerate(line(0, end, EPOCHS + 1)[1:], 1)],
             eval__epochs=decoded)
        for end in (30, 45)
    )  # fmt: skip
    found = (metrics.EPOCHS_TO_BLEU, metrics.LATE_MINUS_EARLY, metrics.TIMES_TO_FINAL_BLEU)
    assert [metric.of(post, pre) for metric in found] == pytest.approx(effects, nan_ok=True)


def test_a_loss_that_some_run_does_not_reach_is_said() -> None:
    arms = {"postln_warm": FAST["losses"], "postln_warm_encoder": [9.0] * EPOCHS}
    runs = [made(f"multi30k6_{arm}", seed, lr=1e-3, losses=arms[arm]) for arm in arms for seed in range(1, 4)]
    (judged,) = row("X-6", [], runs).others
    assert (judged.verdict, judged.ours) == ("contradicted", "epochs: not within every run")


@pytest.mark.parametrize(("hits", "verdict"), [(4, "reproduced"), (3, "inconclusive"), (1, "contradicted")])
def test_an_arm_of_which_some_seeds_train_neither_trains_nor_fails(hits: int, verdict: str) -> None:
    runs = {seed: made(seed=seed, bleu=30.0 if seed <= hits else 1.0) for seed in range(1, 6)}
    evidence = Evidence({"postln_nowarm_radam": runs}, {"preln_warm": {1e-3: {1: made(bleu=30.0)}}})
    finding = Trains("postln_nowarm_radam", least=SHARE).judge(evidence)
    assert (finding.verdict, finding.needs) == (verdict, "10 seeds" if verdict == "inconclusive" else None)


@pytest.mark.parametrize("epochs", [0, 3])
@pytest.mark.parametrize("id", MEASURED)
def test_every_rule_can_be_judged_when_a_run_of_any_arm_diverged_at_once_or_later(id: str, epochs: int) -> None:
    rules = {CLAIMS[id].setting: CLAIMS[id].rule, "toy": CLAIMS[id].others}
    for setting, rule in rules.items():
        arms = {arm for criterion in rule.criteria for arm in criterion.arms} if rule else ()
        runs = made_runs(setting, {arm: PAPER.get(arm, {}) for arm in arms})
        for arm in arms:
            ended = made(f"{setting}_{arm}", 3, 0.0, losses=[4.0] * epochs + [None], rule="not_finite")
            judged = row(id, [run for run in runs if run.record.id != ended.record.id] + [ended])
            assert "not-run" not in {result.verdict for result in (judged.others if setting == "toy" else [judged.own])}


def test_equal_scores_are_not_above_one_another() -> None:
    evidence = Evidence({"postln_warm": {seed: made(seed=seed, bleu=0.0) for seed in (1, 2)}})
    assert Within(BLEU, ("postln_warm",), 0.0).judge(evidence).verdict == "inconclusive"


def test_without_a_run_of_an_arm_the_claim_is_not_run_and_says_what_to_run() -> None:
    claim = row("MT-1.anchored", made_runs("iwslt", {"postln_warm": {}}))
    assert (claim.own.verdict, claim.own.needs) == ("not-run", "runs of postln_nowarm")
    assert claim.own.command == "ln-repro run -m exp=iwslt_postln_warm,iwslt_postln_nowarm seed=1,2,3,4,5"
    assert claim.cost_gpu_hours == 10
    everything = claim_rows(Archive(Kept([], [], {}, {}), named, {}, {}, {}, []))  # type: ignore[arg-type]
    assert [claim.own.verdict for claim in everything] == ["not-run"] * (len(ALL) + len(STATEMENTS))
    assert all(claim.own.command for claim in everything), "also of claims that are judged on other data alone"


@pytest.mark.parametrize("id", MEASURED)
def test_what_a_claim_says_to_run_can_be_run(id: str) -> None:
    claim = CLAIMS[id]
    program, verb, multirun, *overrides = row(id, []).own.command.split(" ")
    assert (program, verb, multirun) == ("ln-repro", "run", "-m")
    arms, runs = dict.fromkeys((*claim.rule.arms, *claim.controls)), expand(overrides)
    assert len(runs) == len(arms) * SEEDS
    assert [build(compose(run)).exp for run in runs[::SEEDS]] == [f"{claim.setting}_{arm}" for arm in arms]


@pytest.mark.parametrize("claim", [claim for claim in ALL if claim.grid], ids=lambda claim: claim.id)
def test_the_sweep_that_a_claim_suggests_has_the_arms_that_it_compares(claim: Claim) -> None:
    request = parse_request([f"grid={word}" if at == 0 else word for at, word in enumerate(claim.grid.split())])
    parts = [part for rule in (claim.others, *claim.by_setting.values()) if rule for part in rule.criteria]
    over_rates = [part for part in parts if isinstance(part, OverRates) and not isinstance(part, JustAboveNothing)]
    compared = {arm for part in over_rates for arm in part.arms}
    assert {*request.arms} >= compared or not request.arms


def test_a_rule_says_how_many_of_its_records_are_older() -> None:
    runs = made_runs("iwslt", of_paper("MT-2"))
    for run, time in zip(runs, ("2026-11-21T14:29:59Z", "2026-11-21T14:30:01Z"), strict=False):
        run.record.started = time
    assert row("MT-2", runs).own.older == 1


BOTH, ALONE = {"postln_warm": 33.0, "deepnorm_warm": 33.0}, {"postln_warm": 2.0, "deepnorm_warm": 33.0}


def at_depths(setting: str, depths: dict[int, dict[str, float]], seeds: int = 5) -> list[Run]:
    """Return runs by number of layers: the BLEU of each arm."""
    return [made(f"{setting}_{arm}", seed, bleu, model__layers=layers) for layers, arms in depths.items()
            for arm, bleu in arms.items() for seed in range(1, seeds + 1)]  # fmt: skip


@pytest.mark.parametrize(("depths", "seeds", "verdict"), [
    ({6: BOTH, 12: ALONE, 18: BOTH}, 5, "reproduced"),
    ({12: ALONE}, 5, "reproduced"),
    ({6: BOTH, 12: ALONE}, 4, "inconclusive"),
    ({6: BOTH, 12: BOTH, 18: BOTH}, 5, "contradicted"),
    ({6: BOTH, 12: BOTH}, 5, "inconclusive"),
    ({6: BOTH, 12: BOTH, 18: {"postln_warm": 33.0}}, 5, "inconclusive"),
    ({}, 5, "not-run"),
])  # fmt: skip
def test_one_depth_at_which_deepnorm_alone_trains_is_enough(depths, seeds: int, verdict: str) -> None:
    own = row("X-1", at_depths("iwslt", depths, seeds)).own
    both = [layers for layers, arms in depths.items() if len(arms) > 1]
    assert (own.verdict, len(own.evidence)) == (verdict, 2 * seeds * len(both))
    others = row("X-1", at_depths("toy", depths, seeds)).others
    assert [other.verdict for other in others] == ([] if verdict == "not-run" else [verdict])


def test_admin_has_to_train_at_18_layers_where_post_ln_does_not() -> None:
    level = made_runs("iwslt", {arm: {"bleu": 33.0} for arm in ("admin_warm", "admin_warm_closed", "postln_warm")})
    for deep, expected in (({}, "inconclusive"), ({18: {"postln_warm": 2.0, "admin_warm": 33.0}}, "reproduced"),
                           ({18: {"postln_warm": 33.0, "admin_warm": 33.0}}, "contradicted")):  # fmt: skip
        assert row("X-3", level + at_depths("iwslt", deep)).own.verdict == expected
