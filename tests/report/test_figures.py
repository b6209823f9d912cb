"""The numbers that figures draw, also by the program in docs/analysis.md, and when a figure is drawn again."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ln_repro.claims.causes import cosines, relative_gradients
from ln_repro.claims.evidence import Arm, ArmOf
from ln_repro.claims.judge import Archive
from ln_repro.claims.lr50 import lr50
from ln_repro.records.archive import Kept, Run
from ln_repro.report import collapse
from ln_repro.report.arena import limit_words
from ln_repro.report.figure_branches import ARMS, RATE, draw_branches
from ln_repro.report.figure_burst import ROWS, draw_burst
from ln_repro.report.figure_collapse import collapses
from ln_repro.report.figure_convergence import FASTER, FIGURE_4B, SLOWER, catches_up, curves, draw_convergence
from ln_repro.report.figure_delay import NEVER, draw_delay, updates_to_learn
from ln_repro.report.figure_initialisation import draw_initialisation
from ln_repro.report.figure_ramp import counted, draw_ramp, maps
from ln_repro.report.figure_rates import FLOOR, NAMES, columns, draw_rates
from ln_repro.report.figures import draw_all
from ln_repro.system.paths import CHECKOUT
from scripts.demo import draw_losses
from tests import committed
from tests.claims.made import collapsing, gathered, made, made_experiment, named, on_rates
from tests.examples import diverged, record, recorded, store

RATES = {
    "postln_nowarm": {1e-3: [90.0] * 5, 2e-3: [0.0] * 5},
    "postln_warm": {1e-3: [90.0] * 5, 2e-3: [90.0] * 5, 4e-3: [90.0, 90.0, 0.0, 0.0, 0.0]},
    "preln_nowarm_anchored": {1e-3: [90.0] * 5, 4e-3: [90.0] * 5},
}


def archive(runs: Sequence[Run], arms: ArmOf = named) -> Archive:
    """Return an archive of runs; those with seeds above 100 are the replication."""
    parts = [gathered([run for run in runs if (run.seed > 100) == later]) for later in (False, True)]
    return Archive(Kept(runs, [], {}, {}), arms, *parts, {}, [])  # type: ignore[arg-type]


def test_the_excess_of_a_run_is_its_last_nll_above_the_best_run_of_both_parts() -> None:
    first = [made("toy_postln_warm", seed, losses=[5.0, last]) for seed, last in ((1, 4.0), (2, 3.0))]
    (column,) = columns(archive([*first, made("toy_postln_warm", 101, loss=2.5)]))
    assert column.excess == [{"postln_warm": {1e-3: [1.5, 0.5]}}, {"postln_warm": {1e-3: [0.0]}}]
    (replicated,) = columns(archive([made("toy_postln_warm", 101)]))
    assert replicated.excess == [{}, {"postln_warm": {1e-3: [0.0]}}]
    assert column.line("postln_warm") == {1e-3: pytest.approx((1.5 * 0.5 * FLOOR) ** (1 / 3))}
    assert column.blind == 7 - 1.5, "a model that ignores the source has 7 bits in made-up records, the best run 1.5"


def test_lr50_stands_in_the_figure_as_in_the_evidence_and_beyond_the_rates_as_an_end() -> None:
    made_up = archive(on_rates("toy", RATES))
    (column,) = columns(made_up)
    limits, _ = column.limits
    expected = lr50(made_up.evidence["toy"], "postln_warm")
    assert expected and limits["postln_warm"].median == expected.median and column.rates == [1e-3, 2e-3, 4e-3]
    assert limit_words(limits["preln_nowarm_anchored"], brief=True) == ">0.004"
    (column,) = columns(archive(on_rates("toy", {"postln_nowarm": {1e-3: [0.0]}, "postln_warm": {1e-3: [90.0] * 3}})))
    assert limit_words(column.limits[0]["postln_nowarm"], brief=True) == "<0.001"


def test_epoch_nine_of_pre_ln_is_epoch_fifteen_of_post_ln_on_multi30k() -> None:
    """The paper's sentence about its figure 4(b), where they have 33.0 and 33.1 BLEU."""
    multi30k = curves(committed.archive().evidence["multi30k6"])
    faster, slower = multi30k[FASTER].means, multi30k[SLOWER].means
    assert catches_up(faster, slower) == (9, 15)
    assert (round(faster[9], 1), round(slower[15], 1)) == (38.1, 38.0)
    assert catches_up({1: 5.0, 2: 5.9}, {1: 2.0, 2: 6.0}) is None
    assert (FIGURE_4B["preln_nowarm"][8], FIGURE_4B["postln_warm"][14]) == (33.0, 33.1)


