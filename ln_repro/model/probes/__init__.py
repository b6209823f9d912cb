"""What is measured of a model in training, without changing it."""
