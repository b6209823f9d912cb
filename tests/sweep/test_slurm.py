"""Sweeps on Slurm, without one: what a job does on failures and warnings, how the queue is read, and cancelling."""

import os
import pickle
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.compose import launcher
from ln_repro.records.run_dir import write_json
from ln_repro.sweep import cluster, queued, slurm
from ln_repro.sweep.plan import PlannedRun
from ln_repro.sweep.progress import Progress
from ln_repro.sweep.queued import Cancellations
from ln_repro.sweep.slurm import StackJob
from ln_repro.system import gpu
from ln_repro.system.directory_lock import Holder, acquire, machine
from ln_repro.system.files import warn
from ln_repro.system.gpu import Gpu
from tests.examples import experiment, planned, record
from tests.sweep.stand_ins import tries
from tests.waiting import HANGS_SECONDS, until


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """Return a function that submits runs, and returns the jobs that Slurm would start."""

    def submit(plan: Sequence[PlannedRun], retries: int = 1, size: int = 1) -> list[StackJob]:
        jobs: list[StackJob] = []
        with monkeypatch.context() as patch:
            patch.setattr(slurm, "submit", lambda array, *_: jobs.extend(array))
            assert cluster.submit_unfinished(plan, tmp_path, {}, retries, size) == sum(len(job.plan) for job in jobs)
        return pickle.loads(pickle.dumps(jobs))

    monkeypatch.setattr(slurm, "END_SECONDS", 0.0)
    return submit


def left(job: StackJob) -> list[str]:
    """Return the experiments of the runs that a job would resume."""
    return [planned.run.exp for file, planned in zip(job.files, job.plan, strict=True) if file.exists()]


def test_a_job_trains_its_runs_as_one_and_requeued_those_that_it_was_to_stop(stand_ins, submitted, queue, tmp_path):
    pytest.importorskip("submitit")
    plan = stand_ins.planned("good", "diverging", "bad", "saving", "slow", "good", alike=True)
    plan[5] = planned(plan[5].experiment.model_copy(update={"norm": "preln"}))
    job, other = submitted(plan, size=8)
    assert (len(job.plan), len(other.plan)) == (5, 1)
    thread = threading.Thread(target=job)
    thread.start()
    until(lambda: left(job) == ["toy_bad", "toy_saving", "toy_slow"] and tries(plan[4]))
    Cancellations(tmp_path).request([plan[4].name])
    until(lambda: left(job) == ["toy_bad", "toy_saving"])
    assert thread.is_alive() and stand_ins.stacks == [5] and not tries(plan[5])
    requeued = job.checkpoint().function
    thread.join(HANGS_SECONDS)
    requeued()
    assert stand_ins.stacks == [5] and [tries(run) for run in plan] == [1, 1, 2, 2, 1, 0]
    assert [run.state for run in plan[:5]] == ["finished", "diverged", "interrupted", "finished", "interrupted"]
    assert left(requeued) == [] and left(other) == ["toy_good"]
    queue[0]("")
    (resumed,) = submitted([plan[4]])  # a later sweep ignores the request to stop it
    assert not resumed.cancellations.pending(plan[4].name)


def test_a_run_that_is_cancelled_before_its_job_begins_is_not_started(stand_ins, submitted, tmp_path):
    plan = stand_ins.planned("good", "good", alike=True)
    (job,) = submitted(plan, size=2)
    Cancellations(tmp_path).request([plan[0].name])
    job()
    assert [tries(run) for run in plan] == [0, 1] and left(job) == []


def test_a_job_does_not_keep_its_node_waiting_for_a_run_that_was_started_elsewhere(
    stand_ins, submitted, tmp_path, monkeypatch
):
    plan = stand_ins.planned("good", "good", alike=True)
    (job,) = submitted(plan, size=2)
    monkeypatch.setattr(slurm, "PATIENCE_SECONDS", 0.3)
    with acquire(plan[0].folder.path):
        job()
    assert [tries(run) for run in plan] == [0, 1] and left(job) == []


