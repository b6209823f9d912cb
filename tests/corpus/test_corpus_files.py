"""The user's text: what is accepted, and what is refused with the file and the line."""

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest
from corpus_helpers import settings, write

from ln_repro.corpus.prepare import prepare, verify
from ln_repro.corpus.text import stored_lines
from ln_repro.errors import UserError

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


@pytest.mark.parametrize(("lang", "told"), [("nl", False), ("NL_be", False), ("eo", True)])
def test_a_language_without_rules_is_told_once(root, text, lang, told):
    for path in text["train"].parent.glob("*.nl*"):
        path.rename(path.with_name(path.name.replace(".nl", f".{lang}")))
    said = []
    prepare(settings("files", **text | {"source_lang": lang}), root, said.append)
    line = f"files: no tokeniser rules are known for {lang}: those of English are used"
    assert said.count(line) == told == sum("rules" in other for other in said)


def test_odd_but_good_text(made, text):
    """A byte-order mark, Windows line ends, a line separator and a carriage return inside a line."""
    text["train"].with_name("train.en").write_bytes(
        "\ufeffThis\ris\u2028a house.\r\nThat is a tree.\r\nHere is a dog.\r\n".encode()
    )
    prepared = made("files", **text)
    assert (prepared.folder / "text" / "train.en").read_text("utf-8").split("\n")[0] == "this is a house ."


def test_more_merges_than_any_text_has(made, text):
    assert made("files", bpe_merges=10**20, **text).codes == made("files", bpe_merges=1000, **text).codes != ""


@pytest.mark.parametrize(
    ("split", "content", "told"),
    [
        ("valid", b"One.\n\nThree.\n", r"valid\.en:2: the line '' has no printable text"),
        ("test", b"One.\n\x01\x02\nThree.\n", r"test\.en:2: the line '\\x01\\x02' has no .* text; remove the sent"),
        ("test", b"One.\nTwo.\n" + b"a " * 1_024, r"test\.en:3: the line 'a a .*' has 1024 subwords, more than 1023"),
        ("train", "One.\nTwö.\nThree.".encode("latin-1"), r"train\.en:2: not valid UTF-8; convert the file to UTF-8"),
        ("train", "One.\nTwo.\nThree.".encode("utf-16-le"), r"train\.en: looks like UTF-16; convert the file to UTF-8"),
        ("train", b"One.\nTwo.\n3\n4\n5\n", r"train\.nl has 3 lines, .*train\.en has 5 lines"),
    ],
)
def test_text_that_is_refused(made, root, text, split, content, told):
    for lang, lines in SENTENCES.items():
        for path in text[split].parent.glob(f"{split}.{lang}*"):
            path.unlink()
        write(text[split].with_name(f"{split}.{lang}"), *lines)
    text[split].with_name(f"{split}.en").write_bytes(content)
    with pytest.raises(UserError, match=told) as error:
        made("files", **text)
    assert "\\n" not in str(error.value)
    assert [path.name for path in root.glob("prepared/*") if not path.name.endswith(".lease")] == []


def test_training_pairs_that_are_empty_or_too_long_are_left_out_and_numbered(root, text):
    bad = {4: "", 6: "\x01", 7: "long " * 1_024, **dict.fromkeys(range(9, 13), "")}
    write(text["train"].with_name("train.nl"), *(f"Zin {number}." for number in range(1, 13)))
    write(text["train"].with_name("train.en"), *(bad.get(number, f"Line {number}.") for number in range(1, 13)))
    told: list[str] = []
    prepared = prepare(settings("files", **text), root, told.append)
    assert prepared.pairs["train"] == 5
    assert stored_lines(prepared.folder / "text" / "train.nl") == [f"zin {number} ." for number in (1, 2, 3, 5, 8)]
    (said,) = (line for line in told if "left out" in line)
    assert said.startswith("files: 7 of 12 training pairs") and said.endswith(": numbers 4, 6, 7, 9, 10, ...")


