"""Records that cannot be trusted are named, left out, and turn the exit code; sound ones are collected and verified."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ln_repro.claims.judge import read_archive
from ln_repro.records import archive
from ln_repro.records.archive import CHECKSUMS, EVENTS, HYPOTHESES, read_kept, records_folder, stopped_folder, unpacked
from ln_repro.records.events import valid_events
from tests.examples import SIGNATURE, record, recorded

ARCHIVE = "0001-toy.tar.xz"
BROKEN, OTHER = "0000000001", "0000000002"
"""Two records; the first is tampered with."""
RUN = "mine-s1-0123456789"


def scored(score: float = 100.0, **changes: Any) -> tuple[dict[str, Any], str]:
    """Return the record of a run of one epoch, and its events as text."""
    events = [
        {"kind": "status", "state": "started", "update": 0, "epoch": 0},
        {"kind": "valid", "update": 5, "epoch": 1, "loss": 2.0, "nll_loss": 1.0, "ppl": 2.0},
        *({"kind": "bleu", "update": 5, "epoch": 1, "split": "test", "flavour": flavour, "score": score,
           "signature": SIGNATURE} for flavour in ("tokenised", "detokenised")),
        {"kind": "train", "update": 5, "epoch": 1, "tokens": 100, "seconds": 10.0, "loss": 3.0},
        {"kind": "status", "state": "trained", "update": 5, "epoch": 1},
    ]  # fmt: skip
    row = {"epoch": 1, "update": 5, "valid_loss": 2.0, "valid_nll_loss": 1.0, "valid_bleu": None, "test_bleu": score,
           "test_bleu_tokenised": score}  # fmt: skip
    best = {"score": score, "signature": SIGNATURE, "epoch": 1}
    bleu = {"test": best, "test_tokenised": best}
    made = record(epochs=[row], bleu=bleu, updates=5, target_tokens=100, tokens_per_s=10.0, **changes)
    return made, "".join(json.dumps(event) + "\n" for event in events)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two sound records."""
    place = tmp_path / "records"
    place.mkdir()
    runs = []
    for id in (BROKEN, OTHER):
        made, events = scored(id=id)
        kept = recorded(**made).with_series(valid_events(events.encode()))
        runs.append((kept, {EVENTS: events.encode(), HYPOTHESES: b"a mouse\n"}))
    archive.add(place, "toy", runs)
    return place


def lines(place: Path) -> dict[str, str]:
    """Return the lines of the file of records by id."""
    return {json.loads(line)["id"]: line for line in (place / "toy.jsonl").read_text().splitlines()}


