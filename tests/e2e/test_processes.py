"""A run in several processes, started by torchrun, has the results of one process."""

import os
import signal
import subprocess
import sys

import pytest

from ln_repro.records.events import Events
from tests.waiting import HANGS_SECONDS

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--no-python"]
LN_REPRO = [sys.executable, "-m", "ln_repro.cli", "run"]


def torchrun(run, processes, *extra):
    return subprocess.Popen(
        [*TORCHRUN, "--standalone", "--nproc-per-node", str(processes), *LN_REPRO, *run.arguments, *extra],
        env=run.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def losses(run, kind="train"):
    """Return the losses that count, by update."""
    events = Events(run.folder / "events.jsonl").read()
    return {event["update"]: event["loss"] for event in events if event["kind"] == kind}


NUDGE = "lr=0.0020002"
"""A learning rate higher by 1e-4 of itself: what it changes bounds what rounding may."""


def largest_change(run, nudged, kind="train"):
    return max(abs(losses(nudged, kind)[update] - loss) for update, loss in losses(run, kind).items())


SETTINGS = ("train.max_epoch=2", "train.batches_per_update=4", "train.log_every=1", "train.save_minutes=0.001")
MASKED = ("task=masked_lm", "train.block_tokens=16", "train.label_smoothing=0", "train.max_epoch=1",
          "train.max_tokens=80", "train.batches_per_update=2", "train.log_every=1")  # fmt: skip
"""Here one process has a shorter share of the epoch."""


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "settings"), [(4, SETTINGS), (2, MASKED)], ids=["four", "two"])
def test_several_processes_train_as_one_does_with_as_many_mini_batches(command, processes, settings):
    single, several, nudged = (command(name, *settings) for name in ("single", "several", "nudged"))
    assert single.finish()[0] == nudged.finish(NUDGE)[0] == 0
    process = torchrun(several, processes)
    out, error = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 0, error
    assert out.splitlines()[-1] == str(several.folder) and several.folder.name == single.folder.name
    for kind in ("train", "valid"):
        rounding = largest_change(single, nudged, kind)
        assert losses(several, kind) == pytest.approx(losses(single, kind), rel=0, abs=rounding)
    records = [run.record for run in (single, several)]
    assert [record["environment"]["processes"] for record in records] == [1, processes]
    assert records[0]["target_tokens"] == records[1]["target_tokens"]

    again = torchrun(several, processes)  # every process ends, although there is nothing to train
    assert "already finished" in again.communicate(timeout=HANGS_SECONDS)[1]
    assert again.returncode == 0


SLOW_AFTER_THE_CHECK = """
import time
from ln_repro.runner.run import Session
check = Session._check_others
def check_and_be_slow(*arguments):
    check(*arguments)
    time.sleep(1)
Session._check_others = check_and_be_slow
"""
"""Lets the failure of another process, and the signal of torchrun that follows it, come just after a check for it."""


def change_second_process(run, folder, statement, first="pass"):
    """Let the second process of a run begin with a statement, and the others with another one."""
    text = f"import os, sys\nexec({statement!r} if os.environ.get('RANK') == '1' else {first!r})\n"
    (folder / "sitecustomize.py").write_text(text)
    run.environment["PYTHONPATH"] = os.pathsep.join([str(folder), run.environment.get("PYTHONPATH", "")])


def test_the_failure_of_another_process_is_reported_instead_of_its_consequences(command, tmp_path):
    run = command("failing", "train.batches_per_update=2")
    unimportable = "sys.modules['ln_repro.engine.plugin.bert'] = None"
    change_second_process(run, tmp_path, unimportable, first=SLOW_AFTER_THE_CHECK)
    process = torchrun(run, 2)
    _, error = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 1
    assert "ln-repro: process 2 of 2 failed: ModuleNotFoundError: import of ln_repro.engine.plugin.bert" in error
    assert "interrupted" not in error


@pytest.mark.slow
def test_a_run_of_two_processes_is_resumed_in_one(command, tmp_path):
    whole, stopped, nudged = (command(name, *SETTINGS, "train.max_epoch=6") for name in ("whole", "stopped", "nudged"))
    assert whole.finish()[0] == nudged.finish(NUDGE)[0] == 0
    process = torchrun(stopped, 2)
    stopped.wait_for_update(10)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode != 0
    assert not stopped.workers()
    done = max(losses(stopped))
    assert done < max(losses(whole))
    plain = stopped.environment.get("PYTHONPATH", "")
    hide = "from pathlib import Path as P; seen = P.exists; P.exists = lambda path: path.suffix != '.pt' and seen(path)"
    change_second_process(stopped, tmp_path, hide)
    assert "not every process sees this file" in torchrun(stopped, 2).communicate(timeout=HANGS_SECONDS)[1]
    stopped.environment["PYTHONPATH"] = plain
    error = stopped.complete()
    assert "resuming after update" in error
    assert losses(stopped) == pytest.approx(losses(whole), rel=0, abs=largest_change(whole, nudged))
