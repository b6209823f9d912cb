"""The version, and the revision of everything numerical."""

__version__ = "0.1.0"

#: Increased by every change that alters results by more than rounding; part of every run's id.
NUMERICS = 1
