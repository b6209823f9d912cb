"""Downloads against a server that behaves badly on request."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from corpus_helpers import settings

from ln_repro.corpus.base import Raw
from ln_repro.corpus.download import fetch
from ln_repro.corpus.prepare import fingerprint, prepare
from ln_repro.corpus.registry import CORPORA
from ln_repro.errors import UserError

CONTENT = bytes(range(256)) * 4000
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """Serve CONTENT: /good whole, /cut always breaks off, /halves a part per request, /bad other bytes."""

    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.asked.append((self.path, self.headers.get("Range")))
        if self.path == "/absent":
            self.send_error(404)
            return
        if self.path == "/norange":
            start = 0
        body = (b"x" * len(CONTENT) if self.path == "/bad" else CONTENT)[start:]
        if not body:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/halves":
            body = body[: len(CONTENT) // 2]
        self.wfile.write(b"" if self.path == "/cut" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    Handler.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.fixture
def target(root: Path) -> Path:
    return root / "file.bin"


def get(urls: list[str], target: Path, expected: str | None = SHA256) -> list[str]:
    told: list[str] = []
    fetch(urls, target, expected, "get it by hand and give data.source=PATH", told.append)
    return told


def test_goes_on_after_a_broken_transfer(server: str, target: Path) -> None:
    get([f"{server}/halves"], target)
    assert target.read_bytes() == CONTENT
    assert Handler.asked == [("/halves", None), ("/halves", f"bytes={len(CONTENT) // 2}-")]


@pytest.mark.parametrize(
    ("part", "path", "asked"),
    [
        (CONTENT[:1000], "good", ["bytes=1000-"]),
        (CONTENT, "good", [f"bytes={len(CONTENT)}-"]),
        (b"something else", "good", ["bytes=14-", None]),
        (b"something else", "norange", ["bytes=14-"]),
    ],
    ids=["begun", "complete", "other", "norange"],
)
def test_what_an_earlier_process_left_is_completed_or_thrown_away(
    server: str, target: Path, part: bytes, path: str, asked: list[str | None]
) -> None:
    target.parent.mkdir(parents=True)
    target.with_name("file.bin.part").write_bytes(part)
    get([f"{server}/{path}"], target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert Handler.asked == [(f"/{path}", bytes_) for bytes_ in asked]


def test_the_next_address_is_tried(server: str, target: Path) -> None:
    get([f"{server}/absent", f"{server}/bad", f"{server}/cut", f"{server}/good"], target)
    assert target.read_bytes() == CONTENT


def test_what_no_address_delivers_is_explained(server: str, target: Path) -> None:
    with pytest.raises(UserError) as error:
        get([f"{server}/absent", f"{server}/bad", f"{server}/cut", "http://127.0.0.1:9/file"], target)
    message = str(error.value)
    assert "HTTP 404" in message and "refused" in message
    assert f"expected {SHA256}, found sha256:" in message
    assert message.endswith("get it by hand and give data.source=PATH")
    assert "\n" not in message.replace(str(target), "")
    assert not target.exists()


def test_a_full_disk_is_noticed_before(server: str, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(UserError, match=r"1 MB are needed and 0 MB are free.*paths\.data"):
        get([f"{server}/good"], target)


def test_a_corpus_downloads_what_it_lacks(server: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`record` takes another file than the known one; its own checksum decides the fingerprint."""
    tatoeba = type(CORPORA["tatoeba"])
    raw = Raw("deu-eng.zip", f"sha256:{'0' * 64}", (f"{server}/good",))
    monkeypatch.setattr(tatoeba, "inputs", lambda self, data: [raw])
    with pytest.raises(UserError, match=r"expected sha256:0000.*data\.checksum=record"):
        prepare(settings("tatoeba"), root, lambda line: None)
    loose = settings("tatoeba", checksum="record")
    assert fingerprint(loose, root) is None
    with pytest.raises(UserError, match=r"not a zip archive.*data\.source=PATH"):
        prepare(loose, root, lambda line: None)
    assert fingerprint(loose, root) is not None
