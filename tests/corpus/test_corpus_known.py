"""The published corpora: the real ones if they exist, and small imitations."""

import hashlib
import itertools
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from ln_repro.corpus import iwslt14
from ln_repro.corpus.base import Raw
from ln_repro.corpus.prepare import fingerprint, verify
from ln_repro.corpus.registry import CORPORA
from ln_repro.corpus.text import stored_lines
from ln_repro.errors import UserError
from tests.corpus.conftest import FileServer, settings, write

TOY = "55313d439a1a03467ea1dba02d029a520a57d385a011f066a369a642d38649dd"
"""SHA-256 of the generated pairs."""
IWSLT14_TEST = {
    "de": "e718c783e33160b7d72af8f733756a466e0d0c016eff8ab624c1b0d1d01cbbdf",
    "en": "4b127beb9050511a3e6209cd837ff36f623a3a423666b32aba6e208b7330cf4c",
}


@pytest.mark.parametrize("name", ["multi30k", "tatoeba", "iwslt14", "wmt14", "mrpc"])
def test_a_published_corpus_is_known_by_its_checksums_before_its_files_are_there(made, name, root, tmp_path):
    sides = {"source_lang": "sentence1", "target_lang": "sentence2"} if name == "mrpc" else {}
    assert bool(fingerprint(settings(name, **sides), root)) == (name != "mrpc")  # which has no checksums
    with pytest.raises(UserError, match=r"data\.source: .*nowhere: there is no such file or folder"):
        made(name, source=tmp_path / "nowhere", **sides)
    with pytest.raises(UserError, match=r"not found there; get .*data\.source=(PATH|FOLDER)"):
        made(name, source=tmp_path, **sides)


@pytest.mark.parametrize(("name", "options", "message"), [
    ("toy", {"source": "x"}, r"data\.source: toy has its own text; use data=files or data=text"),
    ("multi30k", {"valid": "x"}, r"data\.valid: multi30k has its own text"),
    ("toy", {"source_lang": "en"}, "must differ; got en and en"),
    ("toy", {"target_lang": "fr"}, "toy is in de and en; got de and fr"),
    ("rte", {"only": "test"}, r"data\.only: rte has no test set; leave it out"),
    ("files", {}, r"data\.train: is not given; give data\.train=PREFIX"),
    ("files", {"only": "test", "test": "no/x"}, r"no/x\.de, no/x\.en: not found; give data\.train=PREFIX"),
    ("text", {"source_lang": "en", "train": "no/x"}, r"no/x: not found; give data\.train=FILE"),
    ("text", {"train": "x"}, "text is in one language, give it twice; got de and en"),
])  # fmt: skip
def test_settings_that_a_corpus_does_not_have_are_refused(made, name, options, message):
    with pytest.raises(UserError, match=message):
        made(name, **options)


def test_the_toy_corpus_never_changes_and_its_splits_share_no_sentence():
    """A change of the generator changes every toy result: raise Toy.revision."""
    splits = CORPORA["toy"].read(settings("toy"), {})
    assert {name: len(list(pairs)) for name, pairs in splits.items()} == {"test": 500, "valid": 500, "train": 20_000}
    pairs = list(itertools.chain.from_iterable(splits.values()))
    text = "".join(f"{german}\t{english}\n" for german, english in pairs)
    assert hashlib.sha256(text.encode()).hexdigest() == TOY
    assert all(len(set(side)) == 21_000 for side in zip(*pairs, strict=True))


@pytest.mark.skipif("LN_REPRO_TEST_DATA" not in os.environ, reason="LN_REPRO_TEST_DATA names no folder with iwslt14")
def test_the_published_test_set_of_iwslt14(made):
    """It is that of fairseq's prepare-iwslt14.sh before BPE, by tokenizer.perl and lowercase.perl."""
    prepared = made("iwslt14", source=Path(os.environ["LN_REPRO_TEST_DATA"]) / "iwslt14", only="test")
    for lang, expected in IWSLT14_TEST.items():
        assert hashlib.sha256((prepared.folder / "text" / f"test.{lang}").read_bytes()).hexdigest() == expected


def zipped(folder: Path, lines: list[str]) -> Path:
    """Write an archive as Tatoeba's."""
    path = folder / "deu-eng.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("deu.txt", "".join(f"{line}\n" for line in lines))
    return path


