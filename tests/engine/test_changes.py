"""What is put back to stock fairseq's ways, or put in besides, changes how fast an update is, and nothing else."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from ln_repro.bench.trainings import CANDIDATES, PARTS, Workload, _finish
from tests.bench.test_bench import work  # noqa: F401 - a fixture


def test_every_change_can_be_made() -> None:
    from ln_repro.engine import ablations, candidates

    assert {*ablations.PARTS, "memory"} == set(PARTS)  # memory is the process's, and is settled before it starts
    assert {*candidates.CANDIDATES} == set(CANDIDATES)


def losses(work: Workload, folder: Path, *job: str) -> list[float]:  # noqa: F811
    """Return the mean losses of every ten updates."""
    _finish([work._start_ours(folder, 1, job)])
    events = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    return [value for event in events if event["kind"] == "train" for value in (event["loss"], event["gnorm"])]


def assert_same_losses(work: Workload, folder: Path, changes: Sequence[str]) -> None:  # noqa: F811
    """Assert that each change moves the losses by rounding: by less than a rate does that is 1e-4 of itself higher."""
    higher = work.experiment.model_copy(update={"lr": work.experiment.lr * (1 + 1e-4)})
    ours = losses(work, folder / "ours", "train")
    moved = losses(Workload(higher, work.corpus), folder / "higher", "train")
    allowed = max(abs(there - here) for here, there in zip(ours, moved, strict=True))
    assert len(ours) == 6 and allowed > 0
    for change in changes:
        assert losses(work, folder / change, "altered", change) == pytest.approx(ours, rel=0, abs=allowed), change


@pytest.mark.slow
def test_with_a_part_put_back_the_losses_are_the_same(work: Workload, tmp_path: Path) -> None:  # noqa: F811
    assert_same_losses(work, tmp_path, [part for part in PARTS if part != "memory"])


@pytest.mark.slow
def test_with_a_candidate_the_losses_are_the_same(work: Workload, tmp_path: Path) -> None:  # noqa: F811
    """Without dropout, which a compiled layer draws otherwise."""
    model = work.experiment.model.model_copy(update={"dropout": 0.0})
    work = Workload(work.experiment.model_copy(update={"model": model}), work.corpus)
    assert_same_losses(work, tmp_path, list(CANDIDATES))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("causal", [True, False])
def test_plain_attention_is_torchs(causal: bool) -> None:
    from ln_repro.engine.ablations import dense_attention

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

    from ln_repro.engine import ablations

    place = importlib.import_module(f"ln_repro.engine.plugin.{module}")
    before = getattr(place, name)
    monkeypatch.setattr(place, name, before)  # to come back to
    ablations.PARTS[part]()
    assert getattr(place, name) is not before
    used = [code for kind in vars(place).values() if hasattr(kind, "forward")
            for code in [getattr(kind.forward, "__code__", None)] if code]  # fmt: skip
    assert any(name in code.co_names for code in used)
