"""The folder that fairseq's prepare-iwslt14.sh leaves, whole or with a part of the training text."""

import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ln_repro.corpus import iwslt14
from ln_repro.corpus.base import UNPACKED
from ln_repro.corpus.locate import cached_digest
from ln_repro.corpus.prepare import Prepared, fingerprint, prepare, verify
from ln_repro.corpus.text import stored_lines
from ln_repro.errors import UserError
from tests.corpus.conftest import settings, write

LANGUAGES = ("de", "en")


@pytest.fixture
def archive(made: Callable[..., Prepared], iwslt: Path) -> Prepared:
    """Return the small IWSLT14, prepared from its original layout."""
    return made("iwslt14", source=iwslt)


@pytest.fixture
def folder(archive: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write what fairseq's script makes of the small IWSLT14, and make the corpus expect it."""
    folder = tmp_path / "iwslt14.tokenized.de-en"
    shutil.copytree(archive.folder / "bpe", folder)
    (folder / "codes").rename(folder / "code")
    digests = {name: cached_digest(folder / name, UNPACKED).partition(":")[2] for name in iwslt14.SEGMENTED}
    known = {name: digest and digests[name] for name, digest in iwslt14.SEGMENTED.items()}
    monkeypatch.setattr(iwslt14, "SEGMENTED", known)
    lines = {lang: stored_lines(folder / f"train.{lang}") for lang in LANGUAGES}
    counts = {lang: sum(len(line.split()) + 1 for line in lines[lang]) for lang in LANGUAGES}
    monkeypatch.setattr(iwslt14, "TOKENS", counts)
    return folder


def of(folder: Path, **changes: Any) -> Any:
    """Return the settings of the corpus in this folder, with as many merges as it has."""
    merges = len((folder / "code").read_text("utf-8").splitlines()) - 1 if (folder / "code").exists() else 50
    return settings("iwslt14", **{"source": folder, "bpe_merges": merges, **changes})


def told(root: Path, folder: Path, **changes: Any) -> tuple[Prepared, list[str]]:
    """Prepare a folder, and return the corpus with what was said."""
    said: list[str] = []
    return prepare(of(folder, **changes), root, said.append), said


def assert_same_files(prepared: Prepared, expected: Prepared) -> None:
    """All files but the untokenised references are equal."""
    for path in (path for kind in ("text", "bpe", "bin") for path in (expected.folder / kind).iterdir()):
        assert (prepared.folder / path.relative_to(expected.folder)).read_bytes() == path.read_bytes(), path


def test_the_whole_text_is_that_of_the_archive_except_for_the_untokenised_references(archive, folder, root):
    prepared, said = told(root, folder)
    assert not any("%" in line or "published" in line for line in said)
    assert prepared.fingerprint != archive.fingerprint and prepared.published
    assert (prepared.pairs, prepared.train_percent, prepared.detokenised) == (archive.pairs, 100, ["valid", "test"])
    assert_same_files(prepared, archive)
    assert archive.references("test")[0] == "It\u2019s en 0."
    assert prepared.references("test")[0] == "it's en 0." and prepared.sources("valid")[0] == "word de number 19."
    assert verify(of(folder), root) == []


def test_a_part_of_the_training_text_is_said_to_be_one_every_time(folder, root):
    for lang in LANGUAGES:
        write(folder / f"train.{lang}", *stored_lines(folder / f"train.{lang}")[:29])
    prepared, said = told(root, folder)
    assert said[-1] == "iwslt14: 60 % of the training text, 29 of 48 pairs"
    assert (prepared.train_percent, dict(prepared.pairs)) == (60, {"train": 29, "valid": 2, "test": 5})
    assert prepared.published and told(root, folder) == (prepared, said[-1:])
    assert prepared.codes == (folder / "code").read_text("utf-8"), "the merges are not learnt again"


def test_compressed_files_are_the_same_corpus(folder, root):
    plain = fingerprint(of(folder), root)
    for name in ("train.en", "valid.de"):
        (folder / f"{name}.xz").write_bytes(lzma.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    assert fingerprint(of(folder), root) == plain


def test_the_evaluation_xml_below_it_gives_the_original_references(archive, folder, iwslt, root):
    without, _ = told(root, folder)
    (folder / "de-en").mkdir()
    for path in iwslt.glob("*.xml"):
        shutil.copy(path, folder / "de-en")
    prepared, _ = told(root, folder)
    assert prepared.fingerprint != without.fingerprint and prepared.published
    assert prepared.detokenised == ["valid"] and prepared.references("test") == archive.references("test")
    assert_same_files(prepared, without)


OTHER = r": not the published file of iwslt14, expected unpacked-sha256:"
NOT_BPE = r": the line '.*' is not in lower-case BPE by the given merges, which make '"


@pytest.mark.parametrize(("name", "change", "message"), [
    ("valid.de", lambda text: text.replace("word", "wort"), rf"valid\.de{OTHER}"),
    ("code", lambda text: text + "q x\n", rf"code{OTHER}"),
    ("train.en", lambda text: text.replace("@@ ", "", 1), rf"train\.en:\d+{NOT_BPE}"),
    ("train.de", str.upper, rf"train\.de:1{NOT_BPE}"),
])  # fmt: skip
def test_other_text_is_refused_in_one_line(folder, root, name, change, message):
    data, path = of(folder), folder / name
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    with pytest.raises(UserError, match=message) as error:
        prepare(data, root, lambda _: None)
    assert "\n" not in str(error.value)


def test_more_training_text_than_was_published_is_another_corpus_even_after_it_was_prepared(folder, root):
    for lang in LANGUAGES:
        write(folder / f"train.{lang}", *stored_lines(folder / f"train.{lang}")[:1] * 49)
    for _ in range(2):
        with pytest.raises(UserError, match=r"train: 49 pairs, which .* are neither the 48 published.*=record$"):
            told(root, folder)
        prepared, said = told(root, folder, checksum="record")
        assert not prepared.published and said[-1].startswith("iwslt14: not the published text, so no claim")
