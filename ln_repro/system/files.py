"""Files that are either whole or absent, checksums, and disks that are full. For every room."""

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ln_repro.errors import UserError

MEGABYTE = 1e6
FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a small file so that readers see the old or the new one, never a part, whatever happens."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, onto the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Return the checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_blob(path: Path) -> str:
    """Return what ``git hash-object`` prints for a file."""
    head = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: head).hexdigest()


@contextlib.contextmanager
def explained(root: Path, setting: str) -> Iterator[None]:
    """Turn a full or forbidden disk into a message; ``setting`` says where things are written.

    Raises:
        UserError: no room under ``root``, or no permission to write there.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or root
        if error.errno in FULL:
            raise UserError(f"{where}: the disk is full; free some room or set {setting} to a larger disk") from error
        if error.errno in REFUSED:
            raise UserError(f"{where}: {error.strerror}; allow access, or set {setting} to another folder") from error
        raise


def free_at(path: Path) -> int:
    """Return the bytes that are free where ``path`` is or will be."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def require_room(root: Path, needed: float, setting: str) -> None:
    """Refuse to start what would fill the disk; ``needed`` is in bytes.

    Raises:
        UserError: less room than that is free where ``root`` is or will be.
    """
    free = free_at(root)
    if free < needed:
        raise UserError(
            f"{root}: about {needed / MEGABYTE:.0f} MB are needed and {free / MEGABYTE:.0f} MB are free; "
            f"free some room or set {setting} to a larger disk"
        )
