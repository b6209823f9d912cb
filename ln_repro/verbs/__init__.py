"""The larger verbs, one file each; `cli` has the small ones."""
