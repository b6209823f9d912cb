"""A process of the engine: `python -m ln_repro.engine.worker JOB ...`.

Only workers import fairseq, which changes global state (Hydra's, the seeds). A worker stops when its standard input is
closed, so that it does not outlive the command that started it.

JOB is ``decode`` or ``train``; the arguments are those of `ln_repro.engine.inputs`.
In a sweep it may also be ``stack`` (train several runs as one) or ``train-in-stack`` (have a run trained by such a
process); see `ln_repro.engine.stacked`.
Under torchrun it may also be ``follow`` (train with the inputs of the first process) or ``release`` (tell the
processes that follow that there is nothing to train).
"""

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from ln_repro.engine import compat
from ln_repro.engine.inputs import Inputs, read
from ln_repro.engine.stop import StopRequest
from ln_repro.errors import Interrupted, described
from ln_repro.system.distributed import this_rank


def main() -> int:
    """Run the job that the command line names."""
    job, *arguments = sys.argv[1:]
    stop = StopRequest()
    if job not in ("follow", "stack"):  # torchrun or a sweep controls it
        stop.watch_input()
    if job == "train-in-stack":
        from ln_repro.engine.stacked.connection import train_in_stack

        socket, lock, *arguments = arguments
        return train_in_stack(int(socket), int(lock), arguments, stop)
    prepare()
    if job == "stack":
        from ln_repro.engine.stacked.driver import train_stack

        return train_stack([*map(int, arguments)], stop)
    if job in ("follow", "release"):
        return train_together(None, stop)
    inputs = read(*arguments)
    if job == "decode":
        from ln_repro.engine.decode import decode

        for name in (signal.SIGTERM, signal.SIGINT):  # there is nothing to save
            signal.signal(name, lambda *_: os._exit(Interrupted.exit_code))
        decode(inputs, stop.input_lines())
        return Interrupted.exit_code
    return train_together(inputs, stop)


def prepare() -> None:
    """Make fairseq importable, and log what it says."""
    gc.disable()  # imports create many objects and little garbage
    compat.apply()
    gc.freeze()
    gc.enable()
    logging.basicConfig(format="%(asctime)s | %(levelname)s | %(name)s | %(message)s", level=logging.INFO)


def train_together(inputs: Inputs | None, stop: StopRequest) -> int:
    """Train with the inputs of the first process; until all have joined, signals end this one immediately.

    If one of several processes fails, its error is written to the run's directory, for the command to report.
    """
    from ln_repro.engine.process_group import Group
    from ln_repro.records.run_dir import RunFolder

    group = Group(this_rank())
    agreed = group.share(inputs)
    stop.catch_signals()
    try:
        from ln_repro.engine.loop import train  # here, where a failure is reported, too

        if agreed and not agreed.on_cpu:
            group.use_gpu()
        status = train(agreed, stop, group) if agreed else 0
    except BaseException as error:
        if agreed and group.rank.size > 1 and not (folder := RunFolder(agreed.folder)).failure:
            _, _, reason = described(error)[0].rpartition("\n")
            folder.fail(f"process {group.rank.index + 1} of {group.rank.size} failed: {reason}")
        raise
    group.close()
    return status if group.rank.leads else 0


def run_and_exit(work: Callable[[], int]) -> NoReturn:
    """Exit with the status of ``work``, or with that of its error, which is the last line of the log."""
    try:
        status = work()
    except BaseException as error:
        text, status = described(error)
        print(text, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # an ordinary exit may abort in the threads of fairseq's loader


if __name__ == "__main__":
    run_and_exit(main)
