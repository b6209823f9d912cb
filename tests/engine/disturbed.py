"""Train with the inputs behind the first three arguments, and be stopped or killed on the way.

`python disturbed.py stop|kill METHOD NUMBER ARGUMENTS...`: a stop is asked for, or the process is killed, when the
trainer's or the loop's METHOD is called for the NUMBER-th time.
"""

import os
import signal
import sys

from ln_repro.engine import compat

compat.apply()

from ln_repro.engine.inputs import read  # noqa: E402
from ln_repro.engine.loop import Loop, train  # noqa: E402
from ln_repro.engine.process_group import Group  # noqa: E402
from ln_repro.engine.stop import StopRequest  # noqa: E402
from ln_repro.engine.trainer import StrictTrainer  # noqa: E402
from ln_repro.system.distributed import Rank  # noqa: E402

what, method, number, *arguments = sys.argv[1:]
inputs = read(*arguments)
stop = StopRequest()
left = int(number)
owner = StrictTrainer if hasattr(StrictTrainer, method) else Loop
original = getattr(owner, method)


def counting(self, *args, **kwargs):
    global left
    left -= 1
    if left == 0 and what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif left == 0:
        stop.request()
    return original(self, *args, **kwargs)


setattr(owner, method, counting)
status = train(inputs, stop, Group(Rank()))
sys.stderr.flush()
os._exit(status)
