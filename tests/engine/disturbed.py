"""Train with the inputs behind the first three arguments, and meet with something on the way.

`python disturbed.py stop|kill|sleep|take|replace|spoil METHOD NUMBER ARGUMENTS...`: a stop is asked for, the process is
killed, it sleeps for a second, another machine takes its folder over, or replaces it by a new one, or the model's
weights become NaN, when the trainer's or the loop's METHOD is called for the NUMBER-th time.
"""

import os
import shutil
import signal
import sys
import time

import torch

from ln_repro.engine import compat

compat.apply()

from ln_repro.engine.inputs import read  # noqa: E402
from ln_repro.engine.loop import Loop, train  # noqa: E402
from ln_repro.engine.process_group import Group  # noqa: E402
from ln_repro.engine.stop import StopRequest  # noqa: E402
from ln_repro.engine.trainer import StrictTrainer  # noqa: E402
from ln_repro.system import directory_lock  # noqa: E402
from ln_repro.system.distributed import Rank  # noqa: E402

what, method, number, *arguments = sys.argv[1:]
inputs = read(*arguments)
stop = StopRequest()
left = int(number)
owner = StrictTrainer if hasattr(StrictTrainer, method) else Loop
original = getattr(owner, method)


@torch.no_grad()
def strike(disturbed):
    if what == "stop":
        stop.request()
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "sleep":
        time.sleep(1)
    elif what == "take":
        (inputs.folder / "sessions" / "2.json").write_text("{}")
    elif what == "replace":
        shutil.rmtree(inputs.folder)
        directory_lock.acquire(inputs.folder)
    else:
        for parameter in disturbed.model.parameters():
            parameter.fill_(torch.nan)


def counting(self, *args, **kwargs):
    global left
    left -= 1
    if left == 0:
        strike(self)
    return original(self, *args, **kwargs)


setattr(owner, method, counting)
status = train(inputs, stop, Group(Rank()))
sys.stderr.flush()
os._exit(status)
