"""Training speed and memory, beside stock fairseq and a bare training loop."""
