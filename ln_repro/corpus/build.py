"""The steps from raw lines to a prepared folder: tokenise, split, lower-case, segment, binarise, manifest.

The text passes in shards, most of whose work is done in several processes (`ln_repro.corpus.shards`); memory does not
grow with the text, but with its number of word types.
"""

import importlib.metadata
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ln_repro.corpus import shards
from ln_repro.corpus.base import STEPS, Corpus, RawFiles
from ln_repro.corpus.binary import binarise, dictionary, token_ids
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
from ln_repro.system.files import Json, write_atomically
from ln_repro.system.pool import Result, apply
from ln_repro.system.progress import Report, progress

WORTH_IT = 60_000
"""Minimum number of pairs for which starting worker processes saves time."""
NAMED = 5
"""Maximum number of training pairs left out whose numbers are reported."""


def build(
    corpus: Corpus,
    data: Data,
    files: RawFiles,
    folder: Path,
    fingerprint: str,
    report: Report,
    learnt: Prepared | None,
) -> None:
    """Prepare a corpus in a staging folder and rename it to ``folder``, which must be locked, when it is complete.

    The merges and the dictionary are those of ``learnt`` if it is given.
    """
    staging = folder.with_name(f".{folder.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
    with ExitStack() as on_failure:
        on_failure.callback(shutil.rmtree, staging, ignore_errors=True)
        (staging / "shards").mkdir(parents=True)
        facts = Build(corpus, data, files, staging, report, learnt).run()
        shutil.rmtree(staging / "shards")
        manifest = {
            "name": data.name,
            "fingerprint": fingerprint,
            "source_lang": data.source_lang,
            "target_lang": data.target_lang,
            "recipe": data.recipe() | {"only": data.only, "corpus_revision": corpus.revision, "steps_revision": STEPS},
            "origin": corpus.origin,
            "licence": corpus.licence,
            "raw": {name: cached_digest(path) for name, path in files.items()},
            **facts,
            "versions": {name: importlib.metadata.version(name) for name in ("sacremoses", "subword-nmt")},
            "files": describe(staging),
        }
        write_atomically(staging / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        if folder.exists():  # damaged, or it would have been used
            shutil.rmtree(folder)
        staging.rename(folder)


@dataclass
class Build:
    """A preparation in the folder ``staging`` with its settings and raw files; ``learnt`` is as in `build`."""

    corpus: Corpus
    data: Data
    files: RawFiles
    staging: Path
    report: Report
    learnt: Prepared | None

    def run(self) -> Json:
        """Write raw/, text/, bpe/ and bin/; return the part of the manifest that describes them."""
        self.codes = self.staging / "shards" / "codes"
        self.counts = {split: sum(1 for _ in pairs) for split, pairs in self._read().items()}  # checks the raw text
        if self.corpus.own:  # those of others may be split later
            self._check(self.counts)
        self.shards = [
            Shard(self.corpus, self.data, self.files, self.codes.parent, split, first, min(shards.SIZE, count - first))
            for split, count in sorted(self.counts.items(), key=lambda item: item[0] == "train")  # train last
            for first in range(0, count, shards.SIZE)
        ]
        for lang in dict.fromkeys(self.corpus.sides(self.data).values()):
            if base_code(lang) not in LANGUAGES:
                self.report(f"{self.corpus.name}: no tokeniser rules are known for {lang}: those of English are used")
        if codes := self.corpus.codes(self.data, self.files) or (self.learnt.codes if self.learnt else ""):
            self.codes.write_text(codes, encoding="utf-8")
        for _ in self._over(shards.tokenise, self._raw(), "tokenising"):
            pass
        if self.data.bpe_merges and not (codes or self.learnt or self.data.only):
            self._learn_merges()
        pairs, subwords = self._segment()
        self._check(pairs)
        if not self.data.only:
            self._binarise(sum(subwords.values(), Counter[str]()))
        tokens = {side: counts.total() + pairs["train"] for side, counts in subwords.items()}
        target = [self.staging / "bpe" / f"{split}.{self.data.target_lang}" for split in ("train", "valid")]
        return {
            "pairs": {split: pairs[split] for split in ("train", "valid", "test") if split in self.counts},
            "vocabulary": self.learnt.vocabulary if self.learnt else len(set().union(*subwords.values())),
            "entropy": {} if self.data.only or self.data.name in LABELLED else entropies(*target),
            "train_percent": self.corpus.train_percent(pairs["train"], tokens) if "train" in self.counts else 100,
            "detokenised": [split for split in ("valid", "test") if self.corpus.style(split).segmented],
        }

    def _read(self) -> dict[str, Iterator[Pair]]:
        return {split: iter(pairs) for split, pairs in self.corpus.read(self.data, self.files).items()}

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

    def _learn_merges(self) -> None:
        """Learn merges from the words of the training set, and write their table unless it is empty."""
        words: Counter[str] = Counter()
        for counts in self._over(shards.count_words, self._routed(lambda remark: None), "counting words of"):
            words.update(counts)
        self.report(f"learning {self.data.bpe_merges} byte-pair merges from {len(words)} distinct words")
        if codes := learn(words, self.data.bpe_merges):
            self.codes.write_text(codes, encoding="utf-8")

    def _segment(self) -> tuple[Counter[str], dict[str, Counter[str]]]:
        """Write raw/, text/ and bpe/; return `Segmented.pairs` and `Segmented.subwords` of all shards."""
        pairs: Counter[str] = Counter()
        subwords = {side: Counter[str]() for side in self.data.languages}
        left_out: list[int] = []
        for kind in ("raw", "text") if self.data.only else ("raw", "text", "bpe"):
            (self.staging / kind).mkdir()
        for part in self._over(shards.segment, self._routed(self.report), "cleaning and segmenting"):
            pairs.update(part.pairs)
            left_out += part.left_out
            for side, counts in part.subwords.items():
                subwords[side].update(counts)
            for name, lines in part.lines.items():
                with (self.staging / name).open("a", encoding="utf-8", newline="\n") as file:
                    file.writelines(f"{line}\n" for line in lines)
        if count := len(left_out):
            which = ", ".join([*map(str, left_out[:NAMED]), *["..."] * (count > NAMED)])
            self.report(
                f"{self.corpus.name}: {count} of {count + pairs['train']} training pairs left out, "
                f"{self.corpus.cleaning}: number{'s' * (count > 1)} {which}"
            )
        return pairs, subwords

    def _check(self, pairs: Mapping[str, int]) -> None:
        """Raise `UserError` if a split has no pairs or not the number of the published one."""
        expected = self.corpus.pairs if self.data.checksum == "strict" else {}
        for split in self.counts:
            if pairs[split] != expected.get(split, pairs[split]):
                raise UserError(
                    f"{self.corpus.name}: {split}: expected {expected[split]} pairs, found {pairs[split]}; the raw "
                    f"text is not the published one; download it again from {self.corpus.origin}"
                )
            if not pairs[split]:
                what = "sentence pair" if self.corpus.parallel else "sentence"
                raise UserError(f"{self.corpus.name}: {split}: no {what} is left; {self.corpus.by_hand}")

    def _binarise(self, subwords: Counter[str]) -> None:
        """Write the merge table and the dictionary, that of ``learnt`` or the one of these subwords, and bin/."""
        bpe, bin_ = self.staging / "bpe", self.staging / "bin"
        bin_.mkdir()
        text = dictionary(subwords)
        if self.learnt:
            text = self.learnt.dictionary.read_text(encoding="utf-8")
            (bpe / "dict.txt").write_text(text, encoding="utf-8")
        ids = token_ids(text)
        self.report("binarising")
        for side in self.data.languages:
            (bin_ / f"dict.{side}.txt").write_text(text, encoding="utf-8")
            for split in self.counts:
                prefix = bin_ / f"{split}.{self.data.source_lang}-{self.data.target_lang}.{side}"
                binarise(bpe / f"{split}.{side}", prefix, ids)
        if self.codes.exists():
            shutil.copy(self.codes, bpe)
