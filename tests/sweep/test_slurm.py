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
def submitted(tmp_path, monkeypatch, queue):
    """Return a function that submits runs, and returns the jobs that Slurm would start."""

    def submit(plan: Sequence[PlannedRun], size: int = 1, cancellations: Cancellations | None = None) -> list[StackJob]:
        jobs: list[StackJob] = []
        with monkeypatch.context() as patch:
            patch.setattr(slurm, "submit", lambda array, *_: jobs.extend(array))
            number = cluster.submit_unfinished(plan, tmp_path, {}, 1, cancellations or Cancellations(tmp_path), size)
        assert number == sum(len(job.plan) for job in jobs)
        return pickle.loads(pickle.dumps(jobs))

    monkeypatch.setattr(slurm, "END_SECONDS", 0.0)
    return submit


@pytest.fixture
def queue(tmp_path, tool):
    """Put an `squeue` and an `scancel` on the path; return a function that sets the answer of the former.

    Their arguments are in the files "asked" and "cancelled".
    """
    tool("squeue", f"test -z $SQUEUE_STATES || exit 1\necho $@ >> '{tmp_path / 'asked'}'\ncat '{tmp_path / 'answer'}'")
    tool("scancel", f"echo $@ >> '{tmp_path / 'cancelled'}'")
    (tmp_path / "answer").touch()
    return lambda text: (tmp_path / "answer").write_bytes(text.encode(errors="surrogateescape"))


def plan_of(number: int, runs: Path) -> list[PlannedRun]:
    """Return a plan of runs that differ in their seeds."""
    return [planned(experiment(seed=seed, paths__runs=runs)) for seed in range(1, number + 1)]


def left(job: StackJob) -> list[str]:
    """Return the experiments of the runs that a job would resume."""
    return [planned.run.exp for file, planned in job.plan.items() if file.exists()]


def test_a_job_trains_its_runs_as_one_and_requeued_those_that_it_was_to_stop(stand_ins, submitted, queue, tmp_path):
    pytest.importorskip("submitit")
    plan = stand_ins.planned("good", "diverging", "bad", "saving", "slow", "good", alike=True)
    plan[5] = planned(plan[5].experiment.model_copy(update={"norm": "preln"}))
    job, another_job = submitted(plan, size=8)
    assert (len(job.plan), len(another_job.plan)) == (5, 1)
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
    assert left(requeued) == [] and left(another_job) == ["toy_good"]
    queue("")
    (resumed,) = submitted([plan[4]])  # a later sweep ignores the request to stop it
    assert not resumed.cancellations.pending(plan[4].name)


def test_a_job_neither_starts_a_cancelled_run_nor_waits_for_one_elsewhere(stand_ins, submitted, tmp_path, monkeypatch):
    plan = stand_ins.planned("good", "good", "good", alike=True)
    (job,) = submitted(plan, size=3)
    Cancellations(tmp_path).request([plan[0].name])
    monkeypatch.setattr(slurm, "PATIENCE_SECONDS", 0.3)
    with acquire(plan[1].folder.path):
        job()
    assert [tries(run) for run in plan] == [0, 0, 1] and left(job) == []


def test_a_job_starts_a_run_whose_holder_has_gone_unless_another_has_ended_it(stand_ins, submitted, monkeypatch):
    plan = stand_ins.planned("good", "good", "good", alike=True)
    (job,) = submitted(plan, size=3)
    monkeypatch.setattr(slurm, "PATIENCE_SECONDS", 5.0)
    thread = threading.Thread(target=job)
    with acquire(plan[0].folder.path), acquire(plan[1].folder.path):
        thread.start()
        until(lambda: tries(plan[2]))
        [*job.plan][1].unlink()
    thread.join(HANGS_SECONDS)  # the locks are free, though the job looks at them only every five seconds
    assert [tries(run) for run in plan] == [1, 0, 1] and left(job) == []


def cancelled(runs: Path, names: list[str] | None) -> list[str]:
    messages: list[str] = []
    cluster.cancel(runs, names, messages.append)
    return messages


def test_nothing_is_written_as_submitted_while_slurm_does_not_respond(tmp_path, tool, submitted):
    tool("squeue", "exit 1")
    with pytest.raises(LnReproError, match="squeue failed"):
        submitted(plan_of(1, tmp_path))
    assert cluster.submitted_files(tmp_path) == {}


