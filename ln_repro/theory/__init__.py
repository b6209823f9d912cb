"""Checks of the paper's lemmas and theorem, without training."""
