"""Mirroring of runs to Weights & Biases."""
