"""WMT14: from plain files, and a rehearsal of its download with made-up archives on a local server."""

import dataclasses
import hashlib
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from ln_repro.corpus import wmt14
from ln_repro.corpus.base import Raw
from ln_repro.corpus.prepare import fingerprint, prepare
from ln_repro.corpus.registry import CORPORA
from ln_repro.errors import UserError
from tests.corpus.conftest import FileServer, settings, write


@pytest.fixture
def wmt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wmt"
    for lang in ("de", "en"):
        write(folder / f"newstest2013.{lang}", f"Der well-known {lang} \u201cfact\u201d.", "Two.")
        write(folder / f"newstest2014.{lang}", f"Seg {lang}.", f"It\u2019s {lang}.")
        with lzma.open(folder / f"b.{lang}.xz", "wt") as file:
            file.write(f"Second {lang}.\n\nOnly one side is long" + (" indeed" * 9 if lang == "de" else "") + "\n")
        write(folder / f"a.{lang}", f"First {lang} \u201cfact\u201d.")
    monkeypatch.setattr(type(CORPORA["wmt14"]), "pairs", {"valid": 2, "test": 2})
    return folder


def test_wmt14_shards_in_the_order_of_their_names(made, wmt):
    prepared = made("wmt14", source=wmt, source_lang="en", target_lang="de", lowercase=False, bpe_merges=500)
    assert (prepared.folder / "text" / "train.en").read_text("utf-8") == "First en &quot; fact . &quot;\nSecond en .\n"
    assert dict(prepared.pairs) == {"train": 2, "valid": 2, "test": 2}
    assert prepared.references("test") == ["Seg de.", "It\u2019s de."]
    assert prepared.tokenised("valid")[0] == "Der well @-@ known de “ fact ” ."


def test_wmt14_needs_both_sides_of_the_training_text_but_none_for_the_test_set(made, wmt):
    (wmt / "a.en").unlink()
    with pytest.raises(UserError, match=r"/a\.en: not found there; get "):
        made("wmt14", source=wmt)
    assert dict(made("wmt14", source=wmt, only="test").pairs) == {"test": 2}


def test_text_of_ones_own_is_not_the_published_one(wmt, root):
    said: list[str] = []
    assert not prepare(settings("wmt14", source=wmt), root, said.append).published
    assert said[-1] == "wmt14: not the published text, so no claim is judged from runs on it"


def members() -> dict[str, dict[str, str]]:
    """Return the members of each archive in the published layout, some in other languages."""

    def both(name: str) -> dict[str, str]:
        lines = {lang: [f"{name} {lang} {number}, a \u2028 fact.\r\n" for number in range(40)] for lang in ("de", "en")}
        return {f"{name}.{lang}": "".join(lines[lang]) for lang in lines}

    europarl = dict(reversed(both("training/europarl-v7.de-en").items()))
    return {
        "training-parallel-commoncrawl.tgz": {"commoncrawl.cs-en.en": "no", **both("commoncrawl.de-en")},
        "training-parallel-europarl-v7.tgz": {**europarl, "training/europarl-v7.fr-en.en": "no"},
        "training-parallel-nc-v9.tgz": both("training/news-commentary-v9.de-en"),
        "dev.tgz": {
            "dev/newstest2013.de": "Eins.\nZwei.\n",
            "dev/newstest2013-src.de.sgm": "no",
            "dev/newstest2013.en": "One.\nTwo.\n",
            "dev/newstest2014-deen-ref.en.sgm": '<refset>\n<seg id="1"> Three. </seg>\n<seg id="2">Four.</seg>\n',
            "dev/newstest2014-deen-src.de.sgm": '<srcset>\n<seg id="1">Drei.</seg>\n<seg id="2">Vier.</seg>\n',
        },
    }


def packed(content: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, text in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return file.getvalue()


@pytest.fixture
def archives(served: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Serve small archives in the published layout, and make the corpus expect them."""
    FileServer.contents = {name: packed(content) for name, content in members().items()}

    def expected(raw: Raw) -> Raw:
        digest = f"sha256:{hashlib.sha256(FileServer.contents[raw.name]).hexdigest()}"
        return dataclasses.replace(raw, digest=digest, urls=(f"{served}/{raw.name}",))

    monkeypatch.setattr(wmt14, "NEWSTESTS", expected(wmt14.NEWSTESTS))
    monkeypatch.setattr(wmt14, "TRAIN", {name: expected(raw) for name, raw in wmt14.TRAIN.items()})
    monkeypatch.setattr(type(CORPORA["wmt14"]), "pairs", {"valid": 2, "test": 2})
    return FileServer.contents


def test_a_download_gives_what_plain_files_give(made, archives, root, tmp_path):
    expected = fingerprint(settings("wmt14"), root)
    prepared = made("wmt14")
    assert prepared.fingerprint == expected and prepared.published
    assert dict(prepared.pairs) == {"train": 120, "valid": 2, "test": 2}
    assert sorted(FileServer.asked) == sorted((name, None) for name in archives)
    assert prepared.sources("test") == ["Drei.", "Vier."] and prepared.references("valid") == ["One.", "Two."]
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "dev.tgz").write_bytes(archives["dev.tgz"])
    for member, text in (item for content in members().values() for item in content.items()):
        if text != "no" and "newstest" not in member:
            write(plain / Path(member).name, text.removesuffix("\n"))
    texts = [
        {path.name: path.read_bytes() for path in (corpus.folder / "text").iterdir()}
        for corpus in (prepared, made("wmt14", source=plain))
    ]
    assert texts[0] == texts[1]
    assert fingerprint(settings("wmt14", source=root / "raw" / "wmt14"), root / "other") == expected
