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


def described(error: BaseException) -> str:
    """Return the traceback of an error, whose last line has the whole message."""
    lines = "".join(traceback.format_exception(error)).rstrip()
    several = "\n" in str(error).strip()
    return lines + (f"\n{type(error).__name__}: {' '.join(str(error).split())}" if several else "")
