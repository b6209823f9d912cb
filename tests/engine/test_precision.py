"""In bf16 and on a GPU, training and decoding give what they give in fp32 on the CPU, except for rounding."""

from dataclasses import replace
from statistics import fmean

import pytest

from ln_repro.bench.decodings import trained
from ln_repro.records.events import Events
from tests.engine.made import workload


def losses(corpus, **changes):
    """Return the loss of every update."""
    with trained(workload(corpus, **changes)) as made:
        return [event["loss"] for event in Events(made.folder / "events.jsonl").read() if event["kind"] == "train"]


def distance(one, other):
    return max(abs(here - there) for here, there in zip(one, other, strict=True))


@pytest.mark.slow
def test_losses_in_bf16_are_nearer_to_those_in_fp32_than_those_of_another_seed(letters):
    def course(**changes):
        every = losses(letters, **changes)
        return [fmean(every[start : start + 20]) for start in range(0, len(every), 20)]

    full, low, *others = course(), course(precision="bf16"), course(seed=2), course(seed=3)
    assert len(full) == 8 and full[0] - full[-1] > 1  # it learns
    assert 0 < distance(low, full) < max(distance(other, full) for other in others)


@pytest.mark.gpu
@pytest.mark.slow
def test_losses_in_bf16_on_a_gpu_are_near_those_in_fp32(letters):
    cpu, gpu, low, slower = (
        losses(letters, model__dropout=0.0, train__max_update=20, **changes)
        for changes in (
            {}, {"train__device": "cuda"}, {"train__device": "cuda", "precision": "bf16"},
            {"train__device": "cuda", "lr": 4e-3},
        )
    )  # fmt: skip
    assert len(cpu) == 20 and distance(gpu, cpu) < distance(low, cpu) < distance(slower, cpu)


@pytest.mark.gpu
@pytest.mark.slow
def test_hypotheses_are_those_of_the_cpu(letters):
    with trained(workload(letters, train__device="cuda")) as made:
        with made.decoder() as decode:
            on_gpu = decode()[1]
        with replace(made, work=workload(letters)).decoder() as decode:
            on_cpu = decode()[1]
    assert on_gpu == on_cpu and len(set(on_cpu.values())) > 10
