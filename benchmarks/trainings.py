"""Train the same batches in different ways, each in a separate process, and measure the speed after a warm-up."""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.process import Worker
from ln_repro.experiment.settings import Experiment
from ln_repro.records.events import Events
from ln_repro.records.run_dir import write_json
from ln_repro.system import gpu

MPS = "nvidia-cuda-mps-control"
WARM_UP = 10
"""Number of updates at the start that are not timed, and length of a window."""


class Baseline(Worker):
    """A process of `benchmarks.worker`."""

    module = "benchmarks.worker"


@dataclass(frozen=True)
class Window:
    """Consecutive updates: the number of the last, their target tokens and seconds, without saving."""

    update: int
    tokens: float
    seconds: float


@dataclass(frozen=True)
class Workload:
    """An experiment to train, and its binarised corpus."""

    experiment: Experiment
    corpus: Path

    @property
    def gpu(self) -> str | None:
        """The name of the GPU that is used, if any."""
        return gpu.default().name if self.experiment.train.device != "cpu" else None

    def with_norm(self, norm: str) -> "Workload":
        return replace(self, experiment=self.experiment.model_copy(update={"norm": norm}))

    def ours(self, runs: int = 1) -> float:
        """Return our target tokens per second, summed over ``runs`` simultaneous runs."""
        return sum(map(speed, self.our_windows(runs)))

    def under_mps(self, runs: int) -> float:
        """Return the same for runs whose kernels NVIDIA's Multi-Process Service lets overlap on the GPU."""
        with tempfile.TemporaryDirectory() as folder:
            places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
            os.environ.update(places)  # for the service and for the runs
            try:
                subprocess.run([MPS, "-d"], check=True)
                return self.ours(runs)
            finally:
                subprocess.run([MPS], input="quit\n", text=True, check=False)
                for name in places:
                    del os.environ[name]

    def stacked(self, runs: int) -> float:
        """Return our target tokens per second, summed over ``runs`` runs that are trained as one."""
        return sum(map(speed, self.our_windows(runs, as_one=True)))

    def our_windows(self, runs: int = 1, as_one: bool = False) -> list[list[Window]]:
        """Train ``runs`` times simultaneously; return the windows of each run, from its events."""
        with tempfile.TemporaryDirectory() as name:
            folders = [Path(name) / str(number) for number in range(runs)]
            (self.train_as_one if as_one else self.train)(*folders)
            return [
                [
                    Window(event["update"], event["tokens"], event["seconds"] - event["saving"])
                    for event in Events(folder / "events.jsonl").new()
                    if event["kind"] == "train"
                ]
                for folder in folders
            ]

    def train(self, *folders: Path) -> None:
        """Train simultaneously, once in each folder."""
        _finish([self._start(Worker, "train", folder) for folder in folders])

    def train_as_one(self, *folders: Path) -> None:
        """Train once in each folder, as a stack."""
        with ExitStack() as opened:
            ends = [[opened.enter_context(end).fileno() for end in socket.socketpair()] for _ in folders]
            lock = opened.enter_context(folders[0].parent.joinpath("lock").open("w")).fileno()
            trainers, theirs = zip(*ends, strict=True)
            log, on_cpu = folders[0].parent / "stack.log", self.experiment.train.device == "cpu"
            workers = [Worker("stack", [*map(str, trainers)], log, inherit=trainers, on_cpu=on_cpu)]
            for folder, end in zip(folders, theirs, strict=True):
                arguments = [str(end), str(lock), *self._inputs(folder).arguments]
                workers.append(Worker("train-in-stack", arguments, folder / "train.log", inherit=(end, lock)))
        _finish([*workers[1:], workers[0]])

    def stock(self, threads: int = 1) -> float:
        """Return stock fairseq's target tokens per second."""
        with tempfile.TemporaryDirectory() as name:
            arguments, log = stock_arguments(self.experiment, self.corpus, Path(name)), Path(name) / "log"
            on_cpu = self.experiment.train.device == "cpu"
            _finish([Baseline("stock", arguments, log, threads, settings={}, on_cpu=on_cpu)])
            text = log.read_text()
        reports = [_json(line) for line in text.splitlines() if "| train_inner |" in line]
        return speed(
            Window(int(report["num_updates"]), float(report["wpb"]) * WARM_UP,
                   float(report["wpb"]) * WARM_UP / float(report["wps"]))
            for report in reports
        )  # fmt: skip

    def bare(self) -> float:
        """Return the target tokens per second of a plain loop around the model."""
        return speed(Window(**_json(line)) for line in self.printed_by("bare").splitlines() if line.startswith("{"))

    def update(self) -> Mapping[str, Any]:
        """Return the operations of one of our updates, the bytes that they read and write, and the bytes saved."""
        return _json(self.printed_by("count").splitlines()[-1])

    def stacks(self) -> list[Mapping[str, Any]]:
        """Return the operations, bytes and milliseconds of CPU of an update of stacked runs, per run."""
        return [_json(line) for line in self.printed_by("count_stacked").splitlines() if line.startswith("{")]

    def profile(self) -> Mapping[str, Any]:
        """Return what updates spend their time on (see `benchmarks.baselines.profile`)."""
        return _json(self.printed_by("profile").splitlines()[-1])

    def printed_by(self, job: str) -> str:
        """Return what a baseline prints, for the same training."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / job
            _finish([self._start(Baseline, job, folder)])
            return (folder / "train.log").read_text()

    def _start(self, kind: type[Worker], job: str, folder: Path) -> Worker:
        """Start a worker in a new folder."""
        inputs = self._inputs(folder)
        return kind(job, inputs.arguments, folder / "train.log", on_cpu=inputs.on_cpu)

    def _inputs(self, folder: Path) -> Inputs:
        """Return the inputs of a worker in a new folder."""
        folder.mkdir()
        write_json(folder / "experiment.json", self.experiment.model_dump(mode="json"))
        return Inputs(self.experiment, folder, self.corpus)


def speed(windows: Iterable[Window]) -> float:
    """Return the tokens per second after the warm-up."""
    timed = [window for window in windows if window.update > WARM_UP]
    return sum(window.tokens for window in timed) / sum(window.seconds for window in timed)


def stock_arguments(experiment: Experiment, corpus: Path, folder: Path) -> list[str]:
    """Return the arguments of `fairseq-train` for the same training."""
    model, train, optimizer = experiment.model, experiment.train, experiment.optimizer
    sizes = [
        part
        for side in ("encoder", "decoder")
        for part in (f"--{side}-layers", model.layers, f"--{side}-embed-dim", model.width,
                     f"--{side}-ffn-embed-dim", model.ffn, f"--{side}-attention-heads", model.heads,
                     *([f"--{side}-normalize-before"] if experiment.norm == "preln" else []))
    ]  # fmt: skip
    return [str(part) for part in [
        corpus, "--task", "translation", "--source-lang", experiment.data.source_lang,
        "--target-lang", experiment.data.target_lang, "--arch", "transformer", *sizes, "--dropout", model.dropout,
        *(["--share-all-embeddings"] if model.share_embeddings else []), "--criterion", "label_smoothed_cross_entropy",
        "--label-smoothing", train.label_smoothing, "--optimizer", "adam", "--adam-betas", str(optimizer.betas),
        "--lr", experiment.lr, "--lr-scheduler", "fixed", "--clip-norm", train.clip_norm,
        "--seed", experiment.torch_seed, "--max-tokens", train.max_tokens,
        "--update-freq", train.batches_per_update, "--max-update", train.max_update,
        "--num-workers", 0, "--distributed-world-size", 1, "--log-interval", WARM_UP, "--log-format", "json",
        "--save-dir", folder, "--no-save", "--disable-validation",
        *(["--cpu"] if train.device == "cpu" else []),
        *(["--fp16"] if experiment.precision == "bf16" else []),
    ]]  # fmt: skip


def _finish(workers: Sequence[Worker]) -> None:
    """Wait for simultaneous training runs; raise an error if one fails."""
    try:
        for worker in workers:
            worker.wait()
            worker.check()
    finally:
        for worker in workers:
            worker.stop()


def _json(line: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(line[line.index("{") :])
    return found
