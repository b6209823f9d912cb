"""Every lemma's check holds for the paper's model, and turns when the model or the statistic is broken."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ln_repro.theory import lemmas, simplified
from ln_repro.theory.simplified import Placement, Weights, feed_forward, layer_norm
from ln_repro.theory.unit import Measured
from tests.theory.conftest import found, parts_of, verdict_of

Run = Callable[..., Measured]
HIDDEN: dict[str, Any] = {"d": 64, "d_ff": 64, "layers": 6, "positions": 8, "sequences": 16}


def hidden(measure: Run, norm: str, seeds: int = 60, **settings: Any) -> Measured:
    return measure("hidden_norms", seeds, **{**HIDDEN, "norm": norm, **settings})


def relus(measure: Run) -> str:
    return verdict_of("TH-1", measure("relu", 10, d=64, sigma=2.0, numbers=lemmas.NUMBERS))


def jacobians(measure: Run) -> dict[str, Any]:
    return found("TH-4", measure("jacobian", 10, d=64))


def test_lemma_1(measure: Run) -> None:
    assert relus(measure) == "reproduced"


def test_lemma_1_fails_with_another_moment(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemmas, "relu_moment", lambda d, sigma: 0.95 * sigma**2 * d / 2)
    assert relus(measure) == "contradicted"


@pytest.mark.parametrize("d_ff", [64, 256])
@pytest.mark.parametrize(("claim", "norm"), [("TH-2", "postln"), ("TH-3", "preln")])
def test_lemma_2(measure: Run, claim: str, norm: str, d_ff: int) -> None:
    assert verdict_of(claim, hidden(measure, norm, d_ff=d_ff)) == "reproduced"


@pytest.mark.parametrize(("claim", "norm"), [("TH-2", "postln"), ("TH-3", "preln")])
def test_lemma_2_fails_with_another_gain(measure: Run, monkeypatch: pytest.MonkeyPatch, claim: str, norm: str) -> None:
    honest = simplified.xavier
    monkeypatch.setattr(simplified, "xavier", lambda *shape: 1.2 * honest(*shape))
    assert verdict_of(claim, hidden(measure, norm, seeds=20)) == "contradicted"


def test_lemma_2_fails_where_the_norm_is_moved(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    post, pre = simplified.PLACEMENTS["postln"], simplified.PLACEMENTS["preln"]
    monkeypatch.setattr(simplified, "PLACEMENTS", {"postln": pre, "preln": post})
    assert verdict_of("TH-2", hidden(measure, "postln", seeds=20)) == "contradicted"
    assert verdict_of("TH-3", hidden(measure, "preln", seeds=20)) == "contradicted"


def test_lemma_2_post_is_about_the_state_before_the_last_norm(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def outputs(x: torch.Tensor, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
        out, _ = simplified.post_layer(x, weights)
        return out, out

    monkeypatch.setitem(simplified.PLACEMENTS, "postln", Placement(outputs, lambda x: x))
    assert verdict_of("TH-2", hidden(measure, "postln", seeds=20)) == "contradicted"


def test_lemma_2_pre_fails_if_layers_are_counted_from_the_input(measure: Run) -> None:
    measured = hidden(measure, "preln", seeds=20)
    for _, values in measured:
        values["square"] = [1.0, *values["square"][:-1]]
    assert verdict_of("TH-3", measured) == "contradicted"


def test_lemma_2_fails_with_the_share_of_another_width(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemmas, "feed_forward_share", lambda d, d_ff: 0.5)  # that of d_ff = d
    assert verdict_of("TH-2", hidden(measure, "postln", seeds=20, d_ff=256)) == "contradicted"


def test_lemma_3(measure: Run) -> None:
    finding = jacobians(measure)
    assert finding["verdict"] == "reproduced"
    assert parts_of(finding, "autograd less closed form")[0]["interval"][1] < 1e-12


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
    assert jacobians(measure)["verdict"] == "contradicted"


def wide(measure: Run, norm: str) -> dict[str, Any]:
    return found("TH-5", hidden(measure, norm, 20, d=512, d_ff=64, layers=2, positions=8, sequences=32))


@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_norms_are_bounded_at_the_papers_width(measure: Run, norm: str) -> None:
    assert wide(measure, norm)["verdict"] == "reproduced"


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
    assert wide(measure, "postln")["verdict"] == "reproduced"
    monkeypatch.setitem(simplified.PLACEMENTS, "postln", Placement(layer, lambda x: x))
    assert wide(measure, "postln")["verdict"] == "contradicted"
