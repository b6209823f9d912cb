"""The decoding process as the runner sees it: beside training, never in its way. No torch here."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ln_repro.engine.command import decoding_arguments
from ln_repro.engine.process import Worker
from ln_repro.experiment.settings import Evaluation

KEEP_SECONDS = 60.0
"""A decoder that had nothing to do for so long ends. To start one takes seconds, of which short epochs have few."""


class Decoder:
    """At most one process, started when something is asked for, and kept for the next epoch if that comes soon.

    Args:
        search: how to decode.
        training: the trainer's arguments.
        log: what the process says goes here.
        inherit: an open file that stays locked as long as it lives.
    """

    def __init__(self, search: Evaluation, training: Sequence[str], log: Path, inherit: int) -> None:
        self.arguments = decoding_arguments(search, training)
        self.log = log
        self.inherit = inherit
        self.worker: Worker | None = None
        self._awaited: list[Path] = []
        self._since = 0.0

    @property
    def busy(self) -> bool:
        """Return whether something was asked for that has not been seen to be done."""
        return bool(self._awaited)

    def ask(self, split: str, weights: Mapping[Path, Sequence[Path]]) -> None:
        """Ask for the hypotheses of ``split``, for the files of weights by output file: of several, their mean's."""
        for out in weights:
            out.unlink(missing_ok=True)  # of a session that was killed
        if self.worker is None or self.worker.poll() is not None:
            self.worker = Worker("decode", self.arguments, self.log, 1, self.inherit)
        for out, files in weights.items():
            self.worker.ask(json.dumps({"split": split, "out": str(out), "weights": [str(file) for file in files]}))
        self._awaited = [*weights]

    def done(self) -> bool:
        """Return whether all that was asked for is there, once.

        Raises:
            Interrupted, LnReproError: the process has ended before.
        """
        if not self.busy or self.worker is None:
            return False
        if not all(out.exists() for out in self._awaited):
            self.worker.check()
            return False
        self._awaited, self._since = [], time.monotonic()
        return True

    def rest(self) -> None:
        """End the process if it has had nothing to do for a while: it holds memory."""
        if not self.busy and time.monotonic() - self._since > KEEP_SECONDS:
            self.stop()

    def stop(self) -> None:
        """End the process, whatever it is at."""
        if self.worker is not None:
            self.worker.stop()
            self.worker = None
