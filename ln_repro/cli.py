"""The command line: the commands and their arguments. Each is a function of `ln_repro.commands`, imported late."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from ln_repro.commands.messages import OneLineParser, complain, crashed, own_folder
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.system.signals import raise_when_asked
from ln_repro.version import __version__

EPILOG = """\
exit codes: 0 done (a run that diverged is done), 2 the input is wrong, 1 anything else, 130 interrupted (resumable)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    raise_when_asked()
    try:
        try:
            return _verb(arguments)
        finally:
            sys.stdout.flush()  # that a reader has left is noticed here, and not by Python at its end
    except LnReproError as error:
        return complain(error)
    except KeyboardInterrupt:
        print("ln-repro: interrupted; the state is saved and the same command goes on", file=sys.stderr)
        return Interrupted.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"ln-repro: {error.strerror or error}: {error.filename or 'no file named'}", file=sys.stderr)
        return 1
    except Exception as error:
        return crashed(error)


def _verb(arguments: list[str]) -> int:
    if arguments[:1] in (["run"], ["-sc"]):  # -sc is what the completion that Hydra installs in a shell asks
        from ln_repro.commands.run import run_verb

        return run_verb(arguments[arguments[0] == "run" :])
    options, more = parser().parse_known_args(arguments)
    _take_words(options, more)
    return int(options.verb(options) or 0)


def parser() -> argparse.ArgumentParser:
    """Return the parser of everything but `run`, which is Hydra's."""
    main_parser = OneLineParser(
        prog="ln-repro", description="Where should the layer norm stand? Xiong et al. (ICML 2020), reproduced.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    main_parser.add_argument("--version", action="version", version=f"ln-repro {__version__}")
    verbs = main_parser.add_subparsers(title="verbs", required=True, metavar="VERB")

    def verb(name: str, module: str, text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(verb=partial(_call, module, f"{name}_verb"), name=name)
        return added

    verb("run", "run", "train, decode, score and record one experiment: run exp=NAME [key=value ...]")
    for name, module, text in (
        ("sweep", "sweep", "every unfinished cell of a grid, side by side on this machine or on a Slurm cluster"),
        ("status", "status", "one row per run, or per cell of a grid: state, update, loss, BLEU"),
        ("cancel", "status", "stop cells, wherever they run or wait; each saves its state first"),
    ):
        grid = verb(name, module, text)
        grid.add_argument(
            "words",
            nargs="*",
            metavar="key=value",
            help="grid=NAME [corpus=NAME] [seeds=N] [arms=A,B] [rates=X,Y] [launcher=slurm] [key=value ...]",
        )
        grid.add_argument(
            "--only", action="append", default=[], metavar="CELL[,CELL]",
            help="these cells, patterns separated by commas: '*sgd*,postln_warm-s2,*-lr0.001*'",
        )  # fmt: skip
        grid.add_argument(
            "--except", action="append", default=[], metavar="CELL[,CELL]", dest="but", help="all but these"
        )
        own_folder(grid)
        if name == "sweep":
            grid.add_argument(
                "--skip-recorded", action="store_true", help="leave out cells whose record is in results/records"
            )
            grid.add_argument("--dry-run", action="store_true", help="print one row per cell and start nothing")
            grid.add_argument(
                "--fail-fast", action="store_true",
                help="start no further cell once one has failed (a run that diverged has not); those at work go on",
            )  # fmt: skip
            grid.add_argument("--detach", action="store_true", help="start and leave; status and cancel find it")
        elif name == "status":
            grid.add_argument("--json", action="store_true")
            grid.add_argument("--watch", action="store_true", help="look again every two seconds, until Ctrl-C")
        else:
            grid.add_argument("--all", action="store_true", help="all that run or wait, of whatever grid")
    data = verb("data", "data", "corpora: list them, prepare one, verify its checksums and counts")
    data.add_argument("action", choices=["list", "prepare", "verify"])
    data.add_argument("overrides", nargs="*", metavar="key=value", help="data=NAME [data.source=PATH ...]")
    own_folder(data)
    tables = verb("tables", "report", "claims, theory, arms and runs, in numbers")
    tables.add_argument("--format", choices=["md", "csv", "latex", "json"], default="md")
    tables.add_argument("--records", type=Path, default=None, metavar="DIR", help="default: results/records")
    figures = verb("figures", "report", "the paper's figures, and those of our grids, from the committed records")
    figures.add_argument("--out", type=Path, metavar="DIR", help="default: figures/ beside the records")
    figures.add_argument("--records", type=Path, metavar="DIR", help="default: results/records")
    theory = verb("theory", "theory", "the paper's lemmas, theorem and figure 3, checked without training")
    theory.add_argument("--json", action="store_true")
    theory.add_argument("--only", nargs="+", metavar="ID", help="some of the findings, TH-6 for example")
    theory.add_argument(
        "--full",
        action="store_true",
        help="every width, depth and initialisation: half an hour of CPU instead of minutes",
    )
    theory.add_argument("--seeds", type=int, metavar="N", help="at least, of everything (default: 10)")
    theory.add_argument("--out", type=Path, metavar="DIR", help="also write theory.json and figures/ there")
    claims = verb("claims", "report", "one verdict per claim of the paper, and what the open ones need")
    claims.add_argument("ids", nargs="*", metavar="ID", help="some of the claims, MT-4 for example")
    claims.add_argument("--json", action="store_true")
    claims.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    verify = verb("verify", "keep", "check every kept record: schema, checksums, events, and BLEU from its hypotheses")
    verify.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    collect = verb("collect", "keep", "keep the records of finished runs: copy them, with events and hypotheses")
    collect.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories; default: all")
    collect.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    collect.add_argument("--replace", action="store_true", help="take the place of a record of the same id")
    compare = verb("compare", "keep", "two kept records: is the difference in BLEU more than chance?")
    compare.add_argument("ids", nargs=2, metavar="ID", help="ids of records")
    compare.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    reproduce = verb("reproduce", "reproduce", "run a kept record again from its own settings, and compare the two")
    reproduce.add_argument("id", metavar="ID", help="id of a record")
    reproduce.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="data.source=PATH, paths.runs=DIR; train.max_epoch=N or train.max_update=N to cut it short",
    )
    reproduce.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    sync = verb("sync", "runs", "replay the events of runs to wandb (twice does no harm)")
    sync.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories; default: all")
    sync.add_argument(
        "--follow", action="store_true", help="go on with what they write until the runs that are at work have ended"
    )
    doctor = verb("doctor", "runs", "what of this machine works, what does not, what to do")
    doctor.add_argument("--json", action="store_true")
    return main_parser


def _take_words(options: argparse.Namespace, more: Sequence[str]) -> None:
    """Add the words that stand behind a flag to those before it: both may stand in any order, as in `run`."""
    into = next((name for name in ("words", "overrides") if hasattr(options, name)), None)
    if strange := [word for word in more if into is None or word.startswith("-")]:
        raise UserError(f"unrecognized arguments: {' '.join(strange)} (ln-repro {options.name} --help)")
    if into:
        setattr(options, into, [*getattr(options, into), *more])


def _call(module: str, name: str, options: argparse.Namespace) -> int | None:
    """Import the verb, which may be heavy, and run it."""
    function: Callable[[argparse.Namespace], int | None] = getattr(import_module(f"ln_repro.commands.{module}"), name)
    return function(options)


if __name__ == "__main__":
    sys.exit(main())
