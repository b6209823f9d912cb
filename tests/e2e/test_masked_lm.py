"""A masked language model from text to record: no hypotheses, and exact after a kill."""

import gzip

import pytest

from tests.e2e.outcomes import outcome

MASKED = ["task=masked_lm", "train.block_tokens=16", "train.label_smoothing=0", "train.save_every=7"]
PROBED = [*MASKED, "probe=gradients", "every=20"]


def probes(run):
    """Return the gradients of a run by update."""
    return {event["update"]: event["values"] for event in run.events("probe")}


@pytest.fixture(scope="module")
def whole(trained):
    return trained(*PROBED)


def test_it_is_validated_after_every_epoch_and_never_scored(whole):
    record = whole.record
    assert record["status"] == "finished" and record["axes"]["task"] == "masked_lm"
    losses = [row["valid_loss"] for row in record["epochs"]]
    assert len(losses) == 4 and losses[-1] < losses[0]
    assert record["bleu"] == {"test": None, "test_tokenised": None}
    assert record["data"]["unigram_bits"] > 4 and record["data"]["source_blind_bits"] is None
    assert not list((whole.folder / "hyps").iterdir())
    assert not (whole.folder / "decode.log").exists()
    begun = whole.events()[0]
    assert begun["parameters"] == record["parameters"]
    words = record["updates"] * 120  # at most, padding included; a seventh of them is hidden
    assert 0.1 * words < record["target_tokens"] < 0.16 * words


@pytest.mark.slow
def test_kill_9_changes_nothing(whole, command):
    """Masks are drawn per epoch, also after a resume; probes use those of the first epoch."""
    run = command("runs", *PROBED)
    run.kill_at(45)
    run.complete()
    assert outcome(run.folder) == outcome(whole.folder)
    assert probes(run) == probes(whole) != {}


def test_text_in_one_language_is_enough(command, sentences, tmp_path):
    for split in ("train", "valid"):
        text = (sentences / f"{split}.en").read_text().replace("\n", "\n\n")
        (tmp_path / f"{split}.txt.gz").write_bytes(gzip.compress(text.encode()))
    lines = [f"data.train={tmp_path}/train.txt.gz", f"data.valid={tmp_path}/valid.txt", "data.test=null", "data=text"]
    run = command("runs", *MASKED, *lines, "train.max_epoch=1")
    run.complete()
    data = run.record["data"]
    assert (data["train_pairs"], data["valid_pairs"]) == (500, 30) and "test_pairs" not in data
    assert run.call_here("data", "verify", *lines, "data.bpe_merges=0")[0] == 0
