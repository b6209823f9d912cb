"""Check archived records: complete, of the current schema, unchanged, and consistent with their events."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from ln_repro.errors import LnReproError
from ln_repro.experiment.validation import validate
from ln_repro.records import series
from ln_repro.records.events import Event
from ln_repro.records.record import Record, results_of

DIGEST = ',"sha256":"'
"""What comes before the checksum of a line, its last field."""


def line_of(record: Mapping[str, object]) -> str:
    """Return the content of a record as one line of JSON that ends with the checksum of all other fields."""
    text = json.dumps(record, separators=(",", ":"))
    return f'{text[:-1]}{DIGEST}{hashlib.sha256(text.encode()).hexdigest()}"}}'


def sound(line: str) -> Record:
    """Return the record in a line, without its checksum.

    Raises:
        LnReproError: it is damaged, of another schema, changed, or inconsistent in itself.
    """
    text, _, checksum = line.rstrip("\n").rpartition(DIGEST)
    try:
        fields = json.loads(f"{text}}}" if text else line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise LnReproError(f"not valid JSON ({error})") from None
    if not isinstance(fields, dict):
        raise LnReproError("not a JSON object")
    if f'{hashlib.sha256(f"{text}}}".encode()).hexdigest()}"}}' != checksum:
        raise LnReproError("it was changed after it was collected")
    record = validate(Record, fields)
    axes = record.experiment.axes  # raises an error if the settings are invalid
    if name := next((name for name, value in fields["axes"].items() if axes.get(name) != value), None):
        raise LnReproError(f"axes.{name} differs from its settings")
    return record


def differing(record: Record, events: Sequence[Event]) -> str | None:
    """Return the name of a field of a record that is not what the run's events give; None if there is none."""
    try:
        results = results_of(events, bool(record.experiment.eval.average))
    except LookupError:  # an event that others refer to is missing
        return "epochs"
    results |= {"curve": series.curve(events), "probes": series.probes(events)}
    return next((name for name, value in results.items() if getattr(record, name) != value), None)


def twice_probed(events: Sequence[Event]) -> bool:
    """Return whether there are two probes at one update, as when two processes wrote the events."""
    probed = [(event["name"], event["update"]) for event in events if event["kind"] == "probe"]
    return len(probed) > len({*probed})


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
