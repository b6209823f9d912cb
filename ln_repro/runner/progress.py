"""The progress of a run on standard error: a live line on a terminal, otherwise a line now and then."""

import time
from datetime import timedelta

from rich.console import Console
from rich.text import Text

from ln_repro.experiment.settings import Training
from ln_repro.records.events import Event
from ln_repro.system.progress import Screen

PLAIN_SECONDS = 5.0


class Display(Screen):
    """A display of the events of a run."""

    def __init__(self, title: str, length: Training, console: Console | None = None) -> None:
        self.length = length
        self.last: Event = {}
        self.total: int | None = None  # number of updates, which is known once training has begun
        self.last_line = 0.0
        super().__init__(console, refresh_per_second=4, get_renderable=lambda: Text(f"{title}  {self.line()}"))

    def show(self, event: Event) -> None:
        """Show an event; the results of an epoch stay on the screen."""
        if "updates_per_epoch" in event:
            self.total = self.length.updates(event["updates_per_epoch"])
        if event["kind"] == "train":
            self.last = event
            due = time.monotonic() - self.last_line > PLAIN_SECONDS or event["update"] == self.total
            if due and not self.console.is_terminal:
                self.last_line = time.monotonic()
                self.say(self.line())
        elif event["kind"] == "valid":
            right = f"  accuracy {100 * event['accuracy']:.1f} %" if "accuracy" in event else ""
            self.say(f"epoch {event['epoch']}  update {event['update']}  valid loss {_bits(event['loss'])} bits{right}")
        elif event["kind"] == "status" and "device" in event:
            processes = f"{event['processes']} x " if event.get("processes", 1) > 1 else ""
            self.say(f"{event['state']} on {processes}{event['device']}: {event['parameters']:,} parameters")
        elif event["kind"] == "status" and "reason" in event:
            self.say(f"{event['state']} at update {event['update']}: {event['reason']}")
        elif event["kind"] == "bleu":
            score = f"{event['split']} BLEU {event['score']:.2f} ({event['flavour']})"
            self.say(f"epoch {event['epoch']}  {score}  {event['signature']}")

    def line(self) -> str:
        """Return the progress of training in one line."""
        event = self.last
        if not event:
            return "starting"
        total = f"/{self.total}" if self.total else ""
        return (
            f"epoch {event['epoch']}  update {event['update']}{total}  loss {_bits(event['loss'])}  "
            f"lr {event['lr']:.3g}  tokens/s {event['tokens_per_s']:,.0f}  left {self._left(event)}"
        )

    def _left(self, event: Event) -> str:
        if not self.total or not event["updates_per_s"]:
            return "?"
        return str(timedelta(seconds=round((self.total - event["update"]) / event["updates_per_s"])))


def _bits(loss: float | None) -> str:
    return "not finite" if loss is None else f"{loss:.3f}"
