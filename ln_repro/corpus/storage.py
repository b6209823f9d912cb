"""Digests, locks, and the disk space of a corpus."""

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
    """Return ``sha256:<hex>``, or ``git:<hex>`` as of ``git hash-object``, of a file."""
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
    with contextlib.suppress(OSError):  # a folder that cannot be written
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


def locked(place: Path) -> AbstractContextManager[DirectoryLock]:
    """Lock ``place`` against all other processes on all machines; wait for the lock as long as it takes."""
    return acquire(place.with_name(f".{place.name}.lease"), patience=math.inf)


UNPACKED = {".gz": 3.5, ".tgz": 3.5, ".xz": 4.5, ".zip": 4.0}
"""Approximate size of text relative to its archive."""
COPIES = 5
"""Raw, tokenised, segmented and binarised text, and a margin."""


def room_for(paths: Iterable[Path]) -> float:
    """Return a generous estimate of the disk space, in bytes, for preparing these raw files."""
    return 16 * MEGABYTE + COPIES * sum(path.stat().st_size * UNPACKED.get(path.suffix, 1.0) for path in paths)
