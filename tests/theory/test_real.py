"""The real models at initialisation: the engine's own, and what is measured of them."""

import pytest
import torch

from ln_repro.theory.real import EOS, Setting, Transformer, real_gradients, zipf_batches
from ln_repro.theory.unit import Unit

pytestmark = pytest.mark.usefixtures("double")
SMALL = {"width": 32, "ffn": 64, "heads": 2, "vocabulary": 200, "batches": 2, "sentences": 4, "length": 6}


def unit(what: str, norm: str, seed: int = 1, layers: int = 3, **more: object) -> Unit:
    return Unit.of(what, seed, norm=norm, layers=layers, **{**SMALL, **more})


def test_tokens_are_words_and_fall_off_as_zipf_has_it() -> None:
    setting = Setting("preln", 1, vocabulary=1000, batches=1, sentences=500, length=24)
    (source, target), = zipf_batches(setting, 1)  # fmt: skip
    assert source.shape == target.shape == (500, 24)
    assert (source[:, -1] == EOS).all() and (target[:, -1] == EOS).all()
    counts = torch.bincount(torch.cat([source, target])[:, :-1].flatten(), minlength=1000).double()
    assert not counts[:4].any()
    assert counts[4] / counts[13] == pytest.approx(10, rel=0.15)


def test_gradients_are_those_of_the_mean_over_mini_batches() -> None:
    wanted = unit("real_gradients", "postln", dropout=0.0)
    found = real_gradients(wanted)
    setting = Setting(**dict(wanted.settings))
    model = Transformer(setting, 1)
    sum(model(*batch) / setting.batches for batch in zipf_batches(setting, 1)).backward()  # type: ignore[union-attr]
    for number, layer in enumerate(model.decoder.layers):
        assert found["norm_of_mean"]["decoder.w2"][number] == pytest.approx(float(layer.ffn.fc2.weight.grad.norm()))  # type: ignore[union-attr, operator, arg-type]
    for name, norms in found["norm_of_mean"].items():
        assert all(a <= b * 1.0001 for a, b in zip(norms, found["mean_of_norms"][name], strict=True))
