"""Two tasks of GLUE: classification of English sentence pairs into two classes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.base import Corpus, Raw, RawFiles, Splits
from ln_repro.corpus.text import Pair, read_lines
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data

SIDES = ("sentence1", "sentence2")
LABEL = "label"  # the third side of a split: 0 or 1 on each line, unchanged by later steps


class Glue(Corpus):
    """A task with ``train.tsv`` and ``dev.tsv``, whose first line has the column names; test sets have no labels."""

    origin = "https://gluebenchmark.com"
    languages = SIDES
    tested = False
    revision = 2
    columns: ClassVar[tuple[str, str, str]]  # names of those of the two sentences and of the label
    classes: ClassVar[Mapping[str, str]]  # the class, 0 or 1, of each label in the file

    def inputs(self, data: Data) -> list[Raw]:
        return [Raw("train.tsv"), Raw("dev.tsv")]

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the training and the validation set, with the labels as a third side."""
        return {split: self._rows(files[name]) for split, name in (("train", "train.tsv"), ("valid", "dev.tsv"))}

    def sides(self, data: Data) -> Mapping[str, str]:
        return dict.fromkeys((*SIDES, LABEL), "en")

    def _rows(self, path: Path) -> Iterator[Pair]:
        """Yield the sentences and labels of a file, or raise `UserError` at a line without the expected columns."""
        lines = read_lines(path)
        names = next(lines, "").split("\t")
        if missing := [name for name in self.columns if name not in names]:
            raise UserError(f"{path}:1: no column {missing[0]!r}, which {self.name} has; {self.by_hand}")
        places = [names.index(name) for name in self.columns]
        for number, line in enumerate(lines, 2):
            cells = line.split("\t")
            values = [cells[place].strip() for place in places] if len(cells) == len(names) else [""]
            if "" in values or values[-1] not in self.classes:
                wanted = f"{len(names)} columns with two sentences and one of {', '.join(self.classes)}"
                raise UserError(f"{path}:{number}: expected {wanted}")
            yield (*values[:2], self.classes[values[2]])


class Mrpc(Glue):
    """MRPC: are two sentences from news articles paraphrases of each other?"""

    name = "mrpc"
    description = "GLUE's MRPC, for task=classification: are two sentences paraphrases?"
    licence = "Microsoft Research's, for research"
    by_hand = (
        "get MRPC from https://gluebenchmark.com and give data.source=FOLDER with MRPC/train.tsv and MRPC/dev.tsv, "
        "or with Microsoft's msr_paraphrase_train.txt and msr_paraphrase_test.txt"
    )
    folders = (".", "MRPC")
    columns = ("#1 String", "#2 String", "Quality")
    classes: ClassVar[Mapping[str, str]] = {"0": "0", "1": "1"}

    def inputs(self, data: Data) -> list[Raw]:
        """Return the files by GLUE's names, with Microsoft's."""
        return [Raw("train.tsv", alias="msr_paraphrase_train.txt"), Raw("dev.tsv", alias="msr_paraphrase_test.txt")]


class Rte(Glue):
    """RTE: does one sentence follow from another?"""

    name = "rte"
    description = "GLUE's RTE, for task=classification: does one sentence follow from the other?"
    licence = "of the RTE challenges, for research"
    by_hand = "get RTE from https://gluebenchmark.com and give data.source=FOLDER with RTE/train.tsv and RTE/dev.tsv"
    folders = (".", "RTE")
    columns = (*SIDES, "label")
    classes: ClassVar[Mapping[str, str]] = {"not_entailment": "0", "entailment": "1"}