def test_cancelling_while_slurm_does_not_respond_is_an_error(tmp_path, tool):
    queued.write([plan_of(1, tmp_path)], cluster.arrays(tmp_path) / "ours")
    tool("squeue", "exit 1")
    with pytest.raises(LnReproError, match="jobs in its queue are not cancelled: give the same command again"):
        cancelled(tmp_path, None)


def test_the_queue_is_read_once_for_all_jobs_if_there_are_any(queue, tmp_path, monkeypatch):
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    assert cluster.states_in_queue(tmp_path) == {} and not (tmp_path / "asked").exists()
    plan = plan_of(4, tmp_path)
    queued.write([[run] for run in plan[:3]], cluster.arrays(tmp_path) / "ours")
    queued.write([plan[3:]], cluster.arrays(tmp_path) / "alone")
    queue("5_0|RUNNING|ours\n5_2|PENDING|ours\n6|COMPLETING|alone\n7_1|RUNNING|caf\udce9\n8|PENDING|(null)\n")
    states = {plan[0].name: "running", plan[2].name: "queued", plan[3].name: "running"}
    assert cluster.states_in_queue(tmp_path) == states
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_cancelling_a_part_of_a_stack_leaves_its_job_to_stop_it_and_cancelling_all_only_our_jobs(queue, tmp_path):
    plan = plan_of(3, tmp_path)
    queued.write([plan[:2], plan[2:]], cluster.arrays(tmp_path) / "ours")
    queue("5_0|RUNNING|ours\n5_1|PENDING|ours\n7_0|RUNNING|somebody else's\n")
    messages = cancelled(tmp_path, [plan[0].name, plan[2].name])
    assert messages[:2] == [f"{plan[0].name}: job 5_0 stops it and goes on", f"{plan[2].name}: job 5_1 cancelled"]
    assert (tmp_path / "cancelled").read_text() == "5_1\n"
    queue("5_0|PENDING|ours\n7_0|RUNNING|somebody else's\n")  # it has been requeued
    assert f"{plan[1].name}: job 5_0 cancelled" in cancelled(tmp_path, None)
    assert cluster.submitted_files(tmp_path) == {}, "so that Slurm need not be asked any more"
    assert (tmp_path / "cancelled").read_text() == "5_1\n5_0\n"


def test_a_run_of_a_queued_stack_that_is_cancelled_is_free_and_with_the_last_one_goes_its_job(queue, tmp_path):
    plan = plan_of(2, tmp_path)
    queued.write([plan], cluster.arrays(tmp_path) / "ours")
    queue("5_0|PENDING|ours\n")
    assert len(cancelled(tmp_path, [plan[0].name])) == 2 and not (tmp_path / "cancelled").exists()
    assert cluster.states_in_queue(tmp_path) == {plan[1].name: "queued"}
    assert len(cancelled(tmp_path, [plan[1].name])) == 2
    assert (tmp_path / "cancelled").read_text() == "5_0\n"


@pytest.mark.parametrize("user_cancels", [False, True])
def test_with_fail_fast_jobs_that_wait_are_cancelled_after_a_failure(user_cancels, queue, tmp_path, monkeypatch):
    """A run that the user has cancelled is none."""
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)
    *plan, other, of_another_sweep = plan_of(4, tmp_path)
    queued.write([*([run] for run in plan), [other, of_another_sweep]], cluster.arrays(tmp_path) / "ours")
    plan.append(other)
    queue("5_0|RUNNING|ours\n5_1|PENDING|ours\n5_2|PENDING|ours\n")
    progress = Progress(plan, lambda: cluster.states_in_queue(tmp_path), Console(file=(tmp_path / "screen").open("w")))
    answers = iter(["5_1|PENDING|ours\n5_2|PENDING|ours\n"] * 2)  # the first run ends without a record, and then all

    def show(states: dict[str, str]) -> None:
        if user_cancels:
            Cancellations(tmp_path).request([plan[0].name])
        queue(next(answers, ""))

    monkeypatch.setattr(progress, "show", show)
    cluster.watch(plan, progress, tmp_path, Cancellations(tmp_path), fail_fast=True)
    cancelled = tmp_path / "cancelled"
    assert (cancelled.read_text() if cancelled.exists() else "") == ("" if user_cancels else "5_1\n")


