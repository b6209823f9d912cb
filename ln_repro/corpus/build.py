"""The steps from raw lines to a prepared folder: tokenise, split, lower-case, segment, binarise, manifest.

The text passes in shards, most of whose work is done in several processes (`ln_repro.corpus.shards`). Results are kept
in the staging folder, so that an interrupted preparation is continued; memory does not grow with the text, but with
its number of word types.
"""

import importlib.metadata
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ln_repro.corpus import shards
from ln_repro.corpus.base import STEPS, Corpus, Found
from ln_repro.corpus.binary import SPECIAL, Writer, dictionary
from ln_repro.corpus.bpe import learn
from ln_repro.corpus.locate import cached_digest
from ln_repro.corpus.ngram import entropies
from ln_repro.corpus.prepared import MANIFEST, Prepared, describe
from ln_repro.corpus.shards import Shard
from ln_repro.corpus.text import Pair
from ln_repro.corpus.tokenise import LANGUAGES
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data, base_code
from ln_repro.experiment.tasks import LABELLED
from ln_repro.system.files import write_atomically
from ln_repro.system.pool import Result, apply
from ln_repro.system.progress import Report, progress

WORTH_IT = 60_000
"""Minimum number of pairs for which starting worker processes saves time."""
NAMED = 5
"""Maximum number of training pairs left out whose numbers are reported."""


