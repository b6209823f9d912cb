"""Several runs as one: those that share their mini-batches are trained by the same operations."""
