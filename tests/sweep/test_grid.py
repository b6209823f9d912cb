"""Grids: which runs they have, on every corpus, and what they would cost."""

import pytest

from ln_repro.corpus.prepare import fingerprint
from ln_repro.experiment.compose import CONF, compose, experiments, grid
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import build
from ln_repro.sweep.grid import Grid, GridRun, grid_runs, select
from ln_repro.sweep.plan import PlannedRun
from tests.examples import experiment, record, recorded, store

GRIDS = {
    "design": 12, "section3_2": 15, "section4": 11, "init": 14, "schemes": 15, "bert": 6, "gradients": 4,
    "rates": 4, "rates_sgd": 4, "rates_literal": 2, "arena": 38, "mechanisms": 5, "depth": 6,
}  # fmt: skip
"""Runs a seed, and a rate where the rate is an axis."""
CORPORA = ("toy", "multi30k", "tatoeba", "iwslt", "wmt")
BERTS = ("toybert", "minibert", "bert")
RATES = {"rates": [2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2], "rates_sgd": [0.02, 0.1, 0.5, 2, 8]}

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
    assert {path.stem for path in (CONF / "grid").glob("*.yaml")} == set(GRIDS)
    for corpus in BERTS if name == "bert" else CORPORA:
        runs = grid_runs(Grid(**grid(name)), corpus, [1, 2], ["tracker=none"])
        assert len({tuple(run.overrides) for run in runs}) == len(runs) == 2 * GRIDS[name]
        assert {run.exp for run in runs} <= set(experiments()) and {run.seed for run in runs} == {1, 2}


def test_the_design_grid_is_a_full_factorial_whose_warm_up_differs_in_nothing_but_the_ramp():
    runs = grid_runs(Grid(**grid("design")), "iwslt", [1], [])
    built = [build(compose(run.overrides)) for run in runs]
    axes = {(run.norm, run.schedule.warmup_updates > 0, run.optimizer.name) for run in built}
    assert len(axes) == 2 * 2 * 3
    for run in built:
        assert run.learning_rate(1080).at(8000) == pytest.approx(run.lr * 0.5**0.5)


def test_a_grid_of_rates_has_the_runs_that_one_types_at_each_rate_of_the_setting_or_of_the_command_line(planned):
    for name, rates in RATES.items():
        rows = planned(f"grid={name}", "corpus=toy", "--only", "postln_nowarm*")
        assert [float(row.split()[2]) for row in rows] == rates
    rows = planned("grid=rates", "arms=deepnorm_warm,rezero_nowarm", "rates=1e-3,8")
    assert [row.rpartition("exp=")[2] for row in rows] == [
        f"toy_{arm} seed=1 lr={rate}" for arm in ("deepnorm_warm", "rezero_nowarm") for rate in ("0.001", "8")
    ]
    typed = resolve_precision(build(compose(["exp=toy_deepnorm_warm", "seed=1", "lr=1e-3"])))
    fingerprint_of_toy = fingerprint(typed.data, typed.paths.data)
    assert fingerprint_of_toy and rows[0].split()[0] == typed.id(fingerprint_of_toy)


@pytest.mark.parametrize(
    ("text", "seeds"), [("2", [1, 2]), ("101-103", [101, 102, 103]), ("7,5", [7, 5]), ("1,101-102", [1, 101, 102])]
)
def test_seeds_are_a_number_a_range_or_a_list(text, seeds, planned):
    rows = planned("grid=rates", "arms=postln_warm", "rates=1e-3", f"seeds={text}")
    assert [int(row.partition("seed=")[2].split()[0]) for row in rows] == seeds


@pytest.mark.parametrize(("words", "message"), [
    ("", "grid: no grid is given; use grid=NAME (arena, bert, depth, "),
    ("grid=rates arms=postln_wram", "arms: postln_wram is not defined for toy; nearest: postln_warm"),
    ("grid=rates arms=", "arms: expected a list (arms=A,B), got ''; leave it out"),
    ("grid=rates rates=1e-3,", "rates: expected a list (rates=A,B), got '1e-3,'"),
    ("grid=rates lr=1e-3", "lr: is an axis of this grid; give rates=A,B,C"),
    ("grid=depth depths=2.5", "model.layers: "),
    ("grid=rates rates=1,fast", "rates.1: input should be a valid number, "),
    ("grid=rates_sgd corpus=wmt", "rates: the setting of wmt has no reference.rates_sgd; give rates="),
    ("grid=rates arms=preln_warm corpus=mrpc", "grid: preln_warm is not defined for mrpc; the grid takes "),
    ("grid=design corpus=iwslt14", "corpus: there is no setting 'iwslt14'; nearest: iwslt"),
    ("grid=bert corpus=bert", "data.train: is not given"),
    ("grid=bert task=classification data=mrpc start=run@1", "start: pre-trained weights do not fit"),
    ("grid=design seeds=99999", "seeds: expected a number of seeds (5), a range (101-105) or a list (1,3,101-105)"),
    ("grid=design seeds=105-101", "seeds: expected a number of seeds (5), a range "),
    (f"grid=design seeds={'9' * 5000}", "seeds: expected a number of seeds (5), a range "),
    ("grid=design reference.updates_per_epoch=x", "reference.updates_per_epoch: input should be a valid integer"),
    ("grid=design train.max_tokens=100000000000000000000", "train.max_tokens: input should be less than or equal"),
    ("grid=design fast", "expected key=value, got 'fast' (a grid is grid=NAME)"),
    ("grid=design launcher=pbs", "launcher: expected local, slurm or a YAML file"),
    ("grid=design launcher.partition=gpu", "launcher.partition=gpu: needs launcher=slurm"),
    ("grid=design launcher=slurm jobs=2", "jobs, jobs_per_gpu, budget_minutes: only for launcher=local"),
    ("grid=design exp=toy_preln_warm", "exp: the experiments are given by the grid; --only PATTERN"),
    ("grid=design --only nothing", "'nothing' matches no run of the grid; its runs are toy_postln_nowarm, "),
    ("grid=design --only *sgd --except *", "--only and --except exclude every run"),
])  # fmt: skip
def test_words_that_make_no_sense_are_one_line(words, message, refused):
    refused(f"sweep {words} --dry-run", message)


