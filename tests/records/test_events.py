"""events.jsonl: whole lines only, whoever writes and whenever it crashes."""

import json
import math
import multiprocessing
import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ln_repro.records.events import Events


@pytest.fixture
def events(tmp_path: Path) -> Events:
    """Return the events of a run in a directory whose name needs care."""
    folder = tmp_path / 'it\'s a\n"run"'
    folder.mkdir()
    return Events(folder / "events.jsonl")


def updates(events: Events) -> list[tuple[str, int]]:
    """Return kind and update of the events that count."""
    return [(event.get("state", event["kind"]), event["update"]) for event in events.read()]


def test_an_event_says_what_when_and_where_with_eight_digits_or_those_of_probes_six(events):
    events.write("train", 5, 2, loss=1.2345678912, name="ä\nö", lr=math.nan)
    events.write("probe", 5, 2, values={"norms": [1.2345678912, 1.2345678912e-20], "pair": (-math.inf, 2)})
    lines = events.path.read_bytes().split(b"\n")[:-1]
    train, probe = map(json.loads, lines)
    assert list(train)[:4] == ["kind", "time", "update", "epoch"] and b"NaN" not in lines[0]
    time = datetime.fromisoformat(train.pop("time"))
    assert time.utcoffset() == UTC.utcoffset(None) and abs((datetime.now(UTC) - time).total_seconds()) < 60
    assert train == {"kind": "train", "update": 5, "epoch": 2, "loss": 1.2345679, "name": "ä\nö", "lr": None}
    assert probe["values"] == {"norms": [1.23457, 1.23457e-20], "pair": [None, 2]}


@pytest.mark.parametrize("torn", [
    b'{"kind": "tr',
    b"\0\0\0\0",
    b'{"a": "\xc3',
    b"null\n",
    100_000 * b"[" + b"\n",
    b"{}\n",
    b'{"kind": "status", "state": "resumed", "update": "x", "epoch": 1}\n',
])  # fmt: skip
def test_a_torn_line_is_no_event_and_takes_no_later_one_with_it(events, torn):
    events.write("train", 1, 1)
    with events.path.open("ab") as file:
        file.write(torn)
    assert updates(events) == [("train", 1)]
    assert [event["update"] for event in events.new()] == [1]
    events.write("status", 1, 1, state="resumed")
    events.write("train", 2, 1)
    assert [event["update"] for event in events.new()] == [1, 2]
    assert [event["update"] for event in Events(events.path).new()] == [1, 1, 2]


def test_an_event_that_only_partly_fits_on_the_disk_is_an_error(events):
    events.write("train", 1, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (events.path.stat().st_size + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            events.write("train", 2, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    events.write("train", 2, 1)
    assert updates(events) == [("train", 1), ("train", 2)]


def test_a_resumed_run_takes_back_what_came_after_its_checkpoint(events):
    events.write("status", 0, 1, state="started")
    for update in (20, 40, 60, 80, 100):
        events.write("train", update, 1)
    events.write("bleu", 50, 1, score=1.0)
    events.write("status", 60, 1, state="resumed")
    for update in (80, 100, 120):
        events.write("train", update, 1)
    assert updates(events) == [
        ("started", 0), ("train", 20), ("train", 40), ("train", 60), ("bleu", 50),
        ("resumed", 60), ("train", 80), ("train", 100), ("train", 120),
    ]  # fmt: skip
    events.write("status", 120, 1, state="diverged")
    assert updates(events)[-2:] == [("train", 120), ("diverged", 120)]
    events.write("status", 120, 1, state="resumed")
    assert updates(events)[-2:] == [("train", 120), ("resumed", 120)]
    events.write("status", 0, 1, state="started")
    assert updates(events) == [("started", 0)]
    events.write("valid", 40, 2, loss=2.0)
    events.write("status", 40, 2, state="resumed", owed=True)  # the validation is repeated
    assert updates(events) == [("started", 0), ("resumed", 40)]


def write_many(events: Events, kind: str) -> None:
    for update in range(400):
        events.write(kind, update, 1, text=kind * 3000)


def test_two_processes_never_mix_their_lines(events):
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_many, args=(events, kind)) for kind in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    lines = [json.loads(line) for line in events.path.read_text().splitlines() if line]
    assert all(line["text"] == line["kind"] * 3000 for line in lines)
    for name in ("a", "b"):
        assert [line["update"] for line in lines if line["kind"] == name] == list(range(400))