@pytest.mark.parametrize("another_process_ended_it", [False, True])
def test_a_job_starts_a_run_whose_holder_has_gone_unless_another_process_has_ended_it(
    stand_ins, submitted, tmp_path, monkeypatch, another_process_ended_it
):
    plan = stand_ins.planned("good", "good", alike=True)
    (job,) = submitted(plan, size=2)
    monkeypatch.setattr(slurm, "PATIENCE_SECONDS", 1.0)
    thread = threading.Thread(target=job)
    with acquire(plan[0].folder.path):
        thread.start()
        until(lambda: tries(plan[1]))
        if another_process_ended_it:
            job.files[0].unlink()
    thread.join(HANGS_SECONDS)  # the lock is free, though the job looks at it only every five seconds
    assert [tries(run) for run in plan] == [int(not another_process_ended_it), 1] and left(job) == []


def test_cancelling_a_part_of_a_stack_leaves_its_job_to_stop_that_part(queue, tool, tmp_path):
    answer, _ = queue
    tool("scancel", f"echo $@ >> '{tmp_path / 'cancelled'}'")
    plan = [planned(experiment(seed=seed, paths__runs=tmp_path)) for seed in (1, 2, 3)]
    queued.write([plan[:2], plan[2:]], cluster.arrays(tmp_path) / "ours")
    answer("5_0|RUNNING|ours\n5_1|PENDING|ours\n")
    assert cluster.queued(tmp_path) == {plan[0].name: "running", plan[1].name: "running", plan[2].name: "queued"}
    said = [*cluster.cancel(tmp_path, [plan[0].name, plan[2].name])]
    assert said[:2] == [f"{plan[0].name}: job 5_0 stops it and goes on", f"{plan[2].name}: job 5_1 cancelled"]
    assert (tmp_path / "cancelled").read_text() == "5_1\n"


def test_a_run_of_a_queued_stack_that_is_cancelled_is_free_and_with_the_last_one_goes_its_job(queue, tool, tmp_path):
    answer, _ = queue
    tool("scancel", f"echo $@ >> '{tmp_path / 'cancelled'}'")
    plan = [planned(experiment(seed=seed, paths__runs=tmp_path)) for seed in (1, 2)]
    queued.write([plan], cluster.arrays(tmp_path) / "ours")
    answer("5_0|PENDING|ours\n")
    assert len([*cluster.cancel(tmp_path, [plan[0].name])]) == 2 and not (tmp_path / "cancelled").exists()
    assert cluster.queued(tmp_path) == {plan[1].name: "queued"}
    assert len([*cluster.cancel(tmp_path, [plan[1].name])]) == 2
    assert (tmp_path / "cancelled").read_text() == "5_0\n"


@pytest.fixture
def queue(tmp_path: Path, tool):
    """Put an `squeue` on the path; return a function that sets its answer, and the file of its arguments."""
    asked, answer = tmp_path / "asked", tmp_path / "answer"
    tool("squeue", f"echo $@ >> '{asked}'\ncat '{answer}'")
    return answer.write_text, asked


def test_the_queue_is_read_once_for_all_jobs_if_there_are_any(queue, tmp_path):
    answer, asked = queue
    assert cluster.queued(tmp_path) == {} and not asked.exists()
    plan = [planned(experiment(seed=seed, paths__runs=tmp_path)) for seed in (1, 2, 3, 4)]
    queued.write([[run] for run in plan[:3]], cluster.arrays(tmp_path) / "ours")
    queued.write([plan[3:]], cluster.arrays(tmp_path) / "alone")
    answer("5_0|RUNNING|ours\n5_2|PENDING|ours\n6|COMPLETING|alone\n7_1|RUNNING|somebody else's\n8|PENDING|(null)\n")
    assert cluster.queued(tmp_path) == {plan[0].name: "running", plan[2].name: "queued", plan[3].name: "running"}
    assert len(asked.read_text().splitlines()) == 1


