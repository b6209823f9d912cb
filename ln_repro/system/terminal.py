"""What a command shows on standard error: a live view where that is a terminal, lines that stay everywhere."""

from typing import Any, Self

from rich.console import Console
from rich.live import Live


class Screen:
    """A console and, while it is entered on a terminal, a view that is drawn anew.

    Args:
        console: standard error unless said.
        view: arguments of rich's `Live`.
    """

    def __init__(self, console: Console | None = None, **view: Any) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.live = Live(console=self.console, transient=True, **view)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def say(self, message: str) -> None:
        """Print a line that stays."""
        self.console.print(message, markup=False, soft_wrap=True)
