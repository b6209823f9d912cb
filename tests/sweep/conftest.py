"""What tests of sweeps share."""

from pathlib import Path

import pytest

from ln_repro.sweep import local, queued
from tests.sweep.stand_ins import StandIns


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """Start stand-ins in place of runs, and lose no time waiting for them."""
    made = StandIns(tmp_path)
    monkeypatch.setattr(local, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(local, "OTHER_SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(queued, "start", made.start)
    monkeypatch.setattr(queued, "start_stack", made.start_stack)
    return made
