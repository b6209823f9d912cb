"""Prepared corpora on disk: a folder whose manifest is written last."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ln_repro.corpus.text import stored_lines
from ln_repro.system.files import Json, read_json, sha256

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Prepared:
    """A prepared corpus."""

    folder: Path
    name: str
    fingerprint: str  # digest of recipe and raw files
    source_lang: str
    target_lang: str
    pairs: Mapping[str, int]  # number of sentence pairs by split
    vocabulary: int  # number of types of the joint dictionary; 0 if only the test split was prepared
    entropy: Mapping[str, float]  # `ngram.entropies` of the target side; empty for classification or the test split
    train_percent: int | None  # of the published training text; None if it is not a part of it
    detokenised: Sequence[str]  # splits whose untokenised lines were made from the tokenised ones
    content: str  # ``sha256:<hex>`` of the resulting text

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def dictionary(self) -> Path:
        """Return the file of the joint dictionary."""
        return self.bin / f"dict.{self.target_lang}.txt"

    @property
    def codes(self) -> str:
        """Return the merge table; empty if words are not segmented."""
        path = self.folder / "bpe" / "codes"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def references(self, split: str) -> list[str]:
        """Return the untokenised target lines of valid or test."""
        return stored_lines(self.folder / "raw" / f"{split}.{self.target_lang}")

    def sources(self, split: str) -> list[str]:
        """Return the untokenised source lines of valid or test."""
        return stored_lines(self.folder / "raw" / f"{split}.{self.source_lang}")

    def tokenised(self, split: str) -> list[str]:
        """Return the tokenised target lines before segmentation."""
        return stored_lines(self.folder / "text" / f"{split}.{self.target_lang}")


def opened(folder: Path, fingerprint: str, check: bool = False) -> Prepared | None:
    """Return the corpus in ``folder``; None if it is missing or incomplete or has another fingerprint.

    With ``check``, the content of the files that a run reads, all except the text of the training set, is checked, too.
    """
    manifest = read_json(folder / MANIFEST, dict)
    if manifest is None or manifest["fingerprint"] != fingerprint:
        return None
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            return None
        if check and not name.startswith(("text/train.", "bpe/train.")) and sha256(path) != entry["sha256"]:
            return None
    text = {name: entry["sha256"] for name, entry in manifest["files"].items() if not name.startswith("bin/")}
    content = hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()
    stored = {field.name: manifest[field.name] for field in fields(Prepared) if field.name in manifest}
    return Prepared(folder=folder, content=f"sha256:{content}", **stored)


def describe(folder: Path) -> dict[str, Json]:
    """Return checksum, bytes and, for text, number of lines of every file, by its path in ``folder``."""
    entries: dict[str, Json] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST):
        name = path.relative_to(folder).as_posix()
        entries[name] = {"sha256": sha256(path), "bytes": path.stat().st_size}
        if not name.startswith("bin/"):
            with path.open("rb") as file:
                entries[name]["lines"] = sum(1 for _ in file)
    return entries


def mismatches(folder: Path) -> list[str]:
    """Return one message for each file that is not as in the manifest."""
    manifest = read_json(folder / MANIFEST, dict)
    if manifest is None:
        return [f"{folder / MANIFEST}: unreadable; delete {folder} and prepare again"]
    expected, present = manifest["files"], describe(folder)
    return [
        f"{folder / name}: expected {expected.get(name, 'no such file')}, found {present.get(name, 'no such file')}"
        for name in sorted(expected.keys() | present.keys())
        if expected.get(name) != present.get(name)
    ]
