"""Events and records as flat dictionaries, with names that charts are grouped by."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from ln_repro.records.events import Event
from ln_repro.system.files import Json


def flat_event(event: Event) -> Json:
    """Return the numbers of an event: `train/loss`, `bleu/test`, `probe/NAME/...`; a status has none."""
    match event["kind"]:
        case "status":  # not a measurement; the record contains its information
            return {}
        case "bleu":
            name = f"bleu/{event['split']}_{event['flavour']}"
            values = {name: event["score"], f"{name}_signature": event["signature"]}
        case "probe":
            values = dict(_numbers(f"probe/{event['name']}", event["values"]))
        case kind:
            values = dict(_numbers(kind, {key: event[key] for key in event if key not in ("update", "epoch")}))
    time = datetime.fromisoformat(event["time"]).timestamp()
    return {**values, "update": event["update"], "epoch": event["epoch"], "_timestamp": time}


def flat_record(record: Json) -> Json:
    """Return the results in a record: `parameters`, `bleu/test`, `divergence/update`."""
    values = {key: value for key, value in record.items() if isinstance(value, str | int | float)}
    for name, result in (record.get("bleu") or {}).items():
        if result:
            values |= {f"bleu/{name}": result["score"], f"bleu/{name}_signature": result["signature"]}
    return values | dict(_numbers("divergence", record.get("divergence")))


def _numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a nested value, with their paths as names."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
    elif isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _numbers(f"{name}/{key}", item)
