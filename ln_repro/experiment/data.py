"""The settings of a corpus."""

from pathlib import Path
from typing import Any, Literal

from ln_repro.experiment.validation import Natural, Section


class Data(Section):
    """A corpus and how it is prepared. ``source`` and ``only`` say where and how much, never what."""

    name: Literal["toy", "multi30k", "tatoeba", "iwslt14", "wmt14", "files", "text", "mrpc", "rte"]
    source_lang: str = "de"
    target_lang: str = "en"
    lowercase: bool = True
    bpe_merges: Natural
    """Joint byte-pair merges; 0 leaves words whole."""
    source: Path | None = None
    """A file or folder the user already has, instead of a download."""
    checksum: Literal["strict", "record"] = "strict"
    """`record`: take raw files that differ from the known ones; their own checksums then decide the fingerprint."""
    vocabulary: str | None = None
    """The fingerprint of a prepared corpus whose merges and dictionary are taken; None: they are learnt."""
    only: Literal["test"] | None = None
    """Prepare the test side alone (no training text needed, and nothing to train on)."""
    train: Path | None = None
    """`files`: the prefix of the two training sides, as are `valid` and `test`; `text`: each a file."""
    valid: Path | None = None
    test: Path | None = None

    def recipe(self) -> dict[str, Any]:
        """Return the settings that decide what the prepared corpus contains (paths left out)."""
        left_out = {"source", "checksum", "only", "train", "valid", "test"}
        if self.vocabulary is None:
            left_out.add("vocabulary")
        return self.model_dump(mode="json", exclude=left_out)
