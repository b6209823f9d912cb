"""Preparation: caching, locks, interruption, verification and error messages."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from corpus_helpers import settings, write

from ln_repro.corpus.prepare import fingerprint, listing, prepare, verify
from ln_repro.errors import LnReproError, UserError
from ln_repro.system.subprocesses import environment

PREPARE = """
import sys
from pathlib import Path
from ln_repro.corpus.prepare import prepare
from ln_repro.experiment.data import Data

files = dict.fromkeys(("train", "valid", "test"), Path(sys.argv[1]))
prepare(Data(name="files", bpe_merges=500, **files), Path(sys.argv[2]), print)
"""


def listed(root: Path) -> list[list[str]]:
    """Return the folders of each corpus that is prepared."""
    return [row["folders"] for row in listing(root) if row["folders"]]


def test_the_whole_folder(made, root, small_toy):
    prepared = made("toy")
    assert dict(prepared.pairs) == {"train": 200, "valid": 20, "test": 20}
    manifest = json.loads((prepared.folder / "manifest.json").read_text())
    assert manifest["fingerprint"] == prepared.fingerprint == fingerprint(settings("toy"), root)
    assert set(manifest["versions"]) == {"sacremoses", "subword-nmt"}
    assert manifest["files"]["text/test.de"]["lines"] == 20
    assert manifest["vocabulary"] > 100
    assert prepared.sources("test")[0][0].isupper()
    assert prepared.tokenised("test")[0] == prepared.references("test")[0].lower().replace(".", " .")
    assert not (prepared.folder / "raw" / "train.de").exists()
    assert prepare(settings("toy"), root, lambda line: pytest.fail("prepared twice")) == prepared
    assert verify(settings("toy"), root) == [] and listed(root) == [[str(prepared.folder)]]


def test_settings_that_decide_the_text_decide_the_fingerprint(root):
    changes = [{}, {"lowercase": False}, {"bpe_merges": 9}, {"only": "test"}]
    changes += [{"source_lang": "en", "target_lang": "de"}]
    prints = {fingerprint(settings("toy", **change), root) for change in changes}
    assert len(prints) == len(changes)


def test_only_the_test_side(made, root, small_toy):
    full, test = made("toy"), made("toy", only="test")
    assert dict(test.pairs) == {"test": 20} and test.entropy == {}
    assert test.references("test") == full.references("test")
    assert sorted(path.name for path in test.folder.iterdir()) == ["manifest.json", "raw", "text"]
    assert verify(settings("toy", only="test"), root) == []
    assert listed(root) == [[str(full.folder)]]


def test_content_that_was_altered_in_place_or_lost_is_found_and_prepared_again(made, root, small_toy):
    folder, said = made("toy").folder, list[str]()
    path = folder / "bin" / "train.de-en.de.bin"
    content, status = path.read_bytes(), path.stat()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    (folder / "raw" / "valid.en").unlink()
    altered, lost = verify(settings("toy"), root)
    assert altered.startswith(f"{path}: expected ") and lost.endswith("found no such file")
    prepare(settings("toy"), root, said.append)
    assert path.read_bytes() == content and "its content has changed; preparing toy again" in said[0]
    assert verify(settings("toy"), root) == []


def test_two_processes_at_once(root, tmp_path):
    for lang in ("de", "en"):
        write(tmp_path / f"text.{lang}", *(f"word{number} {number % 7} xy" for number in range(1_000)))
    command = [sys.executable, "-c", PREPARE, str(tmp_path / "text"), str(root)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(map(bool, said)) == [False, True]  # one prepared, the other waited
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
