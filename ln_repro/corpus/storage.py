"""Checksums, locks, room on the disk: what keeps a prepared corpus whole."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ln_repro.errors import UserError

BLOCK = 1 << 20
MEGABYTE = 1e6
FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def digest(path: Path, kind: str = "sha256") -> str:
    """Return ``sha256:<hex>``, or ``git:<hex>`` (what ``git hash-object`` prints) of a file."""
    size = path.stat().st_size
    sha = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            sha.update(block)
    return f"{kind}:{sha.hexdigest()}"


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


def write_atomically(path: Path, text: str) -> None:
    """Write a small file so that readers see the old or the new one, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the system releases it when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def explained(root: Path) -> Iterator[None]:
    """Turn a full or forbidden disk into a message.

    Raises:
        UserError: no room under ``root``, or no permission to write there.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or root
        if error.errno in FULL:
            raise UserError(f"{where}: the disk is full; free some room or set paths.data to a larger disk") from error
        if error.errno in REFUSED:
            raise UserError(f"{where}: {error.strerror}; allow access, or set paths.data to another folder") from error
        raise


def require_room(root: Path, needed: float) -> None:
    """Refuse to start what would fill the disk; ``needed`` is in bytes.

    Raises:
        UserError: less room than that is free where ``root`` is or will be.
    """
    place = root
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            f"{root}: about {needed / MEGABYTE:.0f} MB are needed and {free / MEGABYTE:.0f} MB are free; "
            "free some room or set paths.data to a larger disk"
        )


UNPACKED = {".gz": 3.5, ".tgz": 3.5, ".xz": 4.5, ".zip": 4.0}
"""How many times larger text is than its archive, roughly."""

COPIES = 5
"""A corpus is written tokenised, segmented and binarised, with room for a rename."""


def room_for(paths: Iterable[Path]) -> float:
    """Return the bytes that preparing these raw files may take, estimated on the safe side."""
    return 16 * MEGABYTE + COPIES * sum(path.stat().st_size * UNPACKED.get(path.suffix, 1.0) for path in paths)
