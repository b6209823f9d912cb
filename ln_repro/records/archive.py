"""The archive of records, from which tables, figures and verdicts are computed: read, checked and written."""

import difflib
import hashlib
import io
import json
import lzma
import math
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.divergence import NOT_FINITE
from ln_repro.experiment.settings import Experiment
from ln_repro.experiment.validation import validate
from ln_repro.records import series
from ln_repro.records.events import Event, valid_events
from ln_repro.records.record import Record, results_of
from ln_repro.records.run_dir import RunFolder
from ln_repro.system.files import Json, read_json, sha256, write_atomically
from ln_repro.system.paths import CHECKOUT

CHECKSUMS = "SHA256SUMS"  # name of the list of the archives' checksums, in the format of `sha256sum --check`
EVENTS, HYPOTHESES = ".events.jsonl", ".test.txt"  # suffixes, after the id of a run, of the files in an archive
PRESET = 6  # of xz: higher ones need more memory and save nothing here
LINE = re.compile(r'(.*),"sha256":"([0-9a-f]{16,})"}')  # of a record; its last field begins the checksum of the others
Costs = Mapping[str, Mapping[str, Any]]
"""The rows of the benchmark by norm placement: ``ratio`` of speeds, and of the bytes ``saved``, over Pre-LN's."""


@dataclass(frozen=True)
class Run:
    """A record with the numbers that are compared, and with its events where they are needed."""

    record: Record
    events: Sequence[Event] = ()

    @property
    def experiment(self) -> Experiment:
        return self.record.experiment

    @cached_property
    def arm_key(self) -> str:
        return self.experiment.arm_key()

    @property
    def seed(self) -> int:
        return self.record.axes.seed

    @property
    def diverged(self) -> bool:
        """Whether the run ended with a number that is not finite, or was stopped early by the divergence rule."""
        return self.record.status == "diverged"

    @property
    def finite(self) -> bool:
        """Whether all numbers were finite until the end."""
        return self.record.divergence is None or self.record.divergence.rule != NOT_FINITE

    @property
    def bleu(self) -> float:
        """BLEU at the epoch with the lowest validation loss, as in the paper; 0 without one, or if not `finite`."""
        best = self.record.bleu.test_tokenised
        return best.score if best and self.finite else 0.0

    @cached_property
    def _losses(self) -> list[tuple[float, float]]:
        """Validation loss and that without label smoothing of each epoch; infinite if there is none or not `finite`."""
        rows = self.record.epochs if self.finite else []
        losses = [(row.valid_loss, row.valid_nll_loss) for row in rows]
        return [(loss, nll) for loss, nll in losses if loss is not None and nll is not None] or [(math.inf, math.inf)]

    @property
    def loss(self) -> float:
        """Lowest validation loss in bits per token."""
        return min(self._losses)[0]

    @property
    def nll(self) -> float:
        """Validation loss without label smoothing, at the epoch with the lowest smoothed loss."""
        return min(self._losses)[1]

    @property
    def final_loss(self) -> float:
        """Validation loss after the last epoch."""
        return self._losses[-1][0]

    @property
    def final_nll(self) -> float:
        """Validation loss without label smoothing after the last epoch."""
        return self._losses[-1][1]

    @property
    def accuracy(self) -> float:
        """Accuracy after the last epoch; 0 without one."""
        return self.record.accuracy or 0.0

    @property
    def size(self) -> tuple[int, ...]:
        """Number of layers, width and feed-forward width."""
        model = self.experiment.model
        return model.layers, model.width, model.ffn

    @property
    def epochs(self) -> float:
        """The maximum number of epochs; infinite if only the number of updates was limited."""
        return self.experiment.train.max_epoch or math.inf

    @property
    def training_curve(self) -> dict[int, float]:
        """Training loss by update, thinned; without numbers that are not finite."""
        pairs = zip(self.record.curve.update, self.record.curve.loss, strict=True)
        return {update: loss for update, loss in pairs if loss is not None}

    def curve(self, name: str, by: str = "epoch") -> dict[int, float]:
        """Return a field of the record's epochs, by epoch or by ``"update"``."""
        values = {getattr(row, by): getattr(row, name) for row in self.record.epochs}
        return {at: value for at, value in values.items() if value is not None}


