"""The names of experiments, ``{setting}_{arm}``, and what the name of an arm says of it."""

from typing import NamedTuple


class Name(NamedTuple):
    """The name of an experiment; the arm is "" if it is an experiment of the user's own with a name of one word."""

    setting: str
    arm: str

    @classmethod
    def of(cls, exp: str) -> "Name":
        setting, _, arm = exp.partition("_")
        return cls(setting, arm)


class ArmName(NamedTuple):
    """The name of an arm, ``{scheme}_{warm|nowarm}[_{optimizer}][_{variant}]``."""

    scheme: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, arm: str) -> "ArmName":
        scheme, *parts = arm.split("_")
        return cls(scheme, tuple(parts))

    @property
    def warm(self) -> bool:
        """Whether it has a ramp, if only of one stack."""
        return "warm" in self.parts
