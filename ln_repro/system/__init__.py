"""Utilities for files, paths, locks, signals, subprocesses, ranks and the terminal."""
