"""Signals that stop a command or a worker, however quickly they follow each other."""

import subprocess
import sys

import pytest

COMMAND = "from ln_repro.system.signals import record_stop_signals as recorded\nwith recorded() as stop:"
WORKER = "from ln_repro.engine.stop import StopRequest\nstop = StopRequest()\nstop.catch_signals()\nif True:"
INTERRUPTED = """
    def interrupt(frame, event, argument):
        if event == "c_return":  # for example with a lock that was just acquired
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)
            sys.setprofile(interrupt)
    sys.setprofile(interrupt)
    signal.raise_signal(signal.SIGTERM)
    sys.setprofile(None)
    print(bool(stop))
"""


@pytest.mark.parametrize("caught", [COMMAND, WORKER])
def test_a_signal_may_interrupt_the_handler_of_another(caught):
    """Python's locks and events are not made for this: the second handler would wait for the first one for ever."""
    script = f"import signal, sys\n{caught}{INTERRUPTED}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
