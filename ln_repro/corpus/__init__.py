"""Corpora: download, tokenisation, cleaning, subwords, and the binary files that fairseq reads."""
