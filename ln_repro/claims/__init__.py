"""Claims about training: the paper's statements as criteria, and verdicts on them from records."""
