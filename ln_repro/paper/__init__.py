"""The paper's numbers, with where they stand."""
