"""A sweep on a real Slurm: jobs preempted and cancelled, a node lost, and every record as if undisturbed."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.conftest import outcomes
from tests.sweep.slurm_cluster import Cluster, missing
from tests.waiting import until

pytestmark = pytest.mark.slow
ASKED = ("launcher.cpus_per_task=1", "launcher.mem_gb=1", "launcher.timeout_min=60")
SWEEP = ("sweep", "grid=design", "--only", "p*_warm*")
LONG = "train.max_epoch=8"
CANARY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if lacking := missing():
        if os.environ.get("CI_SLURM") == "required":
            pytest.fail(lacking)
        pytest.skip(lacking)
    with Cluster(tmp_path_factory.mktemp("cluster") / "slurm") as running:
        yield running


@pytest.fixture
def run(command, cluster):
    made = command("runs with spaces", LONG)
    made.arguments = [word for word in made.arguments if word != "tracker=none"] + ["tracker.mode=offline"]
    made.environment |= {"SLURM_CONF": cluster.environment["SLURM_CONF"], "PATH": cluster.environment["PATH"]}
    return made


def on_node(cluster, run, node):
    """Return the runs that are running on a node."""
    listed = cluster.ask("squeue", "-h", "--array", "-w", node, "-t", "running", "-o", "%i").split()
    waiting = [path.stem.partition("-") for path in run.runs.glob("sweep/slurm/queue/*/*.json")]
    return [name for index, _, name in waiting if any(job.endswith(f"_{index}") for job in listed)]


def hold_what_trains(run) -> int:
    """Stop every trainer that has reached its twentieth update; return how many there are."""
    if names := run.reached(20):
        run.signal_workers(signal.SIGSTOP, *names)
    return len(names)


def told_to_end(run, name) -> bool:
    """Return whether SIGTERM has reached a worker of a run: while it is stopped the signal is pending, then it ends."""
    pids = [pid for pid, args in run.workers().items() if name in args]
    with suppress(FileNotFoundError):
        pending = (re.search(r"ShdPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text()) for pid in pids)
        return not pids or any(found and int(found[1], 16) >> (signal.SIGTERM - 1) & 1 for found in pending)
    return True


def test_six_runs_survive_a_preemption_a_cancellation_and_a_dead_node(run, command, cluster):
    status, _, error = run.call(*SWEEP, "launcher=slurm", "--detach", *ASKED, *run.settings, WANDB_API_KEY=CANARY)
    assert status == 0 and "6 submitted to Slurm, 0 already queued, running or cancelled" in error
    until(lambda: hold_what_trains(run) == 4)
    assert sorted(run.states().values()) == ["queued"] * 2 + ["running"] * 4
    status, _, error = run.call(*SWEEP, "launcher=slurm", "--detach", *ASKED, *run.settings)
    assert status == 0 and "0 submitted to Slurm" in error

    preempted, lost = on_node(cluster, run, "node1"), on_node(cluster, run, "node2")
    assert len(preempted) == len(lost) == 2
    both = ("-p", "urgent", "-w", "node1", "-n", "1", "--gres=gpu:2")
    cluster.ask("sbatch", *both, "--output=/dev/null", "--wrap", "sleep 3")
    status, out, _ = run.call("cancel", str(run.runs / lost[0]))
    assert status == 0 and f"{lost[0]}: job" in out
    until(lambda: told_to_end(run, lost[0]))
    run.signal_workers(signal.SIGCONT, *preempted, lost[0])
    until(lambda: "REQUEUE" in "".join(path.read_text() for path in run.runs.glob("sweep/slurm/*.err")))
    cluster.kill_node("node2")
    run.signal_workers(signal.SIGCONT, lost[1])
    time.sleep(1)
    cluster.start_node("node2")

    until(lambda: not cluster.ask("squeue", "-h"))
    assert run.states()[lost[0]] == "interrupted"
    status, _, error = run.call(*SWEEP, "launcher=slurm", *ASKED, *run.settings)
    assert status == 0, error
    assert set(run.states().values()) == {"finished"} and len(run.states()) == 6
    sessions = {name: len(list((run.runs / name / "sessions").iterdir())) for name in run.states()}
    assert all(sessions[name] >= 2 for name in (*preempted, *lost)), sessions

    quiet, compared = command("undisturbed", LONG), (preempted[0], *lost)
    arms = [word for name in compared for word in ("--only", name.split("-s1-")[0].removeprefix("toy_"))]
    status, _, error = quiet.call("sweep", "grid=design", *arms, *quiet.settings)
    assert status == 0, error
    found = outcomes(run.runs)
    assert {name: found[name] for name in compared} == outcomes(quiet.runs) and len(found) == 6
    assert run.call("collect", "--records", str(run.runs / "kept"))[0] == 0
    assert not [path for path in run.runs.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_an_option_that_slurm_refuses_is_one_line_and_nothing_is_submitted(run):
    for word, said in (("launcher.partition=nowhere", "invalid partition"), ("launcher.partitoin=gpu", "partitoin")):
        status, _, error = run.call(*SWEEP, "launcher=slurm", word, *run.settings)
        assert status == 2 and said in error.splitlines()[-1] and "Traceback" not in error
    assert run.states() == {}
