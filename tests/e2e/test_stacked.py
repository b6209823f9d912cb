"""A sweep that trains its runs as one: their records and verdicts are those of separate runs."""

import json
import subprocess
import sys

import pytest

from ln_repro.records.archive import read_kept
from tests.waiting import HANGS_SECONDS, until

GRID = ("grid=rates", "arms=preln_warm,preln_nowarm_anchored", "rates=1e-3,5e-3")


@pytest.mark.slow
def test_a_stacked_sweep_gives_the_records_of_separate_runs_though_one_is_cancelled_on_the_way(command):
    stacked, separate = command("stacked"), command("separate")
    words = ("sweep", *GRID, *stacked.settings)
    sweep = subprocess.Popen([sys.executable, "-m", "ln_repro.cli", *words, "stack=7"], env=stacked.environment)
    until(lambda: len(stacked.reached(30)) == 4)
    cancelled = stacked.reached(30)[0]
    assert stacked.call_here("cancel", cancelled)[0] == 0
    assert sweep.wait(HANGS_SECONDS) == 1
    assert len([*stacked.runs.glob("*/record.json")]) == 3
    assert not (stacked.runs / cancelled / "record.json").exists()
    assert stacked.call(*words, "stack=7")[0] == 0  # resumes it, alone
    assert separate.call(*words)[0] == 0

    records = {}
    for run in (stacked, separate):
        kept = run.runs.parent / f"records of {run.runs.name}"
        assert run.call_here("collect", "--records", str(kept))[0] == 0
        records[run] = {record.id: record for record in read_kept(kept).records}
    assert records[stacked].keys() == records[separate].keys() and len(records[stacked]) == 4
    for id, record in records[stacked].items():
        beside = records[separate][id]
        assert record.environment["stacked"] == 4 and "stacked" not in beside.environment
        assert (record.status, record.updates, record.target_tokens) == (
            "finished",
            beside.updates,
            beside.target_tokens,
        )
        losses = [[epoch.valid_loss for epoch in its.epochs] for its in (record, beside)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    claims = [run.call_here("claims", "--json", "--records", str(run.runs.parent / f"records of {run.runs.name}"))[1]
              for run in (stacked, separate)]  # fmt: skip
    assert [row["verdict"] for row in json.loads(claims[0])] == [row["verdict"] for row in json.loads(claims[1])]

    kept, where = stacked.runs.parent / "records of stacked", [word for word in stacked.settings if "/" in word]
    again = next(id for id in records[stacked] if not cancelled.endswith(id))
    status, out, error = stacked.call("reproduce", again, "--records", str(kept), *where)
    assert status == 0, error
    assert f"{again}: " in out and "different" not in out
