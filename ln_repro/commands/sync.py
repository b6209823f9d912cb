"""`ln-repro sync`: send runs to wandb."""

import argparse

from ln_repro.commands.messages import complain, say
from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Tracker
from ln_repro.records.run_dir import RunFolder, find_run, runs_under
from ln_repro.system.files import Json, last_line
from ln_repro.system.paths import runs_folder
from ln_repro.system.progress import plural
from ln_repro.tracking import SENT, Mirror, contents

SYNC_SECONDS = 600


def sync_command(options: argparse.Namespace) -> int:
    folders = [find_run(word, runs_folder()) for word in options.runs]
    if not folders:
        present = runs_under(runs_folder())
        folders = [folder for folder in present if not untracked((folder.experiment or {}).get("tracker", {}))]
        if private := len(present) - len(folders):
            say(f"{plural(private, 'run')} without a tracker left out; name a run to send it")
        elif not folders:
            say(f"no runs in {runs_folder()}")
    status = 0
    for folder in folders:
        try:
            print(f"{folder.path}: {sync(folder)}")
        except LnReproError as error:
            complain(error)
            status = 1
    return status


def untracked(tracker: Json) -> bool:
    """Return whether a run was not to be mirrored."""
    return tracker.get("name") == "none" or tracker.get("mode") == "disabled"


def sync(folder: RunFolder) -> str:
    """Send a run to the server and return a short description of the result; sending it again adds nothing.

    Raises:
        LnReproError: sending failed, for the reason in the message.
    """
    everything = contents(folder)
    number = everything.partition(" ")[0]
    if last_line(folder.path / SENT) == everything:
        return f"{number} events, already uploaded"
    failures = list[str]()
    with Mirror(folder, Tracker(name="wandb", mode="online"), failures.append, SYNC_SECONDS):
        pass
    if failures:
        raise LnReproError(f"{folder.path.name} was not mirrored to wandb: {failures[0]}")
    return f"{number} events, uploaded"
