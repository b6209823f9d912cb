"""The user's text: what is accepted, and what is refused with the file and the line."""

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from ln_repro.corpus.prepare import prepare, verify
from ln_repro.corpus.text import stored_lines
from ln_repro.errors import LnReproError, UserError
from tests.corpus.conftest import settings, write

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


def test_plain_gzip_and_xz(made, root, text):
    prepared = made("files", **text)
    assert dict(prepared.pairs) == {"train": 3, "valid": 3, "test": 3}
    assert prepared.sources("valid") == SENTENCES["nl"]
    assert prepared.tokenised("test") == ["this is a house .", "that is a tree .", "here is a dog ."]
    assert verify(settings("files", **text), root) == []


def test_odd_but_good_text(made, text):
    """A byte-order mark, Windows line ends, a line separator and a carriage return inside a line."""
    odd = "\ufeffThis\ris\u2028a house.\r\nThat is a tree.\r\nHere is a dog.\r\n"
    text["train"].with_name("train.en").write_bytes(odd.encode())
    prepared = made("files", **text)
    assert (prepared.folder / "text" / "train.en").read_text("utf-8").split("\n")[0] == "this is a house ."


def test_a_text_that_changes_while_it_is_prepared_is_not_kept(made, root, text):
    def change(line: str) -> None:
        if line.startswith("binarising"):
            write(text["train"].with_name("train.en"), "Another text.", "That is a tree.", "Here is a dog.")

    with pytest.raises(LnReproError, match=r"train\.en changed while it was being prepared; run the command again"):
        prepare(settings("files", **text), root, change)
    assert not [*root.glob("prepared/[!.]*")]
    assert made("files", **text).tokenised("train")[0] == "another text ."


def test_no_more_merges_are_learnt_than_a_text_has(made, text):
    assert made("files", bpe_merges=10**12, **text).codes == made("files", bpe_merges=1000, **text).codes != ""
    for lang in SENTENCES:
        write(text["train"].with_name(f"train.{lang}"), "a b", "c d")
    assert made("files", **text).codes == ""


@pytest.mark.parametrize(("name", "content", "message"), [
    ("valid.en", b"One.\n\nThree.\n", r"valid\.en:2: the line '' has no printable text"),
    ("test.en", b"One.\n\x01\x02\nThree.\n", r"test\.en:2: the line '\\x01\\x02' has no .* text; remove the sent"),
    ("test.en", b"One.\nTwo.\n" + b"a " * 1_024, r"test\.en:3: the line 'a a .*' has 1024 subwords, more"),
    ("train.en", "One.\nTwö.\n3.".encode("latin-1"), r"train\.en:2: not valid UTF-8; convert the file to UTF-8"),
    ("train.en", "One.\nTwo.\n3.".encode("utf-16-le"), r"train\.en: looks like UTF-16; convert the file to UTF-8"),
    ("train.en", b"One.\nTwo.\n3\n4\n5\n", r"train\.nl has 3 lines, .*train\.en has 5 lines"),
    ("train.en", b"\n\n\n", r"files: train: no sentence pair is left; give data\.train=PREFIX"),
    ("valid.en.gz", b"\x1f\x8b\x08 no", r"valid\.en\.gz: damaged or incomplete"),
])  # fmt: skip
def test_text_that_is_refused(made, root, text, name, content, message):
    folder = text["train"].parent
    for path in folder.glob(f"{name.removesuffix('.gz')}*"):
        path.unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        made("files", **text)
    assert "\\n" not in str(error.value)
    assert [path.name for path in root.glob("prepared/*") if not path.name.endswith(".lease")] == []


def test_training_pairs_that_are_empty_or_too_long_are_left_out_and_numbered(root, text):
    bad = {4: "", 6: "\x01", 7: "long " * 1_024, **dict.fromkeys(range(9, 13), "")}
    write(text["train"].with_name("train.nl"), *(f"Zin {number}." for number in range(1, 13)))
    write(text["train"].with_name("train.en"), *(bad.get(number, f"Line {number}.") for number in range(1, 13)))
    messages: list[str] = []
    prepared = prepare(settings("files", **text), root, messages.append)
    assert prepared.pairs["train"] == 5
    assert stored_lines(prepared.folder / "text" / "train.nl") == [f"zin {number} ." for number in (1, 2, 3, 5, 8)]
    (message,) = (line for line in messages if "left out" in line)
    assert message.startswith("files: 7 of 12 training pairs") and message.endswith(": numbers 4, 6, 7, 9, 10, ...")


def test_every_200th_document_is_for_validation(made, tmp_path):
    sizes = [number % 3 + 1 for number in range(1, 402)]
    documents = ["".join(f"Document {n}, line {i}.\n" for i in range(size)) for n, size in enumerate(sizes, 1)]
    (tmp_path / "text.txt").write_text("\n" + "\n\n".join(documents))
    options = {"train": tmp_path / "text.txt", "source_lang": "en", "target_lang": "en"}
    prepared = made("text", **options)
    assert prepared.references("valid") == [f"Document {n}, line {i}." for n in (200, 400) for i in range(n % 3 + 1)]
    assert prepared.pairs["train"] + prepared.pairs["valid"] == sum(sizes)
    (tmp_path / "text.txt").write_text("\n\n".join(documents[:199]))
    with pytest.raises(UserError, match=r"valid: no sentence is left; .*data\.valid=FILE"):
        made("text", **options)


def test_a_tenth_of_wikinews_is_for_training(made, tmp_path):
    (tmp_path / "news.txt").write_text("\n\n".join(f"Article {number}.\nIt ends." for number in range(1, 212)))
    options = {"source": tmp_path / "news.txt", "source_lang": "en", "target_lang": "en"}
    with pytest.raises(UserError, match=r"not the published file.*data\.checksum=record"):
        made("wikinews", **options)
    prepared = made("wikinews", checksum="record", **options)
    assert prepared.references("valid") == ["Article 200.", "It ends."]
    assert prepared.tokenised("train")[::2] == [f"article {number} ." for number in range(1, 212, 10)]
