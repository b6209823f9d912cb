"""Stacked runs: the same losses as of runs that are trained separately, and independent of each other."""

import os
import socket

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from ln_repro.engine.stacked import driver, operations
from ln_repro.engine.stacked.connection import StackedRun
from ln_repro.engine.stacked.driver import Driver
from ln_repro.engine.stop import StopRequest
from ln_repro.model.residual import PreLN
from ln_repro.model.schemes.registry import SCHEMES
from ln_repro.records.events import Events
from tests.engine.conftest import ROWS
from tests.engine.made import StopAfter, losses, separately


def together(loops):
    """Train loops as a stack in which none fails; return `losses`."""
    ended = []
    Driver(loops, lambda loop, error: ended.append((loop, error))).run()
    assert dict(ended) == dict.fromkeys(loops)
    return losses(loops)


def test_the_mean_gradient_over_tokens_is_reported_and_then_clipped(loops):
    (loop,) = loops({"sgd": ROWS["sgd"] | {"lr": 50.0, "train__clip_norm": 0.1}})
    samples, parameters = next(loop.next_epoch()), [*loop.trainer.get_model().parameters()]
    gradient = loop.trainer.flat_gradients(samples) / sum(sample["ntokens"] for sample in samples)
    before = parameters_to_vector(parameters).detach()
    update = loop.trainer.update(samples)
    step, norm = (before - parameters_to_vector(parameters).detach()) / update.lr, gradient.norm()
    assert float(update.gnorm) == pytest.approx(float(norm), rel=1e-4) and norm > 0.1
    assert (step - 0.1 * gradient / norm).norm() < 1e-3 * 0.1


def test_every_epoch_has_the_mini_batches_in_an_order_of_its_own_given_by_the_seed(loops):
    first, again, other = loops({"first": {}, "again": {}, "other": {"seed": 2}})
    order, same, others = (
        [[sample["id"].tolist() for (sample,) in loop.next_epoch()] for _ in range(2)] for loop in (first, again, other)
    )
    assert order == same and order[0] != order[1] and order[0] != others[0]
    assert sorted(order[0]) == sorted(order[1]) != order[1]


def alone(caplog):
    """Return the messages that runs go on one by one."""
    return [message for message in caplog.messages if "one by one" in message]


def written(loops):
    return sum(entry.bytes for loop in loops for entry in loop.checkpoints.entries())


def approximately(losses, precision="fp32"):
    """Return what losses are compared with: sums may be taken in another order, which depends on the processor."""
    return pytest.approx(losses, rel=2e-5 if precision == "fp32" else 1e-2)


OFTEN = {("postln", "fp32"), ("preln", "fp32"), ("preln", "bf16"), ("admin", "fp32"), ("ngpt", "bf16")}


@pytest.mark.parametrize(("norm", "precision"), [
    pytest.param(norm, precision, marks=() if (norm, precision) in OFTEN else pytest.mark.slow)
    for norm in SCHEMES
    for precision in ("fp32", "bf16")
])  # fmt: skip
def test_a_stack_of_runs_is_those_runs(loops, norm, precision, caplog):
    separate, stacked = loops(place="separate", norm=norm, precision=precision), loops(norm=norm, precision=precision)
    expected, found = separately(separate), together(stacked)
    assert not alone(caplog)
    assert written(stacked) < 1.2 * written(separate)  # no file has the parameters of all runs
    assert len(found) == len(ROWS) * 22  # 20 updates, two validations
    assert found == approximately(expected, precision)


@pytest.mark.parametrize(("first", "then"), [(together, separately), (separately, together)])
def test_a_run_resumes_from_a_state_saved_in_a_stack_and_the_reverse(loops, first, then, caplog):
    rows = ROWS | {"capped": ROWS["capped"] | {"schedule__step_reset": "encoder"}}
    expected = separately(loops(rows, place="separate"))
    stopped = loops(rows)
    for loop in stopped:
        loop.stop = StopAfter(loop, 10)
    first(stopped)
    assert [loop.status for loop in stopped] == [130] * len(ROWS)
    resumed = loops(rows)
    assert [loop.update for loop in resumed] == [10] * len(ROWS)
    assert then(resumed) == approximately(expected)
    assert not alone(caplog)


