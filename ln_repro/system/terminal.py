"""Output on standard error: permanent lines and, on a terminal, a live view."""

from typing import Any, Self

from rich.console import Console
from rich.live import Live


class Screen:
    """A console, standard error by default, and on a terminal, as a context manager, a live view.

    ``view`` are arguments of rich's `Live`.
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
        """Print a permanent line."""
        self.console.print(message, markup=False, soft_wrap=True)
