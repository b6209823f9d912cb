"""Prepare corpora: verify, tokenise, segment and binarise them, once per fingerprint.

A prepared corpus is a folder whose manifest is written last.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ln_repro.corpus.base import STEPS
from ln_repro.corpus.locate import cached_digest, locate, locked, present
from ln_repro.corpus.registry import CORPORA, corpus_of
from ln_repro.corpus.text import stored_lines
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data
from ln_repro.system.files import Json, explained, read_json, sha256
from ln_repro.system.progress import Report, plural

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
    published: bool = True  # whether claims are judged from runs on it, see `_published`

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


def fingerprint(data: Data, root: Path) -> str | None:
    """Return the checksum, ``sha256:<hex>``, of the recipe and the raw files.

    Raw files with a known digest need not exist; the result is None if another one is missing.
    """
    corpus = corpus_of(data)
    corpus.check(data)
    if data.source is not None and not data.source.exists():
        raise UserError(f"data.source: {data.source}: there is no such file or folder")
    files = present(corpus, data, root)
    checksums = {}
    for raw in corpus.inputs(data):
        if raw.digest is not None and data.checksum == "strict":
            checksums[raw.name] = raw.digest
        elif raw.name in files:
            checksums[raw.name] = cached_digest(files[raw.name], raw.kind)
        else:
            return None
    recipe = {"corpus": corpus.revision, "steps": STEPS, "only": data.only, **data.recipe()}
    text = json.dumps([recipe, checksums], sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _published(data: Data, root: Path, text: Prepared) -> bool:
    """Return whether a corpus is the published one or has a part of its training text.

    True if that is not known, if its publisher updates it, and for the user's own text.
    """
    corpus = corpus_of(data)
    if corpus.own or corpus.renewed:
        return True
    source = None if corpus is CORPORA[data.name] else data.source  # another form of the published text
    original = fingerprint(data.model_copy(update={"source": source, "checksum": "strict"}), root)
    return text.train_percent is not None and original in (None, text.fingerprint)


def prepare(data: Data, root: Path, report: Report) -> Prepared:
    """Return the prepared corpus; prepare it first if necessary, also if its content has changed since.

    Raises:
        UserError: raw files are missing, damaged, or not the published ones.
        LnReproError: the disk is full.
    """
    with explained(root, "paths.data"):
        expected = fingerprint(data, root)
        ready = opened(_folder(data, root, expected), expected, check=True) if expected else None
        ready = ready or _built(data, root, report)
    ready = replace(ready, published=_published(data, root, ready))
    pairs, whole = ready.pairs.get("train", 0), CORPORA[data.name].pairs.get("train", 0)
    if ready.train_percent is None and data.checksum == "strict":
        raise UserError(
            f"{data.name}: train: {pairs:,} pairs, which by the number of pairs and subwords are neither the "
            f"{whole:,} published ones nor a part of them; use them as a different corpus with data.checksum=record"
        )
    if not ready.published:
        report(f"{data.name}: not the published text, so no claim is judged from runs on it")
    elif ready.train_percent != 100:
        report(f"{data.name}: {ready.train_percent} % of the training text, {pairs:,} of {whole:,} pairs")
    return ready


def _built(data: Data, root: Path, report: Report) -> Prepared:
    """Return the corpus, prepared by this process or, in the meantime, by another one."""
    corpus = corpus_of(data)
    files = locate(corpus, data, root, report)
    known = fingerprint(data, root)
    assert known is not None  # every raw file exists
    folder = _folder(data, root, known)
    with locked(folder):
        if ready := opened(folder, known, check=True):
            return ready
        if folder.exists():
            report(f"{folder}: its content has changed; preparing {data.name} again")
        from ln_repro.corpus.build import Build  # slow to import

        Build(corpus, data, files, report, _learnt(data, root)).into(folder, known)
        ready = opened(folder, known)
        assert ready is not None
        return ready


def verify(data: Data, root: Path) -> list[str]:
    """Return the differences between a prepared corpus and its manifest.

    Raises:
        UserError: it was not prepared, or the raw files in ``data.source`` are not the published ones.
    """
    known = fingerprint(data, root)
    if data.source is not None:
        locate(corpus_of(data), data, root, lambda _: None)  # checks the raw files
    # without raw files, check every preparation of this corpus
    folders = [_folder(data, root, known)] if known else prepared_folders(root, data.name, data.only)
    if not folders or not folders[0].exists():
        raise UserError(
            f"{data.name}: not prepared under {root}; run `ln-repro data prepare` with the same arguments first"
        )
    return [problem for folder in folders for problem in mismatches(folder)]


def _learnt(data: Data, root: Path) -> Prepared | None:
    """Return the corpus whose merges and dictionary are to be used; None if they are to be learnt."""
    if data.vocabulary is None:
        return None
    for folder in root.glob("prepared/*"):
        if (ready := opened(folder, data.vocabulary)) and ready.vocabulary:
            return ready
    raise UserError(
        f"data.vocabulary: no corpus {data.vocabulary} is prepared under {root}; prepare the corpus of the run you "
        "start from, or set paths.data to its folder"
    )


def _folder(data: Data, root: Path, known: str) -> Path:
    return folder_of(root, f"{data.name}-test" if data.only else data.name, known)


def folder_of(root: Path, name: str, fingerprint: str) -> Path:
    """Return the folder of a whole corpus, complete or not."""
    return root / "prepared" / f"{name}-{fingerprint.removeprefix('sha256:')[:12]}"


def prepared_folders(root: Path, name: str, only: str | None = None) -> list[Path]:
    """Return the folders of every complete preparation of a corpus, or of its test set only."""
    test = "test-" if only else ""
    pattern = f"prepared/{name}-{test}{12 * '[0-9a-f]'}/{MANIFEST}"
    return [manifest.parent for manifest in sorted(root.glob(pattern))]


def opened(folder: Path, fingerprint: str, check: bool = False) -> Prepared | None:
    """Return the corpus in ``folder``; None if it is missing or incomplete or has another fingerprint.

    With ``check``, the content of the files that a run reads, all except the text of the training set, is checked, too.
    """
    manifest = read_json(folder / MANIFEST, dict)
    stored = {field.name for field in fields(Prepared)} - {"folder", "published"}
    if manifest is None or manifest.get("fingerprint") != fingerprint or not stored <= manifest.keys():
        return None
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            return None
        if check and not name.startswith(("text/train.", "bpe/train.")) and sha256(path) != entry["sha256"]:
            return None
    return Prepared(folder=folder, **{name: manifest[name] for name in stored})


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
    """Return a message on the files that are not as in the manifest, if there are some."""
    manifest = read_json(folder / MANIFEST, dict) or {}
    if "files" not in manifest:
        return [f"{folder / MANIFEST}: unreadable; delete {folder} and prepare again"]
    expected, present = manifest["files"], describe(folder)
    names = sorted(expected.keys() | present.keys())
    different = [name for name in names if expected.get(name) != present.get(name)]
    number = plural(len(different), "file")
    return [f"{folder}: {number} missing, changed or new, first {different[0]}; prepare it again"] if different else []
