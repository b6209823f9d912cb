"""The command line: all commands and their arguments. Each command is imported from `ln_repro.commands` when used."""

try:
    import argparse
    import os
    import sys
    from collections.abc import Callable, Sequence
    from importlib import import_module
    from io import TextIOWrapper
    from pathlib import Path

    from ln_repro.commands.messages import OneLineParser, folder, own_folder, report_error, report_interruption
    from ln_repro.errors import UserError
    from ln_repro.system.files import Json
    from ln_repro.system.signals import raise_on_stop_signals
    from ln_repro.version import __version__
except KeyboardInterrupt:  # Ctrl-C before `main`
    raise SystemExit(130) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    raise_on_stop_signals()
    _prepare_output()
    try:
        try:
            return _run_command(arguments)
        finally:
            sys.stdout.flush()  # raises BrokenPipeError here if the reader has closed the pipe
    except KeyboardInterrupt as interrupt:
        return report_interruption(interrupt)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return report_error(error)


def _prepare_output() -> None:
    """Make both outputs ones that can be written to, and escape what the encoding of standard output lacks.

    A width of 0, with which rich prints nothing, is forgotten.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (open until the end)
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    for name in ("COLUMNS", "LINES"):
        if os.environ.get(name) == "0":
            del os.environ[name]


def _run_command(arguments: list[str]) -> int:
    if arguments[:1] == ["run"]:
        from ln_repro.commands.run import run_command

        return run_command(arguments[1:])
    options, rest = parser().parse_known_args(arguments)
    if "module" not in options:
        mistake = f"unrecognized arguments: {' '.join(rest)}" if rest else "expected a COMMAND"
        raise UserError(f"{mistake} (ln-repro --help)")
    _add_arguments(options, rest)
    command: Callable[[argparse.Namespace], int | None] = getattr(
        import_module(f"ln_repro.commands.{options.module}"), f"{options.name}_command"
    )
    return command(options) or 0


Add = Callable[..., argparse.ArgumentParser]
"""Adds a command: its name, what it does and, if it has not the same name, its module in `ln_repro.commands`."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands except `run`, whose arguments Hydra parses."""
    main_parser = OneLineParser(
        prog="ln-repro",
        description="Reproduce 'On Layer Normalization in the Transformer Architecture' (Xiong et al., ICML 2020).",
        epilog="exit codes: 0 done (divergence is a result), 1 failed, 2 invalid input, 130 interrupted (resumable)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main_parser.add_argument("--version", action="version", version=f"ln-repro {__version__}")
    commands = main_parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, text: str, module: str | None = None) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(module=module or name, name=name)
        return command

    add("run", "train, score and record one experiment: run exp=NAME [key=value ...]")
    _add_grids(add)
    data = add("data", "list corpora, prepare one, or verify its checksums and counts")
    data.add_argument("action", choices=["list", "prepare", "verify"])
    data.add_argument("overrides", nargs="*", metavar="key=value", help="data=NAME [data.source=PATH ...]")
    own_folder(data)
    _add_results(add)
    _add_archive(add)
    sync = add("sync", "upload the events of runs to wandb; can be repeated safely")
    sync.add_argument("runs", nargs="*", metavar="RUN", help="run directories or ids; default: all with a tracker")
    add("doctor", "check this machine and suggest how to fix what does not work")
    for name in ("status", "theory", "claims", "arena", "doctor"):
        commands.choices[name].add_argument("--json", action="store_true", help="print JSON")
    for name in ("tables", "figures", "claims", "arena", "verify", "collect", "compare", "reproduce"):
        commands.choices[name].add_argument(
            "--records", type=folder, metavar="DIR", help="default: results/records of the checkout"
        )
    return main_parser


