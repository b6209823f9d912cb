"""The settings of an experiment: typed, validated, composed by Hydra, and named."""
