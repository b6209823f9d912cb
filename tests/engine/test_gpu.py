"""On a GPU, training and decoding give what they give on the CPU, except for rounding."""

import json

import pytest

from ln_repro.bench.decodings import trained
from ln_repro.bench.trainings import Workload
from tests.examples import experiment

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


def workload(corpus, device, precision="fp32", updates=20, lr=5e-3):
    """Return a small model, trained for some updates on a device."""
    model = {"model__layers": 2, "model__width": 32, "model__ffn": 64, "model__heads": 2, "model__dropout": 0.0}
    train = {"train__max_update": updates, "train__max_tokens": 400, "train__log_every": 1, "train__device": device}
    settings = {"norm": "preln", "lr": lr, "schedule__warmup_updates": 10, "precision": precision}
    return Workload(experiment(**settings, **model, **train), corpus)


def losses(work):
    """Return the loss of every update."""
    with trained(work) as made:
        events = map(json.loads, (made.folder / "events.jsonl").read_text().splitlines())
        return [event["loss"] for event in events if event["kind"] == "train"]


def test_losses_in_bf16_are_near_those_in_fp32(letters):
    cpu, gpu, low = (losses(workload(letters, *of)) for of in (("cpu",), ("cuda",), ("cuda", "bf16")))
    slower = losses(workload(letters, "cuda", lr=4e-3))
    assert len(cpu) == len(gpu) == len(low) == 20

    def distance(of):
        return max(abs(one - other) for one, other in zip(of, cpu, strict=True))

    assert distance(gpu) < distance(low) < distance(slower)


def test_hypotheses_are_those_of_the_cpu(letters):
    with trained(workload(letters, "cuda", updates=150)) as made:
        with made.decoder() as decode:
            on_gpu = decode()[1]
        model = Workload(workload(letters, "cpu").experiment, letters)
        with type(made)(model, made.folder).decoder() as decode:
            on_cpu = decode()[1]
    assert on_gpu == on_cpu and len(set(on_cpu.values())) > 10
