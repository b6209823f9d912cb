"""The paper's figures as data: every curve is an arm, and every number says where it is from."""

from pathlib import Path

import pytest

from ln_repro.paper.figures import FIGURES, Panel, Reading

ROOT = Path(__file__).resolve().parents[2]
ARMS = {path.stem for path in (ROOT / "conf" / "arm").glob("*.yaml")}
PANELS = [panel for figure in FIGURES.values() for row in figure.rows for panel in row]


def readings(panel: Panel) -> list[Reading]:
    """Return all that is known of the curves of a panel."""
    return [reading for series in panel.series for reading in series.readings]


def known(figure: str, row: int, column: int, arm: str) -> dict[int, float]:
    """Return the paper's points of an arm."""
    panel = FIGURES[figure].rows[row][column]
    [series] = [series for series in panel.series if series.arm == arm]
    return {epoch: value for reading in series.readings for epoch, value in reading.points.items()}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_every_curve_is_an_arm_with_a_label_of_its_own(panel: Panel) -> None:
    arms, labels = [s.arm for s in panel.series], [s.label for s in panel.series]
    assert set(arms) <= ARMS and len(set(arms)) == len(arms) and len(set(labels)) == len(labels)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_every_number_says_how_it_was_obtained_and_how_sure_it_is(panel: Panel) -> None:
    for reading in readings(panel):
        assert reading.place and (reading.source == "unstated") == (not reading.points)
        assert (reading.uncertainty is None) == (not reading.points)
        assert all(1 <= epoch <= 27 for epoch in reading.points)
        assert all(0 < value < (10 if panel.quantity == "loss" else 40) for value in reading.points.values())


def test_the_numbers_of_the_text_and_of_figure_4_are_there() -> None:
    assert known("figure_2", 1, 0, "postln_nowarm_literal") == {15: 8.45}
    assert known("figure_2", 1, 0, "postln_warm_short_high") == {15: 2.77}
    assert known("figure_2", 1, 1, "postln_nowarm_sgd_literal") == {}
    assert known("figure_6", 0, 0, "postln_nowarm_fixed") == {27: 4.3}
    assert known("figure_4", 0, 0, "postln_warm") == {1: 8.0, 3: 5.6, 5: 4.6, 7: 4.3, 9: 4.2, 12: 4.0, 15: 4.0}
    assert list(known("figure_4", 0, 1, "postln_warm")) == list(range(1, 16))
    assert known("figure_4", 0, 1, "preln_nowarm")[9] == 33.0
    assert known("figure_4", 0, 1, "postln_nowarm_radam")[15] == 32.1


def test_of_wmt_no_number_is_known() -> None:
    assert [reading for panel in PANELS if panel.corpus == "wmt" for reading in readings(panel)] == []
