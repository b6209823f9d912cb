"""Grids of experiments: which cells there are, and running them."""
