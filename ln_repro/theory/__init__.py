"""The paper's lemmas and theorem, checked without training."""
