"""The engine's own process: `python -m ln_repro.engine.worker train|decode|binarise ...`.

fairseq stays in here. It changes global state (Hydra's, the seeds), can die in C++, and is stopped by closing its
standard input: the command that started it holds the other end, so a worker never outlives its command.
"""

import sys

from ln_repro.engine import compat
from ln_repro.engine.stop import StopRequest


def main() -> int:
    """Run the job that the command line names."""
    stop = StopRequest()
    stop.listen()
    compat.apply()
    job, *arguments = sys.argv[1:]
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


if __name__ == "__main__":
    sys.exit(main())
