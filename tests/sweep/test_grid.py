"""Grids: which runs they have, on every corpus, and what they would cost."""

import sys

import pytest

from ln_repro.corpus.prepare import fingerprint
from ln_repro.experiment.compose import CONF, compose, experiments, grid
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import build
from ln_repro.sweep.grid import Grid, grid_runs, select
from tests.examples import record, store

GRIDS = {
    "design": 12, "section3_2": 15, "section4": 11, "init": 14, "schemes": 15, "bert": 6, "gradients": 4,
    "rates": 4, "rates_sgd": 4, "rates_literal": 2, "arena": 38, "mechanisms": 5, "depth": 6,
}  # fmt: skip
"""Runs a seed, and a rate where the rate is an axis."""
CORPORA = ("toy", "multi30k", "tatoeba", "iwslt", "wmt")
BERTS = ("toybert", "minibert", "bert")

pytestmark = pytest.mark.usefixtures("empty_place")


@pytest.fixture
def planned(call):
    """Return a function that returns the rows of a dry run, without head and summary."""

    def rows(*words: str) -> list[str]:
        code, out, err = call("sweep", *words, "--dry-run")
        assert code == 0, err
        return out.splitlines()[1:-1]

    return rows


@pytest.mark.parametrize("name", GRIDS)
def test_every_run_of_every_grid_is_an_experiment_of_its_own_on_every_corpus(name):
    """What the experiments are composed to is told by their hashes (test_compose)."""
    assert {path.stem for path in (CONF / "grid").glob("*.yaml")} == set(GRIDS)
    for corpus in BERTS if name == "bert" else CORPORA:
        found = grid_runs(Grid(**grid(name)), corpus, [1, 2], ["tracker=none"], list(experiments()))
        assert len({tuple(run.overrides) for run in found}) == len(found) == 2 * GRIDS[name]
        assert {run.exp for run in found} <= set(experiments()) and {run.seed for run in found} == {1, 2}


RATES = {"rates": [2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2], "rates_sgd": [0.02, 0.1, 0.5, 2, 8]}


@pytest.mark.parametrize("name", RATES)
def test_a_grid_of_rates_has_each_arm_at_each_rate_of_the_setting(name, planned):
    rows = planned(f"grid={name}", "corpus=toy", "--only", "postln_nowarm*")
    assert [float(row.split()[2]) for row in rows] == RATES[name]


def test_a_run_at_a_rate_is_the_run_that_one_types_with_that_rate(planned):
    (row,) = planned("grid=rates", "rates=1e-3,2.5e-4", "--only", "postln_warm-lr0.001")
    typed = resolve_precision(build(compose(["exp=toy_postln_warm", "seed=1", "lr=1e-3"])))
    fingerprint_of_toy = fingerprint(typed.data, typed.paths.data)
    assert fingerprint_of_toy and row.split()[0] == typed.id(fingerprint_of_toy)


def test_arms_and_rates_of_the_command_line_take_the_place_of_the_grids(planned):
    rows = planned("grid=rates", "arms=deepnorm_warm,rezero_nowarm", "rates=1e-3,8")
    assert [row.rpartition("exp=")[2] for row in rows] == [
        f"toy_{arm} seed=1 lr={rate}" for arm in ("deepnorm_warm", "rezero_nowarm") for rate in ("0.001", "8")
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "grid: no grid is given; use grid=NAME (arena, bert, depth, "),
        ("grid=rates arms=postln_wram", "arms: postln_wram is not defined for toy; nearest: postln_warm"),
        ("grid=rates lr=1e-3", "lr: is an axis of this grid; give rates=A,B,C"),
        ("grid=depth model.layers=6", "model.layers: is an axis of this grid; give depths=A,B,C"),
        ("grid=depth depths=2.5", "model.layers: "),
        ("grid=rates rates=1,fast", "rates.1: input should be a valid number, "),
        ("grid=rates_sgd corpus=wmt", "rates: the setting of wmt has no reference.rates_sgd; give rates="),
        ("grid=rates arms=preln_warm corpus=mrpc", "grid: preln_warm is not defined for mrpc; the grid takes "),
        ("grid=design corpus=iwslt14", "corpus: there is no setting 'iwslt14'; nearest: iwslt"),
        ("grid=bert corpus=toy", "grid: postln_warm_linear, "),
        ("grid=bert corpus=bert", "data.train: is not given"),
        ("grid=bert task=classification data=mrpc start=run@1", "start: pre-trained weights do not fit"),
        *(
            (
                f"grid=design seeds={given}",
                f"seeds: expected a number of seeds (5), a range (101-105) or a list "
                f"(1,3,101-105), up to 4000, got {given!r}",
            )
            for given in ("0", "99999", "5-", "105-101", "1,b", "-3")
        ),
        ("grid=design fast", "expected key=value, got 'fast' (a grid is grid=NAME)"),
        ("grid=design launcher=pbs", "launcher: expected local, slurm or a YAML file"),
        ("grid=design launcher.partition=gpu", "launcher.partition=gpu: needs launcher=slurm"),
        ("grid=design launcher=slurm jobs=2", "jobs, jobs_per_gpu, budget_minutes: only for launcher=local"),
        ("grid=design exp=toy_preln_warm", "exp: the experiments are given by the grid; --only PATTERN"),
        (
            "grid=design --only nothing",
            "'nothing' matches no run of the grid; its runs are toy_postln_nowarm, toy_postln_nowarm_radam_anchored, "
            "toy_postln_nowarm_sgd, toy_postln_warm, toy_postln_warm_radam, toy_postln_warm_sgd and 6 more (--dry-run",
        ),
        ("grid=design --only *sgd --except *", "--only and --except exclude every run"),
    ],
)
def test_words_that_make_no_sense_are_one_line(words, message, refused):
    refused(f"sweep {words} --dry-run", message)


