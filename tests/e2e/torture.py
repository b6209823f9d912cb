"""Kill the processes of a sweep at random, as many of each kind; every record must be that of an undisturbed sweep.

`python -m tests.e2e.torture [--seed N] [--kills N]` (or `make torture SEED=N`) uses a made-up corpus.
"""

import argparse
import collections
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.e2e.conftest import Command, made_up_corpus
from tests.e2e.outcomes import outcomes

RUNS = ("grid=design", "--only", "p*_warm", "--only", "p*_nowarm*_radam*")
"""Four runs per seed."""
PAUSE_SECONDS = (0.2, 2.5)
KINDS = {
    "ln_repro.cli sweep": "pool",
    "ln_repro.cli run": "runner",
    "worker train": "trainer",
    "worker decode": "decoder",
}


@dataclass
class Toll:
    """What was killed, and what became of the runs."""

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    sweeps: int = 0
    seeds: int = 1
    runs: int = 0
    different: list[str] = field(default_factory=list)
    """Runs whose results are missing or not those of the undisturbed sweep."""
    doubled: list[str] = field(default_factory=list)
    """Runs with an epoch that was validated or scored twice among the events that count."""

    def __str__(self) -> str:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({kinds}) over {self.sweeps} sweeps; {self.runs} runs, "
            f"{len(self.different)} lost or changed, {len(self.doubled)} doubled"
        )


def torture(sweep: Command, quiet: Command, seed: int, kills: int) -> Toll:
    """Kill so many processes of a sweep, let it finish, and compare its records with those of an undisturbed sweep."""
    draw, toll = random.Random(seed), Toll()
    settings = [setting for setting in quiet.settings if setting.startswith("data")]
    assert quiet.call("data", "prepare", *settings)[0] == 0  # or the first kills would all interrupt that
    while True:
        toll.sweeps += 1
        process = start(sweep, toll.seeds)
        while process.poll() is None:
            time.sleep(draw.uniform(*PAUSE_SECONDS))
            share = -(-kills // len(KINDS))
            victims = [(kind, one) for kind, one in processes(sweep) if toll.kills[kind] < share]
            if toll.kills.total() < kills and victims:
                kind, victim = draw.choice(victims)
                try:
                    victim.kill()
                    toll.kills[kind] += 1
                except psutil.NoSuchProcess:
                    continue
        if process.returncode == 0:
            if toll.kills.total() >= kills:
                break
            toll.seeds += 1  # finished too early: add runs
    assert start(quiet, toll.seeds).wait() == 0
    expected, found = outcomes(quiet.runs), outcomes(sweep.runs)
    toll.runs = len(expected)
    toll.different = [name for name in expected if expected[name] != found.get(name)]
    toll.doubled = [name for name in found if doubled(sweep.runs / name)]
    return toll


def start(run: Command, seeds: int) -> subprocess.Popen[bytes]:
    """Start a sweep."""
    with (run.runs.with_name(f"{run.runs.name}.log")).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ln_repro.cli", "sweep", *RUNS, f"seeds={seeds}", *run.settings],
            env=run.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def processes(run: Command) -> list[tuple[str, psutil.Process]]:
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
    from ln_repro.records.events import Events

    counted = collections.Counter(
        (event["kind"], event["update"], event["epoch"], event.get("split"), event.get("flavour"))
        for event in Events(folder / "events.jsonl").read()
        if event["kind"] in ("train", "valid", "bleu")
    )
    return max(counted.values()) > 1


def main() -> int:
    """Run the torture test once, and print its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    print(f"torture with seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        corpus = made_up_corpus(place / "corpus")
        sweep, quiet = (Command(corpus, place / "data", place / name, []) for name in ("sweep", "quiet"))
        toll = torture(sweep, quiet, options.seed, options.kills)
        print(toll)
        if toll.different or toll.doubled:
            kept = Path(tempfile.mkdtemp(prefix="torture-"))
            place.rename(kept / "runs")
            place.mkdir()
            print(f"see {kept}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
