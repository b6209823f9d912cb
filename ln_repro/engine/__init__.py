"""Training and decoding with fairseq; everything that knows fairseq or trains with torch is here."""