def test_without_slurm_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LnReproError, match="squeue not found"):
        slurm.queue()


def test_a_launcher_file_and_single_options_change_the_options_of_slurm(tmp_path):
    mine = tmp_path / "lab.yaml"
    mine.write_text("partition: gpu\nadditional_parameters: {reservation: paper}\n")
    asked = launcher(str(mine), ["timeout_min=99"])
    assert (asked["partition"], asked["timeout_min"], asked["cpus_per_task"]) == ("gpu", 99, 4)
    assert asked["additional_parameters"] == {"requeue": True, "reservation": "paper"}
    assert "defaults" not in asked


@pytest.fixture
def watched(queue, tool, tmp_path, monkeypatch):
    """Return a function that queues runs with seeds 1, 2, ..., and returns their plan, a progress and its messages."""
    tool("scancel", f"echo $@ >> '{tmp_path / 'cancelled'}'\n: > '{tmp_path / 'answer'}'")
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)

    def prepare(runs: int) -> tuple[list[PlannedRun], Progress, list[str]]:
        plan = [planned(experiment(seed=seed, paths__runs=tmp_path)) for seed in range(1, runs + 1)]
        queued.write([[run] for run in plan], cluster.arrays(tmp_path) / "ours")
        progress = Progress(plan, lambda: cluster.queued(tmp_path), Console(file=(tmp_path / "screen").open("w")))
        said: list[str] = []
        monkeypatch.setattr(progress, "say", said.append)
        return plan, progress, said

    return prepare


def test_with_fail_fast_jobs_that_wait_are_cancelled_after_a_failure(queue, watched, tmp_path):
    plan, progress, said = watched(3)
    queue[0]("5_1|RUNNING|ours\n5_2|PENDING|ours\n")  # the first has ended, without a record
    cluster.watch(plan, progress, tmp_path, fail_fast=True)
    assert (tmp_path / "cancelled").read_text() == "5_2\n" and "--fail-fast: queued runs not started: 1" in said


def test_with_fail_fast_a_run_that_the_user_cancels_is_no_failure(queue, watched, tmp_path, monkeypatch):
    plan, progress, _ = watched(2)
    queue[0]("5_0|RUNNING|ours\n5_1|PENDING|ours\n")
    turns = iter(["5_1|PENDING|ours\n"] * 2)  # then none

    def show(states: dict[str, str]) -> None:
        Cancellations(tmp_path).request([plan[0].name])
        queue[0](next(turns, ""))

    monkeypatch.setattr(progress, "show", show)
    cluster.watch(plan, progress, tmp_path, fail_fast=True)
    assert not (tmp_path / "cancelled").exists()


@pytest.fixture
def script(tmp_path: Path, tool, queue):
    """Put a Slurm on the path that accepts every job; return a function that submits one, and returns its options."""
    pytest.importorskip("submitit")
    tool("sbatch", f"cp \"$1\" '{tmp_path / 'script'}'; env > '{tmp_path / 'environment'}'\necho Submitted batch job 7")
    tool("srun", "")
    queue[0]("")

    def submit(*options: str, file: str = "slurm") -> dict[str, str | None]:
        plan = [planned(experiment(seed=1, paths__runs=tmp_path / "runs"))]
        assert cluster.submit_unfinished(plan, tmp_path / "runs", launcher(file, options), 0) == 1
        lines = (tmp_path / "script").read_text().splitlines()
        given = [line.removeprefix("#SBATCH --").partition("=") for line in lines if line.startswith("#SBATCH")]
        assert len(given) == len({name for name, *_ in given}), "an option is given twice"
        return {name: shlex.split(value)[0] if equals else None for name, equals, value in given}

    return submit


