"""A run that is killed and resumed is one run on the server: no update is lost, and none arrives twice."""

import psutil
import pytest

from tests.tracking.wandb_server import Server
from tests.waiting import HANGS_SECONDS, until

CANARY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def mirrored(command, tmp_path):
    """Return a run that is mirrored to a stand-in for the server, and the server."""
    run = command()
    run.arguments = [word for word in run.arguments if word != "tracker=none"] + ["tracker.mode=online"]
    with Server() as server:
        home = {"HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc"), "WANDB_CONFIG_DIR": str(tmp_path / "config")}
        run.environment |= {**home, "WANDB_BASE_URL": server.url, "WANDB_API_KEY": CANARY}
        yield run, server


@pytest.mark.slow
def test_killed_twice_it_arrives_as_one(mirrored):
    run, server = mirrored
    begun = run.start()
    (trainer,) = until(run.workers)
    assert not [name for name in psutil.Process(trainer).environ() if name.startswith("WANDB_")]
    begun.kill()
    begun.communicate(timeout=HANGS_SECONDS)
    run.wait_until_alone()
    for update, victim in ((30, "command"), (90, "trainer")):
        run.kill_at(update, victim)
    run.complete()
    for _ in range(2):
        status, out, error = run.call("sync")
        assert status == 0, error
    assert "already uploaded" in out
    (arrived,) = server.runs.values()
    losses = [row["update"] for _, row in sorted(arrived.history.items()) if "train/loss" in row]
    assert losses == sorted(set(losses)) and set(range(5, 151, 5)) <= set(losses)
    assert len(arrived.column("valid/loss")) == 4
    assert not [path for path in run.runs.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
