"""A process of the benchmark: `python -m benchmarks.worker JOB ...`.

JOB is ``stock`` with fairseq's arguments, or ``bare``, ``count`` or ``stacks`` with those of
`ln_repro.engine.inputs`.
"""

import sys

from ln_repro.engine import worker
from ln_repro.engine.inputs import read
from ln_repro.engine.stop import StopRequest


def main() -> int:
    """Run the job that the command line names."""
    job, *arguments = sys.argv[1:]
    StopRequest().watch_input()
    worker.prepare()
    from benchmarks import baselines  # imports fairseq

    if job == "stock":
        baselines.stock(arguments)
    else:
        getattr(baselines, job)(read(*arguments))
    return 0


if __name__ == "__main__":
    worker.run_and_exit(main)
