"""What fairseq is taught: importing the modules here registers them."""
