"""Processes of a sweep are killed at random, as many of each kind; nothing is lost, doubled or changed.

`make torture SEED=N` kills about fifty; the tests kill eight and, in a stack, ten. There, losses may change by
rounding.
"""

import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ln_repro.records.events import Events
from tests.e2e.conftest import Command, outcomes
from tests.waiting import processes

SEED, KILLS = (int(os.environ.get(f"TORTURE_{name}", usual)) for name, usual in (("SEED", 1), ("KILLS", 8)))
RUNS = ("grid=design", "--only", "p*_warm", "--only", "p*_nowarm*_radam*")
"""Four runs per seed, two of each norm."""
PAUSE_SECONDS = (0.2, 2.5)
KINDS = ("ln_repro.cli sweep", "ln_repro.cli run", "worker train", "worker decode")


def start(run, seeds: int, stack: int = 1) -> subprocess.Popen[bytes]:
    with run.runs.with_name(f"{run.runs.name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ln_repro.cli", "sweep", *RUNS, f"seeds={seeds}", f"stack={stack}", *run.settings],
            env=run.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def doubled(folder: Path) -> bool:
    """Return whether an event is there twice among those that count."""
    counted = collections.Counter(
        (event["kind"], event["update"], event["epoch"], event.get("split"), event.get("flavour"))
        for event in Events(folder / "events.jsonl").read()
        if event["kind"] in ("train", "valid", "bleu")
    )
    return max(counted.values()) > 1


@pytest.fixture(scope="module")
def quiet(sentences, tmp_path_factory) -> Command:
    """Return undisturbed runs of one seed, for which the corpus is prepared; a test adds those of further seeds."""
    run = Command(sentences, tmp_path_factory.getbasetemp() / "prepared data", tmp_path_factory.mktemp("quiet"), [])
    assert start(run, 1).wait() == 0
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("stack", "kinds"), [(1, KINDS), (2, (*KINDS, "worker stack"))])
def test_kills_at_random_change_nothing(command, quiet, stack, kinds):
    print(f"seed {SEED}")
    sweep, draw = command("sweep"), random.Random(SEED)
    kills: collections.Counter[str] = collections.Counter()
    seeds, done, share = 1, False, -(-KILLS // len(kinds))  # of each kind
    while not done or min(kills[kind] for kind in kinds) < share:
        if done:  # too early: add runs
            seeds += 1
        process = start(sweep, seeds, stack)
        while process.poll() is None:
            time.sleep(draw.uniform(*PAUSE_SECONDS))
            due = [kind for kind in kinds if kills[kind] < share]
            if victims := processes(sweep.runs, *due):
                with contextlib.suppress(ProcessLookupError):
                    pid, line = draw.choice(list(victims.items()))
                    os.kill(pid, signal.SIGKILL)
                    kills.update(kind for kind in due if kind in line)
        done = process.returncode == 0
    assert start(quiet, seeds).wait() == 0
    undisturbed, found = outcomes(quiet.runs), outcomes(sweep.runs)
    print(f"{dict(kills)} killed in {len(found)} runs")
    assert len(found) == 4 * seeds
    assert found.keys() <= undisturbed.keys()
    for name in found:
        its_own = undisturbed[name]
        if stack == 1:
            assert found[name] == its_own
        assert all(found[name][key] == its_own[key] for key in ("status", "id", "updates", "target_tokens"))
        losses = [[epoch["valid_loss"] for epoch in record["epochs"]] for record in (found[name], its_own)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert not [name for name in found if doubled(sweep.runs / name)]
