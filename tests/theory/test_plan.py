"""The plan covers what the judges ask for."""

import json

from ln_repro.theory.plan import FULL, JUDGES, MEASURES, QUICK, judge, simplified_units, units


def test_every_unit_is_named_once_and_can_be_measured() -> None:
    units = simplified_units((64, 128), (6, 14), seeds=10)
    assert len({unit.key for unit in units}) == len(units)
    assert {unit.what for unit in units} == {what for what in MEASURES if not what.startswith("real")}
    assert {unit["d"] for unit in units} == {64, 128}
    assert {unit["layers"] for unit in units if unit.what == "gradients"} == {6, 14}
    assert sum(unit.what == "hidden_norms" and unit["d"] == unit["d_ff"] == 64 for unit in units) == 3 * 2 * 40


def test_every_judge_speaks_of_a_measured_plan_in_json() -> None:
    """One seed of the smallest: it can be measured and judged, and decides nothing."""
    measured = [(unit, MEASURES[unit.what](unit)) for unit in simplified_units((16,), (2, 3), seeds=1)]
    assert json.loads(json.dumps([found for _, found in measured])) == [found for _, found in measured]
    findings = [
        made.as_dict() for made in judge(measured, [n for n, (what, _) in JUDGES.items() if "real" not in what])
    ]
    assert [finding["id"] for finding in findings] == [
        "TH-1", "TH-2", "TH-3", "TH-4", "TH-5-simplified", "T1-post", "T1-pre", "TH-11", "T1-layers"
    ]  # fmt: skip
    assert {finding["verdict"] for finding in findings} == {"inconclusive"}
    json.dumps(findings, allow_nan=False)


def test_only_what_is_asked_for_is_measured() -> None:
    assert {unit.what for unit in units(QUICK, ["TH-1", "TH-6"])} == {"relu", "real_last_gradient"}
    assert {unit.what for unit in units(FULL, list(JUDGES))} == set(MEASURES) == {what for what, _ in JUDGES.values()}
    assert {unit["layers"] for unit in units(QUICK, ["TH-6"])} == {6, 14}
    assert len({unit.key for unit in units(FULL, list(JUDGES))}) == len(units(FULL, list(JUDGES)))
