"""What fairseq is extended with; importing the modules registers them."""
