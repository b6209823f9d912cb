"""Training and decoding with fairseq and torch."""
