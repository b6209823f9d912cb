"""Files from the network: several addresses, resumable, verified before they count."""

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
"""Tries per address, each going on where the last one broke off."""

TIMEOUT = 30.0
"""Seconds without a byte before a connection is given up."""

BLOCK = 1 << 16

# Some of the hosts refuse the name that Python gives itself.
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ln-repro)", "Accept-Encoding": "identity"}


class FailedError(Exception):
    """One address did not deliver; the next may."""


def fetch(urls: Sequence[str], target: Path, expected: str | None, by_hand: str, report: Report) -> Path:
    """Return ``target``, downloaded from the first address that delivers the expected content.

    A broken transfer leaves ``<target>.part``, from which the next call goes on.

    Raises:
        UserError: no address delivered; says what each one answered and what to do by hand.
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
        # What the part began with may have come from another version or another address.
        part.unlink()
        _transfer(url, part, report)
        found = digest(part, str(expected).split(":")[0])
    if found != expected:
        part.unlink()
        raise FailedError(f"the content differs, expected {expected}, found {found}")
    part.replace(target)


def _transfer(url: str, part: Path, report: Report) -> None:
    """Bring ``part`` to its full length, or raise `FailedError`."""
    for attempt in range(1, ATTEMPTS + 1):
        before = part.stat().st_size if part.exists() else 0
        try:
            _request(url, part, before, report)
            return
        except urllib.error.HTTPError as error:
            if error.code != 416 or not before:
                raise FailedError(f"HTTP {error.code} {error.reason}") from None
            if error.headers.get("Content-Range", f"*/{before}").endswith(f"/{before}"):
                return  # nothing beyond what is here: it was complete
            part.unlink()  # longer than the file is now: it was another one
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in FULL + REFUSED:
                raise  # the disk, not the network
            progressed = part.exists() and part.stat().st_size > before
            if attempt == ATTEMPTS or not progressed:
                raise FailedError(str(getattr(error, "reason", error)) or type(error).__name__) from None
    raise FailedError("the server does not agree with itself about the length")


def _request(url: str, part: Path, offset: int, report: Report) -> None:
    """Append the bytes from ``offset`` on; when the server sends everything, start over."""
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
    """Show a bar on a terminal, one line elsewhere."""
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
