"""Downloads against a server that behaves badly on request."""

import hashlib
from pathlib import Path

import pytest

from ln_repro.corpus.base import Raw
from ln_repro.corpus.locate import download
from ln_repro.errors import UserError
from tests.corpus.conftest import FileServer

CONTENT = bytes(range(256)) * 4000
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def server(served: str) -> str:
    FileServer.contents = {"good": CONTENT, "cut": CONTENT, "bad": b"x" * len(CONTENT)}
    FileServer.cut = {"cut"}
    return served


def get(urls: list[str], target: Path) -> None:
    raw = Raw("file.bin", urls=tuple(urls))
    download(raw, target, SHA256, "get it by hand and give data.source=PATH", lambda line: None)


@pytest.mark.parametrize(("part", "path", "asked"), [
    (b"", "cut", [None, f"bytes={len(CONTENT) // 2}-"]),
    (CONTENT[:1000], "good", ["bytes=1000-"]),
    (CONTENT, "good", [f"bytes={len(CONTENT)}-"]),
    (b"something else", "good", ["bytes=14-", None]),
], ids=["cut", "begun", "complete", "other"])  # fmt: skip
def test_a_transfer_that_broke_off_now_or_earlier_is_resumed_or_begun_anew(server, root, part, path, asked):
    root.mkdir(parents=True)
    target = root / "file.bin"
    target.with_name("file.bin.part").write_bytes(part)
    get([f"{server}/{path}"], target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in root.iterdir()] == ["file.bin"]
    assert FileServer.asked == [(path, bytes_) for bytes_ in asked]


def test_every_address_is_tried_and_the_reasons_are_named(server, tmp_path):
    target = tmp_path / "file.bin"
    bad = [f"{server}/absent", f"{server}/bad", "http://127.0.0.1:9/file"]
    with pytest.raises(UserError) as error:
        get(bad, target)
    message = str(error.value)
    assert "HTTP Error 404" in message and "refused" in message and f"expected {SHA256}, found sha256:" in message
    assert message.endswith("get it by hand and give data.source=PATH")
    assert "\\n" not in message and not target.exists()
    get([*bad, f"{server}/good"], target)
    assert target.read_bytes() == CONTENT
