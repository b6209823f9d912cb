"""`ln-repro sweep`: every unfinished cell of a grid."""

import argparse

from ln_repro.errors import LnReproError, UserError
from ln_repro.verbs.messages import say


def sweep_verb(options: argparse.Namespace) -> int:
    """`sweep`."""
    from ln_repro.child import cores
    from ln_repro.compose import compose, experiments, grid
    from ln_repro.corpus.prepare import fingerprint, prepare
    from ln_repro.engine import process
    from ln_repro.engine.device import settle
    from ln_repro.experiment import build
    from ln_repro.ranks import this_rank
    from ln_repro.sweep.grid import cells, words
    from ln_repro.sweep.local import Pool
    from ln_repro.sweep.plan import Planned, table

    if this_rank().size > 1:
        raise UserError("torchrun: starts one run at a time; a sweep starts its runs itself")
    asked = words(options.words)
    composed = []
    for cell in cells(grid(asked.grid), asked.corpus, asked.seeds, asked.settings, list(experiments())):
        settings = compose(cell.overrides)
        experiment = settle(build(settings))
        rate = experiment.learning_rate(settings["reference"]["updates_per_epoch"])
        composed.append((cell, experiment, rate))
    first = composed[0][1]
    if options.dry_run:
        source = fingerprint(first.data, first.paths.data)
        print(table([Planned(*parts, source) for parts in composed]))
        return 0
    corpus = prepare(first.data, first.paths.data, process.binarise, say)  # once, not by every cell
    plan = [Planned(*parts, corpus.fingerprint) for parts in composed]
    waiting = [(planned.folder.path.name, planned.cell) for planned in plan if not planned.done]
    say(f"{len(plan)} cells, {len(plan) - len(waiting)} finished already; {cores()} at a time")
    failed = sum(status != 0 for status in Pool(cores(), first.paths.runs / "sweep", say).run(waiting))
    if failed:
        raise LnReproError(f"{failed} of {len(plan)} cells failed (logs in {first.paths.runs / 'sweep'})")
    print(first.paths.runs)
    return 0
