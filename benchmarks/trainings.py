"""Train the same batches in different ways, each in a separate process, and measure the speed after a warm-up."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.process import Worker
from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment
from ln_repro.records.run_dir import EXPERIMENT, RunFolder, write_json
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
    round: int = 0
    speeds: dict[tuple[str, int], float] = field(default_factory=dict)
    """On a GPU, target tokens per second by way of training and round; several rows compare the same ways."""
    measured_stacks: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def gpu(self) -> str | None:
        """The name of the GPU that is used, if any."""
        return gpu.default().name if self.experiment.train.device != "cpu" else None

    def with_norm(self, norm: str) -> "Workload":
        return replace(
            self, experiment=self.experiment.model_copy(update={"norm": norm}), speeds={}, measured_stacks=[]
        )

    def ours(self, runs: int = 1) -> float:
        """Return our target tokens per second, summed over ``runs`` simultaneous runs."""
        return self._once(f"packed/{runs}", lambda: sum(map(speed, self.our_windows(runs))))

    def _once(self, way: str, measure: Callable[[], float]) -> float:
        """Return a speed; nothing else slows a GPU down, so that one measurement a round is enough."""
        if self.gpu is None:
            return measure()
        if (way, self.round) not in self.speeds:
            self.speeds[way, self.round] = measure()
        return self.speeds[way, self.round]

    def under_mps(self, runs: int) -> float:
        """Return the same for runs whose kernels NVIDIA's Multi-Process Service lets overlap on the GPU."""
        return self._once(f"mps/{runs}", lambda: self._under_mps(runs))

    def _under_mps(self, runs: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
            os.environ.update(places)  # for the service and for the runs
            try:
                subprocess.run([MPS, "-d"], check=True)
                return sum(map(speed, self.our_windows(runs)))
            finally:
                subprocess.run([MPS], input="quit\n", text=True, check=False)
                for name in places:
                    del os.environ[name]

    def stacked(self, runs: int) -> float:
        """Return our target tokens per second, summed over ``runs`` runs that are trained as one (1: alone)."""
        speeds = {stack["stack"]: float(stack["tokens_per_s"]) for stack in self.measure_stacks()}
        if runs not in speeds:
            raise LnReproError(f"a stack of {runs} was not measured: its memory did not suffice")
        return speeds[runs]

    def our_windows(self, runs: int = 1) -> list[list[Window]]:
        """Train ``runs`` times simultaneously; return the windows of each run, from its events."""
        with tempfile.TemporaryDirectory() as name:
            folders = [Path(name) / str(number) for number in range(runs)]
            self.train(*folders)
            return [
                [
                    Window(event["update"], event["tokens"], event["seconds"] - event["saving"])
                    for event in RunFolder(folder).events.new()
                    if event["kind"] == "train"
                ]
                for folder in folders
            ]

    def train(self, *folders: Path) -> None:
        """Train simultaneously, once in each folder."""
        _finish([self._start(Worker, "train", folder) for folder in folders])

    def stock(self, threads: int = 1) -> float:
        """Return stock fairseq's target tokens per second; on a GPU, a process has one thread."""
        return self._once("stock", lambda: self._stock(1 if self.gpu else threads))

    def _stock(self, threads: int) -> float:
        with tempfile.TemporaryDirectory() as name:
            arguments, log = stock_arguments(self.experiment, self.corpus, Path(name)), Path(name) / "log"
            on_cpu = self.experiment.train.device == "cpu"
            _finish([Baseline("stock", arguments, log, threads, settings={}, on_cpu=on_cpu)])
            text = log.read_text()
        reports = [_json(line) for line in text.splitlines() if "| train_inner |" in line]
        return speed(
            Window(
                int(report["num_updates"]),
                float(report["wpb"]) * WARM_UP,
                float(report["wpb"]) * WARM_UP / float(report["wps"]),
            )
            for report in reports
        )

    def bare(self) -> float:
        """Return the target tokens per second of a plain loop around the model."""
        lines = self.printed_by("bare").splitlines()
        return speed(Window(**_json(line)) for line in lines if line.startswith("{"))

    def update_cost(self) -> Mapping[str, Any]:
        """Return the operations of one of our updates, the bytes that they read and write, and the bytes saved."""
        return _json(self.printed_by("count").splitlines()[-1])

    def measure_stacks(self) -> list[Mapping[str, Any]]:
        """Return what an update costs in stacks of several sizes (see `benchmarks.baselines.stacks`), measured once.

        If memory does not suffice for the larger ones, they are left out.
        """
        if not self.measured_stacks:
            with tempfile.TemporaryDirectory() as name:
                worker = self._start(Baseline, "stacks", Path(name) / "stacks")
                worker.wait()
                lines = worker.log.read_text().splitlines()
                self.measured_stacks.extend(_json(line) for line in lines if line.startswith("{"))
                if not self.measured_stacks:
                    worker.check()
        return self.measured_stacks

    def printed_by(self, job: str) -> str:
        """Return what a baseline prints, for the same training."""
        with tempfile.TemporaryDirectory() as name:
            worker = self._start(Baseline, job, Path(name) / job)
            _finish([worker])
            return worker.log.read_text()

    def _start(self, kind: type[Worker], job: str, folder: Path) -> Worker:
        """Start a worker in a new folder."""
        inputs = self._inputs(folder)
        return kind(job, inputs.arguments, RunFolder(folder).log, on_cpu=inputs.on_cpu)

    def _inputs(self, folder: Path) -> Inputs:
        """Return the inputs of a worker in a new folder."""
        folder.mkdir()
        write_json(folder / EXPERIMENT, self.experiment.model_dump(mode="json"))
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
