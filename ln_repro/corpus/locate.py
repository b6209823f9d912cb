"""Find raw files in the user's folder, or download or unpack them; then verify them."""

import hashlib
import http.client
import math
import tarfile
import urllib.request
from functools import cache
from pathlib import Path

from ln_repro.corpus.base import UNPACKED, Corpus, Raw, RawFiles
from ln_repro.corpus.text import DAMAGE, unpacked
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data
from ln_repro.system.directory_lock import DirectoryLock, acquire
from ln_repro.system.files import FULL, REFUSED, digest, write_atomically
from ln_repro.system.progress import Report, progress

ATTEMPTS = 3  # attempts per address; each resumes the previous one
TIMEOUT = 30.0  # seconds without data after which a connection is closed
BLOCK = 1 << 16
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ln-repro)", "Accept-Encoding": "identity"}
"""Some hosts reject Python's default user agent."""


def cached_digest(path: Path, kind: str = "sha256") -> str:
    """Return `digest`, which this process computes once as long as size and modification time are the same.

    ``kind`` may also be `UNPACKED`.
    """
    try:
        status = path.stat()
        return _digest(path.resolve(), kind, status.st_size, status.st_mtime_ns)
    except PermissionError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


@cache
def _digest(path: Path, kind: str, size: int, modified: int) -> str:
    if kind != UNPACKED:
        return digest(path, kind)
    with unpacked(path) as file:
        return f"{UNPACKED}:{hashlib.file_digest(file, 'sha256').hexdigest()}"  # type: ignore[arg-type]


def locked(path: Path) -> DirectoryLock:
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
        files = present(corpus, data, root)
        if absent := [raw for raw in inputs if raw.name not in files]:
            if data.source is None and not _archive(corpus, data, root):
                for raw in [corpus.archive] if corpus.archive else absent:
                    if raw.urls:
                        known = raw.digest if data.checksum == "strict" else None
                        download(raw, _store(corpus, root) / raw.name, known, corpus.by_hand, report)
            if archive := _archive(corpus, data, root):
                _unpack(archive, _unpack_folder(archive, corpus, root), corpus)
            files = present(corpus, data, root)
        if lacking := ", ".join(str(raw.path or raw.name) for raw in inputs if raw.name not in files):
            place = f"data.source: {data.source}" if data.source else corpus.name
            raise UserError(f"{place}: {lacking}: not found{' there' if data.source else ''}; {corpus.by_hand}")
        published = {raw.name: raw.digest for raw in inputs if raw.digest and data.checksum == "strict"}
        for name, expected in published.items():
            if (content := cached_digest(files[name], expected.split(":")[0])) != expected:
                raise UserError(
                    f"{files[name]}: not the published file of {corpus.name}, expected {expected}, found {content}; "
                    f"get it from {corpus.origin}, or use it as a different corpus with data.checksum=record"
                )
    return files


def present(corpus: Corpus, data: Data, root: Path) -> dict[str, Path]:
    """Return the raw files that exist, by name."""
    inputs = corpus.inputs(data)
    if data.source and data.source.is_file() and len(inputs) == 1 and not inputs[0].path:
        return {inputs[0].name: data.source}  # a single raw file may have any name
    folders = [data.source / folder for folder in corpus.folders] if data.source else [_store(corpus, root)]
    if archive := _archive(corpus, data, root):
        folders.append(_unpack_folder(archive, corpus, root))
    files: dict[str, Path] = {}
    for raw in inputs:
        names = filter(None, (raw.name, raw.alias))
        places = [raw.path] if raw.path else [folder / name for name in names for folder in folders]
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


def _unpack(archive: Path, folder: Path, corpus: Corpus) -> None:
    """Unpack the files in a tar archive, whatever their folders there, to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive) as tar:
            for member in filter(tarfile.TarInfo.isfile, tar):
                if file := tar.extractfile(member):
                    write_atomically(folder / Path(member.name).name, file.read())
    except DAMAGE:
        raise UserError(f"{archive}: not a tar archive, or a damaged one; {corpus.by_hand}") from None


def download(raw: Raw, target: Path, expected: str | None, by_hand: str, report: Report) -> None:
    """Download a file from the first address that provides the expected content.

    An interrupted transfer leaves ``<target>.part``, which the next one resumes.

    Raises:
        UserError: all addresses failed; the message contains each reason and what to do by hand.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part, failures = target.with_name(f"{target.name}.part"), []
    for url in raw.urls:
        if expected is None:  # a part, perhaps of another address, could not be checked
            part.unlink(missing_ok=True)
        if not (failure := _fetch(url, part, expected, report)):
            part.replace(target)
            return
        failures.append(f"{url}: {failure}")
    raise UserError(f"{target.name} could not be downloaded ({'; '.join(failures)}); {by_hand}")


def _fetch(url: str, part: Path, expected: str | None, report: Report) -> str:
    """Transfer the rest of a file, trying again where that may help; return why it failed, or an empty string."""
    failure = ""
    for _ in range(ATTEMPTS):
        begin = part.stat().st_size if part.exists() else 0
        try:
            _transfer(url, part, begin, report)
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) in FULL + REFUSED:
                raise  # an error of the disk, not of the network
            failure, status = str(error), getattr(error, "code", 500)
            if status >= 500:
                continue
            if status != 416 or not begin:  # otherwise, the part may be the whole file
                return failure  # no use trying again
        if expected is None or (content := digest(part, expected.split(":")[0])) == expected:
            return ""
        part.unlink()
        failure = f"the content differs, expected {expected}, found {content}"
        if not begin:  # otherwise, the part may have come from another address or from another version of the file
            return failure
    return failure


def _transfer(url: str, part: Path, offset: int, report: Report) -> None:
    """Append the bytes from ``offset`` on; if the server sends the whole file, start over."""
    request = urllib.request.Request(url, headers=HEADERS | ({"Range": f"bytes={offset}-"} if offset else {}))
    with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
        resumed = reply.status == 206
        length = reply.headers.get("Content-Length")
        left = int(length) if length else None
        step = f"{'resuming' if resumed else 'downloading'} {url}:"
        with part.open("ab" if resumed else "wb") as file, progress(step, left, report, "bytes") as advance:
            begin = file.tell()
            while block := reply.read(BLOCK):
                file.write(block)
                advance(len(block))
            if left and (missing := begin + left - file.tell()):
                raise http.client.IncompleteRead(b"", missing)
