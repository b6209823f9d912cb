"""The state of runs, read from the files of their directories."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ln_repro.records.run_dir import RunFolder
from ln_repro.system.files import Json

Row = Json
COLUMNS = ("exp", "seed", "state", "update", "loss", "bleu", "id")
STATES = ("running", "queued", "planned", "interrupted", "failed", "diverged", "finished", "recorded")
OPEN = ("planned", "interrupted", "failed")
"""The states of runs that are neither running nor done, according to their directories."""


def row(run: RunFolder, planned: Mapping[str, object] | None = None) -> Row:
    """Return the state of one run; ``loss`` is the last training loss in bits, ``bleu`` the BLEU on the test set.

    ``planned`` are the settings and the id of a run whose directory may not exist yet.
    """
    experiment, state = run.experiment or planned or {}, run.state
    record = run.record if state in ("finished", "diverged") else None
    losses = [event for event in run.events.read() if event["kind"] == "train"]
    last = losses[-1] if losses else {"update": 0, "loss": None}
    test = record.bleu.test if record else None
    return {
        "id": experiment.get("id"),
        "exp": experiment.get("exp"),
        "seed": experiment.get("seed"),
        "lr": experiment.get("lr"),
        "state": state,
        "update": last["update"],
        "loss": last.get("loss"),
        "bleu": test.score if test else None,
        "dir": str(run.path),
    }


def with_queue(rows: Sequence[Row], queue: Mapping[str, str]) -> list[Row]:
    """Return the rows with the states of unfinished runs replaced by those in the queue, by name of the directory."""
    return [
        {**row, "state": queue.get(Path(row["dir"]).name, row["state"])} if row["state"] in OPEN else row
        for row in rows
    ]


def summary(states: Iterable[str]) -> str:
    """Return the number of runs by state: ``12 runs: 2 running, 10 planned``."""
    counted = Counter(states)
    parts = [f"{counted[state]} {state}" for state in STATES if counted[state]]
    return f"{counted.total()} run{'' if counted.total() == 1 else 's'}: {', '.join(parts) or 'none'}"


def table(rows: Sequence[Row], width: int | None = None) -> str:
    """Return the rows as text, with the learning rate if an experiment has several.

    Own settings are the last column or, if a ``width`` is given, which no line exceeds, lines below their rows.
    """
    if not rows:
        return "no runs yet; `ln-repro run exp=NAME` starts one"
    several = len({(row["exp"], row["lr"]) for row in rows}) > len({row["exp"] for row in rows})
    columns = ("exp", "lr", *COLUMNS[1:]) if several else COLUMNS
    if width is None and any(row.get("settings") for row in rows):
        columns = (*columns, "settings")
    text = aligned([columns, *(shown(row, columns) for row in rows)])
    if width is None:
        return text
    below = ["", *(f"    overrides: {row['settings']}" if row.get("settings") else "" for row in rows)]
    lines = (line for pair in zip(text.splitlines(), below, strict=True) for line in pair)
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width, subsequent_indent=" " * 6))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines of text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def shown(row: Mapping[str, object], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the given columns of a row as text."""
    return tuple(_text(column, row.get(column)) for column in columns)


def _text(column: str, value: object) -> str:
    if value is None:
        return "-"
    if column == "lr":
        return f"{value:g}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
