"""Output on standard error: permanent lines and, on a terminal, a live view."""

from typing import Any

from rich.console import Console
from rich.live import Live


class Screen(Live):
    """A live view, shown only on a terminal, above which permanent lines are printed.

    ``view`` are arguments of rich's `Live`; the console is standard error by default.
    """

    def __init__(self, console: Console | None = None, **view: Any) -> None:
        super().__init__(console=console or Console(stderr=True, highlight=False), transient=True, **view)

    def say(self, message: str) -> None:
        """Print a permanent line."""
        self.console.print(message, markup=False, soft_wrap=True)
