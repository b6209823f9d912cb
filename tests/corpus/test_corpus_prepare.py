"""Preparation: caching, locks, interruption, verification and error messages."""

import errno
import json
import os
import subprocess
import sys

import pytest

from ln_repro.corpus.prepare import fingerprint, prepare, prepared_folders, verify
from ln_repro.errors import LnReproError, UserError
from tests.corpus.conftest import settings, write


def test_the_whole_corpus_or_only_the_test_set(made, root, small_toy):
    prepared = made("toy")
    assert dict(prepared.pairs) == {"train": 200, "valid": 20, "test": 20}
    manifest = json.loads((prepared.folder / "manifest.json").read_text())
    assert manifest["fingerprint"] == prepared.fingerprint == fingerprint(settings("toy"), root)
    assert set(manifest["versions"]) == {"sacremoses", "subword-nmt"} and manifest["vocabulary"] > 100
    assert prepared.sources("test")[0][0].isupper()
    assert prepared.tokenised("test")[0] == prepared.references("test")[0].lower().replace(".", " .")
    assert prepare(settings("toy"), root, lambda line: pytest.fail("prepared twice")) == prepared
    test = made("toy", only="test")
    assert dict(test.pairs) == {"test": 20} and test.entropy == {}
    assert test.references("test") == prepared.references("test")
    assert sorted(path.name for path in test.folder.iterdir()) == ["manifest.json", "raw", "text"]
    assert verify(settings("toy"), root) == verify(settings("toy", only="test"), root) == []
    assert prepared_folders(root, "toy") == [prepared.folder] and not prepared_folders(root, "text")


def test_settings_that_decide_the_text_decide_the_fingerprint(root):
    changes = [{}, {"lowercase": False}, {"bpe_merges": 9}, {"only": "test"}]
    changes += [{"source_lang": "en", "target_lang": "de"}]
    prints = {fingerprint(settings("toy", **change), root) for change in changes}
    assert len(prints) == len(changes)


def test_content_that_was_altered_in_place_or_lost_is_found_and_prepared_again(made, root, small_toy):
    folder, said = made("toy").folder, list[str]()
    path = folder / "bin" / "train.de-en.de.bin"
    content, status = path.read_bytes(), path.stat()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    (folder / "raw" / "valid.en").unlink()
    assert verify(settings("toy"), root)[0].startswith(f"{folder}: 2 files missing, changed or new, first bin/train.")
    prepare(settings("toy"), root, said.append)
    assert path.read_bytes() == content and "its content has changed; preparing toy again" in said[0]
    assert verify(settings("toy"), root) == []


def test_two_processes_at_once(root, tmp_path):
    for lang in ("de", "en"):
        write(tmp_path / f"text.{lang}", *(f"word{number} {number % 7} xy" for number in range(1_000)))
    command = [sys.executable, "-m", "ln_repro.cli", "data", "prepare", "data=files", "data.bpe_merges=500"]
    command += [f'data.{split}="{tmp_path / "text"}"' for split in ("train", "valid", "test")]
    place = {**os.environ, "LN_REPRO_DATA": str(root)}
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=place) for _ in range(2)]
    said = ["tokenising" in process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(said) == [False, True]  # one prepared, the other waited
    assert len(list((root / "prepared").glob("[!.]*"))) == 1


def test_nothing_remains_of_a_preparation_that_fails_or_is_killed(made, root, small_toy):
    def full(line: str) -> None:
        if line.startswith("binarising"):
            raise OSError(errno.ENOSPC, "No space left on device", "x")

    with pytest.raises(LnReproError, match=r"the disk is full.*paths\.data"):
        prepare(settings("toy"), root, full)
    assert [path.name for path in root.glob("prepared/*") if not path.name.endswith(".lease")] == []
    with pytest.raises(UserError, match=r"(?s)not prepared.*`ln-repro data prepare` with the same arguments"):
        verify(settings("toy"), root)
    folder = made("toy").folder
    folder.rename(folder.with_name(f".{folder.name}.staging"))  # as a kill leaves it, but for what is missing
    made("toy")
    assert verify(settings("toy"), root) == [] and not list(root.glob("prepared/.*.staging"))
