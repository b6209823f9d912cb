"""The figures of runs: what is drawn, what is not, and beside what the paper's numbers stand."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from ln_repro.experiment import compose
from ln_repro.paper.figures import FIGURES, Panel
from ln_repro.records.archive import Run
from ln_repro.report.figure_rates import draw_rates
from ln_repro.report.figures import curve, draw_all, draw_panel, draw_runs, figures_of, records_by_arm, style
from ln_repro.report.plotting import COLOURS, GREY
from scripts.demo import draw_losses
from tests import committed
from tests.claims.made import KNOWN, gathered, made, on_rates
from tests.claims.test_bert import POST, PRE, runs_of, tuned
from tests.examples import diverged, recorded, store

FIGURE_4_BLEU = FIGURES["figure_4"].rows[0][1]
ARMS = ("preln_nowarm", "postln_warm", "postln_nowarm_fixed")


@pytest.fixture
def axis() -> Any:
    """Return empty axes."""
    return Figure().subplots()


def drawn(axis: Any, panel: Panel, *runs: Run) -> dict[str, list[tuple[float, float]]]:
    """Draw a panel of the runs; return the points of every line by its colour and mark, labelled or not."""
    [(corpus, found)] = gathered(runs).items()
    draw_panel(axis, panel, corpus, records_by_arm(found))
    lines: dict[str, list[tuple[float, float]]] = {}
    for line in axis.lines:
        points = list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))
        lines.setdefault(f"{line.get_color()} {line.get_marker()}", []).extend(points)
    return lines


def test_means_bands_and_the_papers_points_are_drawn_of_iwslt(axis: Any) -> None:
    seeds = [made("iwslt_postln_warm", seed, bleus=[10.0 * seed, 30.0 + seed]) for seed in (1, 2, 3)]
    lines = drawn(axis, FIGURE_4_BLEU, *seeds)
    assert lines[f"{COLOURS['postln']} o"] == [(1, 20), (2, 32)]
    assert lines[f"{GREY} o"][:3] == [(1, 1.8), (2, 9.2), (3, 17.4)] and len(lines[f"{GREY} o"]) == 15
    assert not any(f"{colour} D" in lines for colour in (*COLOURS.values(), GREY)), "nothing of an arm without records"
    corners = axis.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == 0 and corners[:, 1].max() == pytest.approx(20 + 24.841, abs=1e-3)


def test_a_panel_without_a_curve_says_so(axis: Any) -> None:
    assert drawn(axis, FIGURE_4_BLEU, made(losses=[5.0], bleus=[None])) == {}
    assert [text.get_text() for text in axis.texts] == ["not run at the\nsetting's rates"]


def test_the_title_of_a_panel_has_the_rates_of_its_runs(axis: Any) -> None:
    drawn(axis, FIGURES["figure_2"].rows[0][0], made("toy_postln_warm"), made("toy_postln_warm_high"))
    assert axis.get_title() == "(a) Adam, rates 0.001 and 0.002"


def test_an_interval_ends_where_the_quantity_does() -> None:
    runs = [made(bleus=[0.0, 99.0]), made(seed=2, bleus=[90.0, 100.0])]
    found = curve([run.record for run in runs], "bleu")
    assert found and found.intervals == {1: (0, 100), 2: (pytest.approx(99.5 - 12.7062 / 2, abs=1e-4), 100)}


def test_a_diverged_run_is_marked_where_it_ended_and_the_mean_goes_on_without_it() -> None:
    runs = [made(losses=[5.0, 3.0]), made(seed=2, losses=[9.0], rule="stuck")]
    found = curve([run.record for run in runs], "loss")
    assert found and found.ends == [(1, 9.0)] and found.means == {1: 7.0, 2: 3.0} and list(found.intervals) == [1]


@pytest.mark.parametrize("name", FIGURES)
def test_curves_of_a_panel_are_arms_that_look_different_even_without_colours(name: str) -> None:
    for panel in (panel for row in FIGURES[name].rows for panel in row):
        assert {*panel.arms} <= KNOWN and len({*panel.arms.values()}) == len(panel.arms)
        assert {*panel.readings} <= {*panel.arms}
        looks = [style(arm, label) for arm, label in panel.arms.items()]
        grey = {(look["linestyle"], look["marker"], look["markerfacecolor"] == "white") for look in looks}
        assert len(grey) == len(looks)


def test_the_committed_figures_are_those_of_the_committed_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def draws() -> None:
        pytest.fail("a figure is stale: make reproduce-tables")

    folder = shutil.copytree(committed.RESULTS / "figures", tmp_path / "figures")
    before = sorted(folder.rglob("*.svg"))
    monkeypatch.setattr("matplotlib.figure.Figure", draws)
    paths, _ = draw_all(committed.archive().evidence, committed.RESULTS / "theory.json", folder)
    assert sorted(path for path in paths if path.suffix == ".svg") == before


def test_figures_are_drawn_by_corpus_and_the_others_are_listed(tmp_path: Path) -> None:
    records = [made(f"multi30k_{arm}", bleus=[1.0, 2.0]) for arm in ARMS]
    evidence = gathered([*records, made("toy_postln_warm"), made("toy_preln_warm", init="fairseq"),
                         made("tatoeba_postln_warm"), made("tatoeba_preln_nowarm")])  # fmt: skip
    paths, left_out = draw_runs(evidence, tmp_path / "a b")
    names = ["figure_4", "figure_6"]
    expected = [tmp_path / "a b" / "multi30k" / f"{name}.{kind}" for name in names for kind in ("png", "svg")]
    for text in (path.read_text() for path in expected[1::2]):
        assert "ln-repro reproduce ID" in text and any(run.record.id in text for run in records)
    assert paths[:4] == expected and all(path.stat().st_size > 5000 for path in expected)
    assert "tatoeba/figure_6: its main arm, postln_nowarm_fixed, has not been run" in left_out
    assert left_out[0] == "multi30k/figure_2: 1 of its 14 arms run so far"
    others = [line.split(":")[0] for line in left_out if line.startswith("toy/")]
    assert others == [f"toy/{name}" for name in figures_of("toy")]


def test_a_figure_is_the_same_whenever_it_is_drawn(tmp_path: Path) -> None:
    records = [made("iwslt_postln_warm", seed, bleus=[seed, 9.0]) for seed in (1, 2)] + [made("iwslt_preln_nowarm")]
    first, second = (draw_runs(gathered(records), tmp_path / name)[0] for name in ("first", "second"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    text = first[1].read_text()
    assert ">IWSLT14, 1 to 2 seeds: mean and 95 % interval</text>" in text and ">BLEU: nrefs:1|" in text


def test_arms_whose_runs_are_all_lost_leave_the_others_as_they_are(tmp_path: Path) -> None:
    lost: dict[str, Any] = {"losses": [None], "bleus": [None], "rule": "not_finite"}
    runs = on_rates("toy", {"postln_nowarm": {1e-3: [0.0] * 3, 2e-3: [0.0] * 3}}, **lost)
    runs += on_rates("toy", {"preln_warm": {1e-3: [50.0] * 3, 2e-3: [60.0] * 3}})
    svg = draw_rates(gathered(runs), tmp_path)[1].read_text()
    assert ">.</text>" not in svg  # as a category of the axis
    runs = [made(f"iwslt_postln_nowarm{rate}", **lost) for rate in ("", "_high")]
    assert draw_runs(gathered(runs), tmp_path)[0]


def test_the_command_prints_what_it_wrote(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    records, out = tmp_path / "my records", tmp_path / "out"
    records.mkdir()
    for arm in ARMS:
        one, real = made(f"multi30k_{arm}", bleus=[10.0, 20.0]).record, compose.named(f"multi30k_{arm}")
        assert real
        store(records, {**one.plain(), "axes": real.axes, "settings": real.settings()})
    code, printed, said = call("figures", "--records", records, "--out", out)
    assert code == 0 and sorted(map(Path, printed.splitlines())) == sorted(out.rglob("*.*"))
    assert "not drawn: multi30k/figure_2: " in said
    (tmp_path / "none").mkdir()
    assert call("figures", "--records", tmp_path / "none", "--out", out)[1] == (
        f"nothing to draw from the records in {tmp_path / 'none'}\n"
    )


def test_the_theory_beside_the_records_is_drawn_too(tmp_path: Path) -> None:
    points = {"1": [1.0, 0.9, 1.1], "2": [2.0, 1.9, 2.1]}
    panels = {name: {"postln decoder": points} for name in "abcd"}
    theory = tmp_path / "theory.json"
    theory.write_text(json.dumps({"figures": {"figure_3": panels}}))
    assert draw_all({}, theory, tmp_path)[0] == [tmp_path / "figure_3.png", tmp_path / "figure_3.svg"]


def test_the_figure_of_fine_tuning_is_accuracy_by_length_of_pre_training(tmp_path: Path) -> None:
    evidence = gathered([*runs_of({100: 0.03, 200: 0.05}), tuned(POST, 1, 300, 0.5)])
    arms = records_by_arm(evidence["mrpc"])
    pre, post = (curve(arms[arm], "accuracy") for arm in (PRE, POST))
    assert pre and pre.seeds == 6 and pre.means == {100: pytest.approx(73.01), 200: pytest.approx(75.02)}
    assert post and post.means[300] == 50.0 and [*post.intervals] == [100, 200]
    assert draw_runs(evidence, tmp_path)[0] == [tmp_path / "mrpc" / f"figure_5.{kind}" for kind in ("png", "svg")]
    assert curve([made("mrpc_preln").record], "accuracy") is None


def test_the_demo_draws_losses_also_of_a_run_that_diverged(tmp_path: Path) -> None:
    events = [{"kind": "train", "update": update, "loss": 9.0 / update} for update in (1, 2, 3)]
    lost = [*events, {"kind": "train", "update": 4, "loss": None}]
    records = {"Pre-LN": recorded(), "Post-LN": recorded(**diverged())}
    draw_losses({label: (record, lost) for label, record in records.items()}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000
