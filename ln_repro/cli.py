"""The verbs. Each is one call into a room below; whatever is heavy is imported inside the verb."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.verbs.messages import OneLineParser, complain, crashed, say
from ln_repro.version import __version__

EPILOG = """\
exit codes: 0 done (a run that diverged is done), 2 the input is wrong, 1 anything else, 130 interrupted (resumable)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if arguments[:1] in (["run"], ["-sc"]):  # -sc is what the completion that Hydra installs in a shell asks
            from ln_repro.verbs.run import run_verb

            return run_verb(arguments[arguments[0] == "run" :])
        if arguments[:1] in (["sweep"], ["data"]):  # key=value and flags in any order, as in `run`
            arguments.sort(key=lambda argument: argument.startswith("-"))
        options = parser().parse_args(arguments)
        return int(options.verb(options) or 0)
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
    sweep = verb("sweep", _sweep, "every unfinished cell of a grid, side by side")
    sweep.add_argument(
        "words", nargs="*", metavar="key=value", help="grid=NAME [corpus=NAME] [seeds=N] [key=value ...]"
    )
    sweep.add_argument("--dry-run", action="store_true", help="print one row per cell and start nothing")
    data = verb("data", data_verb, "corpora: list them, prepare one, verify its checksums and counts")
    data.add_argument("action", choices=["list", "prepare", "verify"])
    data.add_argument("overrides", nargs="*", metavar="key=value", help="data=NAME [data.source=PATH ...]")
    status = verb("status", status_verb, "one row per run: state, update, loss, BLEU")
    status.add_argument("--json", action="store_true")
    tables = verb("tables", _tables, "claims, theory, arms and runs, in numbers")
    tables.add_argument("--format", choices=["md", "csv", "latex", "json"], default="md")
    tables.add_argument("--records", type=Path, default=None, metavar="DIR", help="default: results/records")
    figures = verb("figures", _figures, "the paper's figures, and those of our grids, from the committed records")
    figures.add_argument("--out", type=Path, metavar="DIR", help="default: figures/ beside the records")
    figures.add_argument("--records", type=Path, metavar="DIR", help="default: results/records")
    theory = verb("theory", _theory, "the paper's lemmas, theorem and figure 3, checked without training")
    theory.add_argument("--json", action="store_true")
    theory.add_argument("--only", nargs="+", metavar="ID", help="some of the findings, TH-6 for example")
    theory.add_argument(
        "--full", action="store_true", help="every width and depth, 10 seeds: minutes instead of seconds"
    )
    theory.add_argument("--seeds", type=int, metavar="N", help="default: 5, with --full 10")
    theory.add_argument("--out", type=Path, metavar="DIR", help="also write theory.json and figures/ there")
    claims = verb("claims", _claims, "one verdict per claim of the paper, and what the open ones need")
    claims.add_argument("ids", nargs="*", metavar="ID", help="some of the claims, MT-4 for example")
    claims.add_argument("--json", action="store_true")
    claims.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    verify = verb("verify", _verify, "check every kept record: schema, checksums, events, and BLEU from its hypotheses")
    verify.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    collect = verb("collect", _collect, "keep the records of finished runs: copy them, with events and hypotheses")
    collect.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories; default: all")
    collect.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    collect.add_argument("--replace", action="store_true", help="take the place of a record of the same id")
    compare = verb("compare", _compare, "two kept records: is the difference in BLEU more than chance?")
    compare.add_argument("ids", nargs=2, metavar="ID", help="ids of records")
    compare.add_argument("--records", type=Path, metavar="DIR", help="default: results/records of the checkout")
    sync = verb("sync", sync_verb, "replay the events of runs to wandb (twice does no harm)")
    sync.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories; default: all")
    doctor = verb("doctor", doctor_verb, "what of this machine works, what does not, what to do")
    doctor.add_argument("--json", action="store_true")
    return main_parser


def _sweep(options: argparse.Namespace) -> int:
    from ln_repro.verbs.sweep import sweep_verb

    return sweep_verb(options)


def _figures(options: argparse.Namespace) -> int:
    from ln_repro.verbs.report import figures_verb

    return figures_verb(options)


def _theory(options: argparse.Namespace) -> int:
    from ln_repro.verbs.theory import theory_verb

    return theory_verb(options)


def _claims(options: argparse.Namespace) -> int:
    from ln_repro.verbs.report import claims_verb

    return claims_verb(options)


def _verify(options: argparse.Namespace) -> int:
    from ln_repro.verbs.keep import verify_verb

    return verify_verb(options)


def _collect(options: argparse.Namespace) -> int:
    from ln_repro.verbs.keep import collect_verb

    return collect_verb(options)


def _compare(options: argparse.Namespace) -> int:
    from ln_repro.verbs.keep import compare_verb

    return compare_verb(options)


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
        prepared = corpus.prepare(data, root, process.binarise, say)
        if data.only:
            print(*(prepared.folder / "text" / f"{data.only}.{lang}" for lang in (data.source_lang, data.target_lang)),
                  sep="\n")  # fmt: skip
        else:
            print(prepared.folder)
    elif problems := corpus.verify(data, root):
        raise UserError(f"{data.name}: {'; '.join(problems)}")
    else:
        print(f"{data.name}: every checksum and count matches")
    return 0


def status_verb(options: argparse.Namespace) -> None:
    """`status`."""
    from ln_repro.status import rows, table

    found = rows(Path(os.environ.get("LN_REPRO_RUNS", "./runs")))
    print(json.dumps(found, indent=1) if options.json else table(found))


def _tables(options: argparse.Namespace) -> int:
    from ln_repro.verbs.report import tables_verb

    return tables_verb(options)


def sync_verb(options: argparse.Namespace) -> int:
    """`sync`."""
    from ln_repro.experiment import build
    from ln_repro.store import RunFolder, runs_under
    from ln_repro.tracking.mirror import sync

    folders = [RunFolder(path) for path in options.runs] or runs_under(Path(os.environ.get("LN_REPRO_RUNS", "./runs")))
    failed = 0
    for folder in folders:
        settings = folder.experiment
        if settings is None:
            raise UserError(f"{folder.path}: not a run directory (it has no experiment.json)")
        run_id = settings.pop("id")
        try:
            print(f"{folder.path}: {sync(build(settings), run_id, folder.path, folder.record)}")
        except LnReproError as error:
            failed += bool(complain(error))
    return min(failed, 1)


def doctor_verb(options: argparse.Namespace) -> int:
    """`doctor`."""
    from ln_repro.doctor import examine, report

    checks = examine()
    print(json.dumps([check.as_dict() for check in checks], indent=1) if options.json else report(checks))
    return 0 if all(check.ok for check in checks if check.needed) else 1


def _names(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(row["name"] for row in rows)


def _data_root() -> Path:
    return Path(os.environ.get("LN_REPRO_DATA", "./data"))


def _interrupt(number: int, frame: object) -> None:
    """Treat SIGTERM as Ctrl-C: save, and end resumable."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
