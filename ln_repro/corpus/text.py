"""Text files: UTF-8, one sentence per line, with line feeds as the only line ends."""

import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO

from ln_repro.errors import UserError
from ln_repro.system.files import Json

Pair = tuple[str, ...]  # a sentence on every side; a single sentence for text in one language
OPENERS: Json = {"": open, ".gz": gzip.open, ".xz": lzma.open}
"""By the ending that plain and compressed text files have."""
LONGEST_WORD = 1_000
"""Maximum number of characters per word in `well_matched` pairs, and of words from which merges are learnt."""
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile)
SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>", re.DOTALL)


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain, gzip or xz file for reading; raise `UserError` if it is missing, unreadable or damaged."""
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except DAMAGE as error:
        raise UserError(f"{path}: damaged or incomplete ({error}); get the file again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a plain, gzip or xz file without surrounding white space."""
    with unpacked(path) as file:
        yield from decoded(path, file)


def read_member(archive: Path, names: Collection[str]) -> Iterator[str]:
    """Yield the lines of a member of a tar archive that has one of these file names, without unpacking the archive."""
    with unpacked(archive) as file, tarfile.open(fileobj=file, mode="r|*") as tar:
        for member in tar:
            if member.isfile() and Path(member.name).name in names:
                yield from decoded(archive / member.name, tar.extractfile(member) or ())
                return
    raise UserError(f"{archive}: {' or '.join(names)}: not in this archive; get the file again")


def decoded(path: Path, lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines as text; ``path`` is for messages."""
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise UserError(f"{path}:{number}: not valid UTF-8; convert the file to UTF-8 and try again") from None
        if number == 1 and "\0" in text:
            raise UserError(f"{path}: looks like UTF-16; convert the file to UTF-8 and try again")
        yield text.replace("\r", " ").strip()  # programs that read the output as text would split it at "\r"


def parallel(names: Sequence[object], sides: Sequence[Iterable[str]]) -> Iterator[Pair]:
    """Yield the pairs of parallel lines; raise `UserError` at the end if the numbers of lines differ."""
    lines = [iter(side) for side in sides]
    for number, pair in enumerate(zip_longest(*lines)):
        if None in pair:
            counts = [
                number + (line is not None) + sum(1 for _ in rest) for line, rest in zip(pair, lines, strict=True)
            ]
            numbers = ", ".join(f"{name} has {count} lines" for name, count in zip(names, counts, strict=True))
            raise UserError(f"the two sides are not parallel: {numbers}; each line needs its translation")
        yield pair


def segments(lines: Iterable[str]) -> list[str]:
    """Return the segments of an evaluation set in SGML or XML."""
    return [segment.strip() for segment in SEGMENT.findall("\n".join(lines))]


def read_pairs(paths: Sequence[Path]) -> Iterator[Pair]:
    """Yield the pairs of lines of parallel files."""
    return parallel(paths, [read_lines(path) for path in paths])


def find_text(prefix: Path) -> Path:
    """Return the file ``prefix``, ``prefix.gz`` or ``prefix.xz``; ``prefix`` if there is none."""
    candidates = (prefix.parent / f"{prefix.name}{suffix}" for suffix in OPENERS)
    return next((path for path in candidates if path.is_file()), prefix)


def stored_lines(path: Path) -> list[str]:
    """Return the lines of a file of a prepared corpus."""
    return path.read_bytes().decode().split("\n")[:-1]


def lower(text: str) -> str:
    """Return the text in lower case like Perl's ``lc``, which has no rule for a final sigma."""
    return text.replace("\u03a3", "\u03c3").lower()


def well_matched(pair: Pair, ratio: float, longest: int) -> bool:
    """Return whether clean-corpus-n.perl keeps a pair: 1 to ``longest`` words a side, their ratio at most ``ratio``."""
    words = [side.split() for side in pair]
    short, long = sorted(map(len, words))
    fits = 1 <= short <= long <= min(longest, ratio * short)
    return fits and all(len(word) <= LONGEST_WORD for side in words for word in side)