def rewritten(place: Path, line: str) -> None:
    """Put a line in the place of the record that is tampered with."""
    (place / "toy.jsonl").write_text("".join(f"{text}\n" for text in (line, lines(place)[OTHER])))


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return what edits the record and is careful enough to renew its checksum."""

    def edit(place: Path) -> None:
        record = json.loads(lines(place)[BROKEN])
        del record["sha256"]
        change(record)
        rewritten(place, archive.line_of(record))

    return edit


def packed_again(change: Callable[[dict[str, bytes]], Any]) -> Callable[[Path], None]:
    """Return what edits the archived files and is careful enough to renew their checksum."""

    def edit(place: Path) -> None:
        packed = place.parent / "archive"
        files = dict(unpacked(packed / ARCHIVE))
        change(files)
        (packed / ARCHIVE).unlink()
        (packed / CHECKSUMS).unlink()
        (packed / "notes.tar.xz").touch()  # not one of ours
        archive.pack(packed, "toy", files)

    return edit


def archived(name: str, content: bytes | None) -> Callable[[Path], None]:
    """Return what changes or, without content, removes a file of the archive."""

    def edit(place: Path) -> None:
        path = place.parent / "archive" / name
        path.unlink() if content is None else path.write_bytes(content)

    return edit


DAMAGED = "it is damaged, or was changed"
UNSOUND = {
    "a truncated line": (lambda place: rewritten(place, lines(place)[BROKEN][:500]), DAMAGED),
    "a truncated checksum": (lambda place: rewritten(place, f'{lines(place)[BROKEN][:-10]}"}}'), DAMAGED),
    "a changed line": (lambda place: rewritten(place, lines(place)[BROKEN].replace("100.0", "99.0")), DAMAGED),
    "a record of another schema": (edited(lambda r: r.update(schema=2)), "schema: input should be 1, got 2"),
    "a lost field": (edited(lambda r: r.pop("bleu")), "bleu: is not set"),
    "an edited seed": (edited(lambda r: r["axes"].update(seed=2)), "axes.seed differs from its settings"),
}
"""What a reader of the records finds out."""
ITS_EVENTS = f"{BROKEN}{EVENTS}"
LOSSLESS = scored()[1].replace(', "loss": 3.0', "").encode()
"""The events of `scored`, without the loss of its training."""
INCONSISTENT = {
    "an edited BLEU": (edited(lambda r: r["bleu"]["test"].update(score=33.4)), "bleu differs from its events"),
    "an edited curve": (edited(lambda r: r["curve"]["loss"].append(1.0)), "curve differs from its events"),
    "a lost loss": (packed_again(lambda files: files.update({ITS_EVENTS: LOSSLESS})), "epochs differs from its events"),
    "lost events": (packed_again(lambda files: files.pop(ITS_EVENTS)), "its events are missing"),
    "an archive that is not listed": (archived(CHECKSUMS, None), "is not in SHA"),
    "a lost archive": (archived(ARCHIVE, None), f"{ARCHIVE} is missing; restore"),
    "a changed archive": (archived(ARCHIVE, b"x"), "was changed after it was written"),
}
"""What only `verify` finds out."""


@pytest.mark.parametrize("name", UNSOUND)
def test_what_is_unsound_is_named_and_left_out(name, folder, call):
    damage, message = UNSOUND[name]
    damage(folder)
    code, _, err = call("tables", "--records", folder)
    assert code == 1 and f"{folder / 'toy.jsonl'}: " in err and message in err and "; ignored" in err
    assert [record.id for record in read_kept(folder).records] == [OTHER]
    code, out, err = call("verify", "--records", folder)
    assert code == 1 and message in err and "1 valid record;" in out


@pytest.mark.parametrize("name", INCONSISTENT)
def test_what_the_events_do_not_give_is_found_by_verify(name, folder, call):
    damage, message = INCONSISTENT[name]
    damage(folder)
    assert read_kept(folder).problems == []
    code, out, err = call("verify", "--records", folder)
    assert code != 0 and message in err and "2 valid records" not in out


def test_a_longer_checksum_as_in_older_records_is_sound(folder):
    content, digest = re.fullmatch('(.*),"sha256":"(.*)"}', lines(folder)[BROKEN]).groups()
    whole = hashlib.sha256(f"{content}}}".encode()).hexdigest()
    rewritten(folder, f'{content},"sha256":"{whole}"}}')
    assert whole.startswith(digest) and read_kept(folder).problems == []


def test_a_record_that_is_there_twice_counts_once(folder, call):
    (folder / "other.jsonl").write_text(f"{lines(folder)[BROKEN]}\n")
    assert call("verify", "--records", folder)[0] == 1
    assert [record.id for record in read_kept(folder).records] == [BROKEN, OTHER]
    assert f"{BROKEN} is there twice" in read_kept(folder).problems[0]


def test_the_committed_records_are_sound(call, monkeypatch, tmp_path):
    monkeypatch.setenv("LN_REPRO_DATA", str(tmp_path))  # corpora that happen to be prepared would be scored again
    code, out, _ = call("verify")
    numbers = [len(read_kept(folder).runs) for folder in (records_folder(), stopped_folder(records_folder()))]
    assert code == 0 and all(f"{number} valid records" in out for number in numbers)
    monkeypatch.chdir(records_folder())
    assert all(read(Path()) for read in (archive.read_costs, archive.read_theory)) and stopped_folder(Path()).is_dir()


def test_stopped_runs_that_have_ended_since_count_once_and_problems_of_others_are_told(folder, monkeypatch, call):
    shutil.copytree(folder, stopped_folder(folder))
    assert not read_archive(folder).stopped
    (folder / "toy.jsonl").write_text(f"{lines(folder)[OTHER]}\n")
    assert [run.record.id for run in read_archive(folder).stopped] == [BROKEN]
    (stopped_folder(folder) / "toy.jsonl").write_text("{}\n")
    assert "stopped" in read_archive(folder).kept.problems[0]
    monkeypatch.setattr("ln_repro.records.archive.records_folder", lambda: folder)
    assert "it is damaged" in call("verify")[2]


def test_the_lines_of_the_committed_records_are_sorted_and_small():
    for path in records_folder().glob("*.jsonl"):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        assert [record["id"] for record in records] == sorted(record["id"] for record in records)
        assert {record["exp"].partition("_")[0] for record in records} == {path.stem}
        assert max(len(record["curve"]["update"]) for record in records) <= 60
    size = sum(path.stat().st_size for path in records_folder().parent.rglob("*") if path.is_file())
    assert size < 25e6  # every clone downloads them


def run_folder(place: Path, score: float = 100.0) -> Path:
    """Make the directory of a finished run on a corpus of two sentences."""
    run = place / "runs" / RUN
    (run / "hyps").mkdir(parents=True, exist_ok=True)
    made, events = scored(score, data={"name": "tiny", "fingerprint": "sha256:" + "0" * 64})
    (run / "experiment.json").write_text("{}")
    (run / "record.json").write_text(json.dumps(made))
    (run / "events.jsonl").write_text(events)
    (run / "hyps" / "test.epoch1.txt").write_text("the cat sat on the mat .\na dog barks at the moon .\n")
    return run


@pytest.fixture
def collect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call) -> Callable[..., tuple[int, str, str]]:
    """Make a run; return a function that collects it, named by its id, into the folder ``kept``."""
    run_folder(tmp_path)
    monkeypatch.setenv("LN_REPRO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LN_REPRO_RUNS", str(tmp_path / "runs"))
    return lambda *flags: call("collect", RUN.rpartition("-")[2], "--records", tmp_path / "kept", *flags)


@pytest.mark.parametrize(("put_there", "said"), [
    (lambda path: None, "/hyps/test.epoch1.txt is missing\n"),
    (lambda path: path.symlink_to("/proc/self/mem"), ": Input/output error\n"),
])  # fmt: skip
@pytest.mark.usefixtures("collect")
def test_a_run_with_a_file_that_cannot_be_read_is_left_out(put_there, said, tmp_path, call, monkeypatch):
    lacking = run_folder(tmp_path / "lacking")
    hypotheses = lacking / "hyps" / "test.epoch1.txt"
    hypotheses.unlink()
    put_there(hypotheses)
    (tmp_path / "kept").mkdir()
    monkeypatch.chdir(tmp_path / "kept")
    code, _, err = call("collect", lacking, tmp_path / "runs" / RUN, "--records", ".")
    assert code == 1 and f"{lacking}: not copied: {lacking}{said}" in err
    assert len(read_kept(tmp_path / "kept").runs) == 1 and (tmp_path / ".kept.lease").exists()


@pytest.mark.parametrize(("file", "content", "message"), [
    ("events.jsonl", "", "status of the record differs from it"),
    ("events.jsonl", '{"kind": "train", "update": 5, "epoch": 1}\n', "events.jsonl is damaged (KeyError('loss'))"),
    ("hyps/test.epoch1.txt", "", "is damaged, it has 0 lines"),
])  # fmt: skip
def test_files_that_were_damaged_since_replace_no_sound_ones(file, content, message, tmp_path, collect):
    run = tmp_path / "runs" / RUN
    record = json.loads((run / "record.json").read_text())
    record["data"]["test_pairs"] = 2
    (run / "record.json").write_text(json.dumps(record))
    assert "copied as 0123456789" in collect()[1]
    before = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*.*")}
    (run / file).write_text(content)
    code, out, err = collect()
    assert code == 1 and "not copied" in err and message in err and not out
    assert {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*.*")} == before


def tiny_corpus(place: Path) -> Path:
    """Prepare the two sentences that the run translated; return the folder of the corpus."""
    folder = place / "data" / "prepared" / f"tiny-{'0' * 12}"
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "test.en").write_text("the cat sat on the mat .\na dog barks at the moon .\n")
    (folder / "manifest.json").write_text(json.dumps({
        "name": "tiny", "fingerprint": "sha256:" + "0" * 64, "source_lang": "de", "target_lang": "en",
        "pairs": {"test": 2}, "vocabulary": 0, "entropy": {}, "train_percent": None, "detokenised": [], "files": {},
    }))  # fmt: skip
    return folder


@pytest.mark.parametrize(("score", "hypotheses", "complaint"), [
    (100.0, None, ""),
    (99.0, None, ": BLEU is 99.0, its hypotheses score 100.0\n"),
    (100.0, "ein süßer Hund\nund\n".encode("latin-1"), ": its hypotheses are damaged ('utf-8' codec"),
    (100.0, b"the cat sat on the mat .\n", ": its hypotheses have 1 lines, the test set 2\n"),
])  # fmt: skip
def test_what_is_collected_can_be_verified(score, hypotheses, complaint, tmp_path, collect, call):
    run, place = run_folder(tmp_path, score), tmp_path / "kept"
    if hypotheses:
        (run / "hyps" / "test.epoch1.txt").write_bytes(hypotheses)
    tiny_corpus(tmp_path)
    assert collect()[0] == 0
    assert sorted(path.name for path in place.rglob("*.*")) == [ARCHIVE, "toy.jsonl"]
    assert (place / "archive" / CHECKSUMS).is_file()
    assert dict(unpacked(place / "archive" / ARCHIVE))[f"0123456789{EVENTS}"] == (run / "events.jsonl").read_bytes()
    code, out, err = call("verify", "--records", place)
    assert code == bool(complaint) == err.count("ln-repro: ") and complaint in err
    assert ("BLEU recomputed for 1" in out) == (not complaint) and "not recomputed" not in out
    (place / "toy.jsonl").write_text("")
    code, _, err = call("verify", "--records", place)
    assert code == 1 and f"{ARCHIVE} has runs without a record (0123456789)" in err


def test_a_run_whose_archive_was_damaged_is_copied_again(tmp_path, collect):
    assert collect()[0] == 0
    archived = tmp_path / "kept" / "archive" / ARCHIVE
    archived.write_bytes(archived.read_bytes()[:100])
    assert "copied as 0123456789" in collect()[1] and "is there already" in collect()[1]
    (record,) = read_kept(tmp_path / "kept").records
    assert record.archive == "0002-toy.tar.xz"


def test_the_entropies_of_a_corpus_come_from_any_of_its_records(folder):
    corpus = json.loads(lines(folder)[BROKEN])["data"]["fingerprint"]
    assert read_kept(folder).corpora == {}
    edited(lambda record: record["data"].update(unigram_bits=5.0, source_blind_bits=None))(folder)
    assert read_kept(folder).corpora == {corpus: {"unigram_bits": 5.0}}


def test_another_record_of_the_same_id_is_not_overwritten(tmp_path, collect, call):
    run, kept = tmp_path / "runs" / RUN / "record.json", tmp_path / "kept" / "toy.jsonl"
    assert collect()[0] == collect()[0] == 0
    before = kept.read_bytes()
    run.write_text(json.dumps({**json.loads(run.read_text()), "parameters": 7}))
    code, _, err = collect()
    assert code == 1 and "another record of 0123456789 exists" in err and kept.read_bytes() == before
    both = tmp_path / "runs" / RUN, run_folder(tmp_path / "again", 50.0)
    assert call("collect", *both, "--records", tmp_path / "new")[0] == 1
    assert collect("--replace")[0] == 0
    (record,) = read_kept(tmp_path / "kept").records
    assert (record.parameters, record.archive) == (7, "0002-toy.tar.xz")
    assert call("collect", tmp_path, "--records", tmp_path / "kept")[0] == 2


def test_nothing_is_collected_into_a_file_with_unsound_records_which_would_be_lost(folder, tmp_path, call):
    UNSOUND["a changed line"][0](folder)
    before = (folder / "toy.jsonl").read_bytes()
    code, _, err = call("collect", run_folder(tmp_path), "--records", folder)
    assert code == 1 and f"not copied: {folder / 'toy.jsonl'}" in err and "restore toy.jsonl first" in err
    assert (folder / "toy.jsonl").read_bytes() == before


@pytest.mark.parametrize("full", [".tar.xz", ".jsonl"])
def test_a_collection_that_is_cut_short_changes_no_record_and_can_be_repeated(full, tmp_path, monkeypatch, collect):
    replace = Path.replace

    def no_space(path: Path, target: Path) -> Path:
        if target.name.endswith(full):
            raise OSError(28, "No space left on device", str(target))
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", no_space)
        assert collect()[0] == 1
    assert read_kept(tmp_path / "kept").runs == []
    assert collect()[0] == 0
    assert len(read_kept(tmp_path / "kept").runs) == 1 and read_kept(tmp_path / "kept").problems == []


def test_two_records_are_compared_by_what_they_translated(tmp_path, collect, call):
    assert collect()[0] == 0
    compare = ("compare", "--records", tmp_path / "kept", "0123456789")
    code, _, err = call(*compare, "0123456789")
    assert code == 2 and "prepare the corpus first (ln-repro data prepare data=" in err
    tiny_corpus(tmp_path)
    code, out, _ = call(*compare, "0123456789")
    first, _, last, *_ = out.splitlines()
    assert code == 0 and first == "0123456789  toy_preln_nowarm  seed 1  BLEU 100.00" and last.startswith("p = 1.0")
    assert call(*compare, "nothing")[0] == 2
