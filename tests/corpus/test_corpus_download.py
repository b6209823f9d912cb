"""Downloads from a server that fails on request."""

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
    """Serve CONTENT: /good whole, /cut only in part; /bad other bytes; /absent nothing."""

    def do_GET(self) -> None:
        if self.path == "/absent":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        body = b"x" * len(CONTENT) if self.path == "/bad" else CONTENT
        self.wfile.write(body[:1000] if self.path == "/cut" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
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


def test_a_whole_file(server: str, target: Path) -> None:
    told = get([f"{server}/good"], target)
    assert target.read_bytes() == CONTENT
    assert told == [f"downloading {server}/good (1.0 MB)"]
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_the_next_address_is_tried(server: str, target: Path) -> None:
    get([f"{server}/absent", f"{server}/bad", f"{server}/cut", f"{server}/good"], target)
    assert target.read_bytes() == CONTENT


def test_the_reasons_why_all_addresses_failed_are_given(server: str, target: Path) -> None:
    with pytest.raises(UserError) as error:
        get([f"{server}/absent", f"{server}/bad", f"{server}/cut"], target)
    message = str(error.value)
    assert "HTTP 404" in message and f"expected {SHA256}, found sha256:" in message and "IncompleteRead" in message
    assert message.endswith("get it by hand and give data.source=PATH") and "\n" not in message
    assert not list(target.parent.iterdir())


def test_no_network(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(UserError, match=r"refused.*data\.source=PATH"):
        get(["http://127.0.0.1:9/file"], target)


def test_a_full_disk_is_noticed_before(server: str, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(UserError, match=r"1 MB are needed and 0 MB are free.*paths\.data"):
        get([f"{server}/good"], target)


def test_a_corpus_downloads_its_missing_files(server: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`record` accepts any file; its own digest is part of the fingerprint."""
    tatoeba = type(CORPORA["tatoeba"])
    raw = Raw("deu-eng.zip", f"sha256:{'0' * 64}", (f"{server}/good",))
    monkeypatch.setattr(tatoeba, "inputs", lambda self, data: [raw])
    with pytest.raises(UserError, match=r"expected sha256:0000.*data\.checksum=record"):
        prepare(settings("tatoeba"), root, lambda *_: None, lambda line: None)
    loose = settings("tatoeba", checksum="record")
    assert fingerprint(loose, root) is None
    with pytest.raises(UserError, match=r"not a zip archive.*data\.source=PATH"):
        prepare(loose, root, lambda *_: None, lambda line: None)
    assert fingerprint(loose, root) is not None
