"""A run that another machine has taken over, the scores of hypotheses, and what is shown while it goes."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ln_repro.corpus.tokenise import detokenise
from ln_repro.engine.checkpoints import Checkpoint, Checkpoints
from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.settings import Experiment, Training
from ln_repro.records.run_dir import RunFolder, write_json
from ln_repro.runner import bleu
from ln_repro.runner import run as runner
from ln_repro.runner.progress import Display
from ln_repro.system.directory_lock import DirectoryLock, acquire
from tests.examples import experiment, record


@pytest.fixture
def wanted(tmp_path, monkeypatch) -> Experiment:
    """Return an experiment whose corpus need not be prepared."""
    monkeypatch.setattr(runner, "prepare", lambda *_: SimpleNamespace(fingerprint="data"))
    return experiment(paths__runs=tmp_path)


def test_a_record_says_of_which_text_it_is_if_not_of_all_that_was_published():
    corpus = {"name": "toy", "fingerprint": "a", "content": "b", "entropy": {}, "pairs": {"train": 9}}

    def text(published: bool, percent: int | None) -> dict[str, Any]:
        made: Any = SimpleNamespace(published=published, train_percent=percent, **corpus)
        facts = runner.facts(experiment(), made)
        assert facts["fingerprint"] == "a" and facts["train_pairs"] == 9
        return {name: facts[name] for name in ("published", "train_percent") if name in facts}

    assert (text(True, 100), text(True, 60), text(False, None)) == ({}, {"train_percent": 60}, {"published": False})


def test_a_run_that_was_taken_over_leaves_no_failure_to_its_new_holder(wanted, monkeypatch):
    def suspended(self: runner.Session) -> None:
        later = {**vars(self.lock.holder), "host": "node7", "boot": "another"}
        (self.folder.path / "sessions" / "2.json").write_text(json.dumps(later))
        self.lock.check()

    monkeypatch.setattr(runner.Session, "execute", suspended)
    with pytest.raises(LnReproError, match=r"was taken over by process \d+ on node7"):
        runner.run(wanted, print)
    assert RunFolder.of(wanted, wanted.id("data")).failure is None


def test_a_run_that_another_process_finishes_before_this_one_has_the_lock_is_not_repeated(wanted, monkeypatch):
    def lock_late(folder: RunFolder) -> DirectoryLock:
        lock = acquire(folder.path)
        write_json(folder.path / "record.json", record())
        return lock

    monkeypatch.setattr(RunFolder, "lock", lock_late)
    monkeypatch.setattr(runner.Session, "execute", lambda _: pytest.fail("trained again"))
    assert runner.run(wanted, lambda _: None) == RunFolder.of(wanted, wanted.id("data")).path


@pytest.mark.parametrize("restarts", ["0", "1"])
def test_a_job_that_is_requeued_does_not_start_again(restarts, wanted, monkeypatch):
    folder = RunFolder.of(wanted, wanted.id("data"))
    (folder.path / "checkpoints").mkdir(parents=True)
    monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    monkeypatch.setattr(runner.Session, "execute", lambda self: None)
    runner.run(wanted.model_copy(update={"rerun": True}), lambda _: None)
    assert (folder.path / "checkpoints").exists() == (restarts != "0")


def test_a_run_is_not_resumed_with_other_probes(tmp_path: Path) -> None:
    folder, begun = RunFolder(tmp_path), experiment()
    write_json(tmp_path / "experiment.json", begun.model_dump(mode="json"))
    Checkpoints(folder.checkpoints).save("state", 10, 1, lambda path: path.write_bytes(b"state") and None)
    with pytest.raises(UserError, match="was begun with probe=none every=200 probe_batches=5; use the same"):
        runner.refuse_other_probes(experiment(probe="all"), folder)
    runner.refuse_other_probes(begun, folder)


def test_each_flavour_of_bleu_compares_its_own_text(tmp_path: Path) -> None:
    """Tokenised hypotheses with tokenised references, detokenised ones with the untouched references."""
    hypotheses = ["he said : it &apos;s all fine , now .", "two dogs run in the park ."]
    tokenised = ["he said : it &apos;s nothing , really .", "two dogs are running in the park ."]
    untouched = ["He said: it's nothing, really.", "Two dogs are running in the park."]
    texts = {"tokenised": lambda _: tokenised, "references": lambda _: untouched}
    corpus = SimpleNamespace(target_lang="en", detokenised=[], **texts)
    folder = RunFolder(tmp_path)
    session = runner.Session(experiment(), corpus, folder, "id", None, print)  # type: ignore[arg-type]
    path = folder.hypotheses("test", 3, tokenised=True)
    path.parent.mkdir()
    path.write_text("".join(f"{line}\n" for line in hypotheses))
    session._score(runner.Decoding("test", 3, [Checkpoint("epoch3.pt", "weights", 9, 3, "", 0)]))
    found = {event["flavour"]: event["score"] for event in folder.events.read() if event["kind"] == "bleu"}
    pairs = (hypotheses, tokenised), (detokenise(hypotheses, "en"), untouched)
    of_flavour = zip(("tokenised", "detokenised"), pairs, strict=True)
    expected = {flavour: bleu.score(flavour, *pair, experiment(), "test", 1)[0] for flavour, pair in of_flavour}
    assert found == pytest.approx(expected) and expected["tokenised"] > expected["detokenised"] > 30


def train(update: int = 600, **more: Any) -> dict[str, Any]:
    return {"kind": "train", "update": update, "epoch": 3, "loss": 4.25, "lr": 0.002, "tokens_per_s": 12345.6,
            "updates_per_s": 2.0, **more}  # fmt: skip


BEGUN = {"kind": "status", "state": "started", "update": 0, "updates_per_epoch": 100}


@pytest.mark.parametrize(("length", "events", "end"), [
    ({"max_update": 1200}, [], "starting"),
    ({"max_update": 1200}, [BEGUN, train()], "tokens/s 12,346  left 0:05:00"),
    ({"max_epoch": 10}, [train()], "left ?"),
    ({"max_epoch": 10, "max_update": 700}, [BEGUN, train(loss=None)],
     "update 600/700  loss not finite  lr 0.002  tokens/s 12,346  left 0:00:50"),
])  # fmt: skip
def test_the_time_left_is_that_to_the_earlier_end(length, events, end):
    display = Display("run", Training(**length), Console(file=io.StringIO()))
    for event in events:
        display.show(event)
    assert display.line().endswith(end)


def test_off_a_terminal_lines_are_plain_few_and_whole():
    out = io.StringIO()
    with Display("toy", Training(max_update=1200), Console(file=out, width=80)) as display:
        display.show(BEGUN)
        for update in (20, 40, 60, 1200):
            display.show(train(update))
        display.say("a [bold]path[/bold] of " + "x" * 100)
    assert "\x1b" not in out.getvalue() and "\r" not in out.getvalue()
    first, end, last = out.getvalue().splitlines()
    assert "update 20/1200" in first and "update 1200/1200" in end
    assert last == "a [bold]path[/bold] of " + "x" * 100
