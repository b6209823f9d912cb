"""The connection between the process that trains a stack and the runs in it. This module does not import torch.

A run in a stack has a command and a worker of its own, like any other. But its worker only hands the arguments and the
lock of the run to the stack's process, through a socket that both have inherited from the sweep, and passes on a stop.
Each side notices at once when the other one has ended.
"""

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait

from ln_repro.engine.inputs import Inputs, read
from ln_repro.engine.stop import POLL_SECONDS, StopRequest
from ln_repro.errors import LnReproError, described
from ln_repro.records.run_dir import RunFolder


def train_in_stack(descriptor: int, lock: int, arguments: Sequence[str], stop: StopRequest) -> int:
    """Let the stack's process train the run with these arguments of a worker, and return the exit status.

    ``descriptor`` is that of the socket, and ``lock`` that of the file that stays locked while the run is trained.
    """
    stop.catch_signals()
    passed_on = False
    with socket.socket(fileno=descriptor) as stack, suppress(ConnectionError):
        socket.send_fds(stack, [json.dumps(arguments).encode()], [lock])
        while not wait([stack], POLL_SECONDS):
            if stop and not passed_on:
                stack.send(b"stop")
                passed_on = True
        if status := stack.recv(8):
            return int(status)
    raise LnReproError("the process that trained this run together with others has ended")


class StackedRun(StopRequest):
    """A run in this process; it is to stop if its worker says so or has ended, or if this process is to stop."""

    def __init__(self, descriptor: int, process: StopRequest) -> None:
        super().__init__()
        self.worker = socket.socket(fileno=descriptor)
        self.process = process

    def __bool__(self) -> bool:
        return bool(self.process) or bool(wait([self.worker], 0))

    def join(self) -> Inputs | None:
        """Wait for the worker, and return the inputs of the run; None if it has ended without training."""
        message, descriptors, _, _ = socket.recv_fds(self.worker, 2**16, 1)
        if not message:
            return None
        (self.lock,) = descriptors
        inputs = read(*json.loads(message))
        self.log = RunFolder(inputs.folder).log
        return inputs

    def end(self, status: int, error: Exception | None = None) -> None:
        """Release the lock and let the worker exit with ``status``, or with that of an error, which is logged."""
        if error:
            text, status = described(error)
            with suppress(OSError), self.log.open("a", encoding="utf-8") as log:  # its directory may be gone
                print(text, file=log)
        os.close(self.lock)
        with suppress(ConnectionError):
            self.worker.send(str(status).encode())
        self.worker.close()
