"""What verbs say to the user: one line, on standard error."""

import argparse
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from ln_repro.errors import LnReproError, UserError


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, like every other message. Flags are not abbreviated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help)")


def own_folder(parser: argparse.ArgumentParser) -> None:
    """Add the flag for a folder of the user's own settings."""
    parser.add_argument(
        "--config-dir", type=Path, metavar="DIR", help="a folder with exp/NAME.yaml (data/, setting/, ...) of your own"
    )


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def complain(error: LnReproError) -> int:
    """Say in one line what is wrong; return the exit code."""
    print(f"ln-repro: {error}", file=sys.stderr)
    return error.exit_code


def crashed(error: Exception) -> int:
    """Say in one line that we made a mistake, and where it is written down; return the exit code."""
    with tempfile.NamedTemporaryFile("w", prefix="ln-repro-", suffix=".log", delete=False) as log:
        traceback.print_exception(error, file=log)
    return complain(LnReproError(f"unexpected {type(error).__name__}: {error} (see {log.name})"))