OPTIONS = {
    "account": ["012345", "2023_1", "1e3", "0x10", "12"],
    "partition": ["no", "on", "off", "y"],
    "qos": ["on", "1:30"],
    "constraint": ["[a100|h100]", "[a100*1,h100*2]"],
    "additional_parameters.time": ["12:00:00", "1-0"],
    "additional_parameters.begin": ["16:30", "2026-01-02"],
    "additional_parameters.licenses": ["[a|b]"],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in OPTIONS.items() for value in values])
def test_options_of_sbatch_are_text_whatever_yaml_makes_of_them(key, value, script, tmp_path):
    name = key.rpartition(".")[2]
    assert script(f"{key}={value}")[name] == value
    lab = tmp_path / "lab.yaml"
    lab.write_text(f"additional_parameters: {{{name}: {value}}}" if "." in key else f"{key}: {value}")
    assert script(file=str(lab))[name] == value


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ([], {"requeue": None}),
        (["additional_parameters.no-requeue=true"], {"no-requeue": None}),
        (["additional_parameters.no_requeue=true"], {"no-requeue": None}),
        (["additional_parameters.requeue=false"], {}),
        (["additional_parameters.requeue=null"], {}),
        (["additional_parameters.requeue="], {}),
        (["additional_parameters.no-requeue=false"], {"requeue": None}),
        (["additional_parameters={hold: true}", "exclusive=false"], {"requeue": None, "hold": None}),
        (["exclusive=true"], {"requeue": None, "exclusive": None}),
    ],
)
def test_options_without_a_value_are_given_or_left_out(options, given, script):
    submitted = script(*options)
    names = ("requeue", "no-requeue", "hold", "exclusive")
    assert {name: submitted[name] for name in names if name in submitted} == given


def test_numbers_are_numbers_and_other_values_text(script, tmp_path):
    given = script("mem_gb=1.5", "timeout_min=99", "gpus_per_node=0", "signal_delay_s=60", "setup=[a b, c]")
    assert [given[name] for name in ("mem", "time", "gpus-per-node", "signal")] == ["1536MB", "99", "0", "USR2@60"]
    assert "\na b\nc\n" in (tmp_path / "script").read_text()
    given = script("constraint=[a100|h100]&ib", "additional_parameters.cpus-per-task=8", "setup=module load cuda")
    assert (given["constraint"], given["cpus-per-task"]) == ("[a100|h100]&ib", "8")  # replaces the one of submitit
    assert "\nmodule load cuda\n" in (tmp_path / "script").read_text()


@pytest.mark.parametrize(
    ("option", "expected"),
    [("timeout_min=12:00:00", "a number"), ("array_parallelism=8x", "a number"), ("gpus_per_node=true", "a number"),
     ("mem_gb=16G", "a number"), ("use_srun=no", "true or false"), ("stderr_to_stdout=1", "true or false")],
)  # fmt: skip
def test_a_launchers_option_of_the_wrong_type_is_refused(option, expected):
    key, _, value = option.partition("=")
    with pytest.raises(UserError, match=rf"^launcher\.{key}: expected {expected}, got (True|'{value}')"):
        launcher("slurm", [option])


def test_a_launcher_file_with_a_key_twice_is_refused(tmp_path):
    (tmp_path / "lab.yaml").write_text("qos: a\nqos: b\n")
    with pytest.raises(UserError, match=r"launcher: .*duplicate"):
        launcher(str(tmp_path / "lab.yaml"), [])


def test_jobs_do_not_inherit_the_allocation_that_the_sweep_is_started_in(script, tmp_path, monkeypatch):
    inherited = ("SLURM_MEM_PER_CPU", "SLURM_GPUS", "SBATCH_PARTITION", "PMI_RANK", "PMIX_RANK", "LOCAL_RANK")
    kept = ("SLURM_CONF", "LN_REPRO_DATA")  # where Slurm is, and what the jobs need
    for name in (*inherited, *kept):
        monkeypatch.setenv(name, "1")
    script()
    seen = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert not seen & {*inherited} and seen >= {*kept}
    assert all(os.environ[name] == "1" for name in (*inherited, *kept))


