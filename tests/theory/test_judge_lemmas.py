"""Every lemma's check holds for the paper's model, and turns when the model or the statistic is broken."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ln_repro.theory import judge_lemmas, lemmas, simplified
from ln_repro.theory.finding import Finding
from ln_repro.theory.simplified import Placement, Weights, feed_forward, layer_norm
from ln_repro.theory.unit import Measured

Run = Callable[..., Measured]
HIDDEN: dict[str, Any] = {"d": 64, "d_ff": 64, "layers": 6, "positions": 8, "sequences": 16}


def hidden(measure: Run, norm: str, seeds: int = 60, **settings: Any) -> Measured:
    return measure("hidden_norms", seeds, **{**HIDDEN, "norm": norm, **settings})


def relus(measure: Run) -> Finding:
    return judge_lemmas.lemma_1(measure("relu", 10, d=64, sigma=2.0, numbers=2**16))


def jacobians(measure: Run) -> Finding:
    return judge_lemmas.lemma_3(measure("jacobian", 10, d=64))


def test_lemma_1(measure: Run) -> None:
    assert relus(measure).verdict == "reproduced"


@pytest.mark.parametrize("factor", [2.0, 0.95])
def test_lemma_1_fails_with_another_moment(measure: Run, monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    monkeypatch.setattr(lemmas, "relu_moment", lambda d, sigma: factor * sigma**2 * d / 2)
    assert relus(measure).verdict == "contradicted"


@pytest.mark.parametrize("d_ff", [64, 256])
def test_lemma_2_post(measure: Run, d_ff: int) -> None:
    finding = judge_lemmas.lemma_2_post(hidden(measure, "postln", d_ff=d_ff))
    assert finding.verdict == "reproduced"
    assert finding.values[f"d=64 d_ff={d_ff} n=8"]["expected"] == pytest.approx(1.5 if d_ff == 64 else 1.32)


def test_lemma_2_post_wants_twenty_draws(measure: Run) -> None:
    assert judge_lemmas.lemma_2_post(hidden(measure, "postln", seeds=19)).verdict == "inconclusive"


@pytest.mark.parametrize("gain", [0.8, 1.2])
@pytest.mark.parametrize("judge", ["lemma_2_post", "lemma_2_pre"])
def test_lemma_2_fails_with_another_gain(
    measure: Run, monkeypatch: pytest.MonkeyPatch, judge: str, gain: float
) -> None:
    honest = simplified.xavier
    monkeypatch.setattr(simplified, "xavier", lambda *shape: gain * honest(*shape))
    norm = "postln" if judge == "lemma_2_post" else "preln"
    assert getattr(judge_lemmas, judge)(hidden(measure, norm, seeds=20)).verdict == "contradicted"


def test_lemma_2_fails_where_the_norm_is_moved(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    post, pre = simplified.PLACEMENTS["postln"], simplified.PLACEMENTS["preln"]
    monkeypatch.setattr(simplified, "PLACEMENTS", {"postln": pre, "preln": post})
    assert judge_lemmas.lemma_2_post(hidden(measure, "postln", seeds=20)).verdict == "contradicted"
    assert judge_lemmas.lemma_2_pre(hidden(measure, "preln", seeds=20)).verdict == "contradicted"


def test_lemma_2_post_is_about_the_state_before_the_last_norm(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def outputs(x: torch.Tensor, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
        out, _ = simplified.post_layer(x, weights)
        return out, out

    monkeypatch.setitem(simplified.PLACEMENTS, "postln", Placement(outputs, lambda x: x))
    assert judge_lemmas.lemma_2_post(hidden(measure, "postln", seeds=20)).verdict == "contradicted"


@pytest.mark.parametrize("d_ff", [64, 256])
def test_lemma_2_pre(measure: Run, d_ff: int) -> None:
    assert judge_lemmas.lemma_2_pre(hidden(measure, "preln", d_ff=d_ff)).verdict == "reproduced"


@pytest.mark.parametrize("off", [-1, 1])
def test_lemma_2_pre_fails_if_layers_are_counted_wrongly(measure: Run, off: int) -> None:
    measured = hidden(measure, "preln", seeds=20)
    for _, found in measured:
        found["square"] = found["square"][1:] if off > 0 else [1.0, *found["square"][:-1]]
    assert judge_lemmas.lemma_2_pre(measured).verdict == "contradicted"


@pytest.mark.parametrize("width", [4, 1])
def test_lemma_2_fails_with_the_share_of_another_width(
    measure: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Taking d_ff = d for granted where it is 4 d, and the other way round."""
    monkeypatch.setattr(lemmas, "feed_forward_share", lambda d, d_ff: 0.5 if width == 4 else 0.32)
    measured = hidden(measure, "postln", seeds=20, d_ff=64 * width)
    assert judge_lemmas.lemma_2_post(measured).verdict == "contradicted"


def test_lemma_3(measure: Run) -> None:
    finding = jacobians(measure)
    assert finding.verdict == "reproduced"
    assert finding.values["d=64"]["error"][1] < 1e-12


def unbiased(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean()) / x.std()


def with_epsilon(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape, eps=1e-5)


def root_mean_square(x: torch.Tensor) -> torch.Tensor:
    return x / x.square().mean().sqrt()


@pytest.mark.parametrize("norm", [unbiased, with_epsilon, root_mean_square])
def test_lemma_3_fails_for_another_norm(
    measure: Run, monkeypatch: pytest.MonkeyPatch, norm: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    monkeypatch.setattr(lemmas, "layer_norm", norm)
    assert jacobians(measure).verdict == "contradicted"


def wide(measure: Run, norm: str, seeds: int = 20, d: int = 512) -> Finding:
    return judge_lemmas.boundedness(hidden(measure, norm, seeds, d=d, d_ff=64, layers=2, positions=8, sequences=32))


@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_norms_are_bounded_at_the_papers_width(measure: Run, norm: str) -> None:
    assert wide(measure, norm).verdict == "reproduced"


def test_narrow_models_say_nothing_of_the_papers(measure: Run) -> None:
    finding = wide(measure, "preln", d=16)
    assert finding.verdict == "inconclusive"
    assert finding.interval[0] > judge_lemmas.DELTA, "they are not bounded so"


def test_boundedness_fails_without_the_norm_that_makes_positions_alike(
    measure: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs of uneven size stay uneven if the norm on the stream is taken out."""

    def layer(x: torch.Tensor, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
        x5 = x + feed_forward(layer_norm(x), weights)
        return x5, x5

    honest = simplified.inputs
    uneven = torch.linspace(1, 3, 8)[:, None]
    monkeypatch.setattr(simplified, "inputs", lambda *drawn: honest(*drawn) * uneven)
    assert wide(measure, "postln").verdict == "reproduced"
    monkeypatch.setitem(simplified.PLACEMENTS, "postln", Placement(layer, lambda x: x))
    assert wide(measure, "postln").verdict == "contradicted"


@pytest.mark.parametrize("judge", ["lemma_1", "lemma_2_post", "lemma_2_pre", "lemma_3", "boundedness"])
def test_nothing_measured_is_inconclusive(judge: str) -> None:
    finding = getattr(judge_lemmas, judge)([])
    assert (finding.verdict, finding.seeds, finding.interval) == ("inconclusive", 0, (-math.inf, math.inf))
