"""The verbs. Each is one call into a room below; whatever is heavy is imported inside the verb."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.version import __version__

EPILOG = """\
exit codes: 0 done (a run that diverged is done), 2 the input is wrong, 1 anything else, 130 interrupted (resumable)
"""

INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""What Hydra's `--info` can show."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if arguments[:1] == ["run"]:
            return run_verb(arguments[1:])
        if arguments[:1] == ["-sc"]:  # what the completion that Hydra installs in a shell asks
            return run_verb(arguments)
        if arguments[:1] in (["sweep"], ["data"]):  # key=value and flags in any order, as in `run`
            arguments.sort(key=lambda argument: argument.startswith("-"))
        options = parser().parse_args(arguments)
        return int(options.verb(options) or 0)
    except LnReproError as error:
        return _complain(error)
    except KeyboardInterrupt:
        print("ln-repro: interrupted; the state is saved and the same command goes on", file=sys.stderr)
        return Interrupted.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"ln-repro: {error.strerror or error}: {error.filename or 'no file named'}", file=sys.stderr)
        return 1


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, like every other message."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """Return the parser of everything but `run`, which is Hydra's."""
    main_parser = OneLineParser(
        prog="ln-repro", description="Where should the layer norm stand? Xiong et al. (ICML 2020), reproduced.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    main_parser.add_argument("--version", action="version", version=f"ln-repro {__version__}")
    verbs = main_parser.add_subparsers(title="verbs", required=True, metavar="VERB")

    def verb(name: str, function: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(verb=function)
        return added

    verb("run", lambda options: None, "train, decode, score and record one experiment: run exp=NAME [key=value ...]")
    sweep = verb("sweep", sweep_verb, "every unfinished cell of a grid, side by side")
    sweep.add_argument(
        "words", nargs="*", metavar="key=value", help="grid=NAME [corpus=NAME] [seeds=N] [key=value ...]"
    )
    sweep.add_argument("--dry-run", action="store_true", help="print one row per cell and start nothing")
    data = verb("data", data_verb, "corpora: list them, prepare one, verify its checksums and counts")
    data.add_argument("action", choices=["list", "prepare", "verify"])
    data.add_argument("overrides", nargs="*", metavar="key=value", help="data=NAME [data.source=PATH ...]")
    status = verb("status", status_verb, "one row per run: state, update, loss, BLEU")
    status.add_argument("--json", action="store_true")
    tables = verb("tables", tables_verb, "results of the committed records")
    tables.add_argument("--format", choices=["md", "csv", "latex", "json"], default="md")
    tables.add_argument("--records", type=Path, default=None, metavar="DIR", help="default: results/records")
    sync = verb("sync", sync_verb, "replay the events of runs to wandb (twice does no harm)")
    sync.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories; default: all")
    doctor = verb("doctor", doctor_verb, "what of this machine works, what does not, what to do")
    doctor.add_argument("--json", action="store_true")
    return main_parser


def run_parser() -> argparse.ArgumentParser:
    """Return the parser of `run`'s flags: those of Hydra's that mean something here."""
    flags = OneLineParser(prog="ln-repro run", add_help=False, allow_abbrev=False)
    flags.add_argument("-h", "--help", action="store_true")
    flags.add_argument("-m", "--multirun", action="store_true")
    flags.add_argument("-c", "--cfg", choices=["job", "hydra", "all"])
    flags.add_argument("-p", "--package")
    flags.add_argument("--resolve", action="store_true")
    flags.add_argument("-i", "--info", nargs="?", const="all", choices=INFO)
    flags.add_argument("-sc", "--shell-completion", action="store_true")  # install=bash, uninstall=bash, query=bash
    flags.add_argument("overrides", nargs="*")
    return flags


def run_verb(arguments: list[str]) -> int:
    """`run`: one experiment directly, or Hydra's own machinery where its flags ask for it."""
    from ln_repro.compose import compose, expand, multirun
    from ln_repro.experiment import build

    assignments = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    flags = [argument for argument in arguments if argument not in assignments]
    options = run_parser().parse_intermixed_args(flags)
    overrides = [*assignments, *options.overrides]
    if options.help:
        return _run_help()
    if not flags:
        _run_one(build(compose(overrides)))
        return 0
    if (options.resolve or options.package) and not options.cfg:
        raise UserError("--resolve and --package go with --cfg")
    if options.shell_completion:
        os.environ["COMP_LINE"] = os.environ.get("COMP_LINE", "").replace(" run ", " ", 1)
    else:
        for one in expand(overrides) if options.multirun else [overrides]:
            settings = compose(one)
            experiment = build(settings)
            if options.cfg == "job" and not options.package:
                print(f"# {_total_rate(experiment, settings['reference']['updates_per_epoch'])}", flush=True)
    if options.cfg:
        flags.append("--resolve")
    worst = 0

    def job(settings: dict[str, Any]) -> None:
        nonlocal worst
        try:
            _run_one(build(settings))
        except LnReproError as error:
            worst = max(worst, _complain(error))

    multirun([*overrides, *(flag for flag in flags if flag not in options.overrides)], job)
    return worst


def data_verb(options: argparse.Namespace) -> int:
    """`data list|prepare|verify`."""
    from ln_repro.compose import compose
    from ln_repro.corpus import prepare as corpus
    from ln_repro.engine import process
    from ln_repro.experiment import Data, Paths
    from ln_repro.validation import validate

    if options.action != "list" and not any(o.startswith("data=") for o in options.overrides):
        raise UserError(f"data: which corpus? Give data=NAME ({_names(corpus.listing(_data_root()))})")
    settings = compose(["~exp", *options.overrides])
    data = validate(Data, settings["data"], "data")
    root = validate(Paths, settings["paths"], "paths").data
    if options.action == "list":
        for row in corpus.listing(root):
            state = "prepared" if row["prepared"] else "-"
            pairs = " / ".join(f"{count:,}" for count in row["pairs"].values()) or "-"
            print(f"{row['name']:10} {state:9} {pairs:>26}  {row['description']}")
    elif options.action == "prepare":
        prepared = corpus.prepare(data, root, process.binarise, _say)
        if data.only:
            print(*(prepared.folder / "text" / f"{data.only}.{lang}" for lang in (data.source_lang, data.target_lang)),
                  sep="\n")  # fmt: skip
        else:
            print(prepared.folder)
    elif problems := corpus.verify(data, root):
        raise LnReproError(f"{data.name}: {'; '.join(problems)}")
    else:
        print(f"{data.name}: every checksum and count matches")
    return 0


def sweep_verb(options: argparse.Namespace) -> int:
    """`sweep`."""
    from ln_repro.compose import compose, experiments, grid
    from ln_repro.corpus.prepare import fingerprint, prepare
    from ln_repro.engine import process
    from ln_repro.experiment import build
    from ln_repro.sweep.grid import cells, words
    from ln_repro.sweep.local import Pool, cores
    from ln_repro.sweep.plan import Planned, table

    asked = words(options.words)
    plan = []
    for cell in cells(grid(asked.grid), asked.corpus, asked.seeds, asked.settings, list(experiments())):
        settings = compose(cell.overrides)
        experiment = build(settings)
        source = fingerprint(experiment.data, experiment.paths.data)
        rate = experiment.learning_rate(settings["reference"]["updates_per_epoch"])
        plan.append(Planned(cell, experiment, experiment.id(source) if source else None, rate))
    if options.dry_run:
        print(table(plan))
        return 0
    first = plan[0].experiment
    prepare(first.data, first.paths.data, process.binarise, _say)  # once, instead of every cell waiting for it
    waiting = [planned.cell for planned in plan if not planned.done]
    _say(f"{len(plan)} cells, {len(plan) - len(waiting)} finished already; {cores()} at a time")
    failed = sum(status != 0 for status in Pool(cores(), first.paths.runs / "sweep", _say).run(waiting))
    if failed:
        raise LnReproError(f"{failed} of {len(plan)} cells failed (logs in {first.paths.runs / 'sweep'})")
    print(first.paths.runs)
    return 0


def status_verb(options: argparse.Namespace) -> None:
    """`status`."""
    from ln_repro.status import rows, table

    found = rows(Path(os.environ.get("LN_REPRO_RUNS", "./runs")))
    print(json.dumps(found, indent=1) if options.json else table(found))


def tables_verb(options: argparse.Namespace) -> None:
    """`tables`."""
    from ln_repro.report.records import read_records, records_folder
    from ln_repro.report.tables import render, run_tables

    print(render(run_tables(read_records(options.records or records_folder())), options.format))


def sync_verb(options: argparse.Namespace) -> None:
    """`sync`."""
    from ln_repro.experiment import build
    from ln_repro.store import RunFolder, runs_under
    from ln_repro.tracking.mirror import sync

    folders = [RunFolder(path) for path in options.runs] or runs_under(Path(os.environ.get("LN_REPRO_RUNS", "./runs")))
    for folder in folders:
        settings = folder.experiment
        if settings is None:
            raise UserError(f"{folder.path}: not a run directory (it has no experiment.json)")
        run_id = settings.pop("id")
        print(f"{folder.path}: {sync(build(settings), run_id, folder.path, folder.record)}")


def doctor_verb(options: argparse.Namespace) -> int:
    """`doctor`."""
    from ln_repro.doctor import examine, report

    checks = examine()
    print(json.dumps([check.as_dict() for check in checks], indent=1) if options.json else report(checks))
    return 0 if all(check.ok for check in checks if check.needed) else 1


def _complain(error: LnReproError) -> int:
    """Say in one line what is wrong; return the exit code."""
    print(f"ln-repro: {error}", file=sys.stderr)
    return error.exit_code


def _run_one(experiment: Any) -> None:
    from ln_repro.run import run

    print(run(experiment, _say))


def _total_rate(experiment: Any, updates_per_epoch: int) -> str:
    rate = experiment.learning_rate(updates_per_epoch)
    return f"total learning rate: {rate.sum():.4g} over {rate.total} updates of about {updates_per_epoch} an epoch"


def _run_help() -> int:
    from ln_repro.compose import experiments

    print("usage: ln-repro run exp=NAME [key=value ...] [--cfg job] [-m exp=A,B seed=1,2]\n\nexperiments:")
    for name, text in experiments().items():
        print(f"  {name}\n      {text}")
    print("\n--cfg job prints every setting of an experiment; any of them can be given as key=value.")
    return 0


def _names(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(row["name"] for row in rows)


def _data_root() -> Path:
    return Path(os.environ.get("LN_REPRO_DATA", "./data"))


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _interrupt(number: int, frame: object) -> None:
    """Treat SIGTERM as Ctrl-C: save, and end resumable."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
