"""The installed command on a corpus of a few hundred sentences and a model of a few thousand parameters."""

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from ln_repro import cli
from tests.waiting import HANGS_SECONDS, processes, until

HELD = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
COMPARED = ("status", "divergence", "epochs", "bleu", "updates", "target_tokens", "parameters", "data", "id")
WORDS = [f"wort{number}" for number in range(40)]
TINY = (
    "exp=toy_preln_nowarm data=files data.bpe_merges=0 model.layers=1 model.width=16 model.ffn=32 model.heads=2 "
    "train.max_update=null train.max_epoch=4 train.max_tokens=120 train.save_every=25 train.log_every=5 eval.beam=2 "
    "tracker=none"
).split()


@pytest.fixture(scope="session")
def sentences(tmp_path_factory) -> Path:
    """Return the folder of a made-up parallel corpus."""
    return made_up_corpus(tmp_path_factory.mktemp("corpus with 'quotes' and spaces"))


def made_up_corpus(folder: Path) -> Path:
    """Write a parallel corpus whose target is the source in reverse; return its folder."""
    folder.mkdir(exist_ok=True)
    draw = random.Random(5)
    for split, size in (("train", 500), ("valid", 30), ("test", 25)):
        pairs = [[draw.choice(WORDS) for _ in range(draw.randint(3, 8))] for _ in range(size)]
        (folder / f"{split}.de").write_text("".join(" ".join(words) + "\n" for words in pairs))
        (folder / f"{split}.en").write_text("".join(" ".join(reversed(words)) + "\n" for words in pairs))
    return folder


def outcome(folder: Path) -> dict[str, Any]:
    """Return all that must not depend on interruptions: of the record, of every epoch's weights, every hypothesis."""
    record = json.loads((folder / "record.json").read_text())
    listed = json.loads((folder / "checkpoints" / "manifest.json").read_text())
    weights = {entry["epoch"]: entry["sha256"] for entry in listed if entry["kind"] == "weights"}
    hypotheses = {path.name: path.read_bytes() for path in (folder / "hyps").iterdir()}
    return {**{key: record[key] for key in COMPARED}, "weights": weights, "hypotheses": hypotheses}


def outcomes(runs: Path) -> dict[str, Any]:
    """Return the outcome of every finished run in a folder, by the name of its directory."""
    return {path.parent.name: outcome(path.parent) for path in sorted(runs.glob("*/record.json"))}


class Command:
    """`ln-repro run` of the tiny experiment, in a runs folder of its own."""

    def __init__(self, corpus: Path, data: Path, runs: Path, extra: list[str]) -> None:
        files = [f'data.{split}="{corpus / split}"' for split in ("train", "valid", "test")]
        self.arguments = [*TINY, *files, *extra]
        self.runs = runs
        self.environment = {**os.environ, "LN_REPRO_RUNS": str(runs), "LN_REPRO_DATA": str(data)}

    def start(self, *extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ln_repro.cli", "run", *self.arguments, *extra],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self, *extra: str) -> tuple[int, str, str]:
        """Run it to its end; return exit code, standard output and standard error."""
        return self.call("run", *self.arguments, *extra)

    def complete(self, *extra: str) -> str:
        """Run it to its end, which must succeed; return standard error."""
        status, _, error = self.finish(*extra)
        assert status == 0, error
        return error

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "record.json").read_text())

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the lines of `events.jsonl`, of some kinds only or of all."""
        events = [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]
        return [event for event in events if not kinds or event["kind"] in kinds]

    @property
    def settings(self) -> list[str]:
        """The settings for every run of a grid."""
        return [setting for setting in self.arguments if not setting.startswith("exp=")]

    def call(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Run any command to its end; return exit code, standard output and standard error."""
        done = subprocess.run(
            [sys.executable, "-m", "ln_repro.cli", *words],
            env={**self.environment, **environment}, capture_output=True, text=True, timeout=HANGS_SECONDS,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def call_here(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Do the same in this process, which is quicker; not for what trains."""
        out, error, handler = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
            for name, value in {**self.environment, **environment}.items():
                patch.setenv(name, value)
            status = cli.main(list(words))
        signal.signal(signal.SIGTERM, handler)
        return status, out.getvalue(), error.getvalue()

    def states(self, *words: str) -> dict[str, str]:
        """Return the state of every run by its name, as `ln-repro status` shows it."""
        status, out, error = self.call_here("status", "--json", *words)
        assert status == 0, error
        return {row["dir"].rpartition("/")[2]: row["state"] for row in json.loads(out)}

    @property
    def folder(self) -> Path:
        return next(path.parent for path in self.runs.glob("*/experiment.json"))

    def reached(self, update: int) -> list[str]:
        """Return the names of the runs whose training has reported ``update`` or more."""
        return [
            path.parent.name
            for path in self.runs.glob("*/events.jsonl")
            if any(json.loads(line)["update"] >= update for line in path.read_text().splitlines() if line.endswith("}"))
        ]

    def wait_for_update(self, update: int) -> None:
        """Return once the training of a run has reported ``update`` or more."""
        until(lambda: self.reached(update))

    def kill_at(self, update: int, victim: str = "both") -> None:
        """Start it, and kill -9 the command, the trainer or both of them once it has reported ``update``."""
        process = self.start()
        self.wait_for_update(update)
        until(self.workers)  # the update may be one of an earlier session
        if victim != "trainer":
            process.kill()
        if victim != "command":
            self.signal_workers(signal.SIGKILL)
        process.communicate(timeout=HANGS_SECONDS)
        self.wait_until_alone()

    def signal_workers(self, number: signal.Signals, *names: str) -> None:
        """Send a signal to the workers, or only to those of some runs; after SIGSTOP, wait until they have stopped."""
        for pid, args in self.workers().items():
            if not names or any(name in args for name in names):
                with suppress(ProcessLookupError, psutil.NoSuchProcess):
                    os.kill(pid, number)
                    while number == signal.SIGSTOP and psutil.Process(pid).status() not in HELD:
                        time.sleep(0.01)

    def wait_until_alone(self) -> None:
        """Return once no worker is left; a trainer whose command has ended ends by itself."""
        until(lambda: not self.workers(), 0.1)

    def workers(self) -> dict[int, str]:
        """Return the engine's processes of this run: their command lines by process id."""
        return processes(self.runs, "ln_repro.engine.worker")


@pytest.fixture(scope="session")
def trained(sentences, tmp_path_factory):
    """Return a function that runs a `Command` with a runs folder of its own to its end; prepared data are shared."""

    def train(*settings: str) -> Command:
        runs = tmp_path_factory.mktemp("trained")
        run = Command(sentences, tmp_path_factory.getbasetemp() / "prepared data", runs, list(settings))
        run.complete()
        return run

    return train


@pytest.fixture(scope="session")
def undisturbed(trained) -> Command:
    """Return a run that was not interrupted; tests only read it, or copy it."""
    return trained()


@pytest.fixture(scope="session")
def expected(undisturbed) -> dict[str, Any]:
    """Return the outcome of a run that was not interrupted."""
    return outcome(undisturbed.folder)


@pytest.fixture
def command(sentences, tmp_path_factory, tmp_path):
    """Return a function that makes a `Command` with a fresh runs folder; prepared data are shared."""
    data = tmp_path_factory.getbasetemp() / "prepared data"
    return lambda name="runs", *extra: Command(sentences, data, tmp_path / name, list(extra))


@pytest.fixture
def finished(undisturbed, command) -> Command:
    """Return a copy of a finished run."""
    run = command()
    shutil.copytree(undisturbed.runs, run.runs)
    return run
