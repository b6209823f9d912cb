"""The state of runs, read from the files of their directories."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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


def status_of(run: RunFolder, planned: Json | None = None, queue: Mapping[str, str] | None = None) -> RunStatus:
    """Return the state of a run.

    ``planned`` are the settings and the id of one whose directory may not exist yet, ``queue`` has the states of those
    in a cluster's queue, by the names of their directories.
    """
    experiment, state = run.experiment or planned or {}, with_queue(run.state, run.path.name, queue or {})
    record = run.record if state in ("finished", "diverged") else None
    steps = [event for event in run.events.read() if event["kind"] == "train"]
    last: Event = steps[-1] if steps else {"update": 0, "loss": None}
    bleu = record.bleu.test.score if record and record.bleu.test else None
    fields: Json = {name: experiment.get(name) for name in ("id", "exp", "seed", "lr")}
    return RunStatus(**fields, state=state, update=last["update"], loss=last.get("loss"), bleu=bleu, dir=str(run.path))


def with_queue(state: str, name: str, queue: Mapping[str, str]) -> str:
    """Return the state of a run: that in a cluster's queue, unless its directory says that it runs or has ended."""
    return queue.get(name, state) if state in OPEN else state


def summary(states: Iterable[str]) -> str:
    """Return the number of runs by state: ``12 runs: 2 running, 10 planned``."""
    counted = Counter(states)
    parts = [f"{counted[state]} {state}" for state in STATES if counted[state]]
    return f"{plural(counted.total(), 'run')}: {', '.join(parts) or 'none'}"


def table(statuses: Sequence[RunStatus], width: int | None = None) -> str:
    """Return a row per run as `aligned` text, with the learning rate if an experiment has several."""
    if not statuses:
        return "no runs yet; `ln-repro run exp=NAME` starts one"
    several = len({(status.exp, status.lr) for status in statuses}) > len({status.exp for status in statuses})
    columns = ("exp", "lr", *COLUMNS[1:]) if several else COLUMNS
    if any(status.settings for status in statuses):
        columns = (*columns, "settings")
    return aligned([columns, *(status.cells(columns) for status in statuses)], width)


def aligned(rows: Sequence[Sequence[str]], width: int | None = None, gap: str = "  ") -> str:
    """Return rows of cells as lines of text with aligned columns, ``gap`` between them.

    If they would be wider than ``width``, the last cell of each row is below the others.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [gap.join(map(str.ljust, row, widths)).rstrip() for row in rows]
    if width is None or max(map(len, lines)) <= width:
        return "\n".join(lines)
    wrapped = []
    for line, row in zip(aligned([row[:-1] for row in rows]).splitlines(), rows, strict=True):
        wrapped += textwrap.wrap(line, width, subsequent_indent=" " * 6)
        if row[-1] != "-":
            wrapped += textwrap.wrap(f"    {row[-1]}", width, subsequent_indent=" " * 6, break_on_hyphens=False)
    return "\n".join(wrapped)
