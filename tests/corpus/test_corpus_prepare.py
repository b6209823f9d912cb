"""Preparation: caching, locks, interruption, verification and error messages."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from corpus_helpers import settings, write

from ln_repro.corpus import locate, shards
from ln_repro.corpus.prepare import fingerprint, listing, prepare, verify
from ln_repro.errors import LnReproError, UserError
from ln_repro.system.subprocesses import environment

PREPARE = """
import signal
import sys
from pathlib import Path
from ln_repro.corpus import shards
from ln_repro.corpus.prepare import prepare
from ln_repro.experiment.data import Data

def report(line):
    print(line.split()[0], flush=True)
    if line.split()[0] == sys.argv[3]:
        signal.setitimer(signal.ITIMER_PROF, float(sys.argv[4]))  # which ends the process

if __name__ == "__main__":
    folder, root, shards.SIZE = Path(sys.argv[1]), Path(sys.argv[2]), 125
    files = {split: folder / split for split in ("train", "valid", "test")}
    prepare(Data(name="files", bpe_merges=500, **files), root, report)
"""


def write_text(folder: Path) -> None:
    """Write parallel text of made-up words."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 9))) for _ in range(5_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for split, count in (("train", 1_000), ("valid", 50), ("test", 50)):
        for lang in ("de", "en"):
            with (folder / f"{split}.{lang}").open("w") as file:
                for _ in range(count):
                    file.write(" ".join(draw.choices(words, weights, k=draw.randint(1, 30))) + ".\n")


def start(folder: Path, root: Path, step: str = "none", seconds: float = 0.0) -> "subprocess.Popen[str]":
    """Start to prepare the text in ``folder`` in eight shards; it dies after so many seconds of CPU time of a step."""
    script = folder / "prepare.py"
    script.write_text(PREPARE)
    command = [sys.executable, str(script), str(folder), str(root), step, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


def content(root: Path) -> dict[str, bytes]:
    """Return the content of every prepared file."""
    (prepared,) = (path for path in (root / "prepared").iterdir() if not path.name.startswith("."))
    return {str(path.relative_to(prepared)): path.read_bytes() for path in prepared.rglob("*") if path.is_file()}


def test_the_whole_folder(made, root, small_toy):
    prepared = made("toy")
    assert dict(prepared.pairs) == {"train": 200, "valid": 20, "test": 20}
    manifest = json.loads((prepared.folder / "manifest.json").read_text())
    assert manifest["fingerprint"] == prepared.fingerprint == fingerprint(settings("toy"), root)
    assert set(manifest["versions"]) == {"sacremoses", "subword-nmt"}
    assert manifest["files"]["text/test.de"]["lines"] == 20
    assert manifest["vocabulary"] > 100
    assert manifest["tokens"]["train"]["de"] > 1000
    assert prepared.sources("test")[0][0].isupper()
    assert prepared.tokenised("test")[0] == prepared.references("test")[0].lower().replace(".", " .")
    assert not (prepared.folder / "raw" / "train.de").exists()
    assert verify(settings("toy"), root) == []
    again = prepare(settings("toy"), root, lambda line: pytest.fail("prepared twice"))
    assert again == prepared
    (row,) = (row for row in listing(root) if row["folders"])
    assert (row["name"], row["folders"]) == ("toy", [str(prepared.folder)])


def test_settings_that_decide_the_text_decide_the_fingerprint(root):
    changes = [{}, {"lowercase": False}, {"bpe_merges": 9}, {"only": "test"}]
    changes += [{"source_lang": "en", "target_lang": "de"}]
    prints = {fingerprint(settings("toy", **change), root) for change in changes}
    assert len(prints) == len(changes)


def test_only_the_test_side(made, root, small_toy):
    full, test = made("toy"), made("toy", only="test")
    assert dict(test.pairs) == {"test": 20} and test.entropy == {}
    assert test.folder != full.folder
    assert test.references("test") == full.references("test")
    assert sorted(path.name for path in test.folder.iterdir()) == ["manifest.json", "raw", "text"]
    assert verify(settings("toy", only="test"), root) == []
    assert [row["folders"] for row in listing(root) if row["folders"]] == [[str(full.folder)]]


@pytest.mark.parametrize(("source", "target", "told"), [("de", "de", "must differ"), ("de", "fr", "is in de and en")])
def test_languages_it_does_not_have(made, source, target, told):
    with pytest.raises(UserError, match=told):
        made("toy", source_lang=source, target_lang=target)


def test_a_flipped_byte_a_lost_line_and_a_lost_file_are_found_and_repaired(made, root, small_toy):
    folder = made("toy").folder
    content = bytearray((folder / "bin" / "train.de-en.de.bin").read_bytes())
    content[5] ^= 1
    (folder / "bin" / "train.de-en.de.bin").write_bytes(content)
    lines = (folder / "text" / "test.de").read_text(encoding="utf-8").split("\n")
    (folder / "text" / "test.de").write_text("\n".join(lines[1:]), encoding="utf-8")
    (folder / "raw" / "valid.en").unlink()
    problems = "\n".join(verify(settings("toy"), root))
    assert f"{folder / 'bin' / 'train.de-en.de.bin'}: sha256: expected " in problems
    assert "lines: expected 20, found 19" in problems
    assert "valid.en: missing" in problems
    made("toy")
    assert verify(settings("toy"), root) == []


@pytest.mark.parametrize("name", ["bin/train.de-en.de.bin", "raw/test.en"])
def test_content_that_was_altered_in_place_is_prepared_again(made, root, small_toy, name):
    path, said = made("toy").folder / name, list[str]()
    content, status = path.read_bytes(), path.stat()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    prepare(settings("toy"), root, said.append)
    assert path.read_bytes() == content and "its content has changed; preparing toy again" in said[0]


@pytest.mark.parametrize("key", ["fingerprint", "pairs", "files"])
def test_a_manifest_that_lacks_a_key_is_named_and_the_corpus_prepared_again(made, root, small_toy, key, capsys):
    path = made("toy").folder / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in manifest.items() if name != key}))
    assert not [row for row in listing(root) if row["folders"]]
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.endswith(f"manifest.json is ignored: {key} is missing or incomplete\n")
    made("toy")
    assert json.loads(path.read_text()) == manifest


