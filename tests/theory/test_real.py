"""Measurements of Transformers at initialisation, and verdicts that change when the model is broken."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from ln_repro.theory import checks, judge
from ln_repro.theory.measurements import LAYERS
from ln_repro.theory.real import EOS, Setting, Transformer, real_gradients, zipf_batches
from ln_repro.theory.unit import Measured, Unit
from tests.theory.measured import finding_of, measure, part_of

SMALL: dict[str, Any] = {"heads": 4, "vocabulary": 500, "sentences": 8, "length": 12, "batches": 2}
GRADIENTS: dict[str, Any] = {**SMALL, "width": 128, "ffn": 256, "init": "xavier", "tied": False}
HIDDEN: dict[str, Any] = {**SMALL, "width": 256, "ffn": 512, "layers": LAYERS, "batches": 1, "sentences": 16}


@pytest.fixture(autouse=True)
def level_of_small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a gradient depends on width and vocabulary; these tests are about how it depends on depth."""
    small = [replace(row, region=(1.1, 1.4)) if row.quantity == "mean over L" else row for row in checks.CHECKS]
    monkeypatch.setattr(judge, "CHECKS", small)


def test_words_have_the_frequencies_of_zipfs_law() -> None:
    setting = Setting("preln", 1, vocabulary=1000, batches=1, sentences=500, length=24)
    ((source, target),) = zipf_batches(setting, 1)
    assert source.shape == target.shape == (500, 24)
    assert (source[:, -1] == EOS).all() and (target[:, -1] == EOS).all()
    counts = torch.bincount(torch.cat([source, target])[:, :-1].flatten(), minlength=1000).double()
    assert not counts[:4].any()
    assert counts[4] / counts[13] == pytest.approx(10, rel=0.15)


@pytest.mark.usefixtures("double")
def test_gradients_are_those_of_the_mean_over_mini_batches() -> None:
    wanted = Unit.of("real_gradients", 1, norm="postln", layers=3, width=32, ffn=64, **{**SMALL, "dropout": 0.0})
    measured = real_gradients(wanted)
    setting = Setting(**wanted.settings)
    model = Transformer(setting, 1)
    sum(model(*batch) / setting.batches for batch in zipf_batches(setting, 1)).backward()  # type: ignore[union-attr]
    for number, layer in enumerate(model.decoder.layers):
        assert measured["norm_of_mean"]["decoder.w2"][number] == pytest.approx(float(layer.ffn.fc2.weight.grad.norm()))  # type: ignore[union-attr, operator, arg-type]
    for name, norms in measured["norm_of_mean"].items():
        assert all(a <= b * 1.0001 for a, b in zip(norms, measured["mean_of_norms"][name], strict=True))


def renamed(measured: Measured, setting: str, names: Mapping[str, str]) -> Measured:
    """Return measurements as if a setting had had other values."""
    return [(Unit.of(unit.what, unit.seed, **{**unit.settings, setting: names[unit[setting]]}), result)
            for unit, result in measured]  # fmt: skip


@pytest.mark.slow
def test_gradients_are_as_the_paper_says_unless_the_norm_is_moved() -> None:
    measured: list[Any] = []
    for norm in ("postln", "preln"):
        measured += measure("real_gradients", 10, norm=norm, layers=LAYERS, **GRADIENTS)
        for layers in (2, 4, 8):
            measured += measure("real_last_gradient", 10, norm=norm, layers=layers, **GRADIENTS)
    moved = renamed(measured, "norm", {"postln": "preln", "preln": "postln"})
    for claim in ("TH-6", "TH-7", "TH-8", "TH-9"):
        assert finding_of(claim, measured)["verdict"] == "reproduced"
        assert finding_of(claim, moved)["verdict"] == "contradicted"


@pytest.mark.slow
def test_gradients_are_level_in_a_decoder_without_cross_attention() -> None:
    """Post-LN's decoder differs from its encoder because cross-attention sends part of the gradient to the encoder."""
    crossed, uncrossed = (finding_of("TH-11", measure(what, 10, norm="postln", layers=LAYERS, **GRADIENTS))
                          for what in ("real_gradients", "real_uncrossed_gradients"))  # fmt: skip
    growth = part_of(uncrossed, "last layer over first")
    step = part_of(crossed, "ratio a layer (growth)")
    assert growth["interval"][1] < 2 < step["interval"][0] ** (LAYERS - 1)


@pytest.mark.slow
@pytest.mark.parametrize(("init", "verdict"), [("xavier", "reproduced"), ("fairseq", "contradicted")])
def test_streams_are_as_lemma_2_says_unless_the_branches_start_small(init: str, verdict: str) -> None:
    for claim, norm in (("TH-2", "postln"), ("TH-3", "preln")):
        measured = measure("real_hidden_states", 10, norm=norm, init=init, tied=False, **HIDDEN)
        assert finding_of(claim, renamed(measured, "init", {init: "xavier"}))["verdict"] == verdict
