"""Raw files: found in the user's folder, unpacked, or downloaded; and verified."""

import tarfile
from pathlib import Path

from ln_repro.corpus.base import Corpus, Found, Raw
from ln_repro.corpus.download import Report, fetch
from ln_repro.corpus.storage import cached_digest, locked
from ln_repro.errors import UserError
from ln_repro.experiment import Data


def locate(corpus: Corpus, data: Data, root: Path, report: Report) -> Found:
    """Return the raw files of a corpus by name, verified.

    Raises:
        UserError: a file is absent and cannot be downloaded, or is not the known one.
    """
    require_source(data)
    with locked(root / "raw" / f".{corpus.name}.lock"):
        inputs = corpus.inputs(data)
        here = present(corpus, data, root)
        absent = [raw for raw in inputs if raw.name not in here]
        if absent:
            here = _obtain(corpus, data, root, absent, report)
        for raw in inputs:
            _verify(corpus, data, root, raw, here[raw.name])
    return {raw.name: here[raw.name] for raw in inputs}


def present(corpus: Corpus, data: Data, root: Path) -> dict[str, Path]:
    """Return those raw files that are here already, without reading them."""
    inputs = corpus.inputs(data)
    if data.source is not None and data.source.is_file() and corpus.archive is None and len(inputs) == 1:
        return {inputs[0].name: data.source}
    folders = [_unpacked(corpus, root)]
    if data.source is not None and data.source.is_dir():
        folders = [data.source / folder for folder in corpus.folders]
    elif data.source is not None:
        folders = [_unpacked(corpus, root, data.source)]
    found = {raw.name: raw.path for raw in inputs if raw.path is not None and raw.path.is_file()}
    for raw in inputs:
        places = [folder / raw.name for folder in folders if (folder / raw.name).is_file()]
        if raw.path is None and places:
            found[raw.name] = places[0]
    return found


def require_source(data: Data) -> None:
    """Refuse a ``data.source`` that is not there.

    Raises:
        UserError: no such file or folder, or one that may not be read.
    """
    try:
        if data.source is not None and not data.source.exists():
            raise UserError(f"data.source: {data.source}: no such file or folder")
        if data.source is not None and data.source.is_dir():
            next(data.source.iterdir(), None)
    except OSError as error:
        raise UserError(f"data.source: {data.source}: cannot be read ({error.strerror})") from None


def _obtain(corpus: Corpus, data: Data, root: Path, absent: list[Raw], report: Report) -> dict[str, Path]:
    """Return all raw files after unpacking or downloading what is absent."""
    names = ", ".join(raw.name for raw in absent)
    if data.source is not None:
        archive = data.source if data.source.is_file() else _archive_in(corpus, data.source)
        if corpus.archive is None or archive is None:
            raise UserError(f"data.source: {data.source}: {names} not found there; {corpus.by_hand}")
        _unpack(archive, _unpacked(corpus, root, archive if data.source.is_file() else None), absent, corpus)
        # An archive inside the user's folder is unpacked under root, for the user's folder is not ours to fill.
        return {**present(corpus, data, root), **present(corpus, data.model_copy(update={"source": archive}), root)}
    if corpus.archive is not None:
        target = _unpacked(corpus, root) / corpus.archive.name
        if not target.is_file():
            fetch(corpus.archive.urls, target, corpus.archive.digest, corpus.by_hand, report)
        _unpack(target, target.parent, absent, corpus)
        return present(corpus, data, root)
    if not all(raw.urls for raw in absent):
        raise UserError(f"{corpus.name}: {names}: not here and not to be downloaded; {corpus.by_hand}")
    for raw in absent:
        expected = raw.digest if data.checksum == "strict" else None
        fetch(raw.urls, _unpacked(corpus, root) / raw.name, expected, corpus.by_hand, report)
    return present(corpus, data, root)
