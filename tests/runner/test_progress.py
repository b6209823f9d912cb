"""What a run shows while it goes."""

import io
from typing import Any

import pytest
from rich.console import Console

from ln_repro.experiment.settings import Training
from ln_repro.runner.progress import Display


def train(update: int = 600, **more: Any) -> dict[str, Any]:
    """Return a training event."""
    return {"kind": "train", "update": update, "epoch": 3, "loss": 4.25, "lr": 0.002, "tokens_per_s": 12345.6,
            "updates_per_s": 2.0, **more}  # fmt: skip


BEGUN = {"kind": "status", "state": "started", "update": 0, "updates_per_epoch": 100}


@pytest.mark.parametrize(("length", "events", "end"), [
    ({"max_update": 1200}, [], "starting"),
    ({"max_update": 1200}, [BEGUN, train()], "tokens/s 12,346  left 0:05:00"),
    ({"max_epoch": 10}, [train()], "left ?"),
    ({"max_epoch": 10, "max_update": 700}, [BEGUN, train(loss=None)],
     "update 600/700  loss not finite  lr 0.002  tokens/s 12,346  left 0:00:50"),
])  # fmt: skip
def test_the_time_left_is_that_to_the_earlier_end(length, events, end):
    display = Display("run", Training(**length), Console(file=io.StringIO()))
    for event in events:
        display.show(event)
    assert display.line().endswith(end)


def test_off_a_terminal_lines_are_plain_few_and_whole():
    out = io.StringIO()
    with Display("toy", Training(max_update=1200), Console(file=out, width=80)) as display:
        display.show(BEGUN)
        for update in (20, 40, 60, 1200):
            display.show(train(update))
        display.say("a [bold]path[/bold] of " + "x" * 100)
    assert "\x1b" not in out.getvalue() and "\r" not in out.getvalue()
    first, end, last = out.getvalue().splitlines()
    assert "update 20/1200" in first and "update 1200/1200" in end
    assert last == "a [bold]path[/bold] of " + "x" * 100
