"""The program in docs/analysis.md, run as printed."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from ln_repro.report.figure_rates import NAMES
from tests import committed

ROOT = Path(__file__).resolve().parents[2]


def test_the_printed_program_draws_the_runs_of_the_lead_figure(monkeypatch, tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed (pip install -e '.[dev]')")
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.+?)```", (ROOT / "docs" / "analysis.md").read_text(), re.DOTALL)
    scope = {}
    with plt.rc_context():
        plt.switch_backend("agg")
        exec(program, scope)
        plt.close("all")
    archive, runs = committed.archive(), scope["runs"]
    for arm, name in NAMES.items():
        expected = {(rate, run.seed, run.final_nll) for part in (archive.evidence, archive.replication)
                    for rate, of_rate in part["toy"].curve(arm).items() for run in of_rate}  # fmt: skip
        drawn = runs[runs["arm"] == name]
        assert set(zip(drawn["lr"], drawn["seed"], drawn["nll"], strict=True)) == expected
    assert (tmp_path / "rates.png").stat().st_size > 0