def test_two_processes_at_once(root, tmp_path):
    write_text(tmp_path)
    both = [start(tmp_path, root) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(map(bool, said)) == [False, True]  # one prepared, the other waited
    assert len(list((root / "prepared").glob("[!.]*"))) == 1


def test_what_was_done_before_the_disk_was_full_is_kept(root, small_toy, monkeypatch):
    def full(line: str) -> None:
        if line.startswith("binarising"):
            raise OSError(errno.ENOSPC, "No space left on device", "x")

    with pytest.raises(LnReproError, match=r"the disk is full.*paths\.data"):
        prepare(settings("toy"), root, full)
    assert not [row for row in listing(root) if row["folders"]]
    with pytest.raises(UserError, match=r"(?s)not prepared.*`ln-repro data prepare` with the same arguments"):
        verify(settings("toy"), root)
    monkeypatch.setattr(shards, "tokeniser", lambda *_: pytest.fail("tokenised again"))
    prepare(settings("toy"), root, lambda line: None)
    assert verify(settings("toy"), root) == []
    assert not list((root / "prepared").rglob("*shards*"))


def test_a_preparation_that_is_killed_six_times_ends_with_the_same_files(tmp_path):
    write_text(tmp_path)
    before = os.times().children_user
    assert start(tmp_path, tmp_path / "undisturbed").wait() == 0
    short, draw = (os.times().children_user - before) / 100, random.Random(2)  # of CPU time, shorter than any step
    for step in ("tokenising", "learning", "cleaning", "cleaning", "binarising", "binarising"):
        process = start(tmp_path, tmp_path / "killed", step, draw.uniform(short / 10, short))
        assert process.wait() == -signal.SIGPROF, step
    assert start(tmp_path, tmp_path / "killed").wait() == 0
    assert content(tmp_path / "killed") == content(tmp_path / "undisturbed")


def test_a_preparation_that_is_killed_before_its_last_step_is_repeated(made, root, small_toy, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", Mock(side_effect=KeyboardInterrupt))
        made("toy")
    (manifest,) = (root / "prepared").glob(".*.staging/manifest.json")
    manifest.with_name(".manifest.json.123").touch()  # of a write that a full disk ended
    made("toy")
    assert verify(settings("toy"), root) == []


def test_a_folder_that_cannot_be_written(made, root):
    root.parent.mkdir(parents=True)
    root.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"paths\.data"):
        made("toy")


def test_a_checksum_is_computed_once_per_content(tmp_path, monkeypatch):
    path = write(tmp_path / "some\nfile", "hello")
    first = locate.cached_digest(path, "git")
    assert first == "git:ce013625030ba8dba906f756967f9e9ca394464a"
    monkeypatch.setattr(locate, "digest", lambda *_: pytest.fail("hashed again"))
    assert locate.cached_digest(path, "git") == first
    monkeypatch.undo()
    write(path, "other")
    assert locate.cached_digest(path, "git") != first
