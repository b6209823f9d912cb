"""Downloads, from several addresses and verified before use."""

import http.client
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from ln_repro.corpus.storage import digest
from ln_repro.errors import UserError
from ln_repro.system.files import FULL, REFUSED, require_room

Report = Callable[[str], None]
TIMEOUT = 30.0
"""Seconds without data until a connection is closed."""
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ln-repro)", "Accept-Encoding": "identity"}
"""Some hosts refuse Python's own user agent."""


def fetch(urls: Sequence[str], target: Path, expected: str | None, by_hand: str, report: Report) -> Path:
    """Return ``target``, downloaded from the first address with the expected content.

    Raises:
        UserError: all addresses failed; says why each did, and what to do by hand.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    reasons = []
    for url in urls:
        try:
            _download(url, part, report)
        except urllib.error.HTTPError as error:
            reasons.append(f"{url}: HTTP {error.code} {error.reason}")
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in FULL + REFUSED:
                raise  # the disk, not the network
            reasons.append(f"{url}: {getattr(error, 'reason', error) or type(error).__name__}")
        else:
            found = digest(part, expected.split(":")[0]) if expected else None
            if found == expected:
                return part.replace(target)
            reasons.append(f"{url}: the content differs, expected {expected}, found {found}")
    part.unlink(missing_ok=True)
    raise UserError(f"{target.name} could not be downloaded ({'; '.join(reasons)}); {by_hand}")


def _download(url: str, part: Path, report: Report) -> None:
    """Write a file to ``part``, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import wrap_file

    with urllib.request.urlopen(urllib.request.Request(url, headers=HEADERS), timeout=TIMEOUT) as reply:
        total = int(reply.headers.get("Content-Length") or 0)
        require_room(part.parent, float(total), "paths.data")
        report(f"downloading {url}{f' ({total / 1e6:.1f} MB)' if total else ''}")
        bar = wrap_file(reply, total, description=url.rsplit("/", 1)[-1], console=Console(stderr=True), transient=True,
                        disable=not sys.stderr.isatty())  # fmt: skip
        with bar as stream, part.open("wb") as file:
            shutil.copyfileobj(stream, file)
    if total and (size := part.stat().st_size) != total:
        raise http.client.IncompleteRead(b"", total - size)
