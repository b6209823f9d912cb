"""Grids of runs, side by side on one machine or on a Slurm cluster."""
