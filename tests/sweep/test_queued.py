"""A queued run is the experiment of the time when the sweep was started, whatever has changed since."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ln_repro import cli
from ln_repro.experiment.compose import CONF, compose
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import Experiment, build
from ln_repro.records import provenance
from ln_repro.sweep import queued
from ln_repro.sweep.plan import PlannedRun
from ln_repro.system import subprocesses
from tests.examples import experiment, planned
from tests.experiment.test_experiment import CHANGES_THE_RESULT


def typed_run(*overrides: str) -> PlannedRun:
    return planned(resolve_precision(build(compose(overrides))))


def test_an_experiment_is_run_as_it_was_queued_whatever_was_edited_meanwhile(tmp_path, monkeypatch):
    conf, ran = tmp_path / "conf", list[Experiment]()
    shutil.copytree(CONF, conf)
    monkeypatch.setattr("ln_repro.experiment.compose.CONF", conf)
    monkeypatch.setattr("ln_repro.runner.run.run", lambda experiment, say: ran.append(experiment))
    typed = [
        typed_run("exp=toy_postln_warm"),
        typed_run("exp=iwslt_postln_nowarm_sgd", 'data.source="it\'s here"', "lr=0.1234567890123", "eval.average=5"),
        typed_run("exp=bert_preln_nowarm_linear", "data.train=a", "data.valid=b", "paths.runs=some where", "seed=3"),
    ]
    (first,), stack = queued.write([typed[:1], typed[1:]], tmp_path / "queue")
    assert [queued.stack_of(file) for file in (first, *stack)] == [0, 1, 1]
    setting = conf / "setting" / "toy.yaml"
    setting.write_text(setting.read_text().replace("  lr: 2e-3\n", "  lr: 9e-3\n"))
    assert typed_run("exp=toy_postln_warm").experiment.lr == 9e-3
    assert [cli.main(["run", "--queued", str(file)]) for file in (first, *stack)] == [0] * 3
    assert ran == [run.experiment for run in typed]
    assert [experiment.id("data") for experiment in ran] == [run.id for run in typed]


def test_runs_are_trained_as_one_if_they_differ_in_rate_schedule_optimizer_or_initial_weights_alone():
    usual = planned(experiment()).stack_key
    for change in CHANGES_THE_RESULT:
        alike = all(key.partition("__")[0] in ("lr", "schedule", "optimizer", "init") for key in change)
        assert (planned(experiment(**change)).stack_key == usual) == alike, change


def test_a_run_is_started_with_the_variables_of_its_device(tmp_path, monkeypatch):
    script = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], *sys.argv[3:])"
    monkeypatch.setattr(subprocesses, "SELF", [sys.executable, "-c", script])
    queued.start(Path("queued.json"), tmp_path / "log", {"CUDA_VISIBLE_DEVICES": "GPU-7"}).wait()
    assert (tmp_path / "log").read_text() == "GPU-7 run --queued=queued.json\n"


def test_a_stack_that_cannot_be_started_leaves_no_process(tmp_path, monkeypatch):
    started = []

    def start(words, *_):
        if len(started) == 2:
            raise KeyboardInterrupt
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[-1]

    monkeypatch.setattr(subprocesses, "start_command", start)
    with pytest.raises(KeyboardInterrupt):
        queued.start_stack([Path("1"), Path("2")], [tmp_path / "1", tmp_path / "2"], tmp_path / "log", {})
    assert [process.wait(30) for process in started] == [-signal.SIGTERM] * 2


def test_the_hardware_of_all_sessions_is_told_if_it_differs():
    here = {"device": "cpu", "instructions": "AVX2", "processes": 1}
    there = {"device": "H100", "instructions": "AVX512", "processes": 2, "tf32": True}
    combined = provenance.environment(here, there, here)
    assert combined == {**combined, **here, "sessions": [here, there, here]}
    assert "sessions" not in provenance.environment(here, here)


@pytest.mark.parametrize(("words", "message"), [
    ("--queued=gone.json", "gone.json: the queued experiment no longer exists; start the sweep again"),
    ("--queued=gone.json seed=2", "--queued: takes no overrides; leave out seed=2"),
])  # fmt: skip
def test_a_queued_experiment_that_cannot_be_run_is_one_line(words, message, empty_place, refused):
    refused(f"run {words}", message)
