"""Extensions of fairseq; importing a module registers them."""
