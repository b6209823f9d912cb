"""The campaign on a GPU for a limited time, with a stand-in for the interpreter."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).resolve().parents[1] / "scripts" / "gpu_campaign.sh"
STAND_IN = """echo "${LN_REPRO_RUNS-} $*" >> "$CALLS"
case "$*" in
    *precision=bf16*) exit "$BF16" ;;
    *"-m benchmarks"*)
        while [ "$1" != --json ]; do shift; done
        [ "$BENCH" = 1 ] || echo '{}' > "$2"
        exit "$BENCH" ;;
esac
"""
"""Logs its arguments. BF16 is the exit code of the check in bf16, BENCH of the benchmark: 1 is before any row."""


@pytest.fixture
def campaign(tmp_path, tool):
    """Return a function that runs a campaign in "out", and returns the calls, of some kind only."""
    if not shutil.which("timeout"):
        pytest.skip("no timeout")
    tool("stand-in", STAND_IN)

    def go(kind: str = "", minutes: int = 60, status: int = 0, **variables: str) -> list[str]:
        calls = tmp_path / "calls"
        calls.write_text("")
        defaults = {"PYTHON": "stand-in", "CALLS": str(calls), "BF16": "0", "BENCH": "0", "LN_REPRO_RUNS": "the-runs"}
        unset = dict.fromkeys(("CORPORA", "SKIP", "MODEL", "JOBS_PER_GPU", "STACK", "DATA"), "")
        environment = {**os.environ, **unset, **defaults, **variables}
        command = [CAMPAIGN, str(minutes), tmp_path / "out"]
        assert subprocess.run(command, capture_output=True, env=environment, check=False).returncode == status
        return [call for call in calls.read_text().splitlines() if kind in call]

    return go


def test_all_grids_of_all_corpora_are_run_and_the_checks_are_kept_apart_from_them(campaign, tmp_path):
    calls = campaign()
    checks, sweeps = ([call for call in calls if kind in call] for kind in ("max_update=50", " sweep "))
    assert len(checks) == 2 and all(call.startswith(f"{tmp_path / 'out' / 'check'} ") for call in checks)
    assert len(sweeps) == 20 and all(call.startswith("the-runs ") for call in sweeps)
    assert " grid=rates corpus=iwslt seeds=1 " in sweeps[0] and " rates=5e-4,1e-3 arms=postln_warm," in sweeps[0]
    limited = campaign(" sweep ", CORPORA="tatoeba", SKIP="yes")
    assert len(limited) == 7 and all(" sweep --skip-recorded " in call and "tatoeba" in call for call in limited)


def test_the_benchmark_is_measured_once_unless_it_was_cut_off(campaign, tmp_path):
    for status, files in (("1", []), ("124", ["bench.part.json"]), ("0", ["bench.json"])):
        assert len(campaign("-m benchmarks", BENCH=status)) == 1
        assert [path.name for path in (tmp_path / "out").glob("bench*")] == files
    assert campaign("-m benchmarks") == []


def test_without_bf16_everything_runs_in_fp32(campaign):
    sweeps = campaign(" sweep ", BF16="2")
    assert len(sweeps) == 20 and all(call.endswith("precision=fp32") for call in sweeps)
    assert not campaign(" sweep ")[0].endswith("precision=fp32")


def test_after_ctrl_c_in_a_check_or_in_the_last_minute_nothing_is_started(campaign):
    assert campaign(" sweep ", status=130, BF16="130") == campaign(" sweep ", minutes=1) == []
