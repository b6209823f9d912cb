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


BEGUN = {"kind": "status", "state": "started", "device": "H200", "parameters": 36_700_160, "update": 0}


@pytest.mark.parametrize(
    ("length", "events", "expected"),
    [
        ({"max_update": 1200}, [], "starting"),
        ({"max_update": 1200}, [train()],
         "epoch 3  update 600/1200  loss 4.250  lr 0.002  tokens/s 12,346  left 0:05:00"),
        ({"max_epoch": 10}, [train()], "epoch 3  update 600  loss 4.250  lr 0.002  tokens/s 12,346  left ?"),
        ({"max_epoch": 10, "max_update": 700}, [BEGUN | {"updates_per_epoch": 100}, train(loss=None)],
         "epoch 3  update 600/700  loss not finite  lr 0.002  tokens/s 12,346  left 0:00:50"),
    ],
)  # fmt: skip
def test_progress_has_loss_rate_speed_and_the_time_left_to_the_earlier_end(length, events, expected):
    display = Display("run", Training(**length), Console(file=io.StringIO()))
    for event in events:
        display.show(event)
    assert display.line() == expected


def shown(width: int, terminal: bool, *events: dict[str, Any]) -> str:
    """Return everything printed."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, highlight=False)
    with Display("toy_[preln]_nowarm", Training(max_update=1200), console) as display:
        for event in events:
            display.show(event)
        display.say("a [bold]path[/bold] of " + "x" * 100)
    return out.getvalue()


def test_off_a_terminal_lines_are_plain_few_and_whole():
    probe = {"kind": "probe", "update": 0, "epoch": 1}
    text = shown(80, False, probe, train(20), train(40), train(60), train(1200), probe)
    assert "\x1b" not in text and "\r" not in text
    first, end, last = text.splitlines()
    assert first == "epoch 3  update 20/1200  loss 4.250  lr 0.002  tokens/s 12,346  left 0:09:50"
    assert end == "epoch 3  update 1200/1200  loss 4.250  lr 0.002  tokens/s 12,346  left 0:00:00"
    assert last == "a [bold]path[/bold] of " + "x" * 100


LOST = {"kind": "status", "state": "diverged", "reason": "the loss is not finite", "update": 7}
VALID = {"kind": "valid", "epoch": 3, "update": 600, "loss": 2.5}
BLEU = {"kind": "bleu", "epoch": 3, "split": "test", "flavour": "detokenised", "score": 33.456, "signature": "[s]:1"}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({**BEGUN, "processes": 1}, "started on H200: 36,700,160 parameters"),
        ({**BEGUN, "processes": 8}, "started on 8 x H200: 36,700,160 parameters"),
        (LOST, "diverged at update 7: the loss is not finite"),
        (VALID, "epoch 3  update 600  valid loss 2.500 bits"),
        ({**VALID, "accuracy": 0.5}, "epoch 3  update 600  valid loss 2.500 bits  accuracy 50.0 %"),
        (BLEU, "epoch 3  test BLEU 33.46 (detokenised)  [s]:1"),
    ],
)
def test_what_stays_on_the_screen(event, line):
    assert shown(80, False, event).startswith(f"{line}\n")


def test_a_terminal_gets_a_live_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")  # a dumb one gets plain lines
    text = shown(100, True, train())
    assert "600/1200" in text and "\x1b[" in text
    assert "toy_[preln]_nowarm" in shown(100, True)  # not broken
