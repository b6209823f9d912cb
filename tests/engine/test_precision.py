"""In bf16 and on a GPU, training and decoding give the results of fp32 on the CPU, except for rounding."""

from statistics import fmean

import pytest

from ln_repro.records.events import Events
from tests.engine.made import decoded, workload


def distance(one, other):
    return max(abs(here - there) for here, there in zip(one, other, strict=True))


@pytest.mark.slow
def test_losses_in_bf16_are_nearer_to_those_in_fp32_than_those_of_another_seed(letters, tmp_path):
    def course(**changes):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        workload(letters, **changes).train(folder)
        every = [event["loss"] for event in Events(folder / "events.jsonl").read() if event["kind"] == "train"]
        return [fmean(every[start : start + 20]) for start in range(0, len(every), 20)]

    full, low, *others = course(), course(precision="bf16"), course(seed=2), course(seed=3)
    assert len(full) == 8 and full[0] - full[-1] > 1  # it learns
    assert 0 < distance(low, full) < max(distance(other, full) for other in others)


@pytest.mark.gpu
@pytest.mark.slow
def test_hypotheses_are_those_of_the_cpu(letters, tmp_path):
    gpu = workload(letters, train__device="cuda", probe="all", every=50)
    gpu.train(tmp_path / "run")
    (on_gpu,), (on_cpu,) = (decoded(work, tmp_path / "run") for work in (gpu, workload(letters)))
    assert on_gpu == on_cpu and len(set(on_cpu)) > 10