@pytest.fixture
def script(tmp_path, tool, queue):
    """Put a Slurm on the path that accepts every job; return a function that submits one, and returns its options."""
    pytest.importorskip("submitit")
    tool("sbatch", f"cp \"$1\" '{tmp_path / 'script'}'; env > '{tmp_path / 'environment'}'\necho Submitted batch job 7")
    tool("srun", "")
    queue("")

    def submit(*options: str, file: str = "slurm") -> dict[str, str | None]:
        runs = tmp_path / "runs"
        assert cluster.submit_unfinished(plan_of(1, runs), runs, launcher(file, options), 0, Cancellations(runs)) == 1
        lines = (tmp_path / "script").read_text().splitlines()
        given = [line.removeprefix("#SBATCH --").partition("=") for line in lines if line.startswith("#SBATCH")]
        assert len(given) == len({name for name, *_ in given}), "an option is given twice"
        return {name: shlex.split(value)[0] if equals else None for name, equals, value in given}

    return submit


def test_options_of_sbatch_are_text_whatever_yaml_makes_of_them(script, tmp_path):
    options = {"account": "012345", "partition": "no", "qos": "1:30", "constraint": "[a100*1,h100*2]"}
    more = {"time": "12:00:00", "begin": "2026-01-02", "licenses": "[a|b]"}
    words = [f"{name}={value}" for name, value in options.items()]
    words += [f"additional_parameters.{name}={value}" for name, value in more.items()]
    lines = [f"{name}: {value}" for name, value in options.items()]
    lines += ["additional_parameters:", *(f"  {name}: {value}" for name, value in more.items())]
    lab = tmp_path / "lab.yaml"
    lab.write_text("\n".join(lines))
    for given in (script(*words), script(file=str(lab))):
        assert given.items() >= {**options, **more}.items()
    assert script(file=str(lab))["requeue"] is None  # a default that the file does not mention


@pytest.mark.parametrize(("options", "expected"), [
    (["exclusive=true"], {"requeue": None, "exclusive": None}),
    (["additional_parameters.no-requeue=true"], {"no-requeue": None}),
    (["additional_parameters.no-requeue=false", "exclusive=false"], {"requeue": None}),
    (["additional_parameters.requeue=null"], {}),
    (["additional_parameters={hold: true}"], {"requeue": None, "hold": None}),
])  # fmt: skip
def test_options_without_a_value_are_given_or_left_out(options, expected, script):
    given = script(*options)
    names = ("requeue", "no-requeue", "hold", "exclusive")
    assert {name: given[name] for name in names if name in given} == expected


def test_numbers_are_numbers_and_other_values_text(script, tmp_path):
    given = script("mem_gb=1.5", "timeout_min=99", "gpus_per_node=0", "signal_delay_s=60", "setup=[a b, c]")
    assert [given[name] for name in ("mem", "time", "gpus-per-node", "signal")] == ["1536MB", "99", "0", "USR2@60"]
    assert "\na b\nc\n" in (tmp_path / "script").read_text()
    words = ["constraint=[a100|h100]&ib", "additional_parameters.cpus-per-task=8"]
    given = script(*words, "setup=module load cuda", "teardown=echo end", "srun_args=--cpu-bind=none -v")
    assert (given["constraint"], given["cpus-per-task"]) == ("[a100|h100]&ib", "8")  # replaces the one of submitit
    text = (tmp_path / "script").read_text()
    assert "\nmodule load cuda\n" in text and "\necho end" in text and " --cpu-bind=none -v " in text


def test_jobs_do_not_inherit_the_allocation_that_the_sweep_is_started_in(script, tmp_path, monkeypatch):
    inherited = {"SLURM_MEM_PER_CPU", "SLURM_GPUS", "SBATCH_PARTITION", "PMI_RANK", "PMIX_RANK", "LOCAL_RANK"}
    needed = {"SLURM_CONF", "LN_REPRO_DATA"}  # where Slurm is, and what the jobs need
    for name in inherited | needed:
        monkeypatch.setenv(name, "1")
    script()
    seen = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert not seen & inherited and seen >= needed
    assert all(os.environ[name] == "1" for name in inherited | needed)


def test_the_sweep_waits_while_slurm_does_not_respond_and_says_so_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)
    (run,) = plan = plan_of(1, tmp_path)
    answers = iter([LnReproError("silent"), LnReproError("silent"), {run.name: "queued"}, LnReproError("silent"), {}])

    def states() -> dict[str, str]:
        if isinstance(answer := next(answers), LnReproError):
            raise answer
        return answer

    said: list[str] = []
    progress = Progress(plan, states, Console(file=(tmp_path / "screen").open("w")))
    monkeypatch.setattr(progress, "say", said.append)
    cluster.watch(plan, progress, tmp_path, Cancellations(tmp_path))
    assert said[:2] == ["silent; trying again"] * 2 and not any("silent" in line for line in said[2:])


