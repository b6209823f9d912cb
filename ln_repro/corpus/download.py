"""Download files from alternative addresses; downloads are resumable and verified."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from ln_repro.errors import UserError
from ln_repro.system.files import FULL, REFUSED, digest
from ln_repro.system.progress import Report, progress

ATTEMPTS = 3
"""Attempts per address; each resumes the previous one."""
TIMEOUT = 30.0
"""Seconds without data after which a connection is closed."""
BLOCK = 1 << 16
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ln-repro)", "Accept-Encoding": "identity"}
"""Some hosts reject Python's default user agent."""


def fetch(urls: Sequence[str], target: Path, expected: str | None, by_hand: str, report: Report) -> None:
    """Download ``target`` from the first address that provides the expected content.

    An interrupted transfer leaves ``<target>.part``, which the next call resumes.

    Raises:
        UserError: all addresses failed; the message contains each reason and what to do by hand.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in urls:
        reason = _from_address(url, target, expected, report)
        if reason is None:
            return
        reasons.append(f"{url}: {reason}")
    raise UserError(f"{target.name} could not be downloaded ({'; '.join(reasons)}); {by_hand}")


def _from_address(url: str, target: Path, expected: str | None, report: Report) -> str | None:
    """Download from one address; return why it failed, or None."""
    part = target.with_name(target.name + ".part")
    if expected is None:  # a part could not be checked
        part.unlink(missing_ok=True)
    reason = None
    for _ in range(ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            _request(url, part, before, report)
        except urllib.error.HTTPError as error:
            if error.code != 416 or not before:  # otherwise, the part is complete, or is found to have other content
                return f"HTTP {error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in FULL + REFUSED:
                raise  # an error of the disk, not of the network
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            if part.exists() and part.stat().st_size > before:
                continue
            break
        if expected is None or (content := digest(part, expected.split(":")[0])) == expected:
            part.replace(target)
            return None
        part.unlink()
        reason = f"the content differs, expected {expected}, found {content}"
        if not before:  # otherwise, the part may have come from another address or from another version of the file
            break
    return reason


def _request(url: str, part: Path, offset: int, report: Report) -> None:
    """Append the bytes from ``offset`` on; if the server sends the whole file, start over."""
    request = urllib.request.Request(url, headers=HEADERS | ({"Range": f"bytes={offset}-"} if offset else {}))
    with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
        resumed = reply.status == 206
        left = int(reply.headers.get("Content-Length") or 0)  # 0: unknown
        step = f"{'resuming' if resumed else 'downloading'} {url}:"
        with part.open("ab" if resumed else "wb") as file, progress(step, left, report, "bytes") as advance:
            done = 0
            while block := reply.read(BLOCK):
                file.write(block)
                done += len(block)
                advance(len(block))
    if left and done != left:
        raise http.client.IncompleteRead(b"", left - done)