def test_in_a_terminal_no_line_of_a_dry_run_is_wider_and_the_last_one_sums_up(call, monkeypatch, tmp_path):
    store(tmp_path / "kept", record(train_seconds=720.0, updates=200))
    monkeypatch.setattr("ln_repro.records.archive.records_folder", lambda: tmp_path / "kept")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = call("sweep", "grid=rates", "arms=postln_warm", "rates=1e-3,2e-3", "train.max_update=100", "--dry-run")[1]
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80 and lines[-1] == "2 runs: 2 planned; about 0.2 CPU hours"
    assert lines[3] == "    ln-repro run exp=toy_postln_warm seed=1 lr=0.001 train.max_update=100"


def test_runs_whose_record_is_kept_are_left_out_when_asked(tmp_path, monkeypatch, planned):
    words = ("grid=design", "--only", "postln_warm,preln_warm")
    ids = [row.split()[0] for row in planned(*words)]
    store(tmp_path / "kept", record(id=ids[1]))
    monkeypatch.setattr("ln_repro.records.archive.records_folder", lambda: tmp_path / "kept")
    found = [row.split()[:2] for row in planned(*words, "--skip-recorded")]
    assert found == [[ids[0], "planned"], [ids[1], "recorded"]]


@pytest.mark.parametrize(
    ("given", "seeds"), [("2", [1, 2]), ("101-103", [101, 102, 103]), ("7,5", [7, 5]), ("1,101-102", [1, 101, 102])]
)
def test_seeds_are_a_number_a_range_or_a_list(given, seeds, planned):
    rows = planned("grid=rates", "arms=postln_warm", "rates=1e-3", f"seeds={given}")
    assert [int(row.partition("seed=")[2].split()[0]) for row in rows] == seeds


def test_the_design_grid_is_a_full_factorial():
    built = [
        build(compose(run.overrides))
        for run in grid_runs(Grid(**grid("design")), "iwslt", [1], [], list(experiments()))
    ]
    axes = {(e.norm, e.schedule.warmup_updates > 0, e.optimizer.name) for e in built}
    assert len(axes) == 2 * 2 * 3
    for experiment in built:  # the ramp is the only difference between warm-up and none
        rate = experiment.learning_rate(1080)
        assert rate.at(8000) == pytest.approx(experiment.lr * 0.5**0.5)


@pytest.mark.parametrize(("name", "corpus"), [("design", "toy"), ("bert", "toybert")])
def test_a_dry_run_prints_a_row_a_run_on_the_grids_own_corpus_and_starts_nothing(name, corpus, tmp_path, planned):
    rows = planned(f"grid={name}", "seeds=2")
    assert len(rows) == 2 * GRIDS[name]
    assert all("planned" in row and f"ln-repro run exp={corpus}_" in row for row in rows)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("only", "but", "left"),
    [([], [], 24), (["postln_warm-s2"], [], 1), (["*-s1"], ["*radam*"], 8), (["postln_warm", "preln_warm"], [], 4)],
)
def test_patterns_choose_runs(only, but, left):
    every = grid_runs(Grid(**grid("design")), "toy", [1, 2], [], list(experiments()))
    assert len(select(every, only, but)) == left


def test_runs_that_an_option_makes_the_same_are_planned_once(call):
    code, out, err = call("sweep", "grid=design", "norm=postln", "--dry-run")
    assert code == 0 and len(out.splitlines()) == 1 + 6 + 1
    assert "6 of 12 runs are left out: they have the same settings as others" in err
