"""A part that is put back to what stock fairseq does changes how fast an update is, and nothing else."""

import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from ln_repro.bench.trainings import PARTS, Workload, _finish
from tests.bench.test_bench import work  # noqa: F401 - a fixture


def test_every_part_can_be_put_back() -> None:
    from ln_repro.engine import plain

    assert {*plain.PARTS, "memory"} == set(PARTS)  # memory is the process's, and is settled before it starts


def losses(work: Workload, folder: Path, *job: str) -> list[float]:  # noqa: F811
    """Return the mean losses of every ten updates."""
    _finish([work._start_ours(folder, 1, job)])
    events = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    return [value for event in events if event["kind"] == "train" for value in (event["loss"], event["gnorm"])]


def test_with_a_part_put_back_the_losses_are_the_same(work: Workload, tmp_path: Path) -> None:  # noqa: F811
    ours = losses(work, tmp_path / "ours", "train")
    assert len(ours) == 6
    for part in PARTS:
        if part != "memory":
            assert losses(work, tmp_path / part, "without", part) == pytest.approx(ours, abs=1e-5), part


@pytest.mark.parametrize("causal", [True, False])
def test_plain_attention_is_torchs(causal: bool) -> None:
    from ln_repro.engine.plain import dense_attention

    q, k, v = torch.randn(3, 2, 4, 7, 8)
    mask = None if causal else torch.zeros(2, 1, 1, 7).masked_fill(torch.rand(2, 1, 1, 7) > 0.7, -torch.inf)
    if mask is not None:
        mask[..., 0] = 0
    theirs = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    torch.testing.assert_close(dense_attention(q, k, v, attn_mask=mask, is_causal=causal), theirs)


@pytest.mark.parametrize(("part", "module", "name"), [
    ("attention", "attention", "scaled_dot_product_attention"), ("loss", "loss", "label_smoothed_nll"),
])  # fmt: skip
def test_what_is_put_back_is_what_runs(part: str, module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    from ln_repro.engine import plain

    place = importlib.import_module(f"ln_repro.engine.plugin.{module}")
    before = getattr(place, name)
    monkeypatch.setattr(place, name, before)  # to come back to
    plain.PARTS[part]()
    assert getattr(place, name) is not before
    used = [code for kind in vars(place).values() if hasattr(kind, "forward")
            for code in [getattr(kind.forward, "__code__", None)] if code]  # fmt: skip
    assert any(name in code.co_names for code in used)