def test_tatoeba_does_not_leak_and_its_split_does_not_depend_on_the_order(made, tmp_path):
    """Three English sentences share a German one, and the other way round."""
    pairs = [f"Sentence {number // 2}.\tSatz {number // 3}.\tattribution" for number in range(3000)]
    prepared = made("tatoeba", source=zipped(tmp_path, pairs), checksum="record")
    for lang in ("de", "en"):
        paths = [prepared.folder / "text" / f"{split}.{lang}" for split in ("train", "valid", "test")]
        train, *held_out = (set(stored_lines(path)) for path in paths)
        assert train.isdisjoint(set().union(*held_out))
    assert sum(prepared.pairs.values()) < 3000 and min(prepared.pairs.values()) > 5
    test = made("tatoeba", source=tmp_path / "deu-eng.zip", checksum="record", only="test")
    assert dict(test.pairs) == {"test": prepared.pairs["test"]} and not [*test.folder.glob("text/train.*")]
    turned = made("tatoeba", source=zipped(tmp_path, pairs[::-1]), checksum="record")
    for split in ("valid", "test"):
        assert len(set(prepared.references(split))) == prepared.pairs[split]
        assert sorted(prepared.sources(split)) == sorted(turned.sources(split))
        assert sorted(prepared.references(split)) == sorted(turned.references(split))


def test_a_tatoeba_archive_with_other_content_is_refused(made, tmp_path):
    with pytest.raises(UserError, match=r"deu\.txt:2: expected ENGLISH, a tab and GERMAN"):
        made("tatoeba", source=zipped(tmp_path, ["Go.\tGeh.", "no tab"]), checksum="record")


def packed(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "de-en")
    return archive


def test_iwslt14_from_the_original_layout_and_from_the_archive(made, root, iwslt, tmp_path):
    prepared = made("iwslt14", source=iwslt.parent)
    assert dict(prepared.pairs) == {"train": 48, "valid": 2, "test": 5}
    assert prepared.sources("test") == [f"It\u2019s de {number}." for number in range(5)]
    assert prepared.tokenised("test") == [f"it &apos;s en {number} ." for number in range(5)]
    train = (prepared.folder / "text" / "train.de").read_text("utf-8").split("\n")
    assert train[0] == "&lt; speaker &gt; n. n. &lt; / speaker &gt;"
    assert train[1:4] == ["a title de", "ted : what de .", "word de number 0 ."]
    assert train[-2] == "tail"
    assert prepared.sources("valid") == ["Word de number 19.", "Word de number 42."]
    assert made("iwslt14", source=iwslt) == prepared
    assert verify(settings("iwslt14"), root) == []
    archive = packed(iwslt, tmp_path / "de-en.tgz")
    for source in (archive, tmp_path):  # the file itself, or the folder with it
        shutil.rmtree(prepared.folder)
        assert made("iwslt14", source=source) == prepared


def test_another_archive_than_the_published_one_is_downloaded_only_if_asked_for(made, iwslt, served, monkeypatch):
    FileServer.contents = {"de-en.tgz": packed(iwslt, iwslt / "de-en.tgz").read_bytes()}
    published = Raw("de-en.tgz", f"git:{'0' * 40}", (f"{served}/de-en.tgz",))
    monkeypatch.setattr(iwslt14.Iwslt14, "archive", published)
    with pytest.raises(UserError, match=r"the content differs, expected git:0"):
        made("iwslt14")
    assert dict(made("iwslt14", checksum="record").pairs) == {"train": 48, "valid": 2, "test": 5}


def test_an_iwslt14_that_is_not_the_published_one_is_refused_unless_asked_for(made, iwslt, tmp_path, monkeypatch):
    monkeypatch.setattr(iwslt14.Iwslt14, "pairs", {"train": 160_239})
    with pytest.raises(UserError, match=r"train: expected 160239 pairs, found 48"):
        made("iwslt14", source=iwslt)
    path = iwslt / "train.tags.de-en.en"
    write(path, *path.read_text("utf-8").splitlines(), "One more")
    with pytest.raises(UserError, match=r"not the published file of iwslt14, expected sha256:.*found sha256:"):
        made("iwslt14", source=iwslt)
    with pytest.raises(UserError, match=r"\.de has 53 lines, .*\.en has 54 lines"):
        made("iwslt14", source=iwslt, checksum="record")
    archive = packed(iwslt, tmp_path / "damaged.tgz")
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"not a tar archive, or a damaged one"):
        made("iwslt14", source=archive)
