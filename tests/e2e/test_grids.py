"""Many runs by one command: Hydra's multirun and a sweep, each cell to its record."""

import json

SHORT = ("train.max_epoch=1", "eval.beam=1")


def records(run):
    return [json.loads(path.read_text()) for path in sorted(run.runs.glob("*/record.json"))]


def test_a_multirun_runs_the_product_of_what_it_is_given(command):
    run = command("runs", *SHORT)
    status, out, error = run.call("run", "-m", "exp=toy_preln_nowarm,toy_postln_nowarm", "seed=1,2", *run.settings)
    assert status == 0, error
    cells = [(record["exp"], record["axes"]["seed"]) for record in records(run)]
    assert sorted(cells) == [(f"toy_{norm}_nowarm", seed) for norm in ("postln", "preln") for seed in (1, 2)]
    assert all(record["status"] == "finished" for record in records(run))
    losses = {record["epochs"][0]["valid_loss"] for record in records(run)}
    assert len(losses) == 4  # neither the norm nor the seed is lost on the way
    assert sum(line.startswith(str(run.runs)) for line in out.splitlines()) == 4


def test_every_cell_of_the_design_grid_runs_to_a_record(command):
    run = command("runs", *SHORT)
    status, _, error = run.call("sweep", "grid=design", *run.settings)
    assert status == 0, error
    found = records(run)
    axes = {
        (record["axes"]["norm"], record["axes"]["warmup_updates"] > 0, record["axes"]["optimizer"]) for record in found
    }
    assert len(found) == len(axes) == 12
    assert all(record["status"] == "finished" and record["bleu"]["test"] for record in found)
    assert all(record["experiment"]["stop_on_divergence"] for record in found)

    status, _, error = run.call("sweep", "grid=design", *run.settings)  # nothing is left to do
    assert status == 0
    assert "12 cells, 12 finished already" in error
    assert records(run) == found
