"""The steps from raw lines to a prepared folder: tokenise, split, lower-case, segment, binarise, manifest.

The text passes in chunks, which are tokenised and segmented in several processes; memory does not grow with the text,
but with its number of word types.
"""

import importlib.metadata
import json
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice, repeat
from pathlib import Path
from typing import TextIO, TypeVar

from ln_repro.corpus.base import STEPS, Corpus, RawFiles
from ln_repro.corpus.locate import cached_digest
from ln_repro.corpus.ngram import entropies
from ln_repro.corpus.prepare import MANIFEST, Prepared, describe
from ln_repro.corpus.subwords import binarise, dictionary, learn, segmenter, token_ids
from ln_repro.corpus.text import LONGEST_WORD, Pair, lower
from ln_repro.corpus.tokenise import KNOWN_LANGUAGES, detokenise, tokeniser
from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.data import LABELLED, Data, base_code
from ln_repro.system.files import Json, write_atomically
from ln_repro.system.pool import apply
from ln_repro.system.progress import Report, progress

CHUNK_SIZE = 10_000
WORTH_IT = 60_000  # minimum number of pairs for which starting worker processes saves time
NAMED = 5  # maximum number of training pairs left out whose numbers are reported
Tokenised = tuple[Pair, Pair]  # a raw pair and the tokenised one
Routed = tuple[int, str, Pair, Pair]
"""Number in the split from `Corpus.read`, from 1, and prepared split of a pair, and the raw and the tokenised pair."""
Row = TypeVar("Row")
Result = TypeVar("Result")


def tokenise(chunk: tuple[str, list[Pair]], corpus: Corpus, data: Data) -> tuple[str, list[Tokenised]]:
    """Tokenise pairs of a split, or only join and, where needed, detokenise words that are segmented already."""
    split, raw = chunk
    style, languages = corpus.style(split), corpus.sides(data).values()
    if style.segmented:
        text = [tuple(line.replace("@@ ", "") for line in pair) for pair in raw]
        if split != "train":
            sides = zip(languages, zip(*text, strict=True), strict=True)
            raw = list(zip(*(detokenise(lines, lang) for lang, lines in sides), strict=True))
    else:
        tokenisers = [tokeniser(lang, style) for lang in languages]
        text = [tuple(function(line) for function, line in zip(tokenisers, pair, strict=True)) for pair in raw]
    if data.lowercase:
        text = [tuple(map(lower, pair)) for pair in text]
    return split, list(zip(raw, text, strict=True))


def segment(chunk: tuple[str, list[Routed]], codes: str) -> tuple[str, list[tuple[Routed, Pair]]]:
    """Segment the words of pairs of a split; without a merge table, they remain whole."""
    split, rows = chunk
    segmented = segmenter(codes) if codes else str
    return split, [(row, tuple(map(segmented, row[-1]))) for row in rows]