def test_a_job_that_ended_before_its_run_began_is_explained(queue, script, tmp_path, monkeypatch, call):
    runs = tmp_path / "runs"
    monkeypatch.setenv("LN_REPRO_RUNS", str(runs))
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)
    script()
    plan = plan_of(1, runs)
    queue("7|RUNNING|" + next(cluster.arrays(runs).iterdir()).name)
    log = runs / "sweep" / "slurm" / "7_0_log.err"
    log.write_text("line 19: module: command not found\n")
    assert call("status")[2] == ""
    queue("")
    progress = Progress(plan, lambda: cluster.states_in_queue(runs), Console(file=(tmp_path / "screen").open("w")))
    cluster.watch(plan, progress, runs, Cancellations(runs))
    expected = f"line 19: module: command not found (see {log})"
    assert progress.failures == [f"{plan[0].label}: its job ended before it began, {expected}"]
    _, out, err = call("status")
    assert "planned" in out and err == f"ln-repro: 1 run: the job ended before the run began, {expected}\n"

    (runs / "sweep" / f"{plan[0].name}.log").touch()  # the run began
    warn.cache_clear()
    assert call("status")[1:] == ("no runs yet; `ln-repro run exp=NAME` starts one\n", "")


@pytest.mark.parametrize(("words", "warned"), [([], True), (["precision=bf16"], False), (["train.device=cpu"], False)])
def test_without_a_gpu_here_the_precision_of_jobs_with_one_is_named(words, warned, empty_place, monkeypatch, call):
    monkeypatch.setattr(gpu, "default", lambda: Gpu(None, False))
    code, _, err = call("sweep", "grid=design", "--only", "postln_warm", "--dry-run", "launcher=slurm", *words)
    assert code == 0 and ("the jobs run in fp32 unless you give precision=bf16" in err) == warned


@pytest.mark.parametrize(("words", "message"), [
    ("launcher=nowhere.yaml", "launcher: there is no file nowhere.yaml"),
    ("launcher=torn.yaml", "launcher: while parsing"),
    ("launcher=listed.yaml", "launcher: listed.yaml: expected OPTION: VALUE in each line"),
    ("launcher=twice.yaml", "launcher: while constructing a mapping"),
    ("launcher=slurm", "launcher: sbatch not found"),
    ("launcher=slurm launcher.gpus_per_node=two", "launcher.gpus_per_node: expected a number, got 'two'; for "),
    ("launcher=slurm launcher.mem_gb=16G", "launcher.mem_gb: expected a number, got '16G'"),
    ("launcher=slurm launcher.timeout_min=-5", "launcher.timeout_min: expected a number, got '-5'"),
    ("launcher=slurm launcher.mem_gb=nan", "launcher.mem_gb: expected a number, got 'nan'"),
    ("launcher=commented.yaml", "launcher.comment: a sweep recognises its jobs by their comment"),
    ("launcher=slurm launcher.additional_parameters=5", "launcher.additional_parameters: expected opt"),
    ("launcher=named.yaml", "launcher.partition: expected a value without names, got {'a': '1'}"),
    ("launcher=slurm launcher.use_srun=no", "launcher.use_srun: expected true or false, got 'no'"),
    ("launcher=slurm launcher.partion=gpu --dry-run", "launcher: Unknown argument 'part"),
    ("launcher=open.yaml --dry-run", "launcher: No closing quotation; for the options, see conf/slurm.yaml"),
    ("launcher=slurm --detach --fail-fast", "--fail-fast: needs a sweep that waits"),
])  # fmt: skip
def test_a_launcher_that_cannot_be_used_is_refused_at_once(words, message, empty_place, monkeypatch, refused):
    pytest.importorskip("submitit")
    (empty_place / "torn.yaml").write_text("a: [")
    (empty_place / "listed.yaml").write_text("- partition\n")
    (empty_place / "twice.yaml").write_text("qos: a\nqos: b\n")
    (empty_place / "named.yaml").write_text("partition: {a: 1}\n")
    (empty_place / "open.yaml").write_text("srun_args: --job-name='a\n")
    (empty_place / "commented.yaml").write_text("additional_parameters: {comment: a}\n")
    monkeypatch.setenv("PATH", str(empty_place))
    refused(f"sweep grid=design precision=fp32 {words}", message)
    assert not (empty_place / "data").exists()


