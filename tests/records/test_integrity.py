"""Records that cannot be trusted are named, left out, and turn the exit code; sound ones are collected and verified."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ln_repro.records.archive import read_kept, read_theory, records_folder
from ln_repro.records.integrity import CHECKSUMS, write_checksums
from tests.examples import SIGNATURE, record

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
        {"kind": "train", "update": 5, "epoch": 1, "tokens": 100},
        {"kind": "status", "state": "trained", "update": 5, "epoch": 1},
    ]  # fmt: skip
    row = {"epoch": 1, "update": 5, "valid_loss": 2.0, "valid_nll_loss": 1.0, "valid_bleu": None, "test_bleu": score,
           "test_bleu_tokenised": score}  # fmt: skip
    best = {"score": score, "signature": SIGNATURE, "epoch": 1}
    bleu = {"test": best, "test_tokenised": best}
    made = record(epochs=[row], bleu=bleu, updates=5, target_tokens=100, **changes)
    return made, "".join(json.dumps(event) + "\n" for event in events)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two sound records."""
    place = tmp_path / "records"
    place.mkdir()
    for id in (BROKEN, OTHER):
        made, events = scored(id=id)
        (place / f"{id}.json").write_text(json.dumps(made))
        (place / f"{id}.events.jsonl.gz").write_bytes(gzip.compress(events.encode()))
        (place / f"{id}.test.txt.gz").write_bytes(gzip.compress(b"a mouse\n"))
    write_checksums(place, [])
    return place


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return what edits the record and is careful enough to renew the checksums."""

    def edit(place: Path) -> None:
        record = json.loads(file(place).read_text())
        change(record)
        file(place).write_text(json.dumps(record))
        write_checksums(place, [file(place).name])

    return edit


def file(place: Path, ending: str = ".json") -> Path:
    """Return a file of the record that is tampered with."""
    return place / f"{BROKEN}{ending}"


def touch(place: Path) -> None:
    file(place).write_text(file(place).read_text() + " ")


def double(place: Path) -> None:
    file(place).rename(place / "copy.json")
    write_checksums(place, ["copy.json"])


def nest(path: Path) -> None:
    path.write_text("[" * 100_000)
    write_checksums(path.parent, [path.name])


DAMAGE = {
    "a truncated file": (lambda place: os.truncate(file(place), 500), "not valid JSON"),
    "a changed file": (touch, f"was changed after it was collected ({CHECKSUMS})"),
    "a record of another schema": (edited(lambda r: r.update(schema=2)), "schema 2 is not 1"),
    "a NaN": (edited(lambda r: r.update(tokens_per_s=float("nan"))), "NaN is not a number"),
    "a lost field": (edited(lambda r: r.pop("bleu")), "bleu: is not set"),
    "an edited BLEU": (edited(lambda r: r["bleu"]["test"].update(score=33.4)), "bleu differs from its events"),
    "an edited loss": (edited(lambda r: r["epochs"][0].update(valid_loss=1.0)), "epochs differs from its events"),
    "an edited number of updates": (edited(lambda r: r.update(updates=6)), "updates differs from its events"),
    "an edited status": (edited(lambda r: r.update(status="diverged")), "status differs from its events"),
    "settings that are gone": (edited(lambda r: r.update(experiment={})), "norm: is not set"),
    "a seed that is missing": (edited(lambda r: r["axes"].pop("seed")), "axes.seed: is not set"),
    "an edited seed": (edited(lambda r: r["axes"].update(seed=2)), "axes.seed differs from its settings"),
    "a corpus without a name": (edited(lambda r: r["data"].pop("name")), "data.name: is not set"),
    "scores that are no scores": (edited(lambda r: r["bleu"].update(test=7)), "bleu.test: input should be a valid"),
    "epochs without numbers": (edited(lambda r: r.update(epochs=[{}])), "epochs.0.epoch: is not set"),
    "nested too deeply": (lambda place: nest(file(place)), "not valid JSON"),
    "a double": (double, f"its id, {BROKEN}, is not its file name"),
    "a lost file": (lambda place: file(place).unlink(), f"{BROKEN}.json: is missing"),
    "lost events": (lambda place: file(place, ".events.jsonl.gz").unlink(), "its events are missing"),
    "changed hypotheses": (lambda place: file(place, ".test.txt.gz").write_bytes(b""), "test.txt.gz was changed"),
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(range(256)), f"/{CHECKSUMS}: not a list of checksums as from sha256sum; restore it\n"),
        (None, f": {CHECKSUMS} is missing; restore it\n"),
    ],
)
def test_checksums_that_are_no_text_or_gone_are_named_and_the_records_still_read(content, message, folder, call):
    (folder / CHECKSUMS).unlink()
    if content:
        (folder / CHECKSUMS).write_bytes(content)
    code, _, err = call("verify", "--records", folder)
    assert code == 1 and err.endswith(f"\nln-repro: {folder}{message}") and len(read_kept(folder).records) == 2


def test_two_collections_at_once_lose_no_checksum(tmp_path):
    run, place = run_folder(tmp_path), tmp_path / "kept"
    record = json.loads((run / "record.json").read_text())
    ids = [f"{number:010}" for number in range(24)]
    for id in ids:
        shutil.copytree(run, run.with_name(id))
        (run.with_name(id) / "record.json").write_text(json.dumps({**record, "id": id}))
    command = [sys.executable, "-m", "ln_repro.cli", "collect", "--records", str(place)]
    halves = [[str(run.with_name(id)) for id in ids[half::2]] for half in (0, 1)]
    started = [subprocess.Popen([*command, *half], stdout=subprocess.DEVNULL) for half in halves]
    assert [process.wait() for process in started] == [0, 0]
    assert read_kept(place).problems == [] and len(read_kept(place).runs) == len(ids)


@pytest.mark.parametrize(("name", "command"), [
    *((name, "verify") for name in DAMAGE), ("a changed file", "claims"),
])  # fmt: skip
def test_damage_is_named_left_out_and_turns_the_exit_code(name, command, folder, call):
    assert read_kept(folder).problems == []
    damage, message = DAMAGE[name]
    damage(folder)
    code, _, err = call(command, "--records", folder)
    complaint = next(line for line in err.splitlines() if message in line)
    assert code == 1 and (BROKEN in complaint or "copy.json" in complaint)
    assert [record["id"] for record in read_kept(folder).records] == [OTHER]


def test_the_committed_records_are_sound(call, monkeypatch, tmp_path):
    monkeypatch.setenv("LN_REPRO_DATA", str(tmp_path))  # corpora that happen to be prepared would be scored again
    code, out, _ = call("verify")
    assert code == 0 and f"{len(list(records_folder().glob('*/*.json')))} records are valid" in out


def test_the_results_stay_small():
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
    """Make a run; return a function that collects it into the folder ``kept``."""
    run = run_folder(tmp_path)
    monkeypatch.setenv("LN_REPRO_DATA", str(tmp_path / "data"))
    return lambda *flags: call("collect", run, "--records", tmp_path / "kept", *flags)


def test_a_run_that_lacks_a_file_is_left_out_and_the_others_are_collected(tmp_path, collect, call, monkeypatch):
    lacking = run_folder(tmp_path / "lacking")
    (lacking / "hyps" / "test.epoch1.txt").unlink()
    (tmp_path / "kept").mkdir()
    monkeypatch.chdir(tmp_path / "kept")
    code, out, _ = call("collect", lacking, tmp_path / "runs" / RUN, "--records", ".")
    assert code == 1 and f"{lacking}: not copied: {lacking / 'hyps' / 'test.epoch1.txt'} is missing\n" in out
    assert len(list((tmp_path / "kept").rglob("*.json"))) == 1 and (tmp_path / ".kept.lease").exists()


@pytest.mark.parametrize(
    ("file", "message"),
    [("events.jsonl", "status of the record differs from it"), ("hyps/test.epoch1.txt", "is damaged, it has 0 lines")],
)
def test_files_that_were_damaged_since_replace_no_sound_ones(file, message, tmp_path, collect):
    run = tmp_path / "runs" / RUN
    record = json.loads((run / "record.json").read_text())
    record["data"]["test_pairs"] = 2
    (run / "record.json").write_text(json.dumps(record))
    assert "copied as 0123456789" in collect()[1]
    before = {path.name: path.read_bytes() for path in (tmp_path / "kept" / "toy").iterdir()}
    (run / file).write_text("")
    code, out, _ = collect()
    assert code == 1 and "not copied" in out and message in out
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept" / "toy").iterdir()} == before


@pytest.mark.parametrize("lost", ['"kind": "valid"', '"flavour": "detokenised"'])
def test_a_run_whose_events_lack_one_that_others_refer_to_is_not_kept(lost, tmp_path, collect):
    events = tmp_path / "runs" / RUN / "events.jsonl"
    events.write_text("".join(line for line in events.read_text().splitlines(keepends=True) if lost not in line))
    code, out, _ = collect()
    assert code == 1 and "not copied: " in out and "epochs of the record differs from it" in out


def tiny_corpus(place: Path) -> Path:
    """Prepare the two sentences that the run translated; return the folder of the corpus."""
    folder = place / "data" / "prepared" / f"tiny-{'0' * 12}"
    (folder / "raw").mkdir(parents=True)
    (folder / "raw" / "test.en").write_text("the cat sat on the mat .\na dog barks at the moon .\n")
    (folder / "manifest.json").write_text(json.dumps({
        "name": "tiny", "fingerprint": "sha256:" + "0" * 64, "source_lang": "de", "target_lang": "en",
        "pairs": {"test": 2}, "vocabulary": 0, "entropy": {}, "files": {},
    }))  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("score", "hypotheses", "complaint"),
    [
        (100.0, None, ""),
        (99.0, None, "0123456789.json: BLEU is 99.0, its hypotheses score 100.0\n"),
        (100.0, "ein süßer Hund\nund\n".encode("latin-1"), "0123456789.test.txt.gz is damaged ('utf-8' codec"),
        (100.0, b"the cat sat on the mat .\n", "0123456789.test.txt.gz has 1 lines, the test set 2\n"),
    ],
)
def test_what_is_collected_can_be_verified(score, hypotheses, complaint, tmp_path, collect, call):
    """A score that was changed in record and events alike is found out by the hypotheses."""
    run, place = run_folder(tmp_path, score), tmp_path / "kept"
    if hypotheses:
        (run / "hyps" / "test.epoch1.txt").write_bytes(hypotheses)
    tiny_corpus(tmp_path)
    assert collect()[0] == 0
    assert sorted(path.name for path in (place / "toy").iterdir()) == [
        "0123456789.events.jsonl.gz", "0123456789.json", "0123456789.test.txt.gz", CHECKSUMS,
    ]  # fmt: skip
    code, out, err = call("verify", "--records", place)
    assert code == bool(complaint) == err.count("ln-repro: ") and complaint in err
    assert ("BLEU recomputed for 1" in out) == (not complaint) and "not recomputed for 0" in out


def test_a_score_by_a_tokeniser_that_this_machine_lacks_is_no_mistake(tmp_path, collect, call, monkeypatch):
    run_folder(tmp_path, 99.0)
    tiny_corpus(tmp_path)
    assert collect()[0] == 0
    monkeypatch.setattr("ln_repro.runner.bleu.TOKENISERS", {"en": "char"})
    code, out, err = call("verify", "--records", tmp_path / "kept")
    assert code == 0 and "not recomputed for 1: no hypotheses, or tokeniser " in out and "BLEU is" not in err


def test_the_entropies_of_a_corpus_come_from_any_of_its_records(folder):
    corpus = json.loads((folder / f"{BROKEN}.json").read_text())["data"]["fingerprint"]
    assert read_kept(folder).corpora == {}
    edited(lambda record: record["data"].update(unigram_bits=5.0, source_blind_bits=None))(folder)
    assert read_kept(folder).corpora == {corpus: {"unigram_bits": 5.0}}


def test_another_record_of_the_same_id_is_not_overwritten(tmp_path, collect, call):
    record, kept = tmp_path / "runs" / RUN / "record.json", tmp_path / "kept" / "toy" / "0123456789.json"
    assert collect()[0] == collect()[0] == 0
    before = record.read_bytes()
    record.write_bytes(before + b"\n")
    code, out, _ = collect()
    assert code == 1 and "another record of 0123456789 exists" in out and kept.read_bytes() == before
    assert collect("--replace")[0] == 0 and kept.read_bytes() == before + b"\n"
    assert call("collect", tmp_path, "--records", tmp_path / "kept")[0] == 2


def test_the_hypotheses_of_a_replaced_record_are_not_scored_for_one_without_bleu(tmp_path, collect, call):
    tiny_corpus(tmp_path)
    run = tmp_path / "runs" / RUN
    assert collect()[0] == 0
    lost = {"status": "diverged", "updates": 3, "target_tokens": 0, "epochs": [], "bleu": dict.fromkeys(
        ("test", "test_tokenised"))}  # fmt: skip
    (run / "record.json").write_text(json.dumps(json.loads((run / "record.json").read_text()) | lost))
    states = [{"kind": "status", "state": state, "update": 3, "epoch": 1} for state in ("started", "diverged")]
    (run / "events.jsonl").write_text("".join(json.dumps(state) + "\n" for state in states))
    assert collect("--replace")[0] == 0
    code, out, err = call("verify", "--records", tmp_path / "kept")
    assert code == 0 and "ln-repro: " not in err and "BLEU recomputed for 0" in out


def test_a_run_is_named_by_its_id(tmp_path, call, monkeypatch):
    run_folder(tmp_path)
    monkeypatch.setenv("LN_REPRO_RUNS", str(tmp_path / "runs"))
    status, out, _ = call("collect", RUN.rpartition("-")[2], "--records", tmp_path / "kept")
    assert status == 0 and f"{tmp_path / 'runs' / RUN}: copied" in out
    status, _, error = call("cancel", "0000000000")
    assert status == 2 and "0000000000: not a run directory, nor a run under" in error and error.count("\n") == 1


def test_what_is_collected_later_makes_nothing_sound_that_was_changed_or_lost(folder, tmp_path, call):
    before = (folder / CHECKSUMS).read_text()
    touch(folder)
    (folder / f"{OTHER}.json").unlink()
    assert call("collect", run_folder(tmp_path), "--records", folder)[0] == 0
    assert (folder / CHECKSUMS).read_text() == before
    assert len((folder / "toy" / CHECKSUMS).read_text().splitlines()) == 3
    kept = read_kept(folder)
    assert [record["id"] for record in kept.records] == ["0123456789"]
    assert any("was changed after it was collected" in problem for problem in kept.problems)
    assert any(f"{OTHER}.json: is missing" in problem for problem in kept.problems)


def test_a_copy_that_is_cut_short_leaves_no_part_and_no_record(tmp_path, monkeypatch, collect):
    replace = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.name.endswith(".events.jsonl.gz"):
            raise OSError(28, "No space left on device", str(target))
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        assert collect()[0] == 1
    assert [path.name for path in (tmp_path / "kept").rglob("0123456789*")] == []
    assert collect()[0] == 0
    assert read_kept(tmp_path / "kept").problems == []


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


@pytest.mark.parametrize("findings", [3, [3], [{"id": "TH-6"}]])
def test_findings_of_the_theory_that_are_damaged_are_left_out(findings, tmp_path, capsys):
    (tmp_path / "theory.json").write_text(json.dumps({"findings": findings}))
    assert read_theory(tmp_path / "records") == []
    assert "theory.json is ignored: its findings are damaged" in capsys.readouterr().err
