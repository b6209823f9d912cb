"""The paper as data: its numbers, with where they stand."""
