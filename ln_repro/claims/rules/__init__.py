"""The claims and their rules, a module for each family of ids: MT and WMT, BERT, X with TH-10, and TH."""
