"""Mirrors of runs: Weights & Biases, fed from the events of a run."""
