"""The engine's own process: `python -m ln_repro.engine.worker train|decode|binarise ...`.

fairseq stays in here. It changes global state (Hydra's, the seeds), can die in C++, and is stopped by closing its
standard input: the command that started it holds the other end, so a worker never outlives its command.
"""

import os
import sys
import traceback

from ln_repro.engine import compat
from ln_repro.engine.stop import StopRequest


def main() -> int:
    """Run the job that the command line names."""
    job, *arguments = sys.argv[1:]
    stop = StopRequest()
    stop.listen(signals=job != "binarise")  # which has nothing to save
    compat.apply()
    if job == "train":
        from ln_repro.engine.training import train

        return train(arguments, stop)
    if job == "decode":
        from ln_repro.engine.decode import decode

        return decode(arguments, stop)
    if job == "binarise":
        from ln_repro.engine.binarise import binarise

        return binarise(arguments)
    raise SystemExit(f"unknown job {job!r}")


def run() -> int:
    """Run the job; whatever it raises is written down and becomes the exit status."""
    try:
        return main()
    except SystemExit as end:
        print(end, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    return 1


if __name__ == "__main__":
    status = run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # fairseq's loader threads are still at work: an ordinary exit may abort in them
