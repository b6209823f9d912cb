"""A masked language model, from text to record, and a classifier that starts from its weights."""

import gzip
import json
import random
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import WORDS, Command, outcome

MASKED = ["task=masked_lm", "train.block_tokens=16", "train.label_smoothing=0", "train.save_every=7"]
PRETRAINED = [*MASKED, "train.max_epoch=2", "probe=gradients", "every=20"]
TUNED = (
    "exp=mrpc_preln_nowarm_linear task=classification data=mrpc train.max_tokens=4096 train.max_sentences=16 lr=3e-3 "
    "train.label_smoothing=0 train.save_every=7 train.max_epoch=4 data.train=null data.valid=null data.test=null"
).split()
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def glue(tmp_path_factory) -> Path:
    """Make up MRPC: pairs from the first half of the words are of class 1, those from the second half of class 0."""
    folder, draw = tmp_path_factory.mktemp("glue") / "MRPC", random.Random(8)
    folder.mkdir()
    for split, size in (("train", 400), ("dev", 60)):
        lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        for number in range(size):
            kind = draw.randrange(2)
            known = WORDS[:20] if kind else WORDS[20:]
            sides = [" ".join(draw.choices(known, k=draw.randint(2, 6))) for _ in range(2)]
            lines.append("\t".join([str(kind), str(number), str(number), *sides]))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder.parent


@pytest.fixture(scope="module")
def pretrained(trained) -> Command:
    return trained(*PRETRAINED)


@pytest.fixture(scope="module")
def whole(trained, pretrained, glue) -> Command:
    return trained(*TUNED, f"data.source='{glue}'", f"start='{pretrained.folder}@2'")


@pytest.fixture
def tuning(command, glue):
    """Return a function that makes the `Command` of a classifier."""
    return lambda *settings: command("runs", *TUNED, f"data.source='{glue}'", *settings)


@pytest.fixture
def refusal(tuning, tmp_path):
    """Return a function that asserts that settings are refused in one line, and returns it."""

    def check(*settings):
        run = tuning(*settings)
        status, _, error = run.call_here("run", *run.arguments)
        assert status == 2 and error.count("\n") == 1 and not (tmp_path / "runs").exists(), error
        return error

    return check


def test_a_masked_language_model_is_validated_and_never_scored(pretrained):
    record = pretrained.record
    assert record["status"] == "finished" and record["axes"]["task"] == "masked_lm"
    losses = [epoch["valid_loss"] for epoch in record["epochs"]]
    assert len(losses) == 2 and losses[-1] < losses[0]
    assert record["bleu"] == {"test": None, "test_tokenised": None}
    assert record["data"]["unigram_bits"] > 4 and record["data"]["source_blind_bits"] is None
    assert not list((pretrained.folder / "hyps").iterdir()) and not (pretrained.folder / "decode.log").exists()
    words = record["updates"] * 120  # at most, padding included; a seventh of them is hidden
    assert 0.1 * words < record["target_tokens"] < 0.16 * words


def test_killed_and_resumed_its_masks_are_those_of_the_epoch_and_in_probes_of_the_first(pretrained, command):
    run = command("runs", *PRETRAINED)
    run.kill_at(pretrained.record["epochs"][0]["update"] + 5)
    run.complete()
    assert outcome(run.folder) == outcome(pretrained.folder)
    gradients = [{event["update"]: event["values"] for event in its.events("probe")} for its in (run, pretrained)]
    assert gradients[0] == gradients[1] != {}


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


def test_a_classifier_learns_and_the_record_has_its_accuracy(whole, pretrained):
    record = whole.record
    accuracies = [row["valid_accuracy"] for row in record["epochs"]]
    assert len(accuracies) == 4 and accuracies[-1] > 0.8
    assert all((60 * accuracy) == pytest.approx(round(60 * accuracy)) for accuracy in accuracies)
    assert [event["accuracy"] for event in whole.events("valid")] == accuracies
    before = pretrained.record
    listed = json.loads((pretrained.folder / "checkpoints" / "manifest.json").read_text())
    (weights,) = (entry for entry in listed if entry["kind"] == "weights" and entry["epoch"] == 2)
    start = record["settings"]["start"]
    assert (start["run"], start["sha256"], start["update"]) == (before["id"], weights["sha256"], before["updates"])
    assert start["data"] == before["data"]["fingerprint"] == record["settings"]["data"]["vocabulary"]
    assert record["axes"]["start"] == f"{before['exp']}@{before['updates']}"
    assert str(whole.runs) not in json.dumps(record) and str(pretrained.runs) not in json.dumps(record)
    assert "valid_accuracy" not in before["epochs"][0] and "start" not in before["axes"]


def test_killed_and_resumed_with_another_name_of_the_start_it_is_the_same_run(whole, pretrained, tuning, tmp_path):
    copied = tmp_path / "runs" / pretrained.folder.name
    run = tuning(f"start='{pretrained.folder}@2'")
    run.kill_at(10)
    shutil.copytree(pretrained.folder, copied)
    status, _, error = run.finish(f"start={copied.name.rpartition('-')[2]}@2")
    assert status == 0 and "resuming after update" in error, error
    (folder,) = run.runs.glob("mrpc_*")
    assert folder.name == whole.folder.name and outcome(folder) == outcome(whole.folder)


@pytest.mark.parametrize(("settings", "message"), [
    (["start={run}@7"], "has no weights of epoch 7; it has those of 1, 2"),
    (["start=nowhere@1"], "start: nowhere: not a run directory, nor a run under"),
    (["start={run}@2", "norm=postln"], "has norm=preln, this run has postln; they must be equal"),
    (["start={tuned}@1"], "is a run of task=classification; give start=RUN@EPOCH"),
])  # fmt: skip
def test_a_start_that_does_not_fit_is_one_line(whole, pretrained, refusal, settings, message):
    places = {"run": pretrained.folder, "tuned": whole.folder}
    assert message in refusal(*(setting.format(**places) for setting in settings))


def test_damaged_or_unfinished_starts_are_refused(pretrained, refusal, tmp_path):
    copied = tmp_path / "copied" / pretrained.folder.name
    shutil.copytree(pretrained.folder, copied)
    weights = copied / "checkpoints" / "epoch2.pt"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert "epoch2.pt is missing or does not match its checksum" in refusal(f"start='{copied}@2'")
    (copied / "record.json").unlink()
    assert "is not a finished run" in refusal(f"start='{copied}@2'")
