"""Many runs by one command: a sweep in the background."""

import json
import signal

import pytest

from tests.waiting import until


@pytest.mark.slow
def test_a_detached_sweep_is_shown_cancelled_and_resumed(command):
    run = command("runs", "train.max_epoch=4", "eval.beam=1")
    words = ("grid=design", "--only", "p*_warm_sgd", *run.settings)
    status, out, error = run.call("sweep", *words, "jobs=1", "--detach")
    assert status == 0 and out.strip() == str(run.runs) and "ln-repro cancel --all" in error
    run.wait_for_update(30)
    run.signal_workers(signal.SIGSTOP)
    assert sorted(run.states(*words).values()) == ["planned", "running"]
    status, out, _ = run.call_here("cancel", *words)
    run.signal_workers(signal.SIGCONT)
    assert status == 0 and "stopping" in out and "the same command resumes them" in out
    until(lambda: "running" not in run.states(*words).values() and not run.workers())
    assert sorted(run.states(*words).values()) == ["interrupted", "planned"]
    log = next((run.runs / "sweep").glob("sweep-*.log"))
    until(lambda: "2 runs stopped; the same command resumes" in log.read_text())
    status, _, error = run.call("sweep", *words)
    assert status == 0, error
    assert [*run.states(*words).values()] == ["finished"] * 2
    resumed = next(path for path in run.runs.glob("*/sessions/2.json")).parent.parent
    assert "resuming after update" in (run.runs / "sweep" / f"{resumed.name}.log").read_text()
    records = [json.loads(path.read_text()) for path in run.runs.glob("*/record.json")]
    arms = {(record["axes"]["norm"], record["axes"]["optimizer"]) for record in records}
    assert arms == {("preln", "sgd"), ("postln", "sgd")}
    assert "2 finished, 2 without the requested probes" in run.call_here("sweep", *words, "probe=gradients")[2]
