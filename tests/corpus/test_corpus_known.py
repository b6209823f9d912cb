"""The published corpora: the real ones if they exist, and small imitations."""

import hashlib
import itertools
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from corpus_helpers import FileServer, settings, write

from ln_repro.corpus import iwslt14
from ln_repro.corpus.base import Raw
from ln_repro.corpus.prepare import CORPORA, fingerprint, verify
from ln_repro.corpus.text import stored_lines
from ln_repro.errors import UserError

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


@pytest.mark.parametrize(
    ("name", "option", "value", "message"),
    [
        ("toy", "source", "x", r"data\.source: toy has its own text; use data=files or data=text"),
        ("multi30k", "valid", "x", r"data\.valid: multi30k has its own text"),
        ("toy", "source_lang", "en", "must differ; got en and en"),
        ("toy", "target_lang", "fr", "toy is in de and en; got de and fr"),
        ("rte", "source_lang", "de", "rte is in sentence1 and sentence2; got de and en"),
        ("rte", "only", "test", r"data\.only: rte has no test set; leave it out"),
    ],
)
def test_settings_that_a_corpus_does_not_have_are_refused(name, option, value, message, root):
    with pytest.raises(UserError, match=message):
        fingerprint(settings(name, **{option: value}), root)


def test_the_toy_corpus_never_changes_and_its_splits_share_no_sentence():
    """A change of the generator changes every toy result: raise Toy.revision."""
    splits = CORPORA["toy"].read(settings("toy"), {})
    assert {name: len(list(pairs)) for name, pairs in splits.items()} == {"test": 500, "valid": 500, "train": 20_000}
    pairs = list(itertools.chain.from_iterable(splits.values()))
    text = "".join(f"{german}\t{english}\n" for german, english in pairs)
    assert hashlib.sha256(text.encode()).hexdigest() == TOY
    assert all(len(set(side)) == 21_000 for side in zip(*pairs, strict=True))


@pytest.mark.parametrize(("name", "pairs"), [("multi30k", 1_000), ("iwslt14", 6_750), ("wmt14", 3_003)])
def test_the_published_test_sets(made, real_data, name, pairs):
    """IWSLT14's text is that of fairseq's prepare-iwslt14.sh before BPE, by tokenizer.perl and lowercase.perl."""
    prepared = made(name, source=real_data / name, only="test", bpe_merges=10_000)
    assert dict(prepared.pairs) == {"test": pairs} and not prepared.bin.exists()
    if name == "iwslt14":
        for lang, expected in IWSLT14_TEST.items():
            assert hashlib.sha256((prepared.folder / "text" / f"test.{lang}").read_bytes()).hexdigest() == expected


def zipped(folder: Path, lines: list[str], member: str = "deu.txt") -> Path:
    """Write an archive as Tatoeba's."""
    path = folder / "deu-eng.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, "".join(f"{line}\n" for line in lines))
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
    turned = made("tatoeba", source=zipped(tmp_path, pairs[::-1]), checksum="record")
    for split in ("valid", "test"):
        assert len(set(prepared.references(split))) == prepared.pairs[split]
        assert sorted(prepared.sources(split)) == sorted(turned.sources(split))
        assert sorted(prepared.references(split)) == sorted(turned.references(split))


def test_tatoeba_archive_with_other_content(made, tmp_path):
    with pytest.raises(UserError, match=r"not a zip archive with deu\.txt, or damaged"):
        made("tatoeba", source=zipped(tmp_path, ["Go.\tGeh."], "fra.txt"), checksum="record")
    with pytest.raises(UserError, match=r"deu\.txt:2: expected ENGLISH, a tab and GERMAN"):
        made("tatoeba", source=zipped(tmp_path, ["Go.\tGeh.", "no tab"]), checksum="record")
    path = write(tmp_path / "plain.zip", "no archive")
    with pytest.raises(UserError, match=r"not a zip archive"):
        made("tatoeba", source=path, checksum="record")


def packed(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "de-en")
    return archive


def test_iwslt14_from_the_original_layout_and_from_the_archive(made, root, iwslt, tmp_path):
    told = made("iwslt14", source=iwslt.parent)
    assert dict(told.pairs) == {"train": 48, "valid": 2, "test": 5}
    assert told.sources("test") == [f"It\u2019s de {number}." for number in range(5)]
    assert told.tokenised("test") == [f"it &apos;s en {number} ." for number in range(5)]
    train = (told.folder / "text" / "train.de").read_text("utf-8").split("\n")
    assert train[0] == "&lt; speaker &gt; n. n. &lt; / speaker &gt;"
    assert train[1:4] == ["a title de", "ted : what de .", "word de number 0 ."]
    assert train[-2] == "tail"
    assert told.sources("valid") == ["Word de number 19.", "Word de number 42."]
    assert made("iwslt14", source=iwslt) == told
    assert verify(settings("iwslt14"), root) == []
    archive = packed(iwslt, tmp_path / "de-en.tgz")
    for source in (archive, tmp_path):  # the file itself, or the folder with it
        shutil.rmtree(told.folder)
        assert made("iwslt14", source=source) == told


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
    path.unlink()
    archive = packed(iwslt, tmp_path / "other.tgz")
    with pytest.raises(UserError, match=r"other\.tgz: train\.tags\.de-en\.en: not found there"):
        made("iwslt14", source=archive)
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"not a tar archive, or a damaged one"):
        made("iwslt14", source=archive)
