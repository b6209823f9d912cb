"""Check archived records: complete, of the current schema, unchanged, and consistent with their events."""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ln_repro.errors import LnReproError
from ln_repro.records.events import Event, Events
from ln_repro.records.record import SCHEMA, Record, experiment_of, incomplete, results_of
from ln_repro.system.files import sha256, write_atomically

CHECKSUMS = "SHA256SUMS"
"""Name of the file of checksums in each folder, in the format of `sha256sum --check`."""
EVENTS, HYPOTHESES = ".events.jsonl", ".test.txt"
"""Suffixes, after the id, of the files beside a record; compressed files also end in `.gz`."""
DAMAGE = (OSError, EOFError, zlib.error, ValueError, RecursionError)
"""Errors of reading damaged files, compressed or not; the last one of JSON that is nested too deeply."""


def checksums(folder: Path) -> dict[str, str] | None:
    """Return the checksums of a folder by file name, None if it has none; raise `LnReproError` if damaged."""
    kept = folder / CHECKSUMS
    if not kept.exists():
        return None
    lines = [re.fullmatch("([0-9a-f]{64})  (.+)", line) for line in kept.read_text(errors="replace").splitlines()]
    if None in lines:
        raise LnReproError(f"{kept}: not a list of checksums as from sha256sum; restore it")
    return {line[2]: line[1] for line in lines if line}


def beside(record: Path, ending: str) -> Path:
    """Return the file beside a record with this suffix, compressed or not; it may not exist."""
    plain = record.with_name(f"{record.stem}{ending}")
    packed = plain.with_name(f"{plain.name}.gz")
    return packed if packed.exists() else plain


def text_of(path: Path) -> str:
    """Return the text of a file, compressed or not, or raise `LnReproError` if it is damaged."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except DAMAGE as error:
        raise LnReproError(f"{path} is damaged ({error})") from None


def write_checksums(folder: Path, copied: Iterable[str]) -> None:
    """Update the checksums of copied files; if the folder has no checksums, write those of all files."""
    kept = checksums(folder)
    if kept is None:
        kept, copied = {}, [path.name for path in folder.iterdir() if path.suffix in (".json", ".jsonl", ".txt", ".gz")]
    kept |= {name: sha256(folder / name) for name in copied}
    write_atomically(folder / CHECKSUMS, "".join(f"{kept[name]}  {name}\n" for name in sorted(kept)))


def sound(path: Path, kept: Mapping[str, str] | None) -> tuple[Record, list[Event]]:
    """Read and check a record; return it with its events. ``kept`` are the checksums of its folder.

    Raises:
        LnReproError: the record is damaged, of another schema, changed, misnamed, or inconsistent with its events.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise LnReproError(f"not valid JSON ({error})") from None
    if not isinstance(record, dict):
        raise LnReproError("not a JSON object")
    if record.get("schema") != SCHEMA:
        raise LnReproError(f"schema {record.get('schema')} is not {SCHEMA}")
    if problem := incomplete(record):
        raise LnReproError(problem)
    axes = experiment_of(record).axes  # raises an error if the settings are invalid
    if name := next((name for name, value in record["axes"].items() if axes.get(name) != value), None):
        raise LnReproError(f"axes.{name} differs from its settings")
    if path.stem != record["id"]:
        raise LnReproError(f"its id, {record['id']}, is not its file name")
    files = [path, *(beside(path, ending) for ending in (EVENTS, HYPOTHESES))]
    for file in files:
        if kept is not None and file.exists() and kept.get(file.name) != sha256(file):
            raise LnReproError(f"{file.name} was changed after it was collected ({CHECKSUMS})")
    events = Events(files[1]).read()
    if not events and {f"{path.stem}{EVENTS}", f"{path.stem}{EVENTS}.gz"} & {*(kept or {})}:
        raise LnReproError("its events are missing")
    if events and (name := differing(record, events)):
        raise LnReproError(f"{name} differs from its events")
    probes = [(event["name"], event["update"]) for event in events if event["kind"] == "probe"]
    if len(probes) > len({*probes}):
        raise LnReproError("its events have a probe twice at one update: two processes wrote them; repeat the run")
    return record, events


def differing(record: Record, events: Sequence[Event]) -> str | None:
    """Return the name of a field of a record that is not what the run's events give; None if there is none."""
    try:
        results = results_of(events, bool(record["experiment"]["eval"].get("average")))
    except LookupError:  # an event that others refer to is missing
        return "epochs"
    return next((name for name, value in results.items() if record[name] != value), None)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
