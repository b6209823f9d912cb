"""The state of runs, read from the files of their directories."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ln_repro.records.events import Event
from ln_repro.records.run_dir import RunFolder
from ln_repro.system.files import Json
from ln_repro.system.progress import plural

COLUMNS = ("exp", "seed", "state", "update", "loss", "bleu", "id")
STATES = ("running", "queued", "planned", "interrupted", "failed", "diverged", "finished", "recorded")
OPEN = ("planned", "interrupted", "failed")
"""The states of runs that are neither running nor done, according to their directories."""


@dataclass(frozen=True)
class RunStatus:
    """The state of one run."""

    id: str | None
    exp: str | None
    seed: int | None
    lr: float | None
    state: str
    update: int
    loss: float | None  # the last training loss, in bits
    bleu: float | None  # on the test set
    dir: str
    settings: str | None = None  # in which it differs from the experiment that it is named after

    def cells(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the given columns as text."""
        values = {column: getattr(self, column) for column in columns}
        formats = {column: "g" if column == "lr" else ".2f" for column in columns if isinstance(values[column], float)}
        return tuple("-" if value is None else format(value, formats.get(name, "")) for name, value in values.items())


def status_of(run: RunFolder, planned: Json | None = None) -> RunStatus:
    """Return the state of a run; ``planned`` are the settings and the id of one whose directory may not exist yet."""
    experiment, state = run.experiment or planned or {}, run.state
    record = run.record if state in ("finished", "diverged") else None
    steps = [event for event in run.events.read() if event["kind"] == "train"]
    last: Event = steps[-1] if steps else {"update": 0, "loss": None}
    bleu = record.bleu.test.score if record and record.bleu.test else None
    named: Json = {name: experiment.get(name) for name in ("id", "exp", "seed", "lr")}
    return RunStatus(**named, state=state, update=last["update"], loss=last["loss"], bleu=bleu, dir=str(run.path))


def with_queue(statuses: Iterable[RunStatus], queue: Mapping[str, str]) -> list[RunStatus]:
    """Return the runs with the states of unfinished ones replaced by those in the queue, by name of the directory."""
    return [
        replace(status, state=queue.get(Path(status.dir).name, status.state)) if status.state in OPEN else status
        for status in statuses
    ]


def summary(states: Iterable[str]) -> str:
    """Return the number of runs by state: ``12 runs: 2 running, 10 planned``."""
    counted = Counter(states)
    parts = [f"{counted[state]} {state}" for state in STATES if counted[state]]
    return f"{plural(counted.total(), 'run')}: {', '.join(parts) or 'none'}"


def table(statuses: Sequence[RunStatus], width: int | None = None) -> str:
    """Return a row per run as text, with the learning rate if an experiment has several.

    Own settings are the last column or, if a ``width`` is given, which no line exceeds, lines below their rows.
    """
    if not statuses:
        return "no runs yet; `ln-repro run exp=NAME` starts one"
    several = len({(status.exp, status.lr) for status in statuses}) > len({status.exp for status in statuses})
    columns = ("exp", "lr", *COLUMNS[1:]) if several else COLUMNS
    if width is None and any(status.settings for status in statuses):
        columns = (*columns, "settings")
    text = aligned([columns, *(status.cells(columns) for status in statuses)])
    if width is None:
        return text
    below = ["", *(f"    overrides: {status.settings}" if status.settings else "" for status in statuses)]
    lines = (line for pair in zip(text.splitlines(), below, strict=True) for line in pair)
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width, subsequent_indent=" " * 6))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines of text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
