"""The archive of events and hypotheses: compressed files, each written once by one `collect` and never rewritten."""

import io
import lzma
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ln_repro.errors import LnReproError
from ln_repro.system.files import sha256, write_atomically

CHECKSUMS = "SHA256SUMS"
"""Name of the list of their checksums, in the format of `sha256sum --check`."""
EVENTS, HYPOTHESES = ".events.jsonl", ".test.txt"
"""Suffixes, after the id of a run, of the files in an archive."""
PRESET = 6
"""Of xz: higher ones need more memory and save nothing here."""


def archive_folder(records: Path) -> Path:
    """Return the folder of archives that belongs to a folder of records: its neighbour, or inside it."""
    return records.resolve().parent / "archive" if records.resolve().name == "records" else records / "archive"


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder of archives by file name; raise `LnReproError` if they are damaged."""
    path = folder / CHECKSUMS
    text = path.read_text(errors="replace") if path.exists() else ""
    lines = [re.fullmatch("([0-9a-f]{64})  (.+)", line) for line in text.splitlines()]
    if None in lines:
        raise LnReproError(f"{path}: not a list of checksums as from sha256sum; restore it")
    return {line[2]: line[1] for line in lines if line}


def pack(folder: Path, setting: str, files: Mapping[str, bytes]) -> str:
    """Write a new archive with these files, and its checksum; return its name.

    Raises:
        OSError: the disk is full or not writable; then there is no new archive.
    """
    folder.mkdir(exist_ok=True)
    known = checksums(folder)
    number = 1 + max((int(name[:4]) for name in [*known, *(path.name for path in folder.glob("*.tar.xz"))]), default=0)
    name, packed = f"{number:04d}-{setting}.tar.xz", io.BytesIO()
    with lzma.open(packed, "w", preset=PRESET) as out, tarfile.open(fileobj=out, mode="w") as tar:
        for member, content in files.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    write_atomically(folder / name, packed.getvalue())
    known[name] = sha256(folder / name)
    write_atomically(folder / CHECKSUMS, "".join(f"{known[name]}  {name}\n" for name in sorted(known)))
    return name


def unpacked(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file in an archive.

    Raises:
        LnReproError: the archive is missing or damaged.
    """
    try:
        with tarfile.open(path, "r:xz") as tar:
            for member in tar:
                if file := tar.extractfile(member):
                    yield member.name, file.read()
    except FileNotFoundError:
        raise LnReproError(f"{path} is missing; restore it") from None
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        raise LnReproError(f"{path} is damaged ({error}); restore it") from None
