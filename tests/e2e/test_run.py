"""`ln-repro run`, from corpus to record."""

import json
import math

import pytest

from ln_repro.experiment.compose import compose
from ln_repro.experiment.settings import build


def test_a_run_end_to_end(undisturbed):
    folder = undisturbed.folder
    assert folder.name.startswith("toy_preln_nowarm-s1-")
    record = undisturbed.record
    assert record["status"] == "finished" and record["divergence"] is None
    assert record.keys() >= {"schema", "train_seconds", "tokens_per_s", "peak_memory_mb", "environment", "code"}
    assert record["id"] == folder.name.rsplit("-", 1)[1]
    assert [epoch["epoch"] for epoch in record["epochs"]] == [1, 2, 3, 4]
    losses = [epoch["valid_loss"] for epoch in record["epochs"]]
    assert losses[-1] < losses[0]
    assert record["epochs"][-1]["update"] == record["updates"]
    assert record["target_tokens"] > 4 * 500 * 4
    assert record["data"]["test_pairs"] == 25
    assert record["data"]["published"] is True
    assert all(4.5 < record["data"][name] < 5.5 for name in ("unigram_bits", "source_blind_bits"))  # 40 random words
    best = min(record["epochs"], key=lambda epoch: epoch["valid_loss"])
    assert record["bleu"]["test"]["epoch"] == best["epoch"]
    assert record["bleu"]["test"]["score"] == best["test_bleu"]
    for key, tokeniser in (("test", "tok:13a"), ("test_tokenised", "tok:none")):
        signature = record["bleu"][key]["signature"]
        assert all(part in signature for part in (tokeniser, "beam:2", "lenpen:1.2", "version:"))
    for epoch in range(1, 5):
        assert len((folder / "hyps" / f"test.epoch{epoch}.txt").read_text().splitlines()) == 25
    steps = undisturbed.events("train")
    rate = build(compose(undisturbed.arguments)).learning_rate(record["epochs"][0]["update"])
    assert [step["lr"] for step in steps] == pytest.approx([rate.at(step["update"]) for step in steps])
    assert steps[0]["lr"] == 0.002 and steps[-1]["lr"] == pytest.approx(0.0002)  # no warm-up, and a step after epoch 1
    assert all(math.isfinite(step["gnorm"]) and step["tokens_per_s"] > 0 for step in steps)
    assert all({"time", "update", "epoch"} <= set(event) for event in undisturbed.events())


def test_a_finished_run_is_left_as_it_is_unless_rerun(finished):
    folder, record = finished.folder, finished.record
    status, out, error = finished.call_here("run", *finished.arguments, "probe=gradients")
    assert status == 0 and "already finished, but without probe=gradients" in error
    assert out.splitlines()[-1] == str(folder)
    assert json.loads((folder / "record.json").read_text()) == record

    status, _, error = finished.finish("rerun=true")
    assert status == 0 and "renamed to" in error
    aside = finished.runs / f"{folder.name}.old1" / "record.json"
    assert json.loads(aside.read_text()) == record
    fresh = json.loads((folder / "record.json").read_text())
    assert fresh["epochs"] == record["epochs"]  # bit for bit


def test_a_loss_that_is_not_finite_is_a_result_without_scores(command):
    run = command('it\'s a "path"\nof two lines', "lr=1e30", "eval.average=2")
    status, out, error = run.finish()
    assert status == 0, error
    assert out.rstrip("\n") == str(run.folder)
    record = run.record
    assert record["status"] == "diverged"
    assert record["divergence"]["update"] == record["updates"]
    assert record["divergence"]["rule"] == "not_finite" and record["divergence"]["reason"]
    assert record["bleu"] == dict.fromkeys(("test", "test_tokenised", "test_average", "test_average_tokenised"))
    assert error.count("the average is not scored: eval.average=2, but only 0 epochs were trained\n") == 1


STUCK = ["lr=1e-9", "stop_on_divergence=true", "divergence.updates=70"]
"""Stopped early after the third of four epochs."""


@pytest.fixture(scope="module")
def stuck(trained):
    return trained(*STUCK)


@pytest.mark.slow
def test_a_run_that_learns_nothing_is_stopped_early(stuck):
    record = stuck.record
    assert record["status"] == "diverged"
    assert record["updates"] == record["divergence"]["update"] >= 70
    assert record["divergence"]["rule"] == "stuck"
    assert "above the unigram entropy of 5." in record["divergence"]["reason"]
    assert 5 < record["divergence"]["last_finite_loss"] < 10
    _, _, error = stuck.call_here("run", *stuck.arguments, "stop_on_divergence=false")
    assert error.count("already finished") == 1  # the same run


@pytest.mark.slow
def test_a_resumed_run_is_stopped_early_at_the_same_update(command, stuck):
    run = command("runs", *STUCK, "train.save_every=15")
    run.kill_at(50, "trainer")  # in the second epoch
    error = run.complete()
    assert "resuming after update" in error, "it had ended before it was killed"
    verdicts = [one.record["divergence"] for one in (stuck, run)]
    assert verdicts[0] == verdicts[1] and verdicts[0]["rule"] == "stuck"


def test_a_setting_that_only_the_trainer_can_reject_is_the_users_error(command):
    status, _, error = command("rejected", "train.max_tokens=4").finish()
    assert status == 2 and "train.max_tokens: 4 is too small; the longest example has" in error
