"""The training loop: stops, kills and lost weights; the metrics that are read together; each mini-batch's dropout."""

import shutil
import time
from contextlib import nullcontext
from itertools import count, islice, pairwise

import psutil
import pytest
import torch

from ln_repro.engine.checkpoints import Checkpoints
from ln_repro.engine.loop import MetricBuffer
from ln_repro.engine.plugin.tasks import per_token
from ln_repro.engine.process import Worker
from ln_repro.engine.process_group import Group
from ln_repro.engine.trainer import STREAMS_APART, Update, seeded
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.experiment.divergence import NOT_FINITE, Diverged
from ln_repro.records.events import Events
from ln_repro.records.record import results_of
from ln_repro.system import directory_lock
from ln_repro.system.directory_lock import acquire
from ln_repro.system.distributed import Rank
from tests.engine.made import StopAfter, separately

OF_THE_CLOCK = {"time", "seconds", "saving", "tokens_per_s", "updates_per_s", "peak_memory_mb"}
NAN = float("nan")


def came_to(folder):
    """Return the events that count, and the checksums of the weights."""
    every = Events(folder / "events.jsonl").read()
    counted = [event for event in every if event.get("state") not in ("started", "resumed")]
    events = [{key: value for key, value in event.items() if key not in OF_THE_CLOCK} for event in counted]
    weights = Checkpoints(folder / "checkpoints").weights()
    return events, {epoch: (entry.update, entry.sha256) for epoch, entry in weights.items()}


