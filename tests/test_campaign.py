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
def out(tmp_path: Path) -> Path:
    return tmp_path / "what is kept"


@pytest.fixture
def campaign(tmp_path: Path, out: Path, tool):
    """Return a function that runs a campaign and returns the exit code and the calls."""
    if not shutil.which("timeout"):
        pytest.skip("no timeout")
    tool("stand-in", STAND_IN)

    def go(minutes: int = 60, bf16: int = 0, bench: int = 0, *words: str, **more: str) -> tuple[int, list[str]]:
        calls = tmp_path / "calls"
        calls.write_text("")
        settings = {"PYTHON": "stand-in", "CALLS": calls, "BF16": bf16, "BENCH": bench, "LN_REPRO_RUNS": "the-runs"}
        settings |= {"CORPORA": "", "SKIP": "", "MODEL": "", "JOBS_PER_GPU": "", "STACK": "", "DATA": ""} | more
        done = subprocess.run(
            [CAMPAIGN, str(minutes), out, *words], capture_output=True, text=True, check=False,
            env={**os.environ, **{name: str(value) for name, value in settings.items()}},
        )  # fmt: skip
        return done.returncode, calls.read_text().splitlines()

    return go


def those(calls: list[str], what: str) -> list[str]:
    return [call for call in calls if what in call]


def test_the_checks_are_kept_apart_from_the_runs_of_the_study(campaign, out):
    status, calls = campaign()
    assert status == 0 and len(those(calls, "max_update=50")) == 2
    assert all(call.startswith(f"{out}/check ") for call in those(calls, "max_update=50"))
    assert len(those(calls, " sweep ")) == 22
    rates = ("iwslt", "5e-4"), ("iwslt", "1e-3"), ("tatoeba", "5e-4"), ("tatoeba", "1e-3")
    for call, (corpus, rate) in zip(those(calls, " sweep "), rates, strict=False):
        assert f" grid=rates corpus={corpus} seeds=1 " in call and f" rates={rate} model=iwslt " in call
    assert not those(calls, "--skip-recorded")
    assert all(call.startswith("the-runs ") for call in (*those(calls, " sweep "), *those(calls, " collect ")))


def test_it_can_be_limited_to_one_corpus_and_to_runs_without_records(campaign):
    _, calls = campaign(CORPORA="tatoeba", SKIP="yes")
    assert all(" sweep --skip-recorded " in call and "tatoeba" in call for call in those(calls, " sweep "))
    assert len(those(calls, " sweep ")) == 8 and len(those(calls, "data prepare")) == 1


def test_the_benchmark_is_measured_once_unless_it_was_cut_off(campaign, out):
    assert len(those(campaign(bench=1)[1], "-m benchmarks")) == 1
    assert len(those(campaign(bench=124)[1], "-m benchmarks")) == 1
    assert (out / "bench.part.json").exists() and not (out / "bench.json").exists()
    assert len(those(campaign()[1], "-m benchmarks")) == 1
    assert (out / "bench.json").exists() and not (out / "bench.part.json").exists()
    assert those(campaign()[1], "-m benchmarks") == []


def test_without_bf16_everything_runs_in_fp32(campaign):
    status, calls = campaign(60, 2, 0)
    work = those(calls, "-m benchmarks") + those(calls, " sweep ")
    assert status == 0 and len(work) == 23
    assert all(call.endswith("precision=fp32") for call in work)
    assert not those(campaign()[1], " sweep ")[0].endswith("precision=fp32")


@pytest.mark.parametrize(("given", "code"), [({"bf16": 130}, 130), ({"minutes": 1}, 0)])
def test_after_ctrl_c_in_a_check_or_in_the_last_minute_nothing_is_started(campaign, given, code):
    status, calls = campaign(**given)
    assert status == code and those(calls, "-m benchmarks") == those(calls, " sweep ") == []
