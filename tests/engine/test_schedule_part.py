"""A ramp on one stack alone: which parameters follow it, at which rates, and after a resume."""

import math

import pytest
import torch

from ln_repro.engine.checkpoints import Checkpoints
from ln_repro.engine.plugin.schedules import RampAndTail, split
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Schedule
from tests.engine.made import adam
from tests.engine.test_training import came_to

SIZE = {"layers": 1, "width": 16, "ffn": 32, "heads": 2, "norm": "preln"}
RAMP = {"schedule__warmup_updates": 6, "schedule__decay": "inverse_sqrt"}
PART = {**RAMP, "schedule__part": "encoder"}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("embeddings", ["ramp", "full"])
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_the_other_stack_has_the_tail_alone(build_model, part, embeddings, shared):
    model = build_model(**SIZE, share_embeddings=shared)
    names = {parameter: name for name, parameter in model.named_parameters()}
    optimizer = adam(list(model.parameters()), 2e-3)
    cfg = Schedule(warmup_updates=6, decay="inverse_sqrt", part=part, embeddings=embeddings)
    split(optimizer, cfg, model.named_parameters())
    ramp, full = ({names[parameter] for parameter in group["params"]} for group in optimizer.param_groups)
    other = {"encoder": "decoder", "decoder": "encoder"}[part]
    assert ramp | full == set(names.values()) and not ramp & full
    for name in names.values():
        expected = ramp if name.startswith(f"{part}.stack.") else full if name.startswith(f"{other}.stack.") else None
        assert name in (expected or {"ramp": ramp, "full": full}[embeddings])
    schedule = RampAndTail(optimizer)
    schedule.plan(LearningRate(2e-3, 6, "inverse_sqrt", 4000, None, updates_per_epoch=10, total=30))
    for done in range(30):
        t = done + 1
        reported = schedule.step_update(done)
        tail = min(1.0, math.sqrt(6 / t))
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates == pytest.approx([2e-3 * min(t / 6, tail), 2e-3 * tail], rel=1e-12)
        assert reported == rates[0]


def test_with_all_parts_there_is_one_group(build_model):
    model = build_model(**SIZE)
    optimizer = adam(list(model.parameters()))
    split(optimizer, Schedule(warmup_updates=6, decay="inverse_sqrt"), model.named_parameters())
    assert len(optimizer.param_groups) == 1


@pytest.mark.slow
def test_a_run_stopped_in_the_ramp_of_a_part_resumes_exactly(trained, tmp_path):
    assert trained(tmp_path / "whole", **PART) == 0
    assert trained(tmp_path / "halved", "stop", "update", 4, **PART) == 130
    assert trained(tmp_path / "halved", **PART) == 0
    events, weights = came_to(tmp_path / "whole")
    resumed, same = came_to(tmp_path / "halved")
    assert same == weights
    assert [e for e in resumed if e["kind"] == "valid"] == [e for e in events if e["kind"] == "valid"]
    assert trained(tmp_path / "all", **RAMP) == 0
    assert came_to(tmp_path / "all")[1] != weights


def test_a_state_keeps_both_groups(trained, tmp_path):
    assert trained(tmp_path / "run", "stop", "update", 4, **PART) == 130
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints")
    point = checkpoints.resume_point(pytest.fail)
    state = torch.load(tmp_path / "run" / "checkpoints" / point.file, weights_only=False)
    groups = state["last_optimizer_state"]["param_groups"]
    after = point.update + 1
    assert [group["lr"] for group in groups] == pytest.approx([1e-3 * min(1, after / 6), 1e-3])
