"""Find raw files in the user's folder, or unpack or download them; then verify them."""

import hashlib
import io
import math
import shutil
import tarfile
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from ln_repro.corpus.base import UNPACKED, Corpus, Raw, RawFiles
from ln_repro.corpus.download import fetch
from ln_repro.corpus.text import DAMAGE, unpacked
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data
from ln_repro.system.directory_lock import DirectoryLock, acquire
from ln_repro.system.files import digest
from ln_repro.system.progress import Report


def cached_digest(path: Path, kind: str = "sha256") -> str:
    """Return `digest`, which this process computes once as long as size and modification time are the same.

    ``kind`` may also be `UNPACKED`.
    """
    status = path.stat()
    return _digest(path.resolve(), kind, status.st_size, status.st_mtime_ns)


@cache
def _digest(path: Path, kind: str, size: int, modified: int) -> str:
    if kind != UNPACKED:
        return digest(path, kind)
    with unpacked(path) as file:
        return f"{UNPACKED}:{hashlib.file_digest(file, 'sha256').hexdigest()}"  # type: ignore[arg-type]


def locked(path: Path) -> AbstractContextManager[DirectoryLock]:
    """Lock ``path`` against other processes on all machines, waiting without a time limit."""
    path = path.resolve()
    return acquire(path.with_name(f".{path.name}.lease"), patience=math.inf)


def locate(corpus: Corpus, data: Data, root: Path, report: Report) -> RawFiles:
    """Return the verified raw files of a corpus by name.

    Raises:
        UserError: a file is missing and cannot be downloaded, or is not the published one.
    """
    inputs = corpus.inputs(data)
    with locked(_store(corpus, root)):
        here = present(corpus, data, root)
        if absent := [raw for raw in inputs if raw.name not in here]:
            _obtain(corpus, data, root, absent, report)
            here = present(corpus, data, root)
        for raw in inputs:
            if raw.digest is None or data.checksum == "record":
                continue
            if (content := cached_digest(here[raw.name], raw.digest.split(":")[0])) != raw.digest:
                raise UserError(
                    f"{here[raw.name]}: not the published file of {corpus.name}, expected {raw.digest}, found "
                    f"{content}; get it from {corpus.origin}, or use it as a different corpus with data.checksum=record"
                )
    return {raw.name: here[raw.name] for raw in inputs}


def present(corpus: Corpus, data: Data, root: Path) -> dict[str, Path]:
    """Return the raw files that exist, by name."""
    inputs = corpus.inputs(data)
    folders = [data.source / folder for folder in corpus.folders] if data.source else [_store(corpus, root)]
    if archive := _archive(corpus, data, root):
        folders.append(_unpack_folder(archive, corpus, root))
    files: dict[str, Path] = {}
    for raw in inputs:
        names = filter(None, (raw.name, raw.alias))
        places = [raw.path] if raw.path else [folder / name for name in names for folder in folders]
        of_corpus = corpus.archive is None and raw.path is None and len(inputs) == 1
        if data.source is not None and data.source.is_file() and of_corpus:
            places = [data.source]  # a single raw file may have any name
        if place := next((place for place in places if place.is_file()), None):
            files[raw.name] = place
    return files


def _archive(corpus: Corpus, data: Data, root: Path) -> Path | None:
    """Return the archive with all raw files; None if there is none."""
    if corpus.archive is None:
        return None
    place = data.source or _store(corpus, root)
    path = place / corpus.archive.name if place.is_dir() else place
    return path if path.is_file() else None


def _store(corpus: Corpus, root: Path) -> Path:
    """Return the folder of downloaded files."""
    return root / "raw" / corpus.name


def _unpack_folder(archive: Path, corpus: Corpus, root: Path) -> Path:
    """Return the folder, below ``root``, that an archive is unpacked to."""
    return _store(corpus, root) / f"unpacked-{cached_digest(archive).removeprefix('sha256:')[:8]}"


def _obtain(corpus: Corpus, data: Data, root: Path, absent: list[Raw], report: Report) -> None:
    """Unpack or download the missing files."""
    names, places = [raw.name for raw in absent], [str(raw.path or raw.name) for raw in absent]
    if data.source is None and not _archive(corpus, data, root):
        downloads = [corpus.archive] if corpus.archive else absent
        if not all(raw.urls for raw in downloads):
            raise UserError(f"{corpus.name}: {', '.join(places)}: not found; {corpus.by_hand}")
        for raw in downloads:
            expected = raw.digest if data.checksum == "strict" else None
            fetch(raw.urls, _store(corpus, root) / raw.name, expected, corpus.by_hand, report)
    if archive := _archive(corpus, data, root):
        _unpack(archive, _unpack_folder(archive, corpus, root), names, corpus)
    elif data.source is not None:
        raise UserError(f"data.source: {data.source}: {', '.join(places)}: not found there; {corpus.by_hand}")


def _unpack(archive: Path, folder: Path, names: list[str], corpus: Corpus) -> None:
    """Extract members of a tar archive by file name, regardless of their folder, to ``folder``.

    Raises:
        UserError: it is not a tar archive, is damaged, or lacks a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive) as tar:
            members = {Path(member.name).name: member for member in tar.getmembers() if member.isfile()}
            missing = ", ".join(name for name in names if name not in members)
            if missing:
                raise UserError(f"{archive}: {missing}: not in this archive; {corpus.by_hand}")
            for name in names:
                partial = folder / f".{name}.part"
                with partial.open("wb") as file:
                    shutil.copyfileobj(tar.extractfile(members[name]) or io.BytesIO(), file)
                partial.replace(folder / name)
    except DAMAGE as error:
        raise UserError(f"{archive}: not a tar archive, or a damaged one ({error}); {corpus.by_hand}") from None
