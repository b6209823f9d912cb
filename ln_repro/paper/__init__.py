"""The paper's numbers with their sources."""