def test_a_curve_has_means_and_intervals_at_the_epochs_that_all_seeds_have() -> None:
    runs = [made("tatoeba_postln_warm", seed, bleus=[10.0 * seed, 30.0 + seed]) for seed in (1, 2, 3)]
    curve = curves(gathered([*runs, made("tatoeba_postln_warm", 4, bleus=[20.0])])["tatoeba"])["postln_warm"]
    assert curve.means == {1: 20.0} and curve.seeds == 4
    assert curves(gathered([*runs, made("tatoeba_postln_warm", 4, bleus=[None])])["tatoeba"]) == {}
    low, high = curve.intervals[1]
    assert (high - low) / 2 == pytest.approx(3.1824 * (200 / 3) ** 0.5 / 2, abs=1e-3)


def test_curves_are_drawn_also_if_only_some_epochs_were_decoded(tmp_path: Path) -> None:
    decoded = {9: 20.0, 15: 30.0}
    runs = [made(f"tatoeba_{arm}", bleus=[decoded.get(epoch) for epoch in range(1, 16)]) for arm in (FASTER, SLOWER)]
    assert draw_convergence(archive(runs), tmp_path)


def test_gradients_are_relative_to_update_0_and_under_trained_runs_are_left_out() -> None:
    runs = [collapsing("toy_postln_nowarm", rate, bleu, (0.5, 0.001))
            for rate, bleu in ((5e-4, 10.0), (1e-3, 90.0), (2e-3, 0.0))]  # fmt: skip
    drawn = collapses(gathered([*runs, made("toy_preln_warm", bleu=90.0)])["toy"])
    assert drawn == [(runs[1], True), (runs[2], False)]
    assert relative_gradients(runs[1]) == {"encoder": {0: 1.0, 32: 0.002}, "decoder": {0: 1.0, 32: 1.0}}
    assert cosines(runs[1])["decoder"] == {0: 1.0, 32: 1.0}, "of the last layer"
    toy = collapses(committed.archive().replication["toy"])
    assert Counter(trains for _, trains in toy) == {False: 40, True: 15}
    run = collapsing("toy_postln_nowarm", 1e-3, 90.0, (0.0, 0.1))  # as of a branch that is closed before training
    (row,) = collapse.collapse_table([run]).rows
    assert relative_gradients(run)["encoder"] == {} and row[2:6] == ["0.500", "1.000", None, "1"]
    unprobed, early = made("iwslt_preln_warm"), collapsing("iwslt_postln_nowarm", 1e-3, 0.0, (0.5,))
    assert collapse.collapse_table([unprobed, early]).rows == []


@pytest.mark.parametrize(("draw", "arms"), [(draw_burst, ROWS), (draw_branches, [(arm, RATE) for arm in ARMS])])
def test_a_figure_of_several_arms_is_drawn_if_none_is_missing(draw: Any, arms: Any, tmp_path: Path) -> None:
    runs = [collapsing(f"toy_{arm}", rate, 0.0, (0.5, 0.1)) for arm, rate in arms]
    assert draw(archive(runs), tmp_path) and draw(archive(runs[1:]), tmp_path) == []


def test_below_the_limits_a_ramp_on_the_encoder_alone_is_the_best(tmp_path: Path) -> None:
    toy = committed.archive().replication["toy"]
    ramps = ("warm_encoder", "nowarm", "warm_decoder", "warm")
    encoder, *others = (updates_to_learn(toy, "postln", ramp) for ramp in ramps)
    for rate in (5e-4, 1e-3):
        assert all(first < other[rate][seed] for other in others for seed, first in enumerate(encoder[rate]))
    assert encoder[4e-3] == [NEVER] * 5, "it needs both"
    rows = collapse.ramps_table(toy).rows
    assert {row[0] for row in rows} == {"Post-LN", "Pre-LN", "DeepNorm"}
    for _, _, over_lr50, *effects in rows:
        on_encoder, on_decoder, on_both = (float(effect.split()[0][1:]) for effect in effects)
        assert float(over_lr50) < 1 and on_encoder > max(on_decoder, on_both)
    assert draw_delay(archive([]), tmp_path) == []


