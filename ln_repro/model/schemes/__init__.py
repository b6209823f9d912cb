"""The norm placements that followed the paper's two, and all of them by name."""
