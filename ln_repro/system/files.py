"""Atomic writes, checksums, JSON files that may be damaged, and errors for full or read-only disks."""

import contextlib
import errno
import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from ln_repro.errors import LnReproError, UserError

Json = dict[str, Any]  # a JSON object
Content = TypeVar("Content", dict, list)  # type: ignore[type-arg]
FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a small file so that readers see either the old or the new content, even after a crash."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync(path.parent)


@functools.cache
def warn(message: str) -> None:
    """Print a message to standard error, unless it was printed before."""
    print("ln-repro:", message.replace("\n", "\\n"), file=sys.stderr, flush=True)


def read_json(path: Path, kind: type[Content]) -> Content | None:
    """Return the content of a JSON file, an object or a list; None if there is no such file, or, with a warning, if it
    is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:  # not JSON or text, or nested too deeply
        warn(f"{path} is ignored: not valid JSON ({error})")
        return None
    if isinstance(content, kind):
        return content
    warn(f"{path} is ignored: expected a JSON {'object' if kind is dict else 'list'}")
    return None


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty; "" if there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(path: Path, kind: str = "sha256") -> str:
    """Return the checksum of a file: ``sha256:<hex>``, or ``git:<hex>`` as from ``git hash-object``."""
    if kind == "sha256":
        return f"sha256:{sha256(path)}"
    head = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return f"git:{hashlib.file_digest(file, lambda: head).hexdigest()}"


@contextlib.contextmanager
def explained(root: Path, setting: str) -> Iterator[None]:
    """Raise errors that say what to do: `LnReproError` for a full disk, `UserError` for missing permissions.

    ``setting`` names the setting of the folder.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or root
        if error.errno in FULL:
            raise LnReproError(f"{where}: the disk is full; free space or set {setting} to a larger disk") from error
        if error.errno in REFUSED:
            raise UserError(f"{where}: {error.strerror}; allow access, or set {setting} to another folder") from error
        raise


def existing(path: Path) -> Path:
    """Return a path or, if it does not exist, the nearest folder above it that does."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