def test_a_job_that_ended_before_its_run_began_is_explained(queue, script, tmp_path, monkeypatch, call):
    answer, _ = queue
    runs = tmp_path / "runs"
    monkeypatch.setenv("LN_REPRO_RUNS", str(runs))
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)
    script()
    (run,) = [planned(experiment(seed=1, paths__runs=runs))]
    answer("7|RUNNING|" + next(cluster.arrays(runs).iterdir()).name)
    log = runs / "sweep" / "slurm" / "7_0_log.err"
    log.write_text("line 19: module: command not found\n")
    assert call("status")[2] == ""
    answer("")
    board = Progress([run], lambda: cluster.queued(runs), console=Console(file=(tmp_path / "screen").open("w")))
    cluster.watch([run], board, runs)
    expected = f"line 19: module: command not found (see {log})"
    assert board.failures == [f"{run.label}: its job ended before it began, {expected}"]
    _, out, err = call("status")
    assert "planned" in out and err == f"ln-repro: 1 run: the job ended before the run began, {expected}\n"

    (runs / "sweep" / f"{run.name}.log").touch()  # the run began
    warn.cache_clear()
    assert call("status")[1:] == ("no runs yet; `ln-repro run exp=NAME` starts one\n", "")


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (["launcher=slurm"], True),
        (["launcher=slurm", "train.device=cuda"], True),
        (["launcher=slurm", "precision=bf16"], False),
        (["launcher=slurm", "train.device=cpu"], False),
    ],
)
def test_without_a_gpu_here_the_precision_of_jobs_with_one_is_named(words, warned, empty_place, monkeypatch, call):
    monkeypatch.setattr(gpu, "default", lambda: Gpu(None, False))
    code, _, said = call("sweep", "grid=design", "--only", "postln_warm", "--dry-run", *words)
    assert code == 0
    assert ("the jobs run in fp32 unless you give precision=bf16" in said) == warned and said.count("\n") == warned


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["launcher=nowhere.yaml", "precision=fp32"], "launcher: there is no file nowhere.yaml"),
        (["launcher=torn.yaml", "precision=fp32"], "launcher: while parsing"),
        (["launcher=list.yaml", "precision=fp32"], "launcher: "),
        (["launcher=slurm", "precision=fp32"], "launcher: sbatch not found"),
        (["launcher=slurm", "precision=fp32", "launcher.gpus_per_node=two"], "launcher.gpus_per_node: expected a"),
        (["launcher=slurm", "precision=fp32", "launcher.partion=gpu", "--dry-run"], "launcher: Unknown argument 'part"),
        (["launcher=slurm", "precision=fp32", "--detach", "--fail-fast"], "--fail-fast: needs a sweep that waits"),
    ],
)
def test_a_launcher_that_cannot_be_used_is_refused_before_anything_is_prepared(
    words, message, empty_place, monkeypatch, refused
):
    pytest.importorskip("submitit")
    (empty_place / "torn.yaml").write_text("a: [")
    (empty_place / "list.yaml").write_text("- a\n")
    monkeypatch.setenv("PATH", str(empty_place))
    refused(["sweep", "grid=design", *words], message)
    assert not (empty_place / "data").exists()


def test_a_dry_run_needs_neither_submitit_nor_slurm(empty_place, monkeypatch, call, refused):
    monkeypatch.setitem(sys.modules, "submitit", None)
    words = ["sweep", "grid=design", "--only", "postln_warm", "launcher=slurm", "precision=fp32"]
    assert call(*words, "--dry-run")[0] == 0
    refused(words, "launcher: slurm needs submitit (")


