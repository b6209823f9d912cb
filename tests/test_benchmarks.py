"""The benchmark measures what it says: every way to train runs on the same batches, and ratios are right."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.rows import ROWS, probe_ratios, saved_ratio
from benchmarks.trainings import Window, Workload, speed
from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment
from tests.e2e.conftest import made_up_corpus
from tests.examples import experiment
from tests.stock_binariser import binarise


def test_the_warm_up_is_not_timed() -> None:
    assert speed([Window(10, 1000, 50.0), Window(20, 1000, 1.0), Window(30, 1000, 3.0)]) == 500


def test_what_a_probe_costs_at_the_usual_cadence() -> None:
    """Each update takes 1 second and each probe 6; seen every 40 updates, wanted for every 200."""
    windows = [Window(update, 1, 10.0 + 6.0 * (update % 40 == 10)) for update in range(10, 161, 10)]
    assert probe_ratios(windows, 40, 200) == pytest.approx([200 / 206] * 3)


def small(**changes: Any) -> Experiment:
    given = {"model__layers": 1, "model__width": 16, "model__ffn": 32, "model__heads": 2, "train__max_update": 30,
             "train__max_tokens": 120, "train__log_every": 10, "train__device": "cpu"}  # fmt: skip
    return experiment(norm="preln", **given | changes)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Return a small model and a small corpus."""
    folder = tmp_path_factory.mktemp("bench")
    binarise(made_up_corpus(folder / "text"), folder / "bin", "de", "en")
    return Workload(small(), folder / "bin")


@pytest.mark.parametrize("row", [
    "probes/run", "packed/2", *(pytest.param(row, marks=pytest.mark.slow) for row in ("stock/sweep", "stack/8")),
])  # fmt: skip
def test_every_row_gives_a_ratio_a_round(work: Workload, row: str) -> None:
    ratios = ROWS[row](work, 1)
    assert len(ratios) == 1 and 0 < ratios[0] < math.inf  # on a busy machine two threads can be very slow


@pytest.mark.slow
def test_operations_of_an_update_depend_on_the_layers_and_bytes_on_the_width(work: Workload) -> None:
    changes: tuple[dict[str, int], ...] = ({}, {"model__width": 32}, {"model__layers": 2})
    found = [Workload(small(**changed), work.corpus).update_cost() for changed in changes]
    assert found[0]["operations"] == found[1]["operations"] < found[2]["operations"]
    assert found[0]["bytes"] < found[1]["bytes"]


@pytest.mark.slow
def test_runs_in_larger_stacks_have_fewer_operations_each(work: Workload) -> None:
    alone, _, eight, sixteen = (stack["operations"] for stack in work.measure_stacks())
    assert sixteen < eight < alone / 2


@pytest.mark.slow
def test_what_is_kept_for_the_backward_pass_depends_on_the_number_of_norms(work: Workload) -> None:
    assert saved_ratio(work, "norm/preln") == 1 < saved_ratio(work, "norm/periln")


def test_all_train_on_the_same_batches(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokens of each window are the same in ours and in the bare loop."""
    seen: list[list[float]] = []
    monkeypatch.setattr("benchmarks.trainings.speed", lambda windows: seen.append([w.tokens for w in windows]) or 1.0)
    work.bare()
    assert seen == [[window.tokens for window in windows] for windows in work.our_windows()]
    assert len(seen[0]) == 3


def test_the_same_command_measures_the_rows_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, calls, cost = made_up_corpus(tmp_path / "text"), [], {"operations": 700, "bytes": 1e9}
    files = [f"data.{split}={corpus / split}" for split in ("train", "valid", "test")]
    options = ["--rows", "bare/run", "probes/*", "packed/2", "--json", str(tmp_path / "kept" / "cpu.json")]
    settings = ["exp=toy_preln_nowarm", "data=files", "data.bpe_merges=0", f"paths.data={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["bench", *options, *settings, *files])
    monkeypatch.setattr("benchmarks.__main__.raise_on_stop_signals", lambda: None)
    monkeypatch.setattr(Workload, "update_cost", lambda work: cost)

    def row(name: str, *, fails: bool = False, stops: bool = False) -> None:
        def measure(work: Workload, rounds: int) -> list[float]:
            calls.append(name)
            if stops:
                raise KeyboardInterrupt
            if fails:
                raise LnReproError("the reason")
            return [1.0] * rounds

        monkeypatch.setitem(ROWS, name, measure)

    row("bare/run"), row("probes/run", fails=True), row("packed/2", stops=True)
    with pytest.raises(KeyboardInterrupt):
        main()
    assert "probes/run         failed: the reason\n" in capsys.readouterr().out
    row("probes/run", fails=True), row("packed/2")
    assert main() == 1
    row("probes/run")
    assert main() == 0
    assert calls == ["bare/run", "probes/run", "packed/2", "probes/run", "packed/2", "probes/run"]
    kept = json.loads((tmp_path / "kept" / "cpu.json").read_text())
    launches, *measured = kept["rows"]
    assert launches["name"] == "launches/fp32" and (launches["value"], kept["update"]) == (700, cost)
    assert {found["name"] for found in measured} == set(calls)
    assert kept["command"]["overrides"] == [*settings[:-1], *files]  # not where the corpora of this machine lie
    assert main() == 0 and calls[-3:] == ["bare/run", "probes/run", "packed/2"]  # a complete one is measured again


def test_a_wrong_setting_is_one_line() -> None:
    command = [sys.executable, "-m", "benchmarks", "exp=nonsense"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("bench: exp: there is no 'nonsense'") and result.stderr.count("\n") == 1
