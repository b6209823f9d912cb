"""The version, and the revision of everything numerical."""

__version__ = "0.1.0"

#: Raised whenever a change of code changes what an experiment computes by more than rounding; part of every run's id.
NUMERICS = 1
