"""The settings of a corpus."""

import re
from typing import Annotated, Literal

from pydantic import Field

from ln_repro.experiment.validation import Natural, Section, UserPath
from ln_repro.system.files import Json

Language = Annotated[str, Field(pattern=r"^[^/\s]+$")]  # the code of a language, the last part of a file's name
LABELLED = ("mrpc", "rte")  # corpora of sentence pairs with a class label each, for ``task=classification``


def base_code(language: Language) -> str:
    """Return the code of a language without region and script, in lower case: ``de`` for ``DE`` and ``de_AT``."""
    return re.split("[-_]", language)[0].lower()


class Data(Section):
    """A corpus and its preparation."""

    name: Literal["toy", "multi30k", "tatoeba", "iwslt14", "wmt14", "files", "text", "wikinews", "mrpc", "rte"]
    source_lang: Language = "de"
    target_lang: Language = "en"
    lowercase: bool = True
    bpe_merges: Natural  # number of joint byte-pair merges; 0: no segmentation
    source: UserPath | None = None  # a file or folder with the raw files, instead of a download
    checksum: Literal["strict", "record"] = "strict"
    """`record`: accept raw files with unknown checksums, which then become part of the fingerprint."""
    vocabulary: str | None = None
    """Fingerprint of the prepared corpus whose merges and dictionary are used; None: learn them from the text."""
    only: Literal["test"] | None = None  # prepare only the test set, without training text
    train: UserPath | None = None
    """For `files`, the prefix of the two training files; for `text`, a file. The same for `valid` and `test`."""
    valid: UserPath | None = None
    test: UserPath | None = None

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of source and target, or the only one."""
        return tuple(dict.fromkeys((self.source_lang, self.target_lang)))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are prepared, as far as the corpus has them."""
        return ("train", "valid", "test") if self.only is None else (self.only,)

    def recipe(self) -> Json:
        """Return the settings on which the prepared corpus depends, without paths."""
        left_out = {"source", "checksum", "only", "train", "valid", "test"}
        if self.vocabulary is None:
            left_out.add("vocabulary")
        return self.model_dump(mode="json", exclude=left_out)
