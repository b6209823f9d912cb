"""`eval.average`: the mean of the last epochs is scored after training, beside the single epochs."""

import signal

import pytest
from sacrebleu import corpus_bleu

from tests.e2e.outcomes import outcome
from tests.waiting import HANGS_SECONDS, until

MANY = 40
KEYS = {"test", "test_tokenised", "test_average", "test_average_tokenised"}


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
    bleu = record["bleu"]
    assert set(bleu) == KEYS
    for key, tokeniser in (("test_average", "tok:13a"), ("test_average_tokenised", "tok:none")):
        assert set(bleu[key]) == {"score", "signature", "epochs"}
        assert bleu[key]["epochs"] == [3, 4]
        parts = bleu[key]["signature"].split("|")
        assert {tokeniser, "data:files/test", "beam:2"} <= set(parts) and parts[-1] == "avg:2"
    scored = averaged.events("bleu")
    means = [event for event in scored if event["split"] == "test_average"]
    assert [(event["flavour"], event["epoch"], event["epochs"]) for event in means] == [
        ("tokenised", 4, [3, 4]), ("detokenised", 4, [3, 4]),
    ]  # fmt: skip
    assert all(event["update"] == record["updates"] for event in means)
    assert all("epochs" not in event for event in scored if event not in means)
    hypotheses = averaged.folder / "hyps"
    assert len((hypotheses / "test_average.epoch4.txt").read_text().splitlines()) == 25 * MANY
    assert not list(hypotheses.glob("test_average.epoch[123].*"))

    said = (hypotheses / "valid.epoch4.txt").read_text().splitlines()
    meant = (sentences / "valid.en").read_text().splitlines()
    assert record["epochs"][3]["valid_bleu"] == pytest.approx(corpus_bleu(said, [meant], lowercase=True).score)

    single = undisturbed.record
    assert single["id"] != record["id"]
    one, other = ([row["valid_loss"] for row in it["epochs"]] for it in (single, record))
    assert one == other, "an average does not change the training"


@pytest.mark.slow
@pytest.mark.parametrize(("how", "damaged"), [(signal.SIGINT, False), (signal.SIGKILL, True)])
def test_an_interrupted_average_is_finished_by_the_same_command(command, averaged, settings, how, damaged):
    run = command("runs", *settings)
    process = run.start()
    until(lambda: any("test_average" in log.read_text() for log in run.runs.glob("*/decode.log")))
    process.send_signal(how)
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode != 0
    run.wait_until_alone()
    assert not list(run.folder.glob("record.json"))
    if damaged:  # weights that are scored themselves, but not yet in the average
        weights = run.folder / "checkpoints" / "epoch3.pt"
        weights.write_bytes(weights.read_bytes()[:-10])
    error = run.complete()
    assert ("epoch3.pt does not match" in error) == damaged
    assert outcome(run.folder) == outcome(averaged.folder)
    steps, expected = ([event["update"] for event in one.events("train")] for one in (run, averaged))
    assert (steps != expected) == damaged  # nothing is trained twice without need
