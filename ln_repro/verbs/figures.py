"""`ln-repro figures`: the paper's figures and those of our grids, from records."""

import argparse

from ln_repro.verbs.messages import say


def figures_verb(options: argparse.Namespace) -> int:
    """`figures`."""
    from ln_repro.report.figures import draw_all
    from ln_repro.report.records import records_folder

    records = options.records or records_folder()
    drawn = draw_all(records, options.out or records.parent / "figures")
    for line in drawn.left_out:
        say(f"not drawn: {line}")
    print(*drawn.paths, sep="\n")
    return 0
