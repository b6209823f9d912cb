"""Runs, from settings to record: data, training, decoding and scoring."""