def test_a_refused_submission_leaves_nothing_that_status_would_ask_slurm_about(tmp_path, monkeypatch):
    def refuse(*arguments: Any) -> None:
        raise UserError("launcher: Slurm refused the jobs")

    monkeypatch.setattr(slurm, "submit", refuse)
    with pytest.raises(UserError, match="refused the jobs"):
        cluster.submit_unfinished([planned(experiment(paths__runs=tmp_path))], tmp_path, {}, 0)
    assert not [*cluster.arrays(tmp_path).glob("*")]


def test_a_submission_that_failed_without_slurm_keeps_its_files(tmp_path, monkeypatch, tool):
    """The jobs may have been accepted."""
    tool("sbatch", "echo 'Unable to contact slurm controller' >&2; exit 1")
    tool("squeue", "exit 1")
    tool("srun", "")
    options = {"max_num_timeout": 1}
    with pytest.raises(LnReproError, match="squeue"):
        cluster.submit_unfinished([planned(experiment(paths__runs=tmp_path))], tmp_path, options, 0)
    assert len([*cluster.arrays(tmp_path).glob("*/*.json")]) == 1


def test_only_runs_that_are_not_finished_queued_or_running_are_submitted(queue, tmp_path, submitted):
    answer, _ = queue
    plan = [planned(experiment(seed=seed, paths__runs=tmp_path)) for seed in (1, 2, 3, 4)]
    finished, waiting, held, missing = plan
    finished.folder.path.mkdir()
    write_json(finished.folder.path / "record.json", record())
    queued.write([[waiting]], cluster.arrays(tmp_path) / "ours")
    answer("5_0|PENDING|ours\n")
    with acquire(held.folder.path):
        (job,) = submitted(plan)
    assert [run.name for run in job.plan] == [missing.name]


def test_more_runs_than_slurm_takes_in_one_array_are_several(tmp_path, monkeypatch):
    plan = [planned(experiment(seed=seed, paths__runs=tmp_path)) for seed in (1, 2, 3)]
    sent: dict[str, list[str]] = {}
    monkeypatch.setattr(slurm, "ARRAY_SIZE", 2)
    monkeypatch.setattr(slurm, "submit", lambda jobs, tag, *_: sent.update({tag: [job.plan[0].name for job in jobs]}))
    assert cluster.submit_unfinished(plan, tmp_path, {}, 0) == 3
    assert [*sent.values()] == [[plan[0].name, plan[1].name], [plan[2].name]]
    for tag, names in sent.items():
        assert queued.listed(cluster.arrays(tmp_path) / tag) == {index: [name] for index, name in enumerate(names)}


def test_cancelling_all_cancels_no_job_of_anybody_else(queue, tool, tmp_path):
    answer, _ = queue
    tool("scancel", f"echo $@ >> '{tmp_path / 'cancelled'}'")
    plan = [planned(experiment(seed=seed, paths__runs=tmp_path)) for seed in (1, 2)]
    queued.write([[run] for run in plan], cluster.arrays(tmp_path) / "ours")
    answer("5_0|RUNNING|ours\n5_1|PENDING|ours\n7_1|RUNNING|somebody else's\n")
    said = list(cluster.cancel(tmp_path, None))
    assert [line for line in said if "cancelled" in line][:2] == [
        f"{p.name}: job 5_{i} cancelled" for i, p in enumerate(plan)
    ]
    asked = (tmp_path / "cancelled").read_text().split()
    assert {"5_0", "5_1"} <= {*asked} and not any(word.startswith("7") for word in asked)


def test_only_the_process_that_acquired_the_lock_is_stopped():
    process = subprocess.Popen(["sleep", "3600"])
    created = psutil.Process(process.pid).create_time()
    holder = Holder("here", machine(), process.pid, None, "", created)
    assert not cluster.terminate(replace(holder, created=created - 60))
    assert process.poll() is None
    assert cluster.terminate(holder) and process.wait() == -signal.SIGTERM
    assert not cluster.terminate(holder)
