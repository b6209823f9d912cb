"""The commands of `ln-repro`, one file each."""
