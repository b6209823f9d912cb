"""Checksums, locks and disk space for corpora."""

import contextlib
import json
import math
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from ln_repro.system.directory_lock import DirectoryLock, acquire
from ln_repro.system.files import MEGABYTE, git_blob, sha256, write_atomically


def digest(path: Path, kind: str = "sha256") -> str:
    """Return the checksum of a file: ``sha256:<hex>``, or ``git:<hex>`` as from ``git hash-object``."""
    return f"{kind}:{sha256(path) if kind == 'sha256' else git_blob(path)}"


def cached_digest(path: Path, root: Path, kind: str = "sha256") -> str:
    """Return `digest`, cached under ``root`` by path, size and modification time."""
    status, cache = path.stat(), root / ".digests.json"
    key, stamp = f"{kind} {os.path.realpath(path)}", [status.st_size, status.st_mtime_ns]
    if (entry := _cached(cache).get(key, {})).get("stamp") == stamp:
        return str(entry["digest"])
    value = digest(path, kind)
    # Concurrent writers may lose entries, which are then computed again.
    known = {**_cached(cache), key: {"stamp": stamp, "digest": value}}
    with contextlib.suppress(OSError):  # read-only folder
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cache, json.dumps(known, indent=0))
    return value


def _cached(cache: Path) -> dict[str, dict[str, object]]:
    """Return the cached digests; none if the file is damaged."""
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def locked(path: Path) -> AbstractContextManager[DirectoryLock]:
    """Lock ``path`` against other processes on all machines, waiting without a time limit."""
    return acquire(path.with_name(f".{path.name}.lease"), patience=math.inf)


UNPACKED = {".gz": 3.5, ".tgz": 3.5, ".xz": 4.5, ".zip": 4.0}
"""Approximate size of text relative to its archive."""
COPIES = 7
"""Copies of the text: raw, tokenised, and twice tokenised, segmented and binarised, in shards and as a whole."""


def room_for(files: Iterable[tuple[Path, float]]) -> float:
    """Return an upper estimate of the disk space, in bytes, to prepare raw files, of which only a share is used."""
    text = sum(path.stat().st_size * UNPACKED.get(path.suffix, 1.0) * share for path, share in files)
    return 16 * MEGABYTE + COPIES * text
