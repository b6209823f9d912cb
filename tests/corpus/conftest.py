"""A data folder with an unusual name, a small corpus, and a server of files."""

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from corpus_helpers import FileServer, settings

from ln_repro.corpus.prepare import CORPORA, prepare


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a data folder whose name has spaces, quotes and a newline."""
    return tmp_path / 'it\'s a "strange"\nplace' / "data"


@pytest.fixture
def made(root: Path):
    """Return a function that prepares a corpus under `root`."""
    return lambda name, **changes: prepare(settings(name, **changes), root, lambda line: None)


@pytest.fixture
def small_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the toy corpus small, for tests of the machinery around it."""
    monkeypatch.setattr(type(CORPORA["toy"]), "pairs", {"train": 200, "valid": 20, "test": 20})


@pytest.fixture
def served() -> Iterator[str]:
    """Start a `FileServer` without files; return its address."""
    FileServer.contents, FileServer.cut, FileServer.whole, FileServer.asked = {}, set(), set(), []
    with ThreadingHTTPServer(("127.0.0.1", 0), FileServer) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