def test_the_seeds_with_a_ramp_on_a_stack_are_new_if_there_are_some_at_rates_where_the_stack_matters() -> None:
    scores = {("nowarm", 1): [0.0, 90.0], ("warm_encoder", 101): [90.0, 80.0], ("warm_decoder", 101): [5.0],
              ("warm", 101): [100.0]}  # fmt: skip
    runs = [made(f"toy_postln_{ramp}", seed, bleu)
            for (ramp, first), bleus in scores.items() for seed, bleu in enumerate(bleus, first)]  # fmt: skip
    (row,) = collapse.stacks_table(archive(runs)).rows
    assert row[1:] == ["Post-LN", "0.001", "1 of 2* (45.0)", "1 of 2 (85.0)", "0 of 1 (5.0)", "1 of 1 (100.0)"]
    assert collapse.stacks_table(archive([run for run in runs if "decoder" not in run.record.exp])).rows == []
    alike = [made(f"toy_postln_{arm}", 101, 90.0) for arm in ("nowarm", "warm_encoder", "warm_decoder", "warm")]
    assert collapse.stacks_table(archive(alike)).rows == []


def test_how_far_tokens_become_alike_is_shown_by_rate_where_all_runs_were_probed() -> None:
    runs = [collapsing("toy_postln_nowarm", 1e-3, bleu, (0.5, last), seed) for seed, (bleu, last) in
            enumerate(((90.0, 0.25), (10.0, 0.001)), 101)]  # fmt: skip
    unprobed = made("toy_postln_nowarm", 101, lr=2e-3)
    (row,) = collapse.degrees_table(gathered([*runs, unprobed])["toy"]).rows
    assert row == ["Post-LN without warm-up", "0.001", "1 of 2", "0.002 to 0.5", "0.500", "0.50", "10 to 90"]


def test_changed_branches_and_resets_are_compared_on_new_seeds_if_there_are_some() -> None:
    runs = [made(f"toy_{arm}", seed, bleu, lr=rate) for arm, rate, bleu, seed in (
        ("postln_nowarm", 2e-3, 0.0, 101), ("centred_nowarm", 2e-3, 90.0, 101), ("centred_nowarm", 2e-3, 0.0, 1),
        ("preln_nowarm_anchored", 2e-3, 90.0, 1), ("preln_nowarm_burst16", 5e-3, 90.0, 101),
        ("postln_nowarm_burst16_newadam", 5e-3, 10.0, 101), ("postln_nowarm_burst16_newadam", 5e-3, 20.0, 102),
    )]  # fmt: skip
    epochs = [made(f"multi30k6_{arm}", 101, lr=1e-3, losses=[4.0] * 14 + [last])
              for arm, last in (("postln_nowarm", 3.0), ("centred_nowarm", 2.0))]  # fmt: skip
    rows = collapse.branches_table(archive([*runs, *epochs])).rows
    assert [row[:2] for row in rows] == [["Post-LN", "0 of 1"], ["centred", "1 of 1"], ["Pre-LN", "1 of 1*"]]
    assert [row[2] for row in rows] == [None] * 3
    assert [row[-1] for row in rows] == ["2.00", "1.00", None], "the last NLL, which made-up records have 1 bit lower"
    new, whole = (row[2:] for row in collapse.bursts_table(archive(runs)).rows)
    assert new == ["0.0005", "Adam", "0 of 2", "10.0 to 20.0"] and whole == ["0.0005", "nothing", "1 of 1", "90.0"]


def ramped(length: int, rate: float, bleu: float, seed: int, decay: str = "anchored") -> Run:
    """Return a run of Post-LN with a ramp of so many updates."""
    schedule = {"schedule__warmup_updates": length, "schedule__decay": decay, "schedule__anchor": 400}
    run = made("toy_postln_warm", seed, bleu, lr=rate, norm="postln", **schedule)
    run.record.id += f"-{length}-{decay}"
    return run


def test_the_map_of_ramps_is_of_runs_that_differ_in_the_ramp_alone(tmp_path: Path) -> None:
    def arms(exp: str) -> Arm:
        settings: dict[str, Any] = {"norm": exp.split("_")[1], "schedule__decay": "inverse_sqrt"}
        return Arm.of(made_experiment("toy_postln_warm", **settings))

    cells = {(0, 1e-3): 2, (0, 2e-3): 0, (25, 1e-3): 2, (25, 2e-3): 1, (400, 1e-3): 2, (400, 2e-3): 2, (0, 4e-3): 0}
    runs = [ramped(length, rate, 90.0 * (seed <= trained), seed, "inverse_sqrt" if length == 400 else "anchored")
            for (length, rate), trained in cells.items() for seed in (1, 2)]  # fmt: skip
    runs.append(ramped(50, 2e-3, 90.0, 1, "inverse_sqrt"))  # with a tail that is lower by a factor of 2.8
    made_up = archive([*runs, made("toy_postln_warm", bleu=90.0)], arms)
    (drawn,) = maps(made_up).values()
    assert counted(made_up, drawn) == {cell: (trained, 2) for cell, trained in cells.items() if cell[1] < 4e-3}
    assert draw_ramp(made_up, tmp_path) and draw_ramp(archive(runs[:8], arms), tmp_path) == []
    alone = [ramped(length, 1e-3, 90.0, 101) for length in (25, 50, 100)]  # without runs that say which BLEU is high
    assert draw_ramp(archive(alone, arms), tmp_path) == []


