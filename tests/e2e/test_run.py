"""`ln-repro run`, from corpus to record, and `ln-repro reproduce`, from a record to the same results."""

import json
import math

import pytest

from ln_repro.experiment.compose import compose
from ln_repro.experiment.settings import build
from ln_repro.records.archive import CHECKSUMS, EVENTS, archive_folder, pack, read_kept, unpacked


def test_a_run_end_to_end(undisturbed):
    folder, record = undisturbed.folder, undisturbed.record
    assert record["status"] == "finished" and record["divergence"] is None
    assert folder.name == f"toy_preln_nowarm-s1-{record['id']}"
    assert record.keys() >= {"schema", "train_seconds", "tokens_per_s", "peak_memory_mb", "environment", "code"}
    epochs = record["epochs"]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3, 4] and epochs[-1]["update"] == record["updates"]
    assert epochs[-1]["valid_loss"] < epochs[0]["valid_loss"]
    assert record["target_tokens"] > 4 * 500 * 4
    assert record["data"]["test_pairs"] == 25 and "published" not in record["data"]
    assert all(4.5 < record["data"][name] < 5.5 for name in ("unigram_bits", "source_blind_bits"))  # 40 random words
    best = min(epochs, key=lambda epoch: epoch["valid_loss"])
    bleu = record["bleu"]["test"]
    assert (bleu["epoch"], bleu["score"]) == (best["epoch"], best["test_bleu"])
    assert all(part in bleu["signature"] for part in ("tok:13a", "beam:2", "lenpen:1.2", "version:"))
    for epoch in range(1, 5):
        assert len((folder / "hyps" / f"test.epoch{epoch}.txt").read_text().splitlines()) == 25
    assert all(event["ppl"] == pytest.approx(2 ** event["nll_loss"]) for event in undisturbed.events("valid"))
    steps = undisturbed.events("train")
    rate = build(compose(undisturbed.arguments)).learning_rate(epochs[0]["update"])
    assert [step["lr"] for step in steps] == pytest.approx([rate.at(step["update"]) for step in steps])
    assert steps[0]["lr"] == 0.002 and steps[-1]["lr"] == pytest.approx(0.0002)  # no warm-up, and a step after epoch 1
    assert all(math.isfinite(step["gnorm"]) and step["tokens_per_s"] > 0 for step in steps)


def test_a_finished_run_is_left_as_it_is_unless_rerun(finished):
    folder, record = finished.folder, finished.record
    described, before = folder / "experiment.json", json.loads((folder / "experiment.json").read_text())
    described.write_text("{")
    status, out, error = finished.call_here("run", *finished.arguments, "probe=gradients")
    assert {**json.loads(described.read_text()), "paths": before["paths"]} == before  # the test has moved the run
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
    assert error.count("the average is not scored: eval.average=2, but training had only 0 epochs\n") == 1


@pytest.mark.slow
def test_a_run_that_learns_nothing_is_stopped_early_also_if_it_was_killed_before(command, trained):
    stuck = ["lr=1e-9", "stop_on_divergence=true", "divergence.updates=70", "train.save_every=15"]
    undisturbed, run = trained(*stuck), command("runs", *stuck)
    record = undisturbed.record
    assert record["status"] == "diverged" and record["divergence"]["rule"] == "stuck"
    assert record["updates"] == record["divergence"]["update"] >= 70  # after the third of four epochs
    assert "above the unigram entropy of 5." in record["divergence"]["reason"]
    assert 5 < record["divergence"]["last_finite_loss"] < 10
    run.kill_at(50, "trainer")  # in the second epoch
    assert "resuming after update" in run.complete(), "it had ended before it was killed"
    assert run.record["divergence"] == record["divergence"]
    _, _, error = run.call_here("run", *run.arguments, "stop_on_divergence=false")
    assert error.count("already finished") == 1  # the same run


def test_a_setting_that_only_the_trainer_can_reject_is_the_users_error(command):
    status, _, error = command("rejected", "train.max_tokens=4").finish()
    assert status == 2 and "train.max_tokens: 4 is too small; the longest example has" in error


@pytest.mark.slow
def test_a_record_is_reproduced(finished):
    run = finished
    kept = run.runs.parent / "records"
    assert run.call_here("collect", "--records", str(kept))[0] == 0
    (record,) = read_kept(kept).records
    where = [word for word in run.arguments if word.startswith(("data.train", "data.valid", "data.test"))]
    words = ("reproduce", record.id, "--records", str(kept), *where)

    status, out, error = run.call(*words)
    assert status == 0, error
    assert f"{record.id}: equal bit for bit" in out and "test BLEU, epoch 4" in out
    assert all(len(line) <= 80 for line in out.splitlines() if line.startswith("|"))
    assert [path.parent.name for path in run.runs.glob("reproduced/*/record.json")] == [run.folder.name]

    status, out, error = run.call(*words, "train.max_update=20")
    assert status == 0, error
    assert f"only what both have is compared: 20 of {record.updates} updates" in out
    assert "equal bit for bit" in out and "loss, update 20" in out and "epoch 1" not in out

    archive = archive_folder(kept)  # a record that this code does not reproduce
    files = dict(unpacked(archive / record.archive))
    events = [json.loads(line) for line in files[f"{record.id}{EVENTS}"].splitlines()]
    for event in events:
        if event["kind"] == "train":
            event["loss"] *= 2
    files[f"{record.id}{EVENTS}"] = "".join(json.dumps(event) + "\n" for event in events).encode()
    (archive / record.archive).unlink()
    (archive / CHECKSUMS).unlink()
    assert pack(archive, "toy", files) == record.archive
    status, out, error = run.call_here(*words, "train.max_update=20")
    assert status == 1 and f"{record.id}: different" in out and "already finished" in error