@dataclass(frozen=True)
class Kept:
    """A folder of records: the sound ones, sorted by experiment, seed and id, and the problems of the others."""

    runs: Sequence[Run]
    problems: Sequence[str]
    corpora: Mapping[str, Mapping[str, float]]
    """``unigram_bits`` and ``source_blind_bits`` of corpora (`corpus.ngram.entropies`), by fingerprint."""
    costs: Costs

    @property
    def records(self) -> list[Record]:
        """The records without events."""
        return [run.record for run in self.runs]

    def run(self, id: str, folder: Path) -> Run:
        """Return the run of a record.

        Raises:
            UserError: the folder has no such record, or an unsound one.
        """
        by_id = {run.record.id: run for run in self.runs}
        if id in by_id:
            return by_id[id]
        unsound = next((line for line in self.problems if f": {id}: " in line), None)
        close = difflib.get_close_matches(id, by_id)
        hint = f"nearest: {', '.join(close)}" if close else "`ln-repro tables runs` lists the ids"
        raise UserError(unsound or f"there is no record {id!r} in {folder}; {hint}")


def records_folder() -> Path:
    """Return the folder of committed records in a checkout."""
    return CHECKOUT / "results" / "records"


def given_records(folder: Path | None) -> Path:
    """Return the folder of records that the user gave, by default the committed ones; it must have some."""
    folder = folder or records_folder()
    if not any(folder.glob("*.jsonl")):
        raise UserError(f"--records: {folder} has no records (SETTING.jsonl, from `ln-repro collect --records DIR`)")
    return folder


def stopped_folder(records: Path) -> Path:
    """Return the folder for the records of runs that did not end: beside a folder of records, or inside it."""
    return archive_folder(records).with_name("stopped")


def read_kept(folder: Path) -> Kept:
    """Return the records in ``folder``, files of one record a line; unsound ones are left out and reported."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of records; use a checkout of the repository, or --records DIR")
    runs: dict[str, Run] = {}
    problems = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            try:
                run = Run(parse_line(line))
                if run.record.id in runs:
                    raise LnReproError(f"{run.record.id} is there twice")
                runs[run.record.id] = run
            except LnReproError as error:
                id = re.search('"id":"([^"]*)"', line)
                problems.append(f"{path}: {id[1] if id else f'line {number}'}: {error}; ignored")
    ordered = sorted(runs.values(), key=lambda run: (run.record.exp, run.seed, run.record.id))
    return Kept(ordered, problems, corpora(ordered), read_costs(folder))


def line_of(record: Mapping[str, object]) -> str:
    """Return the content of a record as one line of JSON that ends with the checksum of all other fields."""
    text = json.dumps(record, separators=(",", ":"))
    return f'{text[:-1]},"sha256":"{hashlib.sha256(text.encode()).hexdigest()[:16]}"}}'


def parse_line(line: str) -> Record:
    """Return the record in a line, without its checksum.

    Raises:
        LnReproError: it is damaged, changed, of another schema, or its axes are not those of its settings.
    """
    parts = LINE.fullmatch(line)
    text = f"{parts[1]}}}" if parts else ""
    if not parts or not hashlib.sha256(text.encode()).hexdigest().startswith(parts[2]):
        raise LnReproError("it is damaged, or was changed after it was collected")
    fields = json.loads(text)
    record = validate(Record, fields)
    axes = record.experiment.axes  # raises an error if the settings are invalid
    if name := next((name for name, value in fields["axes"].items() if axes.get(name) != value), None):
        raise LnReproError(f"axes.{name} differs from its settings")
    return record


def differing(record: Record, events: Sequence[Event]) -> str | None:
    """Return the name of a field of a record that is not what the run's events give; None if there is none."""
    try:
        results = results_of(events, bool(record.experiment.eval.average))
        results |= {"curve": series.curve(events), "probes": series.probes(events)}
    except (LookupError, TypeError, ValueError):  # an event that others refer to, or a part of an event, is missing
        return "epochs"
    return next((name for name, value in results.items() if getattr(record, name) != value), None)


