"""The decoding process, which runs beside training. This module does not import torch."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.process import Worker

KEEP_SECONDS = 60.0
"""Idle time after which the process is stopped. Starting it takes seconds, which matters if epochs are short."""


class Decoder:
    """At most one decoding process, started on request and stopped after `KEEP_SECONDS` without another one.

    ``log`` is the file for the output of the process, and ``inherit`` as in `Worker`.
    """

    def __init__(self, inputs: Inputs, log: Path, inherit: Sequence[int] = ()) -> None:
        self.inputs = inputs
        self.log = log
        self.inherit = inherit
        self.worker: Worker | None = None
        self._awaited: list[Path] = []  # until `done` has returned True
        self._since = 0.0

    def request(self, split: str, weights: Mapping[Path, Sequence[Path]]) -> None:
        """Request the hypotheses of ``split`` for the mean of each list of weights, by output file."""
        for out in weights:
            out.unlink(missing_ok=True)  # from an interrupted session
        if self.worker is None or self.worker.poll() is not None:
            arguments, on_cpu = self.inputs.arguments, self.inputs.on_cpu
            self.worker = Worker("decode", arguments, self.log, 1, self.inherit, on_cpu=on_cpu)
        for out, files in weights.items():
            self.worker.send(json.dumps({"split": split, "out": str(out), "weights": [str(file) for file in files]}))
        self._awaited = [*weights]

    def done(self) -> bool:
        """Return True once when all requested files exist.

        Raises:
            Interrupted, LnReproError: the process ended early.
        """
        if not self._awaited or self.worker is None:
            return False
        if not all(out.exists() for out in self._awaited):
            self.worker.check()
            return False
        self._awaited, self._since = [], time.monotonic()
        return True

    def stop_if_idle(self) -> None:
        """Stop the process, which occupies memory, if it has been idle for `KEEP_SECONDS`."""
        if not self._awaited and time.monotonic() - self._since > KEEP_SECONDS:
            self.stop()

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.stop()
            self.worker = None