@dataclass
class Build:
    """The preparation of a corpus from its raw files, with the merges and the dictionary of ``learnt`` if given.

    Each of the steps in `_steps` fills in what the later ones need.
    """

    corpus: Corpus
    data: Data
    files: RawFiles
    report: Report
    learnt: Prepared | None
    staging: Path = field(init=False)
    sides: Mapping[str, str] = field(init=False)  # the language of each side of a pair
    counts: Mapping[str, int] = field(init=False)  # of raw pairs by split
    codes: str = field(init=False)  # the merge table; "" if there is none
    routes: Sequence[str | None] | None = field(init=False)  # see `Corpus.assign`

    def into(self, folder: Path, fingerprint: str) -> None:
        """Prepare it in a staging folder, which becomes ``folder``, which must be locked, when it is complete."""
        self.staging = folder.with_name(f".{folder.name}.staging")
        shutil.rmtree(self.staging, ignore_errors=True)  # of a process that was killed
        try:
            (self.staging / "tokenised").mkdir(parents=True)
            raw = self._digests()
            facts = self._steps()
            if changed := [str(self.files[name]) for name, digest in self._digests().items() if digest != raw[name]]:
                raise LnReproError(f"{changed[0]} changed while it was being prepared; run the command again")
            shutil.rmtree(self.staging / "tokenised")
            corpus, data = self.corpus, self.data
            revisions = {"corpus_revision": corpus.revision, "steps_revision": STEPS}
            manifest = {
                "name": data.name,
                "fingerprint": fingerprint,
                "source_lang": data.source_lang,
                "target_lang": data.target_lang,
                "recipe": {**data.recipe(), "only": data.only, **revisions},
                "origin": corpus.origin,
                "licence": corpus.licence,
                "raw": raw,
                **facts,
                "versions": {name: importlib.metadata.version(name) for name in ("sacremoses", "subword-nmt")},
                "files": describe(self.staging),
            }
            write_atomically(self.staging / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
            if folder.exists():  # damaged, or it would have been used
                shutil.rmtree(folder)
            self.staging.rename(folder)
        finally:
            shutil.rmtree(self.staging, ignore_errors=True)

    def _digests(self) -> dict[str, str]:
        return {name: cached_digest(path) for name, path in self.files.items()}

    def _steps(self) -> Json:
        """Write raw/, text/, bpe/ and bin/; return the part of the manifest that describes them."""
        corpus, data = self.corpus, self.data
        self.sides = corpus.sides(data)
        raw = corpus.read(data, self.files)
        self.counts = {split: sum(1 for _ in pairs) for split, pairs in raw.items()}  # checks the raw text
        for lang in dict.fromkeys(self.sides.values()):
            if base_code(lang) not in KNOWN_LANGUAGES:
                self.report(f"{corpus.name}: no tokeniser rules are known for {lang}: those of English are used")
        self.codes = corpus.codes(data, self.files) or (self.learnt.codes if self.learnt else "")
        raw = corpus.read(data, self.files)
        for split, rows in self._over(partial(tokenise, corpus=corpus, data=data), raw, "tokenising"):
            with (self.staging / "tokenised" / split).open("ab") as file:
                pickle.dump(rows, file)
        assigned = corpus.assign(lambda: (text for _, text in self._tokenised("train")))
        self.routes = None if assigned is None or "train" not in self.counts else list(assigned)
        if self.routes and (dropped := self.routes.count(None)):
            self.report(f"{corpus.name}: {dropped} pairs dropped, {corpus.dropped}")
        if data.bpe_merges and not (self.codes or self.learnt or data.only):
            self._learn_merges()
        written = self._write()
        pairs = {split: written[split] for split in data.splits if split in self.counts}
        self._check(pairs)
        detokenised = [split for split in ("valid", "test") if corpus.style(split).segmented]
        facts: Json = {"pairs": pairs, "vocabulary": 0, "entropy": {}, "train_percent": 100, "detokenised": detokenised}
        if data.only:
            return facts
        by_side = {side: self._subwords(side) for side in data.languages}
        subwords = sum(by_side.values(), Counter[str]())
        self._binarise(subwords)
        tokens = {side: counts.total() + pairs["train"] for side, counts in by_side.items()}
        target = [self.staging / "bpe" / f"{split}.{data.target_lang}" for split in ("train", "valid")]
        return facts | {
            "vocabulary": self.learnt.vocabulary if self.learnt else len(subwords),
            "entropy": {} if data.name in LABELLED else entropies(*target),
            "train_percent": corpus.train_percent(pairs["train"], tokens),
        }

    def _tokenised(self, split: str) -> Iterator[Tokenised]:
        """Yield the raw and the tokenised pairs of a split."""
        path = self.staging / "tokenised" / split
        if path.exists():
            with path.open("rb") as file:
                while file.peek(1):
                    yield from pickle.load(file)

    def _routed(self, split: str) -> Iterator[Routed]:
        """Yield the pairs of a split that are prepared, with their numbers and prepared splits."""
        routes = self.routes if self.routes and split == "train" else repeat(split)
        for number, (route, pairs) in enumerate(zip(routes, self._tokenised(split), strict=False), 1):
            if route in self.data.splits:
                yield number, route, *pairs

    def _over(
        self,
        function: Callable[[tuple[str, list[Row]]], tuple[str, list[Result]]],
        splits: Mapping[str, Iterable[Row]],
        step: str,
    ) -> Iterator[tuple[str, list[Result]]]:
        """Apply a function to chunks of the splits, in several processes if there is much text; show the progress."""

        def chunks() -> Iterator[tuple[str, list[Row]]]:
            for split in sorted(splits, key=lambda split: split == "train"):  # train last
                rows = iter(splits[split])
                while chunk := list(islice(rows, CHUNK_SIZE)):
                    yield split, chunk

        total = sum(self.counts.values())
        with progress(step, total, self.report) as advance:
            for split, results in (apply if total >= WORTH_IT else map)(function, chunks()):
                yield split, results
                advance(len(results))

    def _learn_merges(self) -> None:
        """Learn merges from the words of the training set.

        Very long words are left out: learning merges from them could take hours, and their pairs rarely remain.
        """
        words: Counter[str] = Counter()
        for _, split, _, pair in self._routed("train"):
            for side, line in zip(self.sides, pair, strict=True):
                if split == "train" and side in self.data.languages:
                    words.update(line.split(" "))
        for word in ["", *(word for word in words if len(word) > LONGEST_WORD)]:
            del words[word]
        self.report(f"learning {self.data.bpe_merges} byte-pair merges from {len(words)} distinct words")
        self.codes = learn(words, self.data.bpe_merges)

    def _write(self) -> Counter[str]:
        """Write raw/, text/ and bpe/; return the number of pairs by split."""
        pairs: Counter[str] = Counter()
        with ExitStack() as stack:

            @cache
            def opened(name: str) -> TextIO:
                (self.staging / name).parent.mkdir(exist_ok=True)
                return stack.enter_context((self.staging / name).open("w", encoding="utf-8", newline="\n"))

            for split, kinds in self._cleaned():
                pairs[split] += 1
                for kind, pair in kinds.items():
                    for side, line in zip(self.sides, pair, strict=True):
                        opened(f"{kind}/{split}.{side}").write(f"{line}\n")
        return pairs

    def _cleaned(self) -> Iterator[tuple[str, dict[str, Pair]]]:
        """Yield the split of every pair that is kept and what is written of it, by kind of text.

        Raises:
            UserError: a line of valid or test has no text or is too long, or segmented training text is not what the
                merges make of its words.
        """
        left_out, remaining = list[int](), 0
        routed = {split: self._routed(split) for split in self.counts}
        for origin, rows in self._over(partial(segment, codes=self.codes), routed, "cleaning and segmenting"):
            for row, bpe in rows:
                number, split, raw, text = row
                misfit = self._misfit(bpe)
                if split != "train":
                    if misfit:
                        side, problem = misfit
                        raise UserError(f"{self._line(origin, row, side)} has {problem}; remove the {self.corpus.unit}")
                    kinds = {"raw": raw, "text": text}
                else:
                    self._check_merges(origin, row, bpe)
                    if misfit or not self.corpus.keep(bpe):
                        left_out.append(number)
                        continue
                    remaining += 1
                    kinds = {"text": text}
                yield split, kinds if self.data.only else {**kinds, "bpe": bpe}
        if left_out:
            numbers = ", ".join(map(str, left_out[:NAMED])) + (", ..." if len(left_out) > NAMED else "")
            self.report(
                f"{self.corpus.name}: {len(left_out)} of {len(left_out) + remaining} training pairs left out, "
                f"{self.corpus.cleaned}: {'numbers' if len(left_out) > 1 else 'number'} {numbers}"
            )

    def _misfit(self, bpe: Pair) -> tuple[int, str] | None:
        """Return the first side of a pair that is empty or too long for the model, and which it is; None if all fit."""
        lengths = [len(line.split()) for line in bpe]
        if self.data.name in LABELLED and all(lengths):
            first, second, _ = lengths
            lengths = [first + second + 3]  # the model reads both sentences as one, with three marks
        for side, length in enumerate(lengths):
            if not 0 < length <= self.corpus.longest:
                return side, f"{length} subwords, more than {self.corpus.longest}" if length else "no printable text"
        return None

    def _check_merges(self, origin: str, row: Routed, bpe: Pair) -> None:
        """Raise `UserError` if training text that is segmented already is not what the merges make of its words."""
        _, split, raw, _ = row
        if self.corpus.style(split).segmented and bpe != raw:
            side = next(side for side, line in enumerate(bpe) if line != raw[side])
            raise UserError(
                f"{self._line(origin, row, side)} is not in lower-case BPE by the given merges, which make "
                f"{bpe[side][:80]!r} of it; {self.corpus.by_hand}"
            )

    def _line(self, split: str, row: Routed, side: int) -> str:
        """Return a line of a split from `Corpus.read`, with file and number as far as they are known, for messages."""
        number, _, raw, _ = row
        name = f"{split}.{list(self.sides)[side]}"
        place = str(self.files.get(name, f"{self.corpus.name}: {name}"))
        return f"{place}{f':{number}' if self.corpus.numbered else ''}: the line {raw[side][:80]!r}"

    def _subwords(self, side: str) -> Counter[str]:
        """Return the number of each subword in the training set."""
        with (self.staging / "bpe" / f"train.{side}").open(encoding="utf-8", newline="\n") as lines:
            return Counter(subword for line in lines for subword in line.split())

    def _check(self, pairs: Mapping[str, int]) -> None:
        """Raise `UserError` if a split has no pairs or not the number of the published one."""
        expected = self.corpus.pairs if self.data.checksum == "strict" else {}
        for split, number in pairs.items():
            if number != expected.get(split, number):
                raise UserError(
                    f"{self.corpus.name}: {split}: expected {expected[split]} pairs, found {number}; the raw "
                    f"text is not the published one; download it again from {self.corpus.origin}"
                )
            if not number:
                raise UserError(f"{self.corpus.name}: {split}: no {self.corpus.unit} is left; {self.corpus.by_hand}")

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
        if self.codes:
            (bpe / "codes").write_text(self.codes, encoding="utf-8")
