"""The commands of `ln-repro`, each in the module of its name or, where `ln_repro.cli` names another one, in that."""
