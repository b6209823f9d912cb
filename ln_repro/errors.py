"""The few ways in which a verb can fail. Each message is one line that says what to do next."""


class LnReproError(Exception):
    """Something failed that is not the user's input; the verb exits with ``exit_code``."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message.replace("\n", "\\n"))  # a path may hold a line feed; a message may not


class UserError(LnReproError):
    """The user's input is wrong: what, where, and what would be accepted."""

    exit_code = 2


class Interrupted(LnReproError):
    """The user or the system asked to stop; the state is saved and the same command resumes."""

    exit_code = 130
