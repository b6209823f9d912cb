"""`eval.average`: the mean of the last epochs is scored after training, beside the single epochs."""

import signal

import pytest
from sacrebleu import corpus_bleu

from tests.e2e.conftest import outcome
from tests.waiting import HANGS_SECONDS, until

MANY = 40


@pytest.fixture(scope="module")
def settings(sentences):
    """Return settings with an average, validation scores, and a test set whose decoding takes long."""
    for side in ("de", "en"):
        (sentences / f"many.{side}").write_text((sentences / f"test.{side}").read_text() * MANY)
    return ["eval.average=2", "eval.valid=true", f'data.test="{sentences / "many"}"']


@pytest.fixture(scope="module")
def averaged(trained, settings):
    return trained(*settings)


@pytest.mark.slow
def test_an_average_is_scored_beside_the_single_epochs(averaged, undisturbed, sentences):
    record = averaged.record
    assert set(record["bleu"]) == {"test", "test_tokenised", "test_average", "test_average_tokenised"}
    for key, tokeniser in (("test_average", "tok:13a"), ("test_average_tokenised", "tok:none")):
        assert record["bleu"][key]["epochs"] == [3, 4]
        parts = record["bleu"][key]["signature"].split("|")
        assert {tokeniser, "data:files/test", "beam:2"} <= set(parts) and parts[-1] == "avg:2"
    means = [event for event in averaged.events("bleu") if "epochs" in event]
    found = [(event["split"], event["update"], event["epochs"]) for event in means]
    assert found == [("test_average", record["updates"], [3, 4])] * 2
    assert {path.name.split(".")[1] for path in averaged.folder.glob("hyps/test_average.*")} == {"epoch4"}

    hypotheses = (averaged.folder / "hyps" / "valid.epoch4.txt").read_text().splitlines()
    references = (sentences / "valid.en").read_text().splitlines()
    expected = corpus_bleu(hypotheses, [references], lowercase=True).score
    assert record["epochs"][3]["valid_bleu"] == pytest.approx(expected)

    single = undisturbed.record
    assert single["id"] != record["id"]
    losses = [[epoch["valid_loss"] for epoch in epochs] for epochs in (single["epochs"], record["epochs"])]
    assert losses[0] == losses[1], "an average does not change the training"


@pytest.mark.slow
@pytest.mark.parametrize("damaged", [False, True])
def test_an_interrupted_average_is_finished_by_the_same_command(command, averaged, settings, damaged):
    run = command("runs", *settings)
    process = run.start()
    until(lambda: any("test_average" in log.read_text() for log in run.runs.glob("*/decode.log")))
    process.send_signal(signal.SIGKILL if damaged else signal.SIGINT)
    process.communicate(timeout=HANGS_SECONDS)
    run.wait_until_alone()
    assert not (run.folder / "record.json").exists()
    if damaged:  # weights that are scored themselves, but not yet in the average
        weights = run.folder / "checkpoints" / "epoch3.pt"
        weights.write_bytes(weights.read_bytes()[:-10])
    error = run.complete()
    assert ("epoch3.pt does not match" in error) == damaged
    assert outcome(run.folder) == outcome(averaged.folder)
    steps, expected = ([event["update"] for event in its.events("train")] for its in (run, averaged))
    assert (steps != expected) == damaged  # nothing is trained twice without need
