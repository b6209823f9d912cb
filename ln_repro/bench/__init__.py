"""How fast training is, beside other ways to do the same."""
