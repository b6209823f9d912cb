"""The file `events.jsonl` of a run, with one JSON object per line.

The trainer and the runner both append to it; each line is a single write in append mode, so that lines never mix. A
resumed run repeats the updates after its checkpoint; `Events.read` skips the superseded events.
"""

import contextlib
import errno
import json
import math
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from ln_repro.errors import LnReproError
from ln_repro.system.files import Json

Event = Json
POLL_SECONDS = 1.0
DIGITS = 8
"""Significant digits of numbers in events: one more than float32 has. All 17 would make the file 1.6 times as large."""
PROBE_DIGITS = 6  # significant digits of probes, which are most of the numbers of a run that has them


class Events:
    """The events of one run; the file may be growing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def write(self, kind: str, update: int, epoch: int, **values: object) -> None:
        """Append an event; numbers that are not finite become null."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        event = {"kind": kind, "time": time, "update": update, "epoch": epoch, **values}
        line = json.dumps(json_ready(event, PROBE_DIGITS if kind == "probe" else DIGITS)) + "\n"
        with self.path.open("a+b", buffering=0) as file:
            data = end_of_torn_line(file) + line.encode()
            if file.write(data) < len(data):  # the disk has become full
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def read(self) -> list[Event]:
        """Return the events, without those that a resumed run has superseded."""
        return valid_events(self.path.read_bytes() if self.path.exists() else b"")

    def check_until(self, update: int, tokens: int, validated: Collection[int]) -> None:
        """Raise `LnReproError` if the events up to an update do not add up to ``tokens``, or a validation is missing.

        ``validated`` are the epochs that must have one.
        """
        events = [event for event in self.read() if event["update"] <= update]
        counted = sum(event.get("tokens", 0) for event in events if event["kind"] == "train")
        epochs = {event["epoch"] for event in events if event["kind"] == "valid"}
        if counted != tokens or not epochs.issuperset(validated):
            raise LnReproError(
                f"{self.path} lacks events up to update {update}; restore it, or start again with rerun=true"
            )

    def new(self) -> Iterator[Event]:
        """Yield the complete events since the last call, without lines cut off by a crash."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield from _parsed([line])

    def until(self, end: threading.Event) -> Iterator[Event]:
        """Yield the complete events of a growing file, including those written before ``end`` is set."""
        ended = False
        while not ended:
            ended = end.wait(POLL_SECONDS)
            yield from self.new()


def valid_events(text: bytes) -> list[Event]:
    """Return the events in the content of a file, without those that a resumed run has superseded."""
    valid: list[Event] = []
    for event in _parsed(text.splitlines()):
        state = event.get("state")
        if state == "started":
            valid = []
        elif state == "resumed":
            valid = [earlier for earlier in valid if _stays_valid(earlier, event)]
        valid.append(event)
    return valid


def _parsed(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events in lines, some of which a crash may have cut off; other lines are none."""
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            if _is_event(event := json.loads(line)):
                yield event


def _is_event(value: object) -> bool:
    """Return whether a JSON value has what every event has."""
    if not isinstance(value, dict) or "kind" not in value:
        return False
    return isinstance(value.get("update"), int) and isinstance(value.get("epoch"), int)


def _stays_valid(event: Event, resumed: Event) -> bool:
    """Return whether an event stays valid after a resume, unlike the end of training or a repeated validation."""
    ended = event.get("state") in ("trained", "diverged")
    again = event["kind"] == "valid" and event["epoch"] == resumed["epoch"] and resumed.get("owed", False)
    return bool(event["update"] <= resumed["update"]) and not ended and not again


def end_of_torn_line(file: BinaryIO) -> bytes:
    """Return a line feed if a crash has cut off the last line, so that the next event starts a new line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    return b"\n" if file.read(1) not in (b"", b"\n") else b""


def json_ready(value: Any, digits: int = DIGITS) -> Any:
    """Round numbers to ``digits``; JSON has no tuples, which become lists, nor infinity and NaN, which become None."""
    if isinstance(value, Mapping):
        return {key: json_ready(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item, digits) for item in value]
    if isinstance(value, float):
        return rounded(value, digits) if math.isfinite(value) else None
    return value


def rounded(value: float, digits: int) -> float:
    """Return a number with this many significant digits."""
    return float(f"{value:.{digits}g}")
