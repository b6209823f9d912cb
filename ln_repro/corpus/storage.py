"""Checksums, locks and disk space for corpora."""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from ln_repro.system.directory_lock import DirectoryLock, acquire
from ln_repro.system.files import MEGABYTE, git_blob, sha256


def digest(path: Path, kind: str = "sha256") -> str:
    """Return the checksum of a file: ``sha256:<hex>``, or ``git:<hex>`` as from ``git hash-object``."""
    return f"{kind}:{sha256(path) if kind == 'sha256' else git_blob(path)}"


def cached_digest(path: Path, kind: str = "sha256") -> str:
    """Return `digest`, which this process computes once as long as size and modification time are the same."""
    status = path.stat()
    return _digest(path.resolve(), kind, status.st_size, status.st_mtime_ns)


@cache
def _digest(path: Path, kind: str, size: int, modified: int) -> str:
    return digest(path, kind)


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
