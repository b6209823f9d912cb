"""The user's text: what is accepted, and what is refused with the file and the line."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_helpers import settings, write

from ln_repro.corpus.prepare import Prepared, fingerprint, verify
from ln_repro.errors import UserError

Made = Callable[..., Prepared]
SENTENCES = {
    "nl": ["Dit is een huis.", "Dat is een boom.", "Hier staat een hond."],
    "en": ["This is a house.", "That is a tree.", "Here is a dog."],
}


@pytest.fixture
def text(tmp_path: Path) -> dict[str, Any]:
    """Write three splits, plain, gzip and xz, and return the settings that name them."""
    folder = tmp_path / 'my "own" text\'s'
    for split, opener, suffix in (("train", open, ""), ("valid", gzip.open, ".gz"), ("test", lzma.open, ".xz")):
        for lang, lines in SENTENCES.items():
            folder.mkdir(exist_ok=True)
            with opener(folder / f"{split}.{lang}{suffix}", "wb") as file:
                file.write("\n".join(lines).encode())  # without a line feed at the end
    prefixes = {split: folder / split for split in ("train", "valid", "test")}
    return {"source_lang": "nl", "target_lang": "en", **prefixes}


def test_plain_gzip_and_xz(made: Made, root: Path, text: dict[str, Any]) -> None:
    prepared = made("files", **text)
    assert dict(prepared.pairs) == {"train": 3, "valid": 3, "test": 3}
    assert prepared.sources("valid") == SENTENCES["nl"]
    assert prepared.tokenised("test") == ["this is a house .", "that is a tree .", "here is a dog ."]
    assert verify(settings("files", **text), root) == []


def test_other_content_is_another_corpus(made: Made, root: Path, text: dict[str, Any]) -> None:
    first = made("files", **text)
    write(text["train"].with_name("train.en"), *SENTENCES["en"][:2], "Here is a cat.")
    assert made("files", **text).fingerprint != first.fingerprint
    text["train"].with_name("train.en").unlink()
    assert fingerprint(settings("files", **text), root) is None


def test_odd_but_good_text(made: Made, text: dict[str, Any]) -> None:
    """A byte-order mark, Windows line ends, a line separator and a carriage return inside a line."""
    text["train"].with_name("train.en").write_bytes(
        "\ufeffThis\ris\u2028a house.\r\nThat is a tree.\r\nHere is a dog.\r\n".encode()
    )
    prepared = made("files", **text)
    assert (prepared.folder / "text" / "train.en").read_text("utf-8").split("\n")[0] == "this is a house ."


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"One.\n\nThree.\n", r"train\.en:2: empty line"),
        (b"One.\nTwo \xff.\nThree.\n", r"train\.en:2: not valid UTF-8"),
        (b"One.\nTwo.\n", r"train\.nl has 3 lines, .*train\.en has 2 lines"),
        (b"One.\n\x01\x02\nThree.\n", r"train\.en: the line '\\x01\\x02' has no .* text; remove the sentence pair"),
    ],
)
def test_text_that_is_refused(made: Made, root: Path, text: dict[str, Any], content: bytes, told: str) -> None:
    text["train"].with_name("train.en").write_bytes(content)
    with pytest.raises(UserError, match=told):
        made("files", **text)
    assert not list(root.glob("prepared/[!.]*"))


def test_both_sides_empty(made: Made, text: dict[str, Any]) -> None:
    for lang in ("nl", "en"):
        text["train"].with_name(f"train.{lang}").write_bytes(b"")
    with pytest.raises(UserError, match=r"the file is empty"):
        made("files", **text)


@pytest.mark.parametrize(("name", "content"), [("valid.en.gz", b"\x1f\x8b\x08 no"), ("test.nl.xz", b"\xfd7zXZ no")])
def test_damaged_archives(made: Made, text: dict[str, Any], name: str, content: bytes) -> None:
    text["train"].with_name(name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: damaged or incomplete"):
        made("files", **text)


def test_absent_side_and_absent_prefix(made: Made, text: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"valid\.xx, .*test\.xx: not found; give data\.train=PREFIX"):
        made("files", **{**text, "target_lang": "xx"})
    with pytest.raises(UserError, match=r"data\.test: not a prefix of files; give"):
        made("files", **{**text, "test": None})


def test_words_of_one_letter_have_nothing_to_merge(made: Made, tmp_path: Path) -> None:
    prefix = tmp_path / "t"
    for lang in ("de", "en"):
        write(tmp_path / f"t.{lang}", "a b", "c d")
    prepared = made("files", train=prefix, valid=prefix, test=prefix)
    assert prepared.tokenised("train") == ["a b", "c d"]
    assert not (prepared.folder / "bpe" / "codes").exists()


def test_text_in_one_language(made: Made, root: Path, tmp_path: Path) -> None:
    """Blank lines, which separate documents, are ignored; paths are relative to ``data.source``."""
    for split in ("train", "valid", "test"):
        write(tmp_path / f"{split}.txt", *SENTENCES["en"][:2], "", SENTENCES["en"][2])
    places = {split: Path(f"{split}.txt") for split in ("train", "valid", "test")}
    given = {"source": tmp_path, "source_lang": "en", "target_lang": "en", **places}
    prepared = made("text", **given)
    assert dict(prepared.pairs) == {"train": 3, "valid": 3, "test": 3}
    assert prepared.tokenised("train") == ["this is a house .", "that is a tree .", "here is a dog ."]
    assert sorted(path.name for path in (prepared.folder / "bpe").iterdir()) == [
        "codes", "test.en", "train.en", "valid.en",
    ]  # fmt: skip
    assert verify(settings("text", **given), root) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"train": None}, r"data\.train: is not given; give data\.train=FILE"),
        ({"valid": Path("nothing.txt")}, r"valid\.en: not found there"),
        ({"source_lang": "nl"}, "text is in one language, give it twice; got nl and en"),
        ({"train": Path("blank.txt")}, r"blank\.txt: the file is empty; give at least one sentence$"),
        ({"train": Path("signs.txt")}, r"train\.en: the line '\\x01\\x02' has no printable text; remove the sentence$"),
    ],
)
def test_text_in_one_language_that_is_refused(made: Made, tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    write(tmp_path / "some.txt", *SENTENCES["en"])
    write(tmp_path / "blank.txt", "", "  ")
    write(tmp_path / "signs.txt", "One.", "", "\x01\x02")
    given = {"source": tmp_path, "source_lang": "en", "target_lang": "en"}
    given |= {split: Path("some.txt") for split in ("train", "valid", "test")}
    with pytest.raises(UserError, match=told):
        made("text", **given | changed)