def _add_grids(add: Add) -> None:
    """Add the commands on the runs of a grid."""
    sweep = add("sweep", "run every unfinished experiment of a grid, on this machine or on a Slurm cluster")
    status = add("status", "show one row per run: state, update, loss, BLEU")
    cancel = add("cancel", "stop queued and running runs; a running one saves its state first", "status")
    further = {
        sweep: " [jobs=N] [jobs_per_gpu=N] [stack=N] [retries=N] [launcher=FILE] [launcher.KEY=VALUE]",
        status: "; default: all runs",
        cancel: ", or run directories or ids",
    }
    grid = "grid=NAME (`grid=` lists them) [corpus=SETTING] [seeds=N] [arms=A,B] [rates=X,Y]"
    patterns: Json = {"action": "extend", "default": [], "type": lambda text: text.split(",")}
    for command, others in further.items():
        command.add_argument(
            "words", nargs="*", metavar="key=value", help=f"{grid} [launcher=slurm] [key=value]{others}"
        )
        only = "only runs that match a pattern: '*sgd*,postln_warm-s2,*-lr0.001*'"
        command.add_argument("--only", **patterns, metavar="PATTERN[,...]", help=only)
        but = "all runs except those that match a pattern"
        command.add_argument("--except", **patterns, metavar="PATTERN[,...]", dest="but", help=but)
        own_folder(command)
    sweep.add_argument("--skip-recorded", action="store_true", help="leave out runs whose record is in results/records")
    sweep.add_argument("--dry-run", action="store_true", help="print one row per run and start nothing")
    first_failure = "start no further runs once one has failed (divergence is not a failure); running ones continue"
    sweep.add_argument("--fail-fast", action="store_true", help=first_failure)
    background = "return at once: run in the background, or leave the jobs to Slurm"
    sweep.add_argument("--detach", action="store_true", help=background)
    status.add_argument("--watch", action="store_true", help="refresh every two seconds, until Ctrl-C")
    cancel.add_argument("--all", action="store_true", help="stop all runs of all grids")


def _add_results(add: Add) -> None:
    """Add the commands that report results."""
    tables = add("tables", "print claims, theory, arms and runs as tables", "report")
    tables.add_argument("names", nargs="*", metavar="NAME", help="only these tables, for example lr50; default: all")
    tables.add_argument("--format", choices=["md", "csv", "latex", "json"], default="md")
    figures = add("figures", "draw the paper's figures and ours from the committed records", "report")
    figures.add_argument("--out", type=folder, metavar="DIR", default="figures", help="default: ./figures")
    theory = add("theory", "check the paper's lemmas, theorem and figure 3, without training")
    theory.add_argument("--only", nargs="+", metavar="ID", help="only these findings, for example TH-6")
    full = "all widths, depths and initialisations: half an hour of CPU time instead of minutes"
    theory.add_argument("--full", action="store_true", help=full)
    theory.add_argument("--seeds", type=int, metavar="N", help="minimum number of seeds per measurement (default: 10)")
    out = "write theory.json (these findings alone) and figures/"
    theory.add_argument("--out", type=folder, metavar="DIR", help=out)
    text = "print the effect and verdict of each claim; with IDs, also its rule, records and what would resolve it"
    claims = add("claims", text, "report")
    claims.add_argument("ids", nargs="*", metavar="ID", help="only these claims, for example MT-4")
    arena = add("arena", "rank the norm placements of one setting", "report")
    arena.add_argument("setting", nargs="?", default="toy", metavar="SETTING", help="default: toy")
    add("report", "rebuild tables, figures, page and README's verdicts from the committed records")


def _add_archive(add: Add) -> None:
    """Add the commands on archived records."""
    add("verify", "check every committed record: schema, checksums, events and BLEU")
    collect = add("collect", "copy the records of finished runs to results/records")
    collect.add_argument("runs", nargs="*", metavar="RUN", help="run directories or ids; default: all")
    collect.add_argument("--replace", action="store_true", help="replace records with the same id")
    trials = "also copy runs that differ from the experiment of that name (implied by --records)"
    collect.add_argument("--all", action="store_true", help=trials)
    ended_early = "copy the given runs, which did not end, to results/stopped; no claim is judged from them"
    collect.add_argument("--stopped", action="store_true", help=ended_early)
    compare = add("compare", "test whether the difference in BLEU between two records is significant", "verify")
    compare.add_argument("pair", nargs=2, metavar="ID", help="ids of records")
    reproduce = add("reproduce", "repeat the run of a committed record and compare the two")
    reproduce.add_argument("id", metavar="ID", help="id of a record")
    changes = "data.source=PATH, paths.runs=DIR; train.max_epoch=N or train.max_update=N to cut it short"
    reproduce.add_argument("overrides", nargs="*", default=[], metavar="key=value", help=changes)


def _add_arguments(options: argparse.Namespace, rest: Sequence[str]) -> None:
    """Add the arguments after a flag to those before it, since their order does not matter."""
    name = next((name for name in ("words", "overrides", "ids", "names", "runs") if hasattr(options, name)), None)
    if unknown := [word for word in rest if name is None or word.startswith("-")]:
        raise UserError(f"unrecognized arguments: {' '.join(unknown)} (ln-repro {options.name} --help)")
    if name:
        setattr(options, name, [*getattr(options, name), *rest])


if __name__ == "__main__":
    sys.exit(main())
