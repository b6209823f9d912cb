"""Decode the test set with our decoder, and with stock fairseq's generator and model from the same weights."""

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ln_repro.bench.trainings import Workload, stock_arguments
from ln_repro.engine.checkpoints import Checkpoints
from ln_repro.engine.command import training_arguments
from ln_repro.engine.decoder import Decoder
from ln_repro.system.files import last_line

POLL_SECONDS = 0.05
Decoded = tuple[float, dict[int, str]]
"""The seconds of the search, and the hypotheses by sentence."""
TRANSLATED = re.compile(r"Translated .* in ([\d.]+)s")


@dataclass(frozen=True)
class Trained:
    """A model after the few updates of a benchmark; its hypotheses often reach the maximum length."""

    work: Workload
    folder: Path

    @property
    def weights(self) -> Path:
        saved = Checkpoints(self.folder / "checkpoints")
        return saved.folder / saved.weights()[max(saved.weights())].file

    @contextmanager
    def decoder(self) -> Iterator[Callable[[], Decoded]]:
        """Start our decoder; yield a function that decodes the test set."""
        log, out = self.folder / "decode.log", self.folder / "hypotheses"

        def decode() -> Decoded:
            process.request("test", {out: [self.weights]})
            while not process.done():
                time.sleep(POLL_SECONDS)
            return float(json.loads(last_line(log))["seconds"]), dict(enumerate(out.read_text().splitlines()))

        arguments = training_arguments(self.work.experiment, self.work.corpus, self.folder / "checkpoints")
        process = Decoder(self.work.experiment.eval, arguments, log)
        try:
            yield decode
        finally:
            process.stop()

    def stock(self) -> Decoded:
        """Decode the test set as `fairseq-generate` does."""
        search = self.work.experiment.eval
        ours = (search.beam, search.lenpen, search.max_len_a, search.max_len_b, self.weights, self.folder / "stock.pt")
        text = self.work.printed_by(
            "generate", lambda *given: ["test", *map(str, ours), "--", *stock_arguments(*given)], settings={}
        )
        found = re.findall(r"^H-(\d+)\t\S+\t(.*)$", text, re.MULTILINE)
        (seconds,) = TRANSLATED.findall(text)
        return float(seconds), {int(number): line for number, line in found}


@contextmanager
def trained(work: Workload) -> Iterator[Trained]:
    """Train for the benchmark's number of updates."""
    with tempfile.TemporaryDirectory() as name:
        work.train(Path(name) / "run")
        yield Trained(work, Path(name) / "run")


def stock_decoding(work: Workload, rounds: int) -> list[float]:
    """Compare our decoding of the test set with stock fairseq's, from the same weights in the same batches."""
    with trained(work) as model, model.decoder() as decode:
        decode()  # starts the process, which is not timed
        return [model.stock()[0] / decode()[0] for _ in range(rounds)]