def test_stacked_runs_save_a_state_only_if_they_stop_if_only_in_a_validation(loops):
    expected = separately(loops(place="separate"))
    stopped = loops()
    for loop in stopped:
        loop.trainer.get_valid_iterator = lambda *_, loop=loop, get=loop.trainer.get_valid_iterator: (
            loop.stop.request() or get("valid")
        )
    together(stopped)
    for loop in stopped:
        assert [entry.update for entry in loop.checkpoints.entries() if entry.kind == "state"] == [16]
    assert together(loops()) == approximately(expected)
    assert [entry.update for entry in loops()[0].checkpoints.entries() if entry.kind == "state"] == [16, 20]


def test_runs_that_diverge_fail_or_stop_leave_the_others_as_they_are_and_a_stopped_one_catches_up(loops, caplog):
    rows = {"good": {}, "other": {"lr": 5e-4}, "stopped": {"lr": 1e-3}, "failing": {}, "diverging": {"lr": 1e30}}
    expected = separately(loops(rows, place="separate"))
    begun, ended = loops(rows), {}
    stopped, failing = begun[2:4]
    stopped.stop = StopAfter(stopped, 5)
    failing.probing.due = lambda update: update == 7 and 1 / 0
    Driver(begun, lambda loop, error: ended.setdefault(loop.inputs.folder.name, error)).run()
    assert [*ended] == ["diverging", "stopped", "failing", "good", "other"]
    assert isinstance(ended.pop("failing"), ZeroDivisionError) and not any(ended.values())
    found = losses(begun)
    assert found == approximately({key: expected[key] for key in found}) and stopped.status == 130
    assert sum(name in ("good", "other") for name, _, _ in found) == 2 * 22
    last = Events(begun[-1].inputs.folder / "events.jsonl").read()[-1]
    assert (last["state"], last["rule"]) == ("diverged", "not_finite")
    again = loops({name: rows[name] for name in ("stopped", "failing")})  # at updates 5 and 0
    assert [loop.update for loop in again] == [5, 0]
    found = together(again)
    assert found == approximately({key: expected[key] for key in found}) and len(found) == 2 * 22
    assert not alone(caplog)


def test_the_end_of_a_run_whose_directory_is_gone_leaves_the_process_of_its_stack_alive(tmp_path):
    ours, theirs = socket.socketpair()
    row = StackedRun(ours.detach(), StopRequest())
    row.log, row.lock = tmp_path / "gone" / "train.log", os.open(tmp_path, os.O_RDONLY)
    row.end(0, FileNotFoundError("its directory"))
    assert theirs.recv(8) == b"1"


def test_a_stack_is_trusted_if_two_runs_of_it_have_the_gradients_of_separate_ones(loops, monkeypatch):
    inputs = loops({"any": {}}, precision="bf16")[0].inputs
    assert driver.difference(inputs) < 1e-5
    monkeypatch.setattr(operations, "mask_for", lambda x, p: torch.native_dropout(x, p, True)[1])  # one for each row
    assert driver.difference(inputs) > 100 * driver.TOLERANCE


def test_runs_whose_scheme_has_state_go_on_one_by_one(loops, monkeypatch, caplog):
    init, forward = PreLN.__init__, PreLN.forward

    def with_state(self, *arguments):
        init(self, *arguments)
        self.register_buffer("passes", torch.zeros(()))

    def counting(self, x, branch):
        self.passes += 1
        return forward(self, x, branch) / self.passes

    monkeypatch.setattr(PreLN, "__init__", with_state)
    monkeypatch.setattr(PreLN, "forward", counting)
    rows = {"warm": {}, "high": {"lr": 5e-3}}
    expected = separately(loops(rows, place="separate", norm="preln"))
    assert together(loops(rows, norm="preln")) == expected
    assert "has buffers" in alone(caplog)[0]


def test_runs_whose_scheme_vmap_rejects_go_on_one_by_one(loops, monkeypatch, caplog):
    forward = PreLN.forward

    def reading(self, x, branch):
        return forward(self, x * (1.0 if x.sum().item() > 0 else 2.0), branch)

    monkeypatch.setattr(PreLN, "forward", reading)
    rows = {"warm": {}, "high": {"lr": 5e-3}}
    expected = separately(loops(rows, place="separate", norm="preln"))
    assert together(loops(rows, norm="preln")) == expected
    assert len(alone(caplog)) == 1
