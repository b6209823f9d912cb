"""Rules and verdicts come from one table, and each of its thresholds matters."""

import json
import math
from dataclasses import replace

import pytest

from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.theory import lemmas
from ln_repro.theory.checks import CHECKS, Check, upper_exponent
from ln_repro.theory.judge import decide, examine, figures, judge
from ln_repro.theory.measurements import POSITIONS, Scale, units
from ln_repro.theory.unit import Measured, Measurement, Unit
from tests.theory.measured import finding_of

SCALE = Scale({512: POSITIONS}, (1, 2), (512,), (6, 14, 48), (6, 8, 10, 12, 14), (6, 10, 14))
PAPER = dict.fromkeys(STATEMENTS, "reproduced")


def fabricated(unit: Unit) -> Measurement:
    """Return a measurement as the paper predicts it, with a little noise."""
    noise = 1 + 0.001 * (unit.seed % 7 - 3)
    post, layers = unit.settings.get("norm") == "postln", unit.settings.get("layers", 1)
    if unit.what == "relu":
        return {"ratio": noise}
    if unit.what == "jacobian":
        return {"error": 1e-15, "scaling": 1e-15, "exact": 1.0, "bound": 1.01 * noise}
    if unit.what == "hidden_norms":
        c = lemmas.feed_forward_share(unit["d"], unit["d_ff"])
        wobble = [1 + 0.01 * math.sin(unit.seed * layer) for layer in range(1, layers + 1)]
        grown = [1 + c + (1 / unit["positions"]) + 0.9 * passed for passed in range(layers)]
        around = [1 + c] * layers if post else grown
        squared = [size * x for size, x in zip(around, wobble, strict=True)]
        return {"encoder": {"input": 1.0, "squared": squared, "above": [0.02 * noise] * layers,
                            "above_squared": [0.08 * noise] * layers}}  # fmt: skip
    if unit.what == "gradients":
        square = 1.5 if post else float(layers)
        targets = unit["batches"] * unit["sequences"] * unit["positions"]
        last = lemmas.last_gradient(unit["d"], unit["d_ff"], square, targets) * noise
        curve = [last * ((1.5 * noise) ** ((layer - layers) / 2) if post else 1) for layer in range(1, layers + 1)]
        return {"norm_of_mean": {"w2": curve}, "square": square}
    if unit.what == "real_hidden_states":
        c = 1 / 18 if unit["init"] == "fairseq" else 4 / 9
        squared = [1 + c] * layers if post else [1.5 + (c + 0.5) * passed for passed in range(1, layers + 1)]
        states = {"input": 1.5, "squared": [x * noise for x in squared], "above": [0.02] * layers,
                  "above_squared": [0.1 * noise] * layers}  # fmt: skip
        return {"encoder": states, "decoder": states}
    steps = {"xavier": 1.5, "xavier_legacy": 1.3, "fairseq": 1.2}
    step = steps[unit["init"]] if post else 1.05
    level = 1.65 if post else 1.2 * layers**-0.5
    curve = [level * noise * step ** (layer - layers) for layer in range(1, layers + 1)]
    names = [f"{stack}.{w}" for stack in ("encoder", "decoder") for w in ("w1", "w2")]
    names += [f"{a}.{w}" for a in ("encoder.self", "decoder.self", "decoder.cross") for w in ("q", "k", "v", "out")]
    return {"norm_of_mean": dict.fromkeys(names, curve)}


def measured(seeds: int = 40) -> Measured:
    return [(unit, fabricated(unit)) for unit in units(SCALE, list(STATEMENTS)) if unit.seed <= seeds]


def test_what_agrees_with_the_paper_is_reproduced_unless_seeds_are_few() -> None:
    assert {finding["id"]: finding["verdict"] for finding in judge(measured(), list(STATEMENTS))} == PAPER
    few = judge(measured(seeds=9), list(STATEMENTS))
    assert {finding["verdict"] for finding in few} == {"inconclusive"}
    assert all("9 seeds are too few" in finding["note"] for finding in few)


JUDGED = [check for check in CHECKS if check.how != "reported"]


@pytest.mark.parametrize("check", JUDGED, ids=lambda check: f"{check.claim} {check.part} {check.quantity}")
def test_every_threshold_is_in_the_rule_and_in_the_verdict(check: Check) -> None:
    """A small change of a bound changes the rule in words, a large one the verdict."""
    low, high = check.region
    made = measured()
    unchanged = examine(check, made)
    broken = check.how == "contains" and "6-6" in check.part
    assert unchanged and unchanged.verdict == ("contradicted" if broken else "reproduced")
    moved = [(low + 0.01, high), (low, high + 0.01)] if low != high else [(low + 0.01, high + 0.01)]
    for region in moved:
        if region != check.region:
            assert replace(check, region=region).rule != check.rule
    ends = [(1e9, math.inf)] * (low > -math.inf) + [(-math.inf, -1e9)] * (high < math.inf)
    for region in [(1e9, 1e9)] if low == high else ends:
        elsewhere = examine(replace(check, region=region), made)
        assert elsewhere and elsewhere.verdict == "contradicted", region


def test_an_inconclusive_finding_says_why_and_what_would_decide_it() -> None:
    wide = [(unit, {"ratio": 1 + 0.02 * (unit.seed % 5 - 2)}) for unit, _ in measured(seeds=10) if unit.what == "relu"]
    finding = finding_of("TH-1", wide)
    assert finding["verdict"] == "inconclusive"
    assert finding["note"].startswith("Gaussian X: the interval [0.979, 1.02] contains a bound; about 60 seeds")


def test_what_must_hold_in_every_draw_fails_if_it_does_not_hold_in_one() -> None:
    (check,) = [check for check in CHECKS if check.quantity == "spectral norm over sqrt(d) / norm of y"]
    assert decide(check, [1.0] * 10) == ("reproduced", None)
    assert decide(check, [1.0] * 9 + [1 + 2e-8]) == ("contradicted", None)


@pytest.mark.parametrize("check", JUDGED, ids=lambda check: f"{check.claim} {check.part} {check.quantity}")
def test_a_value_that_is_no_number_decides_nothing(check: Check) -> None:
    assert decide(check, [*[1.0] * check.seeds, math.nan]) == ("inconclusive", "a measured value is not a number")


def test_the_upper_half_of_the_layers_decides_about_large_l() -> None:
    assert upper_exponent([9, 1, *(layer**-0.5 for layer in (3, 4, 5, 6))]) == pytest.approx(-0.5)


def test_a_finding_is_json_and_has_its_curve_by_depth_or_layer() -> None:
    for finding in judge(measured(seeds=1), list(STATEMENTS)):
        assert json.loads(json.dumps(finding, allow_nan=False)) == finding
    by_depth, by_layer = finding_of("TH-6", measured())["values"], finding_of("TH-8", measured())["values"]
    assert list(by_depth) == ["6", "8", "10", "12", "14"] and by_depth["14"] == pytest.approx(1.65, rel=0.01)
    assert figures(measured()) and not figures([pair for pair in measured() if pair[0].what != "real_last_gradient"])
    assert list(by_layer) == ["1", "2", "3", "4", "5", "6"] and by_layer["6"] == pytest.approx(1.65, rel=0.01)
