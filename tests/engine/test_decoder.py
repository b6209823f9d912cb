"""The decoding process as the runner keeps it: one at a time, kept between epochs, given up when it is long idle."""

import os
import signal
import sys
from pathlib import Path

import pytest

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.process import DecodingProcess
from ln_repro.errors import LnReproError
from ln_repro.system import subprocesses
from tests.examples import experiment
from tests.waiting import until

WORKER = """
import json, pathlib, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(130))
for line in sys.stdin:
    asked = json.loads(line)
    if asked["split"] == "bad":
        sys.exit("the reason")
    part = pathlib.Path(asked["out"] + ".part")
    part.write_text(f"{os.getpid()} {asked['split']} {len(asked['weights'])}")
    part.replace(asked["out"])
"""


@pytest.fixture
def decoder(tmp_path, monkeypatch):
    """Return a decoder whose process only says who it is."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    monkeypatch.setattr(subprocesses, "SELF", [sys.executable, str(script)])
    made = DecodingProcess(Inputs(experiment(), tmp_path, tmp_path), tmp_path / "log")
    yield made
    made.stop()


def answer(decoder, split, weights, out):
    """Ask, wait, and return who answered what."""
    decoder.request(split, weights, out)
    until(decoder.done)
    assert not decoder.done()
    return out.read_text().split()


def test_one_process_decodes_epoch_after_epoch_until_it_is_killed_or_long_idle(decoder, tmp_path, monkeypatch):
    first, second, third, fourth = (tmp_path / str(number) for number in range(4))
    process, *answered = answer(decoder, "test", [Path("a")], first)
    decoder.stop_if_idle()
    assert answered == ["test", "1"]
    second.write_text("of a session that was killed")
    assert answer(decoder, "valid", [Path("a"), Path("b")], second) == [process, "valid", "2"]
    os.kill(int(process), signal.SIGKILL)
    decoder.worker.wait()
    replacing, *_ = answer(decoder, "test", [], third)
    monkeypatch.setattr("ln_repro.engine.process.KEEP_SECONDS", 0.0)
    decoder.stop_if_idle()
    assert decoder.worker is None
    started, *_ = answer(decoder, "test", [], fourth)
    assert len({process, replacing, started}) == 3


def test_one_that_fails_at_work_is_an_error(decoder, tmp_path):
    decoder.request("bad", [], tmp_path / "1")
    with pytest.raises(LnReproError, match="decode failed: the reason"):
        until(decoder.done)
