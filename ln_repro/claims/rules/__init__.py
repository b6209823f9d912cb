"""The claims and their rules: MT and WMT, BERT, X with TH-10. Those of TH are checks in `ln_repro.theory.checks`."""
