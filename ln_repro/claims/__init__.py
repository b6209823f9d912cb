"""What the paper claims of training, and what records say of it: criteria, and verdicts by them."""
