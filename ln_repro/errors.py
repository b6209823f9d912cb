"""The errors that a command reports in one line, with the exit code that each leads to."""

import traceback


class LnReproError(Exception):
    """A failure that was not caused by the user's input. The message is one line that says what to do next."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message.replace("\n", "\\n"))  # a path may contain a line feed


class UserError(LnReproError):
    """Invalid user input. The message says what was expected and what was found."""

    exit_code = 2


class Interrupted(LnReproError):
    """The run was stopped by the user or the system; its state is saved, and the same command resumes it."""

    exit_code = 130


def described(error: BaseException) -> tuple[str, int]:
    """Return what a process logs of the error that ends it, and its exit code.

    The last line has the whole message; above it is the traceback, unless it is one of our errors.
    """
    if isinstance(error, LnReproError):
        return str(error), error.exit_code
    lines = "".join(traceback.format_exception(error)).rstrip()
    several = "\n" in str(error).strip()
    return lines + (f"\n{type(error).__name__}: {' '.join(str(error).split())}" if several else ""), 1