def test_files_that_are_empty_damaged_or_absent(made, text):
    text["train"].with_name("valid.en.gz").write_bytes(b"\x1f\x8b\x08 no")
    with pytest.raises(UserError, match=r"valid\.en\.gz: damaged or incomplete"):
        made("files", **text)
    for lang in ("nl", "en"):
        text["train"].with_name(f"train.{lang}").write_bytes(b"")
    with pytest.raises(UserError, match=r"files: train: no sentence pair is left; give data\.train=PREFIX"):
        made("files", **text | {"valid": text["test"]})
    with pytest.raises(UserError, match=r"valid\.xx, .*test\.xx: not found; give data\.train=PREFIX"):
        made("files", **{**text, "target_lang": "xx"})
    with pytest.raises(UserError, match=r"data\.test: is not given; give"):
        made("files", **{**text, "test": None})


def test_words_of_one_letter_have_nothing_to_merge(made, tmp_path):
    for lang in ("de", "en"):
        write(tmp_path / f"t.{lang}", "a b", "c d")
    prepared = made("files", **dict.fromkeys(("train", "valid", "test"), tmp_path / "t"))
    assert prepared.codes == "" and prepared.tokenised("train") == ["a b", "c d"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"train": None}, r"data\.train: is not given; give data\.train=FILE"),
        ({"source_lang": "nl"}, "text is in one language, give it twice; got nl and en"),
        ({"train": Path(), "source": None}, r"text: \., .*: not found; give data\.train=FILE"),
        ({"train": Path("blank.txt")}, "text: train: no sentence is left; give data"),
        ({"valid": Path("signs.txt")}, r"signs\.txt: the line '\\x01\\x02' has no printable text; remove the"),
    ],
)
def test_text_in_one_language_that_is_refused(made, tmp_path, changed, told):
    write(tmp_path / "some.txt", *SENTENCES["en"])
    write(tmp_path / "blank.txt", "", "  ")
    write(tmp_path / "signs.txt", "One.", "", "\x01\x02")
    options = {"source": tmp_path, "source_lang": "en", "target_lang": "en"}
    options |= {split: Path("some.txt") for split in ("train", "valid", "test")}
    with pytest.raises(UserError, match=told):
        made("text", **options | changed)


def test_a_file_is_not_taken_for_another_one(made, tmp_path):
    """``data.source`` may be a single file of any name, but not if the user names the file elsewhere."""
    for name in ("given", "other"):
        write(tmp_path / f"{name}.txt", *[f"{name}.", ""] * 200)
    files = {"train": tmp_path / "given.txt", "source": tmp_path / "other.txt"}
    assert made("text", **files, source_lang="en", target_lang="en").references("valid") == ["given."]


def test_every_200th_document_is_for_validation(made, tmp_path):
    sizes = [number % 3 + 1 for number in range(1, 402)]
    documents = ["".join(f"Document {n}, line {i}.\n" for i in range(size)) for n, size in enumerate(sizes, 1)]
    (tmp_path / "text.txt").write_text("\n" + "\n\n".join(documents))
    prepared = made("text", train=tmp_path / "text.txt", source_lang="en", target_lang="en")
    assert prepared.references("valid") == [f"Document {n}, line {i}." for n in (200, 400) for i in range(n % 3 + 1)]
    assert prepared.pairs["train"] + prepared.pairs["valid"] == sum(sizes)
    (tmp_path / "text.txt").write_text("\n\n".join(documents[:199]))
    with pytest.raises(UserError, match=r"valid: no sentence is left; .*data\.valid=FILE"):
        made("text", train=tmp_path / "text.txt", source_lang="en", target_lang="en")


def test_a_tenth_of_wikinews_is_for_training(made, tmp_path):
    (tmp_path / "news.txt").write_text("\n\n".join(f"Article {number}.\nIt ends." for number in range(1, 212)))
    options = {"source": tmp_path / "news.txt", "source_lang": "en", "target_lang": "en"}
    with pytest.raises(UserError, match=r"not the published file.*data\.checksum=record"):
        made("wikinews", **options)
    prepared = made("wikinews", checksum="record", **options)
    assert prepared.references("valid") == ["Article 200.", "It ends."]
    assert prepared.tokenised("train")[::2] == [f"article {number} ." for number in range(1, 212, 10)]