def files_of(folder: RunFolder, record: Record) -> tuple[Record, dict[str, bytes]]:
    """Return the record of a run in the form that is kept, and the files to archive by their suffixes.

    Raises:
        LnReproError: a file is missing, cannot be read, or does not agree with the record.
    """
    sources = {EVENTS: folder.events.path}
    if best := record.bleu.test:
        sources[HYPOTHESES] = folder.hypotheses("test", best.epoch)
    if absent := [source for source in sources.values() if not source.is_file()]:
        raise LnReproError(f"{absent[0]} is missing")
    try:
        files = {suffix: source.read_bytes() for suffix, source in sources.items()}
        events = valid_events(files[EVENTS])
        kept = record.with_series(events)
    except OSError as error:  # for example another user's file
        raise LnReproError(f"{error.filename or folder.path}: {error.strerror}") from None
    except (LookupError, TypeError, ValueError) as error:
        raise LnReproError(f"{sources[EVENTS]} is damaged ({error!r})") from None
    if name := differing(kept, events):
        raise LnReproError(f"{sources[EVENTS]} is damaged, {name} of the record differs from it")
    probed = [(event["name"], event["update"]) for event in events if event["kind"] == "probe"]
    if len(probed) > len({*probed}):
        raise LnReproError(f"{sources[EVENTS]} has a probe twice at one update: two processes wrote it; repeat the run")
    lines = files[HYPOTHESES].count(b"\n") if best else 0
    if best and record.data.test_pairs not in (lines, None):
        raise LnReproError(f"{sources[HYPOTHESES]} is damaged, it has {lines} lines")
    parse_line(line_of(kept.plain()))  # as it will be read
    return kept, files


def add(folder: Path, setting: str, runs: Sequence[tuple[Record, Mapping[str, bytes]]]) -> None:
    """Archive the files of runs of one setting, then add their records to ``folder``, replacing those with their ids.

    ``runs`` are records as of `Record.with_series`, each with its files by their suffixes.

    Raises:
        LnReproError: there are unsound records of the setting in the folder, which would be lost.
    """
    path = folder / f"{setting}.jsonl"
    if problems := [problem for problem in read_kept(folder).problems if problem.startswith(f"{path}:")]:
        raise LnReproError(f"{'; '.join(problems)}: restore {path.name} first")
    files = {
        f"{record.id}{suffix}": of_run[suffix]  # like files side by side, which xz makes smaller
        for suffix in (EVENTS, HYPOTHESES)
        for record, of_run in runs
        if suffix in of_run
    }
    name = pack(archive_folder(folder), setting, files)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    by_id = {parse_line(line).id: line for line in lines}
    by_id |= {record.id: line_of({**record.plain(), "archive": name}) for record, _ in runs}
    write_atomically(path, "".join(f"{by_id[id]}\n" for id in sorted(by_id)))


def corpora(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Return the entropies of corpora by fingerprint, from the records that contain them, as all except old ones do."""
    entropies: dict[str, dict[str, float]] = {}
    for data in (run.record.data for run in runs):
        bits = {"unigram_bits": data.unigram_bits, "source_blind_bits": data.source_blind_bits}
        if known := {name: value for name, value in bits.items() if value is not None}:
            entropies.setdefault(data.fingerprint, {}).update(known)
    return entropies


def read_costs(folder: Path) -> Costs:
    """Return the costs of the schemes from the benchmark beside a folder of records; empty without the file."""
    rows = (read_json(folder.absolute().parent / "bench" / "schemes.json", dict) or {}).get("rows", [])
    return {row["name"].removeprefix("norm/"): row for row in rows}


def read_theory(folder: Path) -> Json:
    """Return what `ln-repro theory` has written beside a folder of records; empty without the file."""
    return read_json(folder.absolute().parent / "theory.json", dict) or {}


def archived_file(folder: Path, record: Record, suffix: str) -> bytes | None:
    """Return the content of an archived file of a run by its suffix; None if it was not archived."""
    name = f"{record.id}{suffix}"
    return next((content for file, content in unpacked(archive_folder(folder) / record.archive) if file == name), None)


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


def intact_archives(records: Path) -> set[str]:
    """Return the names of the archives of a folder of records that are as they were written."""
    folder = archive_folder(records)
    known = checksums(folder)
    return {name for name in known if (folder / name).is_file() and sha256(folder / name) == known[name]}


def pack(folder: Path, setting: str, files: Mapping[str, bytes]) -> str:
    """Write a new archive with these files, and its checksum; return its name.

    Raises:
        OSError: the disk is full or not writable; then there is no new archive.
    """
    folder.mkdir(exist_ok=True)
    known = checksums(folder)
    names = [*known, *(path.name for path in folder.iterdir())]
    number = 1 + max((int(name[:4]) for name in names if re.match(r"\d{4}-", name)), default=0)
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
