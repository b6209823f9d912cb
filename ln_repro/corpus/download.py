"""Download files from alternative addresses; downloads are resumable and verified."""

import contextlib
import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ln_repro.corpus.storage import digest
from ln_repro.errors import UserError
from ln_repro.system.files import FULL, REFUSED, require_room

Report = Callable[[str], None]
Advance = Callable[[int, int | None], None]

ATTEMPTS = 3
"""Attempts per address; each resumes the previous one."""
TIMEOUT = 30.0
"""Seconds without data after which a connection is closed."""
BLOCK = 1 << 16
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ln-repro)", "Accept-Encoding": "identity"}
"""Some hosts reject Python's default user agent."""


class FailedError(Exception):
    """The download from one address failed."""


def fetch(urls: Sequence[str], target: Path, expected: str | None, by_hand: str, report: Report) -> Path:
    """Download ``target`` from the first address that provides the expected content, and return it.

    An interrupted transfer leaves ``<target>.part``, which the next call resumes.

    Raises:
        UserError: all addresses failed; the message contains each reason and what to do by hand.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in urls:
        try:
            _from_address(url, target, expected, report)
            return target
        except FailedError as reason:
            reasons.append(f"{url}: {reason}")
    raise UserError(f"{target.name} could not be downloaded ({'; '.join(reasons)}); {by_hand}")


def _from_address(url: str, target: Path, expected: str | None, report: Report) -> None:
    """Download from one address, or raise `FailedError`."""
    part = target.with_name(target.name + ".part")
    resumed = part.exists()
    _transfer(url, part, report)
    found = digest(part, expected.split(":")[0]) if expected else None
    if found != expected and resumed:
        # The part may have been downloaded from another address or from another version of the file.
        part.unlink()
        _transfer(url, part, report)
        found = digest(part, str(expected).split(":")[0])
    if found != expected:
        part.unlink()
        raise FailedError(f"the content differs, expected {expected}, found {found}")
    part.replace(target)


def _transfer(url: str, part: Path, report: Report) -> None:
    """Download the rest of ``part``, or raise `FailedError`."""
    for attempt in range(1, ATTEMPTS + 1):
        before = part.stat().st_size if part.exists() else 0
        try:
            _request(url, part, before, report)
            return
        except urllib.error.HTTPError as error:
            if error.code != 416 or not before:
                raise FailedError(f"HTTP {error.code} {error.reason}") from None
            if error.headers.get("Content-Range", f"*/{before}").endswith(f"/{before}"):
                return  # the part was already complete
            part.unlink()  # longer than the file: from another version
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in FULL + REFUSED:
                raise  # an error of the disk, not of the network
            progressed = part.exists() and part.stat().st_size > before
            if attempt == ATTEMPTS or not progressed:
                raise FailedError(str(getattr(error, "reason", error)) or type(error).__name__) from None
    raise FailedError("the server does not agree with itself about the length")


def _request(url: str, part: Path, offset: int, report: Report) -> None:
    """Append the bytes from ``offset`` on; if the server sends the whole file, start over."""
    request = urllib.request.Request(url, headers={**HEADERS, **({"Range": f"bytes={offset}-"} if offset else {})})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
        start = offset if reply.status == 206 else 0
        length = reply.headers.get("Content-Length")
        total = start + int(length) if length else None
        require_room(part.parent, float(total - start) if total else 0.0, "paths.data")
        with part.open("ab" if start else "wb") as file, _progress(url, start, total, report) as advance:
            done = start
            while block := reply.read(BLOCK):
                file.write(block)
                done += len(block)
                advance(done, total)
    if total is not None and done != total:
        raise http.client.IncompleteRead(b"", total - done)


@contextlib.contextmanager
def _progress(url: str, start: int, total: int | None, report: Report) -> Iterator[Advance]:
    """Show a progress bar on a terminal, otherwise a single line."""
    if not sys.stderr.isatty():
        size = f" ({total / 1e6:.1f} MB)" if total else ""
        report(f"{'resuming' if start else 'downloading'} {url}{size}")
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(url.rsplit("/", 1)[-1], completed=start, total=total)
        yield lambda done, total: bar.update(task, completed=done, total=total)
