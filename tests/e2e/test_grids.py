"""Many runs by one command: Hydra's multirun, and a sweep."""

import json
import signal

import pytest

from ln_repro.engine.device import resolve_precision
from ln_repro.experiment.compose import compose
from ln_repro.experiment.settings import build
from ln_repro.sweep import queued
from tests.examples import planned
from tests.waiting import until

SHORT = ("train.max_epoch=1", "eval.beam=1")


def records(run):
    return [json.loads(path.read_text()) for path in sorted(run.runs.glob("*/record.json"))]


@pytest.mark.slow
def test_a_multirun_runs_the_product_of_its_values(command):
    run = command("runs", *SHORT)
    status, out, error = run.call("run", "-m", "exp=toy_preln_nowarm,toy_postln_nowarm", "seed=2", *run.settings)
    assert status == 0, error
    runs = [(record["exp"], record["axes"]["seed"], record["status"]) for record in records(run)]
    assert sorted(runs) == [(f"toy_{norm}_nowarm", 2, "finished") for norm in ("postln", "preln")]
    assert sum(line.startswith(str(run.runs)) for line in out.splitlines()) == 2


@pytest.mark.slow
def test_a_record_names_the_code_of_the_queued_run_if_it_was_another(command, tmp_path, monkeypatch):
    run = command("runs", *SHORT)
    for name in ("LN_REPRO_RUNS", "LN_REPRO_DATA"):
        monkeypatch.setenv(name, run.environment[name])
    (file,) = queued.write([planned(resolve_precision(build(compose(run.arguments))))], tmp_path)
    content = json.loads(file.read_text())
    content["code"]["git"] = "0" * 40
    file.write_text(json.dumps(content))
    status, out, error = run.call("run", f"--queued={file}")
    assert status == 0, error
    (record,) = records(run)
    assert out.splitlines()[-1] == str(run.folder)
    assert record["code"]["queued"]["git"] == "0" * 40 != record["code"]["git"]


@pytest.mark.slow
def test_a_detached_sweep_is_shown_cancelled_and_resumed(command):
    """`--detach`, `status`, `cancel`, and a second sweep: nothing is lost; a third has nothing left to do."""
    run = command("runs", "train.max_epoch=4", "eval.beam=1")
    words = ("grid=design", "--only", "p*_warm_sgd", *run.settings)
    status, out, error = run.call("sweep", *words, "jobs=1", "--detach")
    assert status == 0 and out.strip() == str(run.runs) and "ln-repro cancel --all" in error
    run.wait_for_update(30)
    run.signal_workers(signal.SIGSTOP)
    assert sorted(states(run, *words)) == ["planned", "running"]
    status, out, _ = run.call_here("cancel", *words)
    run.signal_workers(signal.SIGCONT)
    assert status == 0 and "stopping" in out and "the same command resumes them" in out
    until(lambda: "running" not in states(run, *words) and not run.workers())
    assert sorted(states(run, *words)) == ["interrupted", "planned"]
    log = next((run.runs / "sweep").glob("sweep-*.log"))
    until(lambda: "have no record yet" in log.read_text())
    status, _, error = run.call("sweep", *words)
    assert status == 0, error
    assert states(run, *words) == ["finished"] * 2
    resumed = next(path for path in run.runs.glob("*/sessions/2.json")).parent.parent
    assert "resuming after update" in (run.runs / "sweep" / f"{resumed.name}.log").read_text()
    assert {(record["axes"]["norm"], record["axes"]["optimizer"]) for record in records(run)} == {
        ("preln", "sgd"), ("postln", "sgd"),
    }  # fmt: skip
    assert "2 finished, 2 without the requested probes" in run.call_here("sweep", *words, "probe=gradients")[2]


def states(run, *words):
    status, out, _ = run.call_here("status", "--json", *words)
    assert status == 0
    return [row["state"] for row in json.loads(out)]
