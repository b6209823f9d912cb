"""`ln-repro verify` and `compare`: check archived records, and test the difference between two."""

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ln_repro.commands.messages import complaints, say
from ln_repro.errors import LnReproError, UserError
from ln_repro.records import archive
from ln_repro.records.events import valid_events
from ln_repro.records.record import Record
from ln_repro.runner import bleu
from ln_repro.system.files import sha256
from ln_repro.system.progress import plural, progress


def verify_command(options: argparse.Namespace) -> int:
    """Run `verify`: check every record against its archived events, and recompute its BLEU from the hypotheses."""
    folder = archive.given_records(options.records)
    problems = check(folder)
    if archive.stopped_folder(folder).is_dir():
        problems += check(archive.stopped_folder(folder))
    return complaints(problems)


def check(folder: Path) -> list[str]:
    """Check a folder of records, report how many are valid, and return the problems."""
    kept, archives = archive.read_kept(folder), archive.archive_folder(folder)
    known = archive.checksums(archives)
    by_archive: dict[str, list[Record]] = {name: [] for name in known}
    for record in kept.records:
        by_archive.setdefault(record.archive, []).append(record)
    ids = {record.id for record in kept.records}
    problems, sound, rescored = list(kept.problems), 0, Counter[str | None]()
    with progress("checking", len(kept.records), say, "records") as advance:
        for name, records in sorted(by_archive.items()):
            path = archives / name
            try:
                if not path.exists():
                    raise LnReproError(f"{path} is missing; restore it")
                if name not in known:
                    raise LnReproError(f"{path} is not in {archive.CHECKSUMS}; restore it")
                if sha256(path) != known[name]:
                    raise LnReproError(f"{path} was changed after it was written ({archive.CHECKSUMS}); restore it")
                files = dict(archive.unpacked(path))
            except LnReproError as error:
                problems.append(str(error))
                continue
            lost = {file.partition(".")[0] for file in files} - ids
            if lost and not kept.problems:  # otherwise, they may be those of unsound lines
                problems.append(f"{path} has runs without a record ({', '.join(sorted(lost))}); restore the records")
            for record in records:
                of_bleu = bleu_problem(record, files)
                of_record = [*filter(None, (events_problem(record, files), of_bleu))]
                problems += [f"{record.id} in {folder}: {problem}" for problem in of_record]
                sound += not of_record
                rescored[of_bleu] += 1
                advance(1)
    print(f"{folder.name}: {plural(sound, 'valid record')}; BLEU recomputed for {rescored['']}")
    if rescored[None]:
        print(f"not recomputed for {rescored[None]}: hypotheses or prepared corpus are not here")
    return problems


def events_problem(record: Record, files: Mapping[str, bytes]) -> str | None:
    """Return how a record differs from its archived events; None if they agree."""
    text = files.get(f"{record.id}{archive.EVENTS}")
    if text is None:
        return f"its events are missing in {record.archive}"
    name = archive.differing(record, valid_events(text))
    return f"{name} differs from its events" if name else None


def bleu_problem(record: Record, files: Mapping[str, bytes]) -> str | None:
    """Return how a record's BLEU differs from that of its hypotheses; "" if they agree, None if it is not known."""
    try:
        texts = bleu.translations(record, files.get(f"{record.id}{archive.HYPOTHESES}"))
        recorded = record.bleu.test
        if texts is None or recorded is None:
            return None
        computed, _ = bleu.score("detokenised", *texts, record.experiment, "test")
    except LnReproError as error:
        return str(error)
    return "" if computed == recorded.score else f"BLEU is {recorded.score}, its hypotheses score {computed}"


def compare_command(options: argparse.Namespace) -> None:
    """Run `compare`: test the difference in BLEU between two archived records by paired bootstrap."""
    folder = options.records or archive.records_folder()
    kept = archive.read_kept(folder)
    first, second = (kept.run(id, folder).record for id in options.pair)
    if first.data.fingerprint != second.data.fingerprint:
        raise UserError("compare: the two were trained on different corpora")
    texts = []
    for record in (first, second):
        if (hypotheses := archive.archived_file(folder, record, archive.HYPOTHESES)) is None:
            raise UserError(f"compare: {record.id} has no archived hypotheses; choose another record")
        if (translated := bleu.translations(record, hypotheses)) is None:
            raise UserError(f"compare: prepare the corpus first (ln-repro data prepare data={first.data.name})")
        texts.append(translated)
    (ours, references), (theirs, _) = texts
    *scores, p_value = bleu.paired_bootstrap(ours, theirs, references, first.experiment.data)
    for record, score in zip((first, second), scores, strict=True):
        print(f"{record.id}  {record.exp}  seed {record.axes.seed}  BLEU {score:.2f}")
    samples = f"{bleu.SAMPLES} paired bootstrap samples of the test set"
    print(f"p = {p_value:.4f} ({samples}; the variation between seeds is not included)")