def test_a_dry_run_needs_neither_submitit_nor_slurm(empty_place, monkeypatch, call, refused):
    monkeypatch.setitem(sys.modules, "submitit", None)
    words = ["sweep", "grid=design", "--only", "postln_warm", "launcher=slurm", "precision=fp32"]
    assert call(*words, "--dry-run")[0] == 0
    refused(words, "launcher: slurm needs submitit (")


def test_a_run_that_has_ended_elsewhere_is_finished_although_its_job_still_waits(queue, empty_place, tmp_path, call):
    words = ["sweep", "grid=design", "--only", "postln_warm", "--dry-run"]
    id = call(*words)[1].splitlines()[1].split()[0]
    run = empty_place / "runs" / f"toy_postln_warm-s1-{id}"
    file = cluster.arrays(run.parent) / "ours" / f"0-{run.name}.json"
    file.parent.mkdir(parents=True)
    write_json(file, {})
    queue("5_0|PENDING|ours\n")
    assert "\n1 run: 1 queued" in call(*words)[1]
    run.mkdir()
    write_json(run / "record.json", record())
    assert "\n1 run: 1 finished" in call(*words)[1]


@pytest.mark.parametrize("responds", [True, False])
def test_a_failed_submission_leaves_files_only_if_the_jobs_may_have_been_accepted(responds, script, tmp_path, tool):
    tool("sbatch", "echo 'Unable to contact slurm controller' >&2; exit 1")
    if not responds:  # after the first question, before the submission
        tool("squeue", f"test ! -e '{tmp_path / 'down'}' && touch '{tmp_path / 'down'}'")
    with pytest.raises(UserError if responds else LnReproError, match="refused the jobs" if responds else "squeue"):
        script()
    assert len([*cluster.arrays(tmp_path / "runs").glob("*/*.json")]) == (not responds)


def test_only_runs_that_are_not_finished_queued_or_running_are_submitted(queue, tmp_path, submitted):
    plan = finished, waiting, held, missing = plan_of(4, tmp_path)
    finished.folder.path.mkdir()
    write_json(finished.folder.path / "record.json", record())
    queued.write([[waiting]], cluster.arrays(tmp_path) / "ours")
    queue("5_0|PENDING|ours\n")
    with acquire(held.folder.path):
        (job,) = submitted(plan)
    assert [run.name for run in job.plan.values()] == [missing.name]
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_runs_that_were_cancelled_while_the_corpus_was_prepared_are_not_submitted(submitted, queue, tmp_path):
    queue("")
    plan, cancellations = plan_of(2, tmp_path), Cancellations(tmp_path)
    Cancellations(tmp_path).request([plan[0].name])
    (job,) = submitted(plan, cancellations=cancellations)
    assert [run.name for run in job.plan.values()] == [plan[1].name]
    progress = Progress(plan, dict, Console(file=(tmp_path / "screen").open("w")))
    cluster.watch(plan[:1], progress, tmp_path, cancellations)
    assert progress.failures == [], "the user has asked for it"
    assert f"{plan[0].label}: stopped" in (tmp_path / "screen").read_text()


def test_more_runs_than_slurm_takes_in_one_array_are_several(tmp_path, monkeypatch, queue):
    plan = plan_of(3, tmp_path)
    sent: dict[str, list[str]] = {}
    monkeypatch.setattr(slurm, "ARRAY_SIZE", 2)

    def submit(jobs: Sequence[StackJob], tag: str, *_: object) -> None:
        sent[tag] = [planned.name for job in jobs for planned in job.plan.values()]

    monkeypatch.setattr(slurm, "submit", submit)
    assert cluster.submit_unfinished(plan, tmp_path, {}, 0, Cancellations(tmp_path)) == 3
    assert [*sent.values()] == [[plan[0].name, plan[1].name], [plan[2].name]]
    for tag, names in sent.items():
        files = (cluster.arrays(tmp_path) / tag).glob("*.json")
        assert {file.stem for file in files} == {f"{index}-{name}" for index, name in enumerate(names)}


def test_only_the_process_that_acquired_the_lock_is_stopped():
    process = subprocess.Popen(["sleep", "3600"])
    created = psutil.Process(process.pid).create_time()
    holder = Holder("here", machine(), process.pid, None, "", created)
    assert not cluster.terminate(replace(holder, created=created - 60))
    assert process.poll() is None
    assert cluster.terminate(holder) and process.wait() == -signal.SIGTERM
    assert not cluster.terminate(holder)
