"""Theorem 1's checks hold for the paper's model, and turn when the model or the statistic is broken.

The extension to all layers does not hold for the paper's model; it does for what the argument for it assumes.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ln_repro.theory import judge_simplified, simplified
from ln_repro.theory.simplified import Placement, Weights, attention, feed_forward, layer_norm
from ln_repro.theory.unit import Measured, Unit

Run = Callable[..., Measured]
DEPTHS = (2, 4, 8)
SETTINGS: dict[str, Any] = {"d": 64, "positions": 8, "sequences": 1, "batches": 4}


@pytest.fixture(autouse=True)
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simplified, "VOCABULARY", 1000)


def gradients(measure: Run, norm: str, seeds: int = 10, d_ff: int = 64) -> list[tuple[Unit, dict[str, Any]]]:
    return [
        measured
        for layers in DEPTHS
        for measured in measure("gradients", seeds, norm=norm, layers=layers, d_ff=d_ff, **SETTINGS)
    ]


@pytest.mark.parametrize("d_ff", [64, 128])
def test_theorem_1_post(measure: Run, d_ff: int) -> None:
    finding = judge_simplified.theorem_1_post(gradients(measure, "postln", d_ff=d_ff))
    assert finding.verdict == "reproduced"
    assert list(finding.values[f"d=64 d_ff={d_ff}"]["last layer"]) == ["2", "4", "8"]


def test_theorem_1_pre(measure: Run) -> None:
    finding = judge_simplified.theorem_1_pre(gradients(measure, "preln"))
    assert (finding.verdict, finding.seeds) == ("reproduced", 10)


def test_theorem_1_wants_ten_seeds(measure: Run) -> None:
    assert judge_simplified.theorem_1_pre(gradients(measure, "preln", seeds=9)).verdict == "inconclusive"


def test_theorem_1_fails_where_the_norm_is_moved(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    post, pre = simplified.PLACEMENTS["postln"], simplified.PLACEMENTS["preln"]
    monkeypatch.setattr(simplified, "PLACEMENTS", {"postln": pre, "preln": post})
    assert judge_simplified.theorem_1_post(gradients(measure, "postln")).verdict == "contradicted"
    assert judge_simplified.theorem_1_pre(gradients(measure, "preln")).verdict == "contradicted"


def test_theorem_1_pre_fails_without_the_final_norm(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(simplified.PLACEMENTS, "preln", Placement(simplified.pre_layer, lambda x: x))
    assert judge_simplified.theorem_1_pre(gradients(measure, "preln")).verdict == "contradicted"


def test_theorem_1_pre_fails_if_the_branches_start_small(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = simplified.xavier
    monkeypatch.setattr(simplified, "xavier", lambda *shape: 0.3 * honest(*shape))
    assert judge_simplified.theorem_1_pre(gradients(measure, "preln")).verdict == "contradicted"


@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_theorem_1_fails_for_the_mean_of_norms(measure: Run, monkeypatch: pytest.MonkeyPatch, norm: str) -> None:
    monkeypatch.setattr(simplified, "norm_of_mean", simplified.mean_of_norms)
    judge = judge_simplified.theorem_1_post if norm == "postln" else judge_simplified.theorem_1_pre
    finding = judge(gradients(measure, norm))
    assert finding.verdict == "contradicted"
    assert finding.values["d=64 d_ff=64"]["level"] == pytest.approx((2, 2), rel=0.15), "sqrt of the mini-batches"


def test_theorem_1_fails_if_the_gradient_is_not_averaged_over_positions(
    measure: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean = torch.nn.functional.cross_entropy
    monkeypatch.setattr(simplified.F, "cross_entropy", lambda *given: len(given[1]) * mean(*given))
    assert judge_simplified.theorem_1_post(gradients(measure, "postln")).verdict == "contradicted"


def test_gradients_do_not_shrink_towards_the_input_of_post_ln(measure: Run) -> None:
    """The branch's own Jacobian makes good what the norm takes: 3/2 of norm^2 against 2/3."""
    finding = judge_simplified.extended_post(gradients(measure, "postln"))
    assert finding.verdict == "contradicted"
    assert all(values["rate"] == "contradicted" for values in finding.values.values())
    low, high = finding.values["d=64 d_ff=64 L=8"]["ratio"]
    assert 0.9 < low < high < 1.1


def test_they_would_if_only_one_norm_a_layer_counted(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the argument assumes: no gradient through the branches, one norm."""

    def layer(x: torch.Tensor, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
        inner = feed_forward(x.detach(), weights)
        x5 = x + inner
        return layer_norm(x5), x5

    monkeypatch.setitem(simplified.PLACEMENTS, "postln", Placement(layer, lambda x: x))
    finding = judge_simplified.extended_post(gradients(measure, "postln", seeds=20))
    assert {values["direction"] for values in finding.values.values()} == {"reproduced"}
    assert finding.values["d=64 d_ff=64 L=8"]["rate"] == "reproduced"


def test_the_ratio_is_that_of_successive_layers() -> None:
    """Off by one: L layers have L - 1 steps between them."""
    curve = [1.0, 1.5**0.5, 1.5, 1.5**1.5]
    settings = {**SETTINGS, "d_ff": 64, "norm": "postln", "layers": 4}
    measured = [
        (
            Unit.of("gradients", seed, **settings),
            {"norm_of_mean": [(1.01 if seed % 2 else 0.99) ** at * x for at, x in enumerate(curve)]},
        )
        for seed in range(10)
    ]
    assert judge_simplified.extended_post(measured).verdict == "reproduced"
    for _, found in measured:
        found["norm_of_mean"] = found["norm_of_mean"][1:]
    assert judge_simplified.extended_post(measured).verdict == "contradicted"


def test_gradients_do_depend_on_the_layer_in_pre_ln(measure: Run) -> None:
    finding = judge_simplified.extended_pre(gradients(measure, "preln"))
    assert finding.values["d=64 d_ff=64 L=8"]["first over last"][0] > 1.5
    assert finding.verdict == "contradicted"


def test_they_would_not_if_the_branches_passed_no_gradient_on(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the argument assumes: the Jacobian of every layer is the identity."""

    def layer(x: torch.Tensor, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
        x3 = x + attention(layer_norm(x.detach()), weights)
        x5 = x3 + feed_forward(layer_norm(x3.detach()), weights)
        return x5, x5

    monkeypatch.setitem(simplified.PLACEMENTS, "preln", Placement(layer, layer_norm))
    assert judge_simplified.extended_pre(gradients(measure, "preln")).verdict == "reproduced"
