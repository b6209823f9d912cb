"""The verdicts on small Transformers of the engine: they hold for the engine's own, and turn when it is broken."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from ln_repro.engine.plugin import residual
from ln_repro.theory import judge_real, real
from ln_repro.theory.finding import Finding
from ln_repro.theory.unit import Measured

Run = Callable[..., Measured]
SMALL: dict[str, Any] = {"heads": 4, "vocabulary": 500, "sentences": 8, "length": 12, "batches": 2}
GRADIENTS: dict[str, Any] = {**SMALL, "width": 128, "ffn": 256, "tied": False}
HIDDEN: dict[str, Any] = {**SMALL, "width": 256, "ffn": 512, "layers": judge_real.LAYERS}


@pytest.fixture(autouse=True)
def level_of_small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """How large a gradient is depends on width and vocabulary; on what it depends is what is tested."""
    monkeypatch.setattr(judge_real, "LEVEL", (1.1, 1.4))


def gradients(measure: Run) -> Measured:
    made: list[Any] = []
    for norm in ("postln", "preln"):
        made += measure("real_gradients", 5, norm=norm, layers=judge_real.LAYERS, **GRADIENTS)
        for layers in (2, 4, 8):
            made += measure("real_last_gradient", 5, norm=norm, layers=layers, **GRADIENTS)
    return made


def verdicts(*findings: Finding) -> Mapping[str, str]:
    return {found.id: found.verdict for found in findings}


def judged(measured: Measured) -> Mapping[str, str]:
    judges = (judge_real.last_layer_post, judge_real.last_layer_pre, judge_real.layers_post, judge_real.layers_pre)
    return verdicts(*(judge(measured) for judge in judges))


def streams(measure: Run, **settings: Any) -> Mapping[str, str]:
    post = measure("real_hidden_states", 10, norm="postln", **HIDDEN, **settings)
    pre = measure("real_hidden_states", 10, norm="preln", **HIDDEN, **settings)
    return verdicts(judge_real.stream_post(post), judge_real.stream_pre(pre))


def test_gradients_are_as_the_paper_says(measure: Run) -> None:
    assert judged(gradients(measure)) == dict.fromkeys(("TH-6", "TH-7", "TH-8", "TH-9"), "reproduced")


def test_gradients_are_not_where_the_norm_is_moved(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(residual.SCHEMES, "postln", residual.PreLN)
    monkeypatch.setitem(residual.SCHEMES, "preln", residual.PostLN)
    assert judged(gradients(measure)) == dict.fromkeys(("TH-6", "TH-7", "TH-8", "TH-9"), "contradicted")


def test_gradients_are_not_if_the_loss_is_a_sum_over_tokens(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mean = real.F.cross_entropy
    monkeypatch.setattr(real.F, "cross_entropy", lambda x, targets, **how: len(targets) * mean(x, targets, **how))
    assert judged(gradients(measure))["TH-6"] == "contradicted"


def test_gradients_are_level_in_a_decoder_without_cross_attention(
    measure: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why Post-LN's decoder differs from its encoder: cross-attention sends its part of the gradient away."""

    class Severed(real.Transformer):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            for layer in self.decoder.layers:
                torch.nn.init.zeros_(layer.cross_attn.out_proj.weight)  # type: ignore[union-attr, arg-type]

    monkeypatch.setattr(real, "Transformer", Severed)
    growth = judge_real.layers_post(gradients(measure))
    assert (growth.verdict, growth.interval[1] < 2) == ("contradicted", True), "6 to 8 with it"


def test_streams_are_as_lemma_2_says(measure: Run) -> None:
    assert streams(measure) == {"TH-2-real": "reproduced", "TH-3-real": "reproduced"}


def test_streams_are_not_if_the_branches_start_small(measure: Run) -> None:
    assert streams(measure, init="fairseq") == {"TH-2-real": "contradicted", "TH-3-real": "contradicted"}


def test_streams_are_not_if_layers_are_counted_from_the_input(measure: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = real.spread

    def off_by_one(squares: list[Any], width: int) -> Mapping[str, Any]:
        found = honest(squares, width)
        return {**found, "squared": [found["input"], *found["squared"][:-1]]}

    monkeypatch.setattr(real, "spread", off_by_one)
    assert streams(measure)["TH-3-real"] == "contradicted"
