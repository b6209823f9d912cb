"""Settings, text files and a server of files."""

from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from ln_repro.experiment.data import Data

MERGES = {"toy": 0, "wmt14": 200}


def settings(name: str, **changes: Any) -> Data:
    """Return the settings of a corpus with few merges."""
    return Data(**{"name": name, "bpe_merges": MERGES.get(name, 50), **changes})


def write(path: Path, *lines: str) -> Path:
    """Write a text file of lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


class FileServer(BaseHTTPRequestHandler):
    """Serve ``contents`` by file name.

    A transfer in ``cut`` breaks off halfway, once; the names in ``whole`` are sent from their beginning in any case.
    """

    contents: dict[str, bytes]
    cut: set[str]
    whole: set[str]
    asked: list[tuple[str, str | None]]
    """Name and range of every request."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.asked.append((name, self.headers.get("Range")))
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        start *= name not in self.whole
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