def test_a_worker_on_the_cpu_does_not_see_a_gpu(tmp_path, monkeypatch):
    """fairseq pins its mini-batches, for which torch would occupy a GPU that it sees."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # tests hide all GPUs, which it would inherit
    worker = Worker("train", [], tmp_path / "log", on_cpu=True)
    assert psutil.Process(worker.pid).environ()["CUDA_VISIBLE_DEVICES"] == ""
    worker.kill()
    worker.wait()


def before_call(owner, method, number, act):
    """Let something happen before a method is called for the ``number``-th time."""
    original, calls = getattr(owner, method), count(1)

    def called(*arguments):
        if next(calls) == number:
            act()
        return original(*arguments)

    setattr(owner, method, called)


def test_an_update_leaves_the_weights_of_ngpt_unit_vectors(loops):
    (loop,) = loops({"run": {}}, norm="ngpt", train__max_update=2)
    separately([loop])
    weights = loop.trainer.get_model().state_dict()
    for name, dim in (("self_attn.out_proj", 0), ("self_attn.q_proj", 1), ("ffn.fc1", 1), ("ffn.fc2", 0)):
        lengths = weights[f"encoder.stack.layers.0.{name}.weight"].norm(dim=dim)
        torch.testing.assert_close(lengths, torch.ones_like(lengths))


def test_admin_is_profiled_before_the_first_update(loops):
    (loop,) = loops({"run": {}}, norm="admin")
    first = loop.trainer.get_model().state_dict()["encoder.stack.layers.0.self_attn_residual.omega"]
    assert (first - 1).abs().max() < 0.05  # that of the closed form is 1.3


def test_a_step_can_give_a_stack_its_first_weights_and_the_optimizer_a_new_state(loops, tmp_path):
    burst = {"schedule__warmup_updates": 0, "schedule__decay": "step", "schedule__step_update": 3,
             "train__max_update": 6, "train__log_every": 3}  # fmt: skip
    resets = {"encoder": {**burst, "schedule__step_reset": "encoder"}, "none": burst, "first": {"lr": 1e-30},
              "weights": {**burst, "schedule__step_reset": "encoder_weights"}}  # fmt: skip
    saved = {}
    for name, changes in resets.items():
        (loop,) = loops({"run": changes}, name)
        loop.stop = StopAfter(loop, 3)
        separately([loop])
        assert loop.status == Interrupted.exit_code
        (state,) = loop.checkpoints.folder.glob("update3.pt")
        saved[name] = torch.load(state, weights_only=True)
    models = {name: content["model"] for name, content in saved.items()}
    for name, weights in models["encoder"].items():
        assert torch.equal(models["weights"][name], weights)
        torch.testing.assert_close(weights, models["first" if ".stack." in name and "enc" in name else "none"][name])
        assert "weight" not in name or not torch.equal(models["first"][name], models["none"][name])
    states = {name: content["last_optimizer_state"]["state"] for name, content in saved.items()}
    assert not states["encoder"] and states["none"]
    torch.testing.assert_close(states["weights"], states["none"], rtol=0, atol=0)
    for name in ("encoder", "whole"):
        separately(loops({"run": resets["encoder"]}, name))
    assert came_to(tmp_path / "encoder" / "run") == came_to(tmp_path / "whole" / "run")
    probed = {**burst, "probe": "updates", "every": 1}
    for name, updates in (("none", [1, 2, 3, 4, 5, 6]), ("encoder_weights", [1, 2, 4, 5, 6])):
        (loop,) = loops({"run": {**probed, "schedule__step_reset": name}}, f"probed {name}")
        separately([loop])
        assert [event["update"] for event in loop.events.read() if event["kind"] == "probe"] == updates
    with pytest.raises(UserError, match=r"schedule.step_update: 6: expected less than the run's 6 updates"):
        loops({"run": {**resets["encoder"], "schedule__step_update": 6}}, "late")


def test_weights_that_are_lost_in_the_last_update_of_an_epoch_are_a_divergence(loops):
    (loop,) = loops({"run": {}})
    model = loop.trainer.get_model()
    before_call(loop.trainer, "valid_step", 1, lambda: [p.data.fill_(NAN) for p in model.parameters()])
    separately([loop])
    events, weights = came_to(loop.inputs.folder)
    validation, end = events[-2:]
    assert validation["kind"] == "valid" and validation["loss"] is None
    assert end["state"] == "diverged" and end["rule"] == NOT_FINITE
    assert end["reason"] == "the validation loss is not finite" and end["last_finite_loss"] > 0
    assert weights == {}
    results = results_of(loop.events.read(), average=False)
    assert [row.valid_loss for row in results["epochs"]] == [None] and results["bleu"].test is None


@pytest.mark.parametrize("probe", ["all", "collapse"])
def test_a_probed_training_is_the_same_bit_for_bit(loops, tmp_path, probe):
    separately(loops({"run": {}}, "plain"))
    separately(loops({"run": {}}, "probed", probe=probe, every=10, probe_batches=2))
    events, weights = came_to(tmp_path / "plain" / "run")
    probed_events, probed_weights = came_to(tmp_path / "probed" / "run")
    assert probed_weights == weights
    assert [event for event in probed_events if event["kind"] != "probe"] == events
    probes = [event for event in probed_events if event["kind"] == "probe"]
    assert {event["batches"] for event in probes} == {2}
    last = events[-1]["update"]
    due = sorted({*range(0, last + 1, 10), *(2**n for n in range(last.bit_length()))})
    kinds = {"gradients": due, "curvature": due, "updates": due[1:]} if probe == "all" else {"collapse": due}
    for kind, updates in kinds.items():
        assert [event["update"] for event in probes if event["name"] == kind] == updates


def test_a_run_whose_events_are_lost_is_not_resumed(trained, tmp_path):
    folder = tmp_path / "run of ${USER}"  # which is not to be replaced
    assert trained(folder, "kill", "_write_weights", 2) == -9
    events = folder / "events.jsonl"
    lines = events.read_text().splitlines(keepends=True)
    for lost in ("train", "valid"):
        number = next(number for number, line in enumerate(lines) if f'"kind": "{lost}"' in line)
        events.write_text("".join([*lines[:number], *lines[number + 1 :]]))
        assert trained(folder, fails=f"{events} lacks events up to update ") == 1
    events.write_text("".join(lines))
    assert trained(folder) == 0


@pytest.mark.parametrize(("ramp", "state"), [(0, "diverged"), (10_000, "trained")])
def test_a_run_is_not_stuck_before_its_ramp_ends(loops, ramp, state):
    stuck = {"stop_on_divergence": True, "divergence__updates": 1, "lr": 1e-30, "schedule__warmup_updates": ramp}
    (loop,) = loops({"run": stuck}, unigram_bits=1.0)
    separately([loop])
    assert loop.status == 0 and loop.events.read()[-1]["state"] == state


@pytest.mark.slow
def test_a_stop_or_a_kill_in_a_validation_changes_and_costs_nothing(trained, tmp_path):
    """The stacks have different rates here, so that a resumed optimizer needs those of both."""
    part = {"schedule__warmup_updates": 6, "schedule__decay": "inverse_sqrt", "schedule__part": "encoder"}
    assert trained(tmp_path / "whole", **part) == 0
    ends = [event["update"] for event in Events(tmp_path / "whole" / "events.jsonl").read() if event["kind"] == "valid"]
    folder, points = tmp_path / "disturbed", []
    for disturbance, status in (
        (("stop", "update", ends[0]), Interrupted.exit_code),
        (("stop", "valid_step", 1), Interrupted.exit_code),
        (("kill", "valid_step", 2), -9),
        (("kill", "_write_weights", 1), -9),
        (("kill", "_write_weights", 2), -9),
        (("stop", "valid_step", 1), Interrupted.exit_code),
        (("stop", "valid_step", 0), 0),
    ):
        assert trained(folder, *disturbance, **part) == status
        points.append(Checkpoints(folder / "checkpoints").resume_point(pytest.fail).update)
    assert points == [ends[0]] * 4 + [ends[1]] * 3
    assert came_to(folder) == came_to(tmp_path / "whole")


def test_the_time_of_saving_counts_as_training_and_a_state_is_also_saved_by_time(loops):
    (loop,) = loops({"run": {}}, train__save_every=7)
    before_call(loop.trainer, "save_state", 2, lambda: time.sleep(1))
    separately([loop])
    slow = max((event for event in loop.events.read() if event["kind"] == "train"), key=lambda event: event["saving"])
    assert slow["seconds"] > slow["saving"] > 1
    assert slow["tokens_per_s"] == pytest.approx(slow["tokens"] / slow["seconds"], rel=0.01)
    (loop,) = loops({"run": {}}, "often", train__save_every=None, train__save_minutes=1e-9)
    assert len([*islice(loop.run(), 12)]) == 12  # the mini-batches of the next update are there before it is done
    assert loop.checkpoints.resume_point(pytest.fail).update == 11


@pytest.mark.parametrize("method", ["_report", "_save_state"])
@pytest.mark.parametrize("disturbance", ["replace", "take"])
def test_nothing_is_written_into_a_folder_that_was_replaced_or_taken(loops, tmp_path, monkeypatch, disturbance, method):
    """The command of the trainer may be suspended, and cannot stop it."""
    folder = tmp_path / "runs" / "run"

    def disturb():
        if disturbance == "take":
            (folder / "sessions" / "2.json").write_text("{}")
            return
        shutil.rmtree(folder)
        monkeypatch.setattr(directory_lock, "machine", lambda: "another")
        acquire(folder).release()

    with acquire(folder):
        (loop,) = loops({"run": {}})
        before_call(loop, method, 1, disturb)
        with pytest.raises(LnReproError, match=r"runs/run was deleted or taken over by another"):
            separately([loop])
    reported = "train" in [event["kind"] for event in Events(folder / "events.jsonl").read()]
    assert not reported or (disturbance, method) == ("take", "_save_state")
    assert not [path for path in folder.rglob("*") if path.name.endswith((".pt", ".part"))]


def update(number, loss, gnorm=1.0, tokens=2):
    """Return an update of so many bits per token."""
    nats = torch.tensor(loss * tokens, dtype=torch.double) * torch.tensor(2.0).double().log()
    log = {"loss": nats, "nll_loss": nats / 2, "sample_size": tokens}
    return Update(number, 0.5, [log], torch.tensor(gnorm))


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("third", "message"),
    [(update(3, NAN, NAN), "gradients are Nan/Inf"), (update(3, NAN), "the loss is not finite"), (update(3, 1), None)],
)
def test_the_end_of_a_run_does_not_depend_on_when_it_is_read(third, message, at_once):
    metrics = MetricBuffer(0, None)
    with pytest.raises(Diverged, match=message) if message else nullcontext():
        for unread in (update(1, 3), update(2, 2), third, update(4, 1)):
            metrics.unread.append(unread)
            if not at_once:
                metrics.flush(Group(Rank()))
        metrics.flush(Group(Rank()))
    assert metrics.last.number == len(metrics.logs) == (2 if message else 4)
    assert metrics.last_loss == pytest.approx(2 if message else 1)
    loss = 5 / 2 if message else 7 / 4
    assert per_token(metrics.logs) == pytest.approx({"loss": loss, "nll_loss": loss / 2})


def test_every_mini_batch_has_its_own_dropout_the_same_on_one_process_as_on_two():
    batches = [{"id": number} for number in range(6)]
    alone = seeded(batches, 12, 0, 1)
    assert alone[0]["seed"] == 12 and len({sample["seed"] for sample in alone}) == 6
    assert seeded(batches[::2], 12, 0, 2) == alone[::2] and seeded(batches[1::2], 12, 1, 2) == alone[1::2]
    assert seeded([{"id": 1}, {}], 12, 0, 2) == [{"id": 1, "seed": 12}]  # fairseq fills up shorter shares
    assert seeded([{}, {}], 12, 0, 2) == [{}]
    low = [*sorted(number * STREAMS_APART % 2**32 for number in range(1000)), 2**32]
    assert min(after - before for before, after in pairwise(low)) > 1_000_003  # no update near it has its dropout
