"""The steps from raw lines to a prepared folder: tokenise, split, lower-case, segment, binarise, manifest."""

import importlib.metadata
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ln_repro.corpus.base import Arranged, Corpus, Found
from ln_repro.corpus.bpe import learn, segment_lines
from ln_repro.corpus.download import Report
from ln_repro.corpus.prepared import MANIFEST, Prepared, as_text, describe, measure
from ln_repro.corpus.text import Splits, length, lower, pick, write_lines
from ln_repro.corpus.tokenise import tokenise_lines
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data
from ln_repro.system.files import write_atomically

T = TypeVar("T")


def build(
    corpus: Corpus,
    data: Data,
    found: Found,
    folder: Path,
    identity: Mapping[str, Any],
    binarise: Callable[[Path, Path, str, str], None],
    report: Report,
    learnt: Prepared | None = None,
) -> None:
    """Prepare a corpus in a staging folder and rename it to ``folder`` when it is complete.

    The caller must hold the lock of ``folder``; an existing staging folder is a remnant of a crash.

    Args:
        corpus: the corpus.
        data: its settings.
        found: its raw files.
        folder: the destination.
        identity: the first part of the manifest.
        binarise: see `ln_repro.corpus.prepare.Binarise`.
        report: receives messages for the user.
        learnt: a prepared corpus whose merges and dictionary are used instead of new ones.
    """
    staging = folder.with_name(f".{folder.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        facts = _fill(corpus, data, found, staging, binarise, report, learnt)
        entropy = measure(staging, data.name, data.target_lang)
        versions = {name: importlib.metadata.version(name) for name in ("sacremoses", "subword-nmt")}
        manifest = {**identity, **facts, "entropy": entropy, "versions": versions, "files": describe(staging)}
        write_atomically(staging / MANIFEST, as_text(manifest))
        if folder.exists():  # damaged, or it would have been used
            shutil.rmtree(folder)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _fill(
    corpus: Corpus,
    data: Data,
    found: Found,
    staging: Path,
    binarise: Callable[[Path, Path, str, str], None],
    report: Report,
    learnt: Prepared | None,
) -> dict[str, Any]:
    """Write raw/, text/, bpe/ and bin/; return the part of the manifest that describes them."""
    arranged = _words(corpus, data, found, report)
    for remark in arranged.remarks:
        report(remark)
    text = _map_sides(arranged.text, lambda lines: [lower(line) for line in lines]) if data.lowercase else arranged.text
    _write(staging / "raw", {split: sides for split, sides in arranged.raw.items() if split != "train"})
    if data.only == "test":
        _check(corpus, data, arranged.raw, text)
        _write(staging / "text", text)
        return _facts(text, {}, arranged.remarks)
    bpe, codes = _segment(text, data, report, learnt)
    kept = corpus.keep(bpe["train"])
    raw = arranged.raw
    if kept is not None:
        report(f"cleaning: {len(kept)} of {length(bpe['train'])} training pairs kept")
        text["train"], bpe["train"] = pick(text["train"], kept), pick(bpe["train"], kept)
        raw = {**raw, "train": pick(raw["train"], kept)}
    _check(corpus, data, raw, text)
    _write(staging / "text", text)
    _write(staging / "bpe", bpe)
    if codes:
        (staging / "bpe" / "codes").write_text(codes, encoding="utf-8")
    if learnt:
        shutil.copyfile(learnt.dictionary, staging / "bpe" / "dict.txt")  # read by the binariser
    report("binarising")
    (staging / "bin").mkdir()
    binarise(staging / "bpe", staging / "bin", data.source_lang, data.target_lang)
    facts = _facts(text, bpe, arranged.remarks) | ({"vocabulary": learnt.vocabulary} if learnt else {})
    _compare_tokens(corpus, data, facts, report)
    return facts


def _words(corpus: Corpus, data: Data, found: Found, report: Report) -> Arranged:
    """Return the splits, tokenised and cleaned."""
    raw = corpus.read(data, found)
    report(f"tokenising {sum(length(sides) for sides in raw.values())} pairs")
    text: Splits = {
        split: {
            side: tokenise_lines(lines, corpus.language(side), corpus.style(split)) for side, lines in sides.items()
        }
        for split, sides in raw.items()
    }
    return corpus.arrange(raw, text)


def _map_sides(splits: Splits, function: Callable[[list[str]], T]) -> dict[str, Mapping[str, T]]:
    """Apply a function to each side of each split."""
    return {split: {lang: function(lines) for lang, lines in sides.items()} for split, sides in splits.items()}


def _segment(text: Splits, data: Data, report: Report, learnt: Prepared | None) -> tuple[Splits, str]:
    """Return the splits in subwords and the merge table, which is learnt on both training sides unless given."""
    if learnt:
        codes = learnt.codes
    elif data.bpe_merges:
        report(f"learning {data.bpe_merges} byte-pair merges")
        languages = dict.fromkeys((data.source_lang, data.target_lang))  # monolingual text has one side
        codes = learn((text["train"][lang] for lang in languages), data.bpe_merges)
    else:
        codes = ""
    if not codes:
        return dict(text), ""
    report("segmenting")
    return _map_sides(text, lambda lines: segment_lines(lines, codes)), codes


def _check(corpus: Corpus, data: Data, raw: Splits, text: Splits) -> None:
    """Check the number of pairs, and that no line is empty.

    Raises:
        UserError: the number of pairs is unexpected, or a line has no text.
    """
    for split, sides in text.items():
        one = "sentence pair" if len(sides) > 1 else "sentence"
        expected = corpus.expected(data).get(split)
        if expected is not None and length(sides) != expected:
            raise UserError(
                f"{corpus.name}: {split}: expected {expected} pairs, found {length(sides)}; the raw text "
                f"is not the published one; download it again from {corpus.origin}"
            )
        if not length(sides):
            raise UserError(f"{corpus.name}: {split}: no {one} is left after cleaning; give more text")
        for lang, lines in sides.items():
            if "" in lines:
                line = raw[split][lang][lines.index("")]
                raise UserError(
                    f"{corpus.name}: {split}.{lang}: the line {line!r} has no printable text; remove the {one}"
                )


def _write(folder: Path, splits: Splits) -> None:
    """Write each side of each split."""
    for split, sides in splits.items():
        for lang, lines in sides.items():
            write_lines(folder / f"{split}.{lang}", lines)


def _tokens(lines: list[str]) -> int:
    """Return the number of tokens, without end marks."""
    return sum(line.count(" ") + 1 for line in lines)


def _facts(text: Splits, bpe: Splits, remarks: tuple[str, ...]) -> dict[str, Any]:
    """Return the numbers of pairs, words, subwords and types for the manifest."""
    types = Counter(token for lines in bpe.get("train", {}).values() for line in lines for token in line.split())
    return {
        "pairs": {split: length(text[split]) for split in ("train", "valid", "test") if split in text},
        "words": _map_sides(text, _tokens),
        "tokens": _map_sides(bpe, _tokens),
        "vocabulary": len(types),
        "remarks": list(remarks),
    }


def _compare_tokens(corpus: Corpus, data: Data, facts: dict[str, Any], report: Report) -> None:
    """Report where the number of segmented training tokens differs from the reference preparation."""
    for lang, expected in corpus.reference_tokens(data).items():
        found = facts["tokens"]["train"][lang] + facts["pairs"]["train"]
        if found != expected:
            remark = f"{corpus.name}: {lang}: {found} training tokens, the reference preparation has {expected}"
            facts["remarks"].append(remark)
            report(remark)
