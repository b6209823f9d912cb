"""MRPC and RTE from a folder in GLUE's layout, with a vocabulary of their own or of another corpus."""

from pathlib import Path
from typing import Any

import pytest

from ln_repro.corpus.prepare import verify
from ln_repro.corpus.text import stored_lines
from ln_repro.errors import UserError
from tests.corpus.conftest import settings, write

SIDES = {"source_lang": "sentence1", "target_lang": "sentence2"}
HEAD = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
MRPC = (HEAD, '1\t7\t8\tThe "cat" sat.\tA cat sat.', "0\t9\t10\tNo.\tYes.")
RTE = ("index\tsentence1\tsentence2\tlabel", "0\tA cat sat.\tIt's sat.\tentailment", "1\tNo.\tYes.\tnot_entailment")


@pytest.fixture
def glue(tmp_path: Path) -> Path:
    for split in ("train", "dev"):
        write(tmp_path / "my glue" / "MRPC" / f"{split}.tsv", *MRPC)
        write(tmp_path / "my glue" / "RTE" / f"{split}.tsv", *RTE)
    return tmp_path / "my glue"


@pytest.mark.parametrize("name", ["mrpc", "rte"])
def test_sentences_and_classes_stay_together(made, root, glue, name):
    prepared = made(name, source=glue, **SIDES)
    assert dict(prepared.pairs) == {"train": 2, "valid": 2}
    assert stored_lines(prepared.folder / "text" / "train.label") == ["1", "0"]
    assert prepared.tokenised("valid") == ["a cat sat ." if name == "mrpc" else "it &apos;s sat .", "yes ."]
    assert verify(settings(name, source=glue, **SIDES), root) == []
    for file, name_by_microsoft in (("train.tsv", "msr_paraphrase_train.txt"), ("dev.tsv", "msr_paraphrase_test.txt")):
        if name == "mrpc":
            (glue / "MRPC" / file).rename(glue / "MRPC" / name_by_microsoft)
    assert made(name, source=glue / name.upper(), **SIDES) == prepared


def test_the_two_sentences_together_fit_the_model(made, glue):
    long, row = f"{'a ' * 600}.", "1\t1\t2\t{0}\t{0}"
    write(glue / "MRPC" / "train.tsv", *MRPC, row.format(long))
    assert made("mrpc", source=glue, **SIDES).pairs["train"] == 2
    write(glue / "MRPC" / "dev.tsv", *MRPC, row.format(long))
    with pytest.raises(UserError, match=r"subwords, more than 1023; remove"):
        made("mrpc", source=glue, **SIDES)


def test_merges_and_dictionary_of_another_corpus_are_taken(made, root, glue, small_toy):
    toy = made("toy", bpe_merges=40)
    options: dict[str, Any] = {"source": glue, "vocabulary": toy.fingerprint, **SIDES}
    prepared = made("mrpc", **options)
    assert prepared.codes == toy.codes != ""
    assert (prepared.folder / "bpe" / "dict.txt").read_text() == toy.dictionary.read_text()
    assert prepared.vocabulary == toy.vocabulary
    alone = made("mrpc", source=glue, **SIDES)
    assert alone.codes != toy.codes and alone.fingerprint != prepared.fingerprint
    assert not (alone.folder / "bpe" / "dict.txt").exists()
    assert made("toy", bpe_merges=40, vocabulary=toy.fingerprint, only="test").vocabulary == 0
    with pytest.raises(UserError, match=r"data\.vocabulary: no corpus sha256:0123 is prepared under"):
        made("mrpc", source=glue, vocabulary="sha256:0123", **SIDES)


@pytest.mark.parametrize(("lines", "told"), [
    ((), r"train\.tsv:1: no column '#1 String', which mrpc has"),
    ((*MRPC, "2\t1\t2\tA.\tB."), r"train\.tsv:4: expected 5 columns with two sentences and one of 0, 1"),
])  # fmt: skip
def test_what_is_not_glues_is_refused_by_line(made, glue, lines, told):
    write(glue / "MRPC" / "train.tsv", *lines)
    with pytest.raises(UserError, match=told):
        made("mrpc", source=glue, **SIDES)
