"""A run that another machine has taken over."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from ln_repro.errors import LnReproError
from ln_repro.records.run_dir import RunFolder
from ln_repro.runner import run as runner
from tests.examples import experiment


def test_a_run_that_was_taken_over_leaves_no_failure_to_its_new_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = experiment(paths__runs=tmp_path)

    def suspended(self: runner.Run) -> None:
        later = {**vars(self.lock.holder), "host": "node7", "boot": "another"}
        (self.folder.path / "sessions" / "2.json").write_text(json.dumps(later))
        self.lock.check()

    monkeypatch.setattr(runner, "prepare", lambda *_: SimpleNamespace(fingerprint="data"))
    monkeypatch.setattr(runner.Run, "execute", suspended)
    with pytest.raises(LnReproError, match=r"was taken over by process \d+ on node7"):
        runner.run(wanted, print)
    assert RunFolder.of(wanted, wanted.id("data")).failure is None
