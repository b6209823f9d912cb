"""A data folder with an unusual name, small corpora, and a server of files."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ln_repro.corpus import iwslt14
from ln_repro.corpus.prepare import prepare
from ln_repro.corpus.registry import CORPORA
from ln_repro.experiment.data import Data
from ln_repro.system.files import digest

MERGES = {"toy": 0, "wmt14": 200}


def settings(name: str, **changes: Any) -> Data:
    """Return the settings of a corpus with few merges."""
    return Data(**{"name": name, "bpe_merges": MERGES.get(name, 50), **changes})


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


class FileServer(BaseHTTPRequestHandler):
    """Serve ``contents`` by file name; a transfer in ``cut`` breaks off halfway, once."""

    contents: dict[str, bytes]
    cut: set[str]
    asked: list[tuple[str, str | None]]
    """Name and range of every request."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.asked.append((name, self.headers.get("Range")))
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        body = self.contents.get(name, b"")[start:]
        if not body:
            self.send_error(416 if name in self.contents else 404)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if name in self.cut else body)
        self.cut.discard(name)

    def log_message(self, *_: object) -> None:
        pass


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
def iwslt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a small archive in the original layout, and make the corpus expect it."""
    folder = tmp_path / "original" / "de-en"
    for lang in ("de", "en"):
        body = [f"Word {lang} number {number}." for number in range(46)]
        write(
            folder / f"train.tags.de-en.{lang}",
            "<url>http://x</url>", "<keywords>talks</keywords>", "<speaker>N. N.</speaker>", "<talkid>1</talkid>",
            f"<title>A Title {lang}</title>", f"<description>TED: What {lang}.</description>",
            *body, "", "a b c d e f" if lang == "de" else "a b c", " ".join("x" * 176), " Tail ",
        )  # fmt: skip
        for number, name in enumerate(iwslt14.TESTS):
            write(
                folder / f"IWSLT14.{name}.de-en.{lang}.xml",
                "<doc>", f"<title>not this {lang}</title>", f'<seg id="1"> It\u2019s {lang} {number}. </seg>', "</doc>",
            )  # fmt: skip
    monkeypatch.setattr(iwslt14, "DIGESTS", {name: digest(folder / name) for name in iwslt14.DIGESTS})
    # 46 sentences, title, description, speaker and tail are kept; each 23rd of them is for validation
    monkeypatch.setattr(iwslt14.Iwslt14, "pairs", {"train": 48, "valid": 2, "test": 5})
    return folder


@pytest.fixture
def served() -> Iterator[str]:
    """Start a `FileServer` without files; return its address."""
    FileServer.contents, FileServer.cut, FileServer.asked = {}, set(), []
    with ThreadingHTTPServer(("127.0.0.1", 0), FileServer) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
