"""Decode the test set with our decoder, and with stock fairseq's generator and model from the same weights."""

import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ln_repro.bench.trainings import Workload, stock_arguments
from ln_repro.engine.checkpoints import Checkpoints
from ln_repro.engine.command import training_arguments
from ln_repro.engine.decoder import Decoder
from ln_repro.engine.process import Worker

POLL_SECONDS = 0.05
TRANSLATED = re.compile(r"Translated .* in ([\d.]+)s")


@dataclass(frozen=True)
class Trained:
    """A model after the few updates of a benchmark; its hypotheses often reach the maximum length."""

    work: Workload
    folder: Path

    @property
    def weights(self) -> Path:
        saved = Checkpoints(self.folder / "checkpoints")
        return saved.folder / max(saved.weights().values(), key=lambda one: one.epoch).file

    @contextmanager
    def decoder(self) -> Iterator["Ours"]:
        """Start our decoder."""
        with (self.folder / "lock").open("w") as lock:
            arguments = training_arguments(self.work.experiment, self.work.corpus, self.folder / "checkpoints")
            made = Decoder(self.work.experiment.eval, arguments, self.folder / "decode.log", lock.fileno())
            try:
                yield Ours(self, made)
            finally:
                made.stop()

    def stock(self) -> tuple[float, dict[int, str]]:
        """Decode as `fairseq-generate` does; return the seconds of its search, and the hypotheses by sentence."""
        search, log = self.work.experiment.eval, self.folder / "generate.log"
        log.unlink(missing_ok=True)
        arguments = [
            "test", search.beam, search.lenpen, search.max_len_a, search.max_len_b, self.weights,
            self.folder / "stock.pt", "--", *stock_arguments(self.work.experiment, self.work.corpus, self.folder),
        ]  # fmt: skip
        worker = Worker("generate", [str(part) for part in arguments], log, settings={})
        worker.wait()
        worker.check()
        text = log.read_text()
        found = re.findall(r"^H-(\d+)\t\S+\t(.*)$", text, re.MULTILINE)
        (seconds,) = TRANSLATED.findall(text)
        return float(seconds), {int(number): line for number, line in found}


@dataclass(frozen=True)
class Ours:
    """Our decoder, with a trained model."""

    trained: Trained
    process: Decoder

    def decode(self) -> tuple[float, dict[int, str]]:
        """Decode the test set; return the seconds of the search, and the hypotheses by sentence."""
        out = self.trained.folder / "hypotheses"
        self.process.request("test", {out: [self.trained.weights]})
        while not self.process.done():
            time.sleep(POLL_SECONDS)
        report = json.loads((self.trained.folder / "decode.log").read_text().splitlines()[-1])
        return float(report["seconds"]), dict(enumerate(out.read_text().splitlines()))


@contextmanager
def trained(work: Workload) -> Iterator[Trained]:
    """Train for the benchmark's number of updates."""
    with tempfile.TemporaryDirectory() as name:
        work.train(Path(name) / "run")
        yield Trained(work, Path(name) / "run")


def stock_decoding(work: Workload, rounds: int) -> list[float]:
    """Compare our decoding of the test set with stock fairseq's, from the same weights in the same batches."""
    with trained(work) as model, model.decoder() as ours:
        ours.decode()  # starts the process, which is not timed
        return [model.stock()[0] / ours.decode()[0] for _ in range(rounds)]
