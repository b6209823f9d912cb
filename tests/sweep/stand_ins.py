"""Stand-ins for the runs of a sweep: processes that end as the name of their experiment says."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ln_repro.sweep import queued
from ln_repro.sweep.plan import PlannedRun
from tests.examples import experiment, planned, record

RUN = (
    f"RECORD = {json.dumps(record())!r}"
    + """
import pathlib, signal, sys, time
folder, kind, tries = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[1] + ".tries")
folder.mkdir(parents=True, exist_ok=True)
count, signals = len(tries.read_text()) + 1 if tries.exists() else 1, []
if kind == "saving" and count == 1:
    signal.signal(signal.SIGTERM, lambda *_: signals.append("SIGTERM"))
with tries.open("a") as file:
    file.write("x")
if kind == "slow":
    time.sleep(3600)
if kind == "saving" and count == 1:
    while not signals:
        time.sleep(0.02)
    time.sleep(0.5)
    print(*signals)
    sys.exit(130)
waited_since = time.monotonic()
while kind == "tardy" and not folder.with_name("failed").exists() and time.monotonic() < waited_since + 60:
    time.sleep(0.02)
if kind in ("bad", "tardy") or (kind == "flaky" and count < 3):
    print("train failed (exit 9): the reason")
    sys.exit(1)
if kind == "wrong":
    sys.exit(2)
status = "diverged" if kind == "diverging" else "finished"
(folder / "record.json").write_text(RECORD.replace("finished", status))
sys.exit(130 if kind == "late" else 0)
"""
)
"""A stand-in for `ln-repro run`: its arguments are the directory, and how the run ends."""


class StandIns:
    """Starts stand-ins in place of `ln-repro run`, alone or in stacks, whose sizes it keeps."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.plan: list[PlannedRun] = []
        self.environments: list[Mapping[str, str]] = []
        self.stacks: list[int] = []
        self.warning = "nothing"  # in the logs of stacks

    def planned(self, *kinds: str, alike: bool = False) -> list[PlannedRun]:
        """Return the plan of runs that end in these ways; those that are ``alike`` can be trained as one."""
        for number, kind in enumerate(kinds, 1):
            differs = {"lr": 1e-3 / number} if alike else {"seed": number}
            self.plan.append(planned(experiment(exp=f"toy_{kind}", paths__runs=self.runs, **differs)))
        return self.plan

    def start(self, file: Path, log: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Take the place of `queued.start`."""
        self.environments.append(environment)
        run = next(planned for planned in self.plan if planned.experiment == queued.read(file))
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            command = [sys.executable, "-c", RUN, str(run.folder.path), run.run.exp.partition("_")[2]]
            return subprocess.Popen(command, stdout=output)

    def start_stack(
        self, files: Sequence[Path], logs: Sequence[Path], log: Path, environment: Mapping[str, str]
    ) -> tuple["subprocess.Popen[bytes]", list["subprocess.Popen[bytes]"]]:
        """Take the place of `queued.start_stack`."""
        self.stacks.append(len(files))
        runs = [self.start(*pair, environment) for pair in zip(files, logs, strict=True)]
        with log.open("a") as output:
            output.write(f"2026-11-27 | INFO | ln_repro | begin\n2026-11-27 | WARNING | ln_repro | {self.warning}\n")
        return subprocess.Popen([sys.executable, "-c", ""]), runs


def tries(planned: PlannedRun) -> int:
    """Return how often a run was started."""
    path = planned.folder.path.with_name(planned.folder.path.name + ".tries")
    return len(path.read_text()) if path.exists() else 0
