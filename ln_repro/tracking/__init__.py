"""Mirrors of runs on Weights & Biases."""
