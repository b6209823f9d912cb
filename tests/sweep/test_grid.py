"""Grids: which cells they have, on every corpus, and what they would cost."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ln_repro import cli
from ln_repro.compose import CONF, compose, experiments, grid
from ln_repro.engine.device import settle
from ln_repro.errors import Interrupted, UserError
from ln_repro.experiment import build
from ln_repro.sweep.grid import Cell, cells, words
from ln_repro.sweep.local import Pool

GRIDS = {"design": 12, "section3_2": 15, "section4": 11, "init": 14}
CORPORA = ("toy", "multi30k", "tatoeba", "iwslt", "wmt")


def test_the_grids_are_those_of_the_table() -> None:
    assert {path.stem for path in (CONF / "grid").glob("*.yaml")} == set(GRIDS)


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("name", GRIDS)
def test_every_cell_of_every_grid_builds_on_every_corpus(name: str, corpus: str) -> None:
    found = cells(grid(name), corpus, 2, ["tracker=none"], list(experiments()))
    assert len(found) == 2 * GRIDS[name]
    built = [settle(build(compose(cell.overrides))) for cell in found[: GRIDS[name]]]
    assert len({experiment.id("data") for experiment in built}) == GRIDS[name]  # no two cells are one
    assert {cell.seed for cell in found} == {1, 2}


def test_a_sweep_gives_up_lost_runs_unless_told_otherwise() -> None:
    assert Cell("a", 1).overrides == ["exp=a", "seed=1", "stop_on_divergence=true"]
    kept = ("lr=1", "stop_on_divergence=false")
    assert Cell("a", 1, kept).overrides == ["exp=a", "seed=1", *kept]


def test_the_design_grid_is_a_full_factorial() -> None:
    built = [build(compose(cell.overrides)) for cell in cells(grid("design"), "iwslt", 1, [], list(experiments()))]
    axes = {(e.norm, e.schedule.warmup_updates > 0, e.optimizer.name) for e in built}
    assert len(axes) == 2 * 2 * 3
    for experiment in built:  # the ramp is the only difference between warm-up and none
        rate = experiment.learning_rate(1080)
        assert rate.at(8000) == pytest.approx(experiment.lr * 0.5**0.5)


def test_a_corpus_without_an_arm_is_refused() -> None:
    with pytest.raises(UserError, match=r"grid: preln_warm is not defined for nowhere"):
        cells({"arms": ["preln_warm"]}, "nowhere", 1, [], list(experiments()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "grid: which grid"),
        (["grid=design", "seeds=0"], "seeds: how many"),
        (["grid=design", "seeds=two"], "seeds: how many"),
        (["grid=design", "fast"], "'fast' is not key=value"),
        (["grid=design", "launcher=slurm"], "launcher: only local"),
    ],
)
def test_words_that_make_no_sense(given: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        words(given)


def test_a_dry_run_prints_a_row_a_cell_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sweep", "grid=design", "--dry-run", "seeds=2"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["id", "state", "updates"]
    assert len(rows) == 24
    assert all("planned" in row and "ln-repro run exp=toy_" in row for row in rows)
    assert not (tmp_path / "runs").exists()


def test_the_pool_runs_everything_and_tells_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        code = "import sys; sys.exit('bad' in sys.argv[1])"
        return real([sys.executable, "-c", code, *(part for part in command if part.startswith("exp="))], **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr("subprocess.Popen", start)
    said: list[str] = []
    codes = Pool(2, tmp_path / "logs", said.append).run(
        [("good-s1", Cell("good", 1)), ("bad-s1", Cell("bad", 1)), ("good-s2", Cell("good", 2))]
    )
    assert codes == [0, 1, 0]
    assert sorted(line.split("] ")[1].split(",")[0] for line in said) == [
        "bad-s1: exit 1",
        "good-s1: done",
        "good-s2: done",
    ]


def test_an_interrupted_pool_stops_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    monkeypatch.setattr("subprocess.Popen", lambda command, **options: real(["sleep", "60"], **options))
    pool = Pool(1, tmp_path / "logs", lambda _: None)
    began = time.monotonic()

    def interrupt(*_: object) -> object:
        while not pool.running:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupt)
    with pytest.raises(Interrupted):
        pool.run([("a", Cell("a", 1)), ("b", Cell("b", 1))])
    assert time.monotonic() - began < 20
