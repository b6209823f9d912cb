"""Messages to the user, one line each on standard error."""

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.system.distributed import this_rank
from ln_repro.system.files import Json
from ln_repro.system.paths import expanded


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports an invalid command line in one line. Abbreviated flags are not accepted."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help)")


def folder(text: str) -> Path:
    """Return the folder that an option names, which must not be empty, as an unset variable of the shell is."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name a folder")
    return expanded(text)


def own_folder(parser: argparse.ArgumentParser) -> None:
    """Add the option for a folder with the user's own configuration files."""
    parser.add_argument(
        "--config-dir", type=folder, metavar="DIR", help="your own experiments (exp/NAME.yaml) and files for them"
    )


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def complaints(problems: Sequence[str]) -> int:
    """Print what is wrong with the records; return the exit code."""
    for problem in problems:
        print(f"ln-repro: {problem}", file=sys.stderr)
    return 1 if problems else 0


def complain(error: LnReproError) -> int:
    """Print an error, under torchrun from the first process only; return its exit code."""
    if this_rank().leads:
        print(f"ln-repro: {error}", file=sys.stderr)
    return error.exit_code


def report_error(error: Exception) -> int:
    """Report any exception in one line; return the exit code. The traceback of an unexpected one goes to a file."""
    if isinstance(error, LnReproError):
        return complain(error)
    if isinstance(error, OSError):
        message = ": ".join(map(str, filter(None, (error.strerror or error, error.filename))))
        say(f"ln-repro: {LnReproError(message)}")  # perhaps of this machine alone, so under torchrun of any process
        return 1
    kind: Json = {"prefix": "ln-repro-", "suffix": ".log", "encoding": "utf-8", "errors": "backslashreplace"}
    with tempfile.NamedTemporaryFile("w", delete=False, **kind) as log:
        traceback.print_exception(error, file=log)
    return complain(LnReproError(f"unexpected {type(error).__name__}: {error} (see {log.name})"))


def report_interruption(interrupt: KeyboardInterrupt) -> int:
    """Report a stop signal or, if the command was already ending because of an error, that error; return the exit code.

    If a process of a run fails, torchrun stops the others, in which the signal must not hide the failure.
    """
    error = interrupt.__context__
    while error is not None and not isinstance(error, LnReproError):
        error = error.__context__
    return complain(error or Interrupted("interrupted; run the same command again to continue"))
