"""The tasks, models, losses and optimizers that fairseq's trainer is given."""