def build(
    corpus: Corpus,
    data: Data,
    found: Found,
    folder: Path,
    fingerprint: str,
    report: Report,
    learnt: Prepared | None,
) -> None:
    """Prepare a corpus in a staging folder and rename it to ``folder``, which must be locked, when it is complete.

    The shards in an existing staging folder are used, and the merges and the dictionary of ``learnt`` if it is given.
    """
    staging = folder.with_name(f".{folder.name}.staging")
    work = staging / f"shards-{shards.SIZE}"
    work.mkdir(parents=True, exist_ok=True)
    for path in staging.iterdir():
        if path.is_file():  # a manifest, complete or not
            path.unlink()
        elif path != work:
            shutil.rmtree(path)
    try:
        facts = Build(corpus, data, found, work, report, learnt).run(staging)
    except UserError:
        shutil.rmtree(staging)  # the same command cannot succeed with these raw files
        raise
    sides = (staging / "bpe" / f"{split}.{data.target_lang}" for split in ("train", "valid"))
    entropy = {} if data.only or data.name in LABELLED else entropies(*sides)
    shutil.rmtree(work)
    versions = {name: importlib.metadata.version(name) for name in ("sacremoses", "subword-nmt")}
    manifest = {
        "name": data.name,
        "fingerprint": fingerprint,
        "source_lang": data.source_lang,
        "target_lang": data.target_lang,
        "recipe": data.recipe() | {"only": data.only, "corpus_revision": corpus.revision, "steps_revision": STEPS},
        "origin": corpus.origin,
        "licence": corpus.licence,
        "raw": {name: cached_digest(path) for name, path in found.items()},
        **facts, "entropy": entropy, "versions": versions, "files": describe(staging),
    }  # fmt: skip
    write_atomically(staging / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    if folder.exists():  # damaged, or it would have been used
        shutil.rmtree(folder)
    staging.rename(folder)


@dataclass
class Build:
    """A preparation with its settings and raw files; ``work`` is the folder of its shards, ``learnt`` as in `build`."""

    corpus: Corpus
    data: Data
    found: Found
    work: Path
    report: Report
    learnt: Prepared | None

    def run(self, staging: Path) -> dict[str, Any]:
        """Write raw/, text/, bpe/ and bin/; return the part of the manifest that describes them."""
        self.counts = {split: sum(1 for _ in pairs) for split, pairs in self._read().items()}  # checks the raw text
        if self.corpus.own:  # those of others may be split later
            self._require_text(self.counts)
        self.shards = [
            Shard(self.corpus, self.data, self.found, self.work, split, first, min(shards.SIZE, count - first))
            for split, count in sorted(self.counts.items(), key=lambda item: item[0] == "train")  # train last
            for first in range(0, count, shards.SIZE)
        ]
        if codes := self.corpus.codes(self.data, self.found):
            write_atomically(self.work / "codes", codes)
        for lang in dict.fromkeys(self.corpus.sides(self.data).values()):
            if base_code(lang) not in LANGUAGES:
                self.report(f"{self.corpus.name}: no tokeniser rules are known for {lang}: those of English are used")
        for _ in self._over(shards.tokenise, self._raw(), "tokenising"):
            pass
        if not self.data.only:
            self._codes()
        remarks: list[str] = []
        numbers, left_out = shards.Numbers(), list[int]()
        for found, without in self._over(shards.segment, self._routed(remarks.append), "cleaning and segmenting"):
            numbers.update(found)
            left_out += without[: NAMED + 1 - len(left_out)]
        for remark in remarks:
            self.report(remark)
        if count := numbers["left out",]:
            which = ", ".join([*map(str, left_out[:NAMED]), *["..."] * (count > NAMED)])
            self.report(
                f"{self.corpus.name}: {count} of {count + numbers['pairs', 'train']} training pairs left out, "
                f"{self.corpus.cleaning}: number{'s' * (count > 1)} {which}"
            )
        self._check(numbers)
        types = {side: Counter[str]() for side in self.corpus.sides(self.data)}
        for (kind, *rest), number in numbers.items():
            if kind == "subword":
                side, token = rest
                types[side][token] = number
        self._write(staging, numbers, types)
        return {
            "pairs": {split: numbers["pairs", split] for split in ("train", "valid", "test") if split in self.counts},
            "words": self._table(numbers, "text"),
            "tokens": {} if self.data.only else self._table(numbers, "bpe"),
            "vocabulary": self.learnt.vocabulary if self.learnt else len(set().union(*types.values())),
            "remarks": remarks,
            "train_percent": self._train_percent(numbers) if "train" in self.counts else 100,
            "detokenised": [split for split in ("valid", "test") if self.corpus.style(split).segmented],
        }

    def _train_percent(self, numbers: shards.Numbers) -> int | None:
        """Return `Corpus.train_percent` of the prepared text."""
        pairs = numbers["pairs", "train"]
        tokens = {side: numbers["bpe", "train", side] + pairs for side in self.corpus.sides(self.data)}
        return self.corpus.train_percent(pairs, tokens)

    def _read(self) -> dict[str, Iterator[Pair]]:
        return {split: iter(pairs) for split, pairs in self.corpus.read(self.data, self.found).items()}

    def _over(self, function: Callable[[Shard], Result], items: Iterator[Shard], step: str) -> Iterator[Result]:
        """Apply a function to shards, in several processes if there is much text, and show the progress."""
        total = sum(self.counts.values())
        with progress(step, total, self.report) as advance:
            results = apply(function, items, total >= WORTH_IT)
            for shard, result in zip(self.shards, results, strict=True):
                yield result
                advance(shard.size)

    def _raw(self) -> Iterator[Shard]:
        """Yield the shards with their raw pairs."""
        pairs = self._read()
        for shard in self.shards:
            yield replace(shard, pairs=tuple(itertools.islice(pairs[shard.split], shard.size)))

    def _routed(self, note: Callable[[str], None]) -> Iterator[Shard]:
        """Yield the tokenised shards with the splits of their pairs; ``note`` receives the remarks of the corpus."""
        routes = self.corpus.assign(self._training_pairs, note) if "train" in self.counts else None
        for shard in self.shards:
            if routes and shard.split == "train":
                yield replace(shard, routes=tuple(itertools.islice(routes, shard.size)))
            else:
                yield shard
        if routes:
            next(routes, None)  # its remarks come at its end

    def _training_pairs(self) -> Iterator[Pair]:
        """Yield the tokenised pairs of the training set."""
        for shard in self.shards:
            if shard.split == "train":
                yield from zip(*shard.tokenised()[1], strict=True)

    def _codes(self) -> None:
        """Write the merge table, which is learnt on both training sides unless it is given or comes with the text.

        Without segmentation, there is no file.
        """
        path = self.work / "codes"
        if path.exists():
            return
        codes = self.learnt.codes if self.learnt else ""
        if not self.learnt and self.data.bpe_merges:
            words: Counter[str] = Counter()
            for found in self._over(shards.count_words, self._routed(lambda remark: None), "counting words of"):
                words.update(found)
            self.report(f"learning {self.data.bpe_merges} byte-pair merges from {len(words)} distinct words")
            codes = learn(words, self.data.bpe_merges)
        if codes:
            write_atomically(path, codes)

    def _check(self, numbers: shards.Numbers) -> None:
        """Raise `UserError` if the number of pairs of a split is unexpected."""
        expected = self.corpus.pairs if self.data.checksum == "strict" else {}
        for split in self.counts:
            count = numbers["pairs", split]
            if count != expected.get(split, count):
                raise UserError(
                    f"{self.corpus.name}: {split}: expected {expected[split]} pairs, found {count}; the raw text "
                    f"is not the published one; download it again from {self.corpus.origin}"
                )
        self._require_text({split: numbers["pairs", split] for split in self.counts})

    def _require_text(self, counts: Mapping[str, int]) -> None:
        """Raise `UserError` if a split has no pairs."""
        if empty := [split for split, count in counts.items() if not count]:
            one = "sentence pair" if len(self.corpus.sides(self.data)) > 1 else "sentence"
            raise UserError(f"{self.corpus.name}: {empty[0]}: no {one} is left after cleaning; give more text")

    def _write(self, staging: Path, numbers: shards.Numbers, types: Mapping[str, Counter[str]]) -> None:
        """Write the prepared files from the segmented shards and the frequencies of their subwords by side."""
        for kind in ("raw", "text") if self.data.only else ("raw", "text", "bpe", "bin"):
            (staging / kind).mkdir()
        both = dict.fromkeys((self.data.source_lang, self.data.target_lang))
        total = sum((types[side] for side in both), Counter[str]())
        words = self.learnt.dictionary.read_text(encoding="utf-8") if self.learnt else dictionary(total)
        (self.work / "dictionary").write_text(words, encoding="utf-8")
        writers = {}
        if not self.data.only:
            if (self.work / "codes").exists():
                shutil.copy(self.work / "codes", staging / "bpe" / "codes")
            if self.learnt:
                (staging / "bpe" / "dict.txt").write_text(words, encoding="utf-8")
            for side in both:
                (staging / "bin" / f"dict.{side}.txt").write_text(words, encoding="utf-8")
                for split in self.counts:
                    prefix = staging / "bin" / f"{split}.{self.data.source_lang}-{self.data.target_lang}.{side}"
                    writers[split, side] = Writer(prefix, numbers["pairs", split], words.count("\n") + SPECIAL)
        for text, binary in self._over(shards.output, iter(self.shards), "binarising"):
            for name, content in text.items():
                with (staging / name).open("ab") as file:
                    file.write(content)
            for key, sentences in binary.items():
                writers[key].write(*sentences)

    def _table(self, numbers: shards.Numbers, kind: str) -> dict[str, dict[str, int]]:
        """Return the numbers of words or subwords by split and side."""
        return {
            split: {side: numbers[kind, split, side] for side in self.corpus.sides(self.data)} for split in self.counts
        }
