"""Text files: UTF-8, one sentence per line, with line feeds as the only line ends."""

import gzip
import lzma
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from ln_repro.errors import UserError

Sides = Mapping[str, list[str]]
"""Parallel lines by language."""
Splits = dict[str, Sides]
"""By name: train, valid, test."""
SUFFIXES = ("", ".gz", ".xz")
"""Endings of plain and compressed text files."""


def read_lines(path: Path) -> list[str]:
    """Return the lines of a plain, gzip or xz file without surrounding white space.

    Raises:
        UserError: the file is missing, unreadable, damaged or not UTF-8.
    """
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not valid UTF-8; convert the file to UTF-8 and try again") from None
    # str.splitlines would also split at U+2028, and programs that read the output as text at "\r".
    lines = text.replace("\r", " ").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.strip() for line in lines]


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed according to its ending."""
    try:
        packed = path.read_bytes()
        if path.suffix == ".gz":
            return gzip.decompress(packed)
        return lzma.decompress(packed) if path.suffix == ".xz" else packed
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: damaged or incomplete ({error}); get the file again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None


def read_pair(paths: Mapping[str, Path]) -> Sides:
    """Return the lines of parallel files by language; raise `UserError` if the numbers of lines differ."""
    return require_parallel(paths, {lang: read_lines(path) for lang, path in paths.items()})


def require_parallel(paths: Mapping[str, Path], sides: Sides) -> Sides:
    """Return ``sides``, or raise `UserError` if they differ in the number of lines."""
    if len({len(lines) for lines in sides.values()}) > 1:
        found = ", ".join(f"{paths[lang]} has {len(lines)} lines" for lang, lines in sides.items())
        raise UserError(f"the two sides are not parallel: {found}; each line needs its translation")
    return sides


def refuse_empty(paths: Mapping[str, Path], sides: Sides) -> None:
    """Raise `UserError` if a file is empty or a line is blank."""
    for lang, lines in sides.items():
        if not lines:
            raise UserError(f"{paths[lang]}: the file is empty; give at least one sentence")
        if "" in lines:
            raise UserError(f"{paths[lang]}:{lines.index('') + 1}: empty line; remove the pair from both sides")


def find_text(prefix: Path) -> Path | None:
    """Return the file ``prefix``, ``prefix.gz`` or ``prefix.xz``; None if there is none."""
    candidates = (prefix.with_name(prefix.name + suffix) for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write the lines in UTF-8, after creating the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def stored_lines(path: Path) -> list[str]:
    """Return the lines of a file that `write_lines` wrote."""
    return path.read_bytes().decode().split("\n")[:-1]


def pick(sides: Sides, kept: list[int]) -> Sides:
    """Return the lines with these indices, of every language."""
    return {lang: [lines[number] for number in kept] for lang, lines in sides.items()}


def length(sides: Sides) -> int:
    """Return the number of pairs."""
    return len(next(iter(sides.values())))


def lower(text: str) -> str:
    """Return the text in lower case like Perl's ``lc``, which has no rule for a final sigma."""
    return text.replace("\u03a3", "\u03c3").lower()
