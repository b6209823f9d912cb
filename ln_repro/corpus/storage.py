"""Remembered checksums, locks, and the room a corpus takes: what keeps a prepared one whole."""

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
    """Return ``sha256:<hex>``, or ``git:<hex>`` (what ``git hash-object`` prints) of a file."""
    return f"{kind}:{sha256(path) if kind == 'sha256' else git_blob(path)}"


def cached_digest(path: Path, root: Path, kind: str = "sha256") -> str:
    """Return `digest`, remembered under ``root`` by path, size and time of change."""
    status = path.stat()
    key = f"{kind} {os.path.realpath(path)}"
    stamp = [status.st_size, status.st_mtime_ns]
    store = root / ".digests.json"
    known = _read_store(store)
    if known.get(key, {}).get("stamp") == stamp:
        return str(known[key]["digest"])
    value = digest(path, kind)
    # Two writers may each lose the other's entry; that only costs hashing again.
    _write_store(store, {**_read_store(store), key: {"stamp": stamp, "digest": value}})
    return value


def _read_store(store: Path) -> dict[str, dict[str, object]]:
    """Return the remembered checksums; a damaged file remembers nothing."""
    try:
        known = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_store(store: Path, known: dict[str, dict[str, object]]) -> None:
    """Remember checksums, if the folder can be written."""
    with contextlib.suppress(OSError):
        store.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(store, json.dumps(known, indent=0))


def locked(place: Path) -> AbstractContextManager[DirectoryLock]:
    """Keep every other process, on whatever machine, away from ``place`` meanwhile, however long it takes."""
    return acquire(place.with_name(f".{place.name}.lease"), patience=math.inf)


UNPACKED = {".gz": 3.5, ".tgz": 3.5, ".xz": 4.5, ".zip": 4.0}
"""How many times larger text is than its archive, roughly."""

COPIES = 5
"""A corpus is written tokenised, segmented and binarised, with room for a rename."""


def room_for(paths: Iterable[Path]) -> float:
    """Return the bytes that preparing these raw files may take, estimated on the safe side."""
    return 16 * MEGABYTE + COPIES * sum(path.stat().st_size * UNPACKED.get(path.suffix, 1.0) for path in paths)
