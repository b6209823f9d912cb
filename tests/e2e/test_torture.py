"""Processes of a sweep are killed at random, as many of each kind; nothing is lost, doubled or changed.

`make torture SEED=N` kills fifty; the test kills twenty.
"""

import collections
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ln_repro.records.events import Events
from tests.e2e.outcomes import outcomes

SEED, KILLS = int(os.environ.get("SEED", 1)), int(os.environ.get("KILLS", 20))
RUNS = ("grid=design", "--only", "p*_warm", "--only", "p*_nowarm*_radam*")
"""Four runs per seed."""
PAUSE_SECONDS = (0.2, 2.5)
KINDS = {
    "ln_repro.cli sweep": "pool",
    "ln_repro.cli run": "runner",
    "worker train": "trainer",
    "worker decode": "decoder",
}


def start(run, seeds: int) -> subprocess.Popen[bytes]:
    """Start a sweep."""
    with run.runs.with_name(f"{run.runs.name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ln_repro.cli", "sweep", *RUNS, f"seeds={seeds}", *run.settings],
            env=run.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def processes(run) -> list[tuple[str, psutil.Process]]:
    """Return the processes of a sweep with their kinds."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        kind = next((kind for part, kind in KINDS.items() if part in words), None)
        try:
            if kind and process.environ().get("LN_REPRO_RUNS") == str(run.runs):
                found.append((kind, process))
        except psutil.Error:
            continue
    return found


def doubled(folder: Path) -> bool:
    """Return whether an event is there twice among those that count."""
    counted = collections.Counter(
        (event["kind"], event["update"], event["epoch"], event.get("split"), event.get("flavour"))
        for event in Events(folder / "events.jsonl").read()
        if event["kind"] in ("train", "valid", "bleu")
    )
    return max(counted.values()) > 1


@pytest.mark.slow
def test_kills_at_random_change_nothing(command):
    print(f"seed {SEED}")
    sweep, quiet, draw = command("sweep"), command("quiet"), random.Random(SEED)
    kills: collections.Counter[str] = collections.Counter()
    settings = [setting for setting in quiet.settings if setting.startswith("data")]
    assert quiet.call("data", "prepare", *settings)[0] == 0  # or the first kills would all interrupt that
    seeds, done = 1, False
    while not done or kills.total() < KILLS:
        if done:  # too early: add runs
            seeds += 1
        process = start(sweep, seeds)
        while process.poll() is None:
            time.sleep(draw.uniform(*PAUSE_SECONDS))
            victims = [(kind, one) for kind, one in processes(sweep) if kills[kind] < -(-KILLS // len(KINDS))]
            if kills.total() < KILLS and victims:
                kind, victim = draw.choice(victims)
                try:
                    victim.kill()
                    kills[kind] += 1
                except psutil.NoSuchProcess:
                    continue
        done = process.returncode == 0
    assert start(quiet, seeds).wait() == 0
    expected, found = outcomes(quiet.runs), outcomes(sweep.runs)
    print(f"{dict(kills)} killed in {len(expected)} runs")
    assert len(kills) == len(KINDS) and len(expected) == 4 * seeds
    assert found == expected
    assert not [name for name in found if doubled(sweep.runs / name)]