@pytest.mark.parametrize(
    ("only", "excluded", "number"),
    [([], [], 24), (["postln_warm-s2"], [], 1), (["*-s1"], ["*radam*"], 8), (["postln_warm", "preln_warm"], [], 4)],
)
def test_patterns_choose_runs(only, excluded, number):
    runs = grid_runs(Grid(**grid("design")), "toy", [1, 2], [])
    assert len(select(runs, only, excluded)) == number


@pytest.mark.parametrize(("name", "corpus"), [("design", "toy"), ("bert", "toybert")])
def test_a_dry_run_prints_a_row_a_run_on_the_grids_own_corpus_and_starts_nothing(name, corpus, tmp_path, planned):
    rows = planned(f"grid={name}", "seeds=2")
    assert len(rows) == 2 * GRIDS[name]
    assert all("planned" in row and f"ln-repro run exp={corpus}_" in row for row in rows)
    assert not (tmp_path / "runs").exists()


def test_kept_records_are_left_out_when_asked_and_tell_how_long_others_take(tmp_path, monkeypatch, planned, call):
    words = ("grid=design", "--only", "postln_warm,preln_warm", "train.max_update=100")
    ids = [row.split()[0] for row in planned(*words)]
    store(tmp_path / "records", record(id=ids[1], train_seconds=720.0, updates=200))
    with (tmp_path / "records" / "toy.jsonl").open("ab") as file:
        file.write(b"{}\n\xff\n")  # damaged
    monkeypatch.setattr("ln_repro.records.archive.records_folder", lambda: tmp_path / "records")
    _, out, _ = call("sweep", *words, "--skip-recorded", "--dry-run")
    _, *rows, summary = out.splitlines()
    assert [row.split()[:2] for row in rows] == [[ids[0], "planned"], [ids[1], "recorded"]]
    assert summary == "2 runs: 1 planned, 1 recorded; about 0.1 CPU hours"
    monkeypatch.setattr("ln_repro.sweep.plan.fingerprint", lambda *_: None)
    assert call("sweep", *words, "--dry-run")[1].endswith("2 runs: 2 planned; about 0.2 CPU hours\n")
    deeper = call("sweep", *words, "model.layers=12", "--dry-run")[1]
    assert deeper.endswith("2 runs: 2 planned\n"), "there is no record of this size"
    (tmp_path / "records" / "toy.jsonl").unlink()
    store(tmp_path / "records", record(environment={"device": "NVIDIA H200"}))
    assert call("sweep", *words, "train.device=cpu", "--dry-run")[1].endswith("2 runs: 2 planned\n"), "on a GPU"


@pytest.mark.parametrize(
    ("wanted", "taken", "lacking"),
    [("none", "none", False), ("gradients", "none", True), ("gradients", "all", False), ("collapse", "all", True)],
)
def test_a_kept_record_without_the_requested_probes_is_known(wanted, taken, lacking):
    run, kept = experiment(probe=wanted), recorded(settings=experiment(probe=taken).settings())
    assert PlannedRun(GridRun(run.exp, 1), run, run.learning_rate(10), kept=kept).unprobed == lacking


def test_runs_on_different_texts_are_different_runs(tmp_path, planned):
    (tmp_path / "grid").mkdir()
    overrides = "[[data.lowercase=true], [data.lowercase=false]]"
    (tmp_path / "grid" / "case.yaml").write_text(f"arms: [postln_warm]\noverrides: {overrides}\n")
    rows = planned("grid=case", f"--config-dir={tmp_path}")
    assert len({row.split()[0] for row in rows}) == 2
    for row in rows:
        run = resolve_precision(build(compose(row.partition("ln-repro run ")[2].split()[:3])))
        assert row.split()[0] == run.id(fingerprint(run.data, run.paths.data) or "")


def test_runs_that_an_option_makes_the_same_are_planned_once(call):
    code, out, err = call("sweep", "grid=design", "norm=postln", "--dry-run")
    assert code == 0 and len(out.splitlines()) == 1 + 6 + 1
    assert "6 of 12 runs are left out: they have the same settings as others" in err
