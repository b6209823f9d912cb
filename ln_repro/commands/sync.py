"""`ln-repro sync`: send runs to wandb."""

import argparse
import time

from ln_repro.commands.messages import complain, say
from ln_repro.errors import LnReproError, UserError
from ln_repro.records.run_dir import find_run, runs_under
from ln_repro.system.paths import runs_folder
from ln_repro.tracking.mirror import replayed_live, sync

FOLLOW_SECONDS = 1.0


def sync_command(options: argparse.Namespace) -> int:
    folders = [find_run(word, runs_folder()) for word in options.runs] or runs_under(runs_folder())
    if options.follow and len(running := [folder for folder in folders if folder.holder]) > 1:
        raise UserError(f"--follow takes a single run; give one of {', '.join(str(one.path) for one in running)}")
    if not folders:
        say(f"no runs in {runs_folder()}")
    failed = 0
    for folder in folders:
        try:
            if options.follow and folder.holder:
                say(f"{folder.path}: following until the run ends; Ctrl-C does not stop the run")
                with replayed_live(folder.path) as sending:
                    while folder.holder and sending():
                        time.sleep(FOLLOW_SECONDS)
            print(f"{folder.path}: {sync(folder.path)}")
        except LnReproError as error:
            failed += bool(complain(error))
    return min(failed, 1)