def test_the_committed_figures_are_those_of_the_committed_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def draws() -> None:
        pytest.fail("a figure is stale: make reproduce-tables")

    folder = shutil.copytree(committed.RESULTS / "figures", tmp_path / "figures")
    monkeypatch.setattr("ln_repro.report.plotting.Figure", draws)
    paths = draw_all(committed.archive(), folder)
    assert sorted(paths) == sorted(path for path in folder.iterdir() if path.name != "demo.png")


def test_a_figure_is_the_same_whenever_it_is_drawn_and_names_its_records(tmp_path: Path) -> None:
    from PIL import Image

    runs = on_rates("toy", RATES)
    (path,), (again,) = (draw_rates(archive(runs), tmp_path / name) for name in ("first", "second"))
    before = path.read_bytes()
    assert again.read_bytes() == before
    assert all(run.record.id in Image.open(path).info["Description"] for run in runs)
    path.write_bytes(b"")
    assert draw_rates(archive(runs), tmp_path / "first") == [path] and path.read_bytes() == before
    draw_rates(archive(runs[1:]), tmp_path / "first")
    assert path.read_bytes() != before
    assert draw_rates(archive([]), tmp_path) == draw_convergence(archive(runs), tmp_path) == []
    assert draw_initialisation({}, tmp_path) == []


def test_arms_whose_runs_are_all_lost_are_drawn_at_the_top(tmp_path: Path) -> None:
    lost: dict[str, Any] = {"losses": [None], "bleus": [None], "rule": "not_finite"}
    runs = on_rates("toy", {"postln_nowarm": {1e-3: [0.0] * 3, 2e-3: [0.0] * 3}}, **lost)
    runs += on_rates("toy", {"preln_warm": {1e-3: [50.0] * 3, 2e-3: [60.0] * 3}})
    (column,) = columns(archive(runs))
    assert column.line("postln_nowarm")[1e-3] == pytest.approx(12.0) and draw_rates(archive(runs), tmp_path)
    assert draw_rates(archive(runs[:3]), tmp_path) == [], "without a number, there is nothing to draw"
    worse = on_rates("toy", RATES, loss=9.5)  # than ignoring the source
    assert draw_rates(archive(worse), tmp_path)


def test_the_command_prints_what_it_wrote(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    records, out, theory = tmp_path / "my records", tmp_path / "out", tmp_path / "theory.json"
    store(records, record())  # of an arm that no figure shows
    panels = {name: {"postln": {str(layer): [1.0, 0.9, 1.1] for layer in range(1, 7)}} for name in ("w1", "w2", "last")}
    theory.write_text(json.dumps({"figures": {"initialisation": panels}}))
    assert call("figures", "--records", records, "--out", out)[:2] == (0, f"{out / 'initialisation.png'}\n")
    theory.unlink()
    said = f"nothing to draw from the records in {records}\n"
    assert call("figures", "--records", records, "--out", out)[:2] == (0, said)


def test_the_demo_draws_losses_also_of_a_run_that_diverged(tmp_path: Path) -> None:
    events = [{"kind": "train", "update": update, "loss": 9.0 / update} for update in (1, 2, 3)]
    lost = [*events, {"kind": "train", "update": 4, "loss": None}]
    records = {"Pre-LN": recorded(), "Post-LN": recorded(**diverged())}
    draw_losses({label: (record, lost) for label, record in records.items()}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_the_printed_program_draws_the_runs_of_the_lead_figure(monkeypatch, tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed (pip install -e '.[dev]')")
    import matplotlib.pyplot as plt

    (tmp_path / "results").symlink_to(committed.RESULTS)
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.+?)```", (CHECKOUT / "docs" / "analysis.md").read_text(), re.DOTALL)
    scope = {}
    with plt.rc_context():
        plt.switch_backend("agg")
        exec(program, scope)
        plt.close("all")
    kept, runs = committed.archive(), scope["runs"]
    for arm, name in NAMES.items():
        expected = {(rate, run.seed, run.final_nll) for part in (kept.evidence, kept.replication)
                    for rate, of_rate in part["toy"].curve(arm).items() for run in of_rate}  # fmt: skip
        drawn = runs[runs["arm"] == name]
        assert set(zip(drawn["lr"], drawn["seed"], drawn["nll"], strict=True)) == expected
    assert (tmp_path / "rates.png").stat().st_size > 0
