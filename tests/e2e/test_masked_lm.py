"""A masked language model from text to record: one side of any corpus, no hypotheses, exact after a kill."""

import gzip
import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Command
from tests.e2e.outcomes import outcome

MASKED = ["task=masked_lm", "train.block_tokens=16", "train.label_smoothing=0", "train.save_every=7"]
PROBED = [*MASKED, "probe=gradients", "every=20"]


def probes(run):
    """Return the gradients of a run by update."""
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    return {event["update"]: event["values"] for event in events if event["kind"] == "probe"}


@pytest.fixture(scope="module")
def whole(sentences, tmp_path_factory):
    data = tmp_path_factory.getbasetemp() / "prepared data"
    run = Command(sentences, data, tmp_path_factory.mktemp("masked"), PROBED)
    status, _, error = run.finish()
    assert status == 0, error
    return run


def test_it_is_validated_after_every_epoch_and_scored_never(whole):
    record = json.loads((whole.folder / "record.json").read_text())
    assert record["status"] == "finished" and record["axes"]["task"] == "masked_lm"
    losses = [row["valid_loss"] for row in record["epochs"]]
    assert len(losses) == 4 and losses[-1] < losses[0]
    assert record["bleu"] == {"test": None, "test_tokenised": None}
    assert record["data"]["unigram_bits"] > 4 and record["data"]["source_blind_bits"] is None
    assert not list((whole.folder / "hyps").iterdir())
    assert not (whole.folder / "decode.log").exists()
    begun = json.loads((whole.folder / "events.jsonl").read_text().splitlines()[0])
    assert begun["parameters"] == record["parameters"]
    words = record["updates"] * 120  # at most, padding included; a seventh of them is hidden
    assert 0.1 * words < record["target_tokens"] < 0.16 * words


@pytest.mark.parametrize(
    "update", [pytest.param(1, marks=pytest.mark.slow), 20, pytest.param(45, marks=pytest.mark.slow)]
)
def test_kill_9_changes_nothing(whole, command, update):
    """In the middle of an epoch, whose masks are those of the epoch; probes look at those of the first."""
    run = command("runs", *PROBED)
    run.kill_at(update)
    status, _, error = run.finish()
    assert status == 0, error
    assert outcome(run.folder) == outcome(whole.folder)
    assert probes(run) == probes(whole) != {}


def test_every_verb_copes_with_a_run_that_has_no_score(whole, tmp_path):
    kept = tmp_path / "records"
    assert whole.call("collect", "--records", str(kept))[0] == 0
    status, said, error = whole.call("verify", "--records", str(kept))
    assert status == 0 and said.startswith("1 records are sound"), error
    status, said, _ = whole.call("tables", "--records", str(kept))
    assert status == 0 and "### runs-files-masked_lm" in said and "BLEU" not in said.partition("### runs-")[2]
    (row,) = json.loads(whole.call("status", "--json")[1])
    assert row["state"] == "finished" and row["bleu"] is None and row["loss"] > 0
    assert whole.call("claims", "--records", str(kept))[0] == 0
    assert whole.call("figures", "--records", str(kept), "--out", str(tmp_path / "figures"))[0] == 0


@pytest.fixture
def lines(sentences, tmp_path) -> list[str]:
    """Return settings that name text in one language, packed, with blank lines in it."""
    for split in ("train", "valid"):
        text = (sentences / f"{split}.en").read_text().replace("\n", "\n\n")
        (tmp_path / f"{split}.txt.gz").write_bytes(gzip.compress(text.encode()))
    return [f"data.train={tmp_path}/train.txt.gz", f"data.valid={tmp_path}/valid.txt", "data.test=null", "data=text"]


def test_text_in_one_language_is_enough(command, lines):
    run = command("runs", *MASKED, *lines, "train.max_epoch=1")
    status, _, error = run.finish()
    assert status == 0, error
    data = json.loads((run.folder / "record.json").read_text())["data"]
    assert (data["train_pairs"], data["valid_pairs"]) == (500, 30) and "test_pairs" not in data
    assert run.call("data", "verify", *lines, "data.bpe_merges=0")[0] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["eval.average=2"], "eval.valid, eval.average: task=masked_lm decodes nothing"),
        (["eval.valid=true"], "eval.valid, eval.average: task=masked_lm decodes nothing"),
        (["train.block_tokens=121"], "train.max_tokens: 120 has no room for a block of train.block_tokens=121"),
        (["train.block_tokens=5000"], "train.block_tokens: input should be less than or equal to 1024"),
        (["data=text", "data.train=null"], "data.train: is not given; give data.train=FILE data.valid=FILE"),
        (["data=text", "data.train=nowhere.txt"], "nowhere.txt"),
        (["data=text", "data.source_lang=de"], "text is in one language, give it twice; got de and en"),
        (["data=text", "task=translation"], "data.name: text is in one language, which task=masked_lm learns from"),
        (["task=reading"], "task: input should be 'translation', 'masked_lm' or 'classification'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(command, settings: list[str], message: str) -> None:
    status, _, error = command("runs", *MASKED, *settings).finish()
    assert status == 2 and message in error and error.count("\n") == 1, error


def test_the_papers_experiment_says_what_it_wants(tmp_path: Path, whole: Command) -> None:
    status, _, error = whole.call("run", "exp=bert_preln_nowarm_linear_high", "tracker=none")
    assert status == 2 and error == (
        "ln-repro: data.train: is not given; give data.train=FILE data.valid=FILE, and data.test=FILE if you have one, "
        "with one sentence per line (.gz and .xz are accepted)\n"
    )
