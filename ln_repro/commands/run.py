"""`ln-repro run`: one experiment directly, or Hydra's own machinery where its flags ask for it."""

import argparse
import os
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

from ln_repro.commands.messages import OneLineParser, complain, crashed, own_folder, say
from ln_repro.errors import Interrupted, LnReproError, UserError

INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""What Hydra's `--info` can show."""


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


def run_command(arguments: list[str]) -> int:
    """`run`: one experiment directly, or Hydra's own machinery where its flags ask for it."""
    from ln_repro.engine import process
    from ln_repro.experiment.compose import compose, expand, multirun, search_also
    from ln_repro.experiment.settings import build
    from ln_repro.system.distributed import this_rank
    from ln_repro.system.files import explained

    ours = OneLineParser(prog="ln-repro run", add_help=False)
    own_folder(ours)
    ours.add_argument("--queued", type=Path)  # how a sweep starts its cells
    own, arguments = ours.parse_known_args(arguments)
    search_also(own.config_dir)
    if own.queued:
        if arguments:
            raise UserError(f"--queued: the experiment is settled; take away {' '.join(arguments)}")
        return _run_queued(own.queued)
    assignments = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    flags = [argument for argument in arguments if argument not in assignments]
    options = run_parser().parse_intermixed_args(flags)
    overrides = [*assignments, *options.overrides]
    if options.help:
        return _run_help()
    if not flags:
        if not this_rank().leads:
            process.follow_rank_zero()
        _run_one(build(compose(overrides)))
        return 0
    if this_rank().size > 1:
        raise UserError("torchrun: starts one run at a time, without flags")
    if (options.resolve or options.package) and not options.cfg:
        raise UserError("--resolve and --package go with --cfg")
    if options.shell_completion:
        os.environ["COMP_LINE"] = os.environ.get("COMP_LINE", "").replace(" run ", " ", 1)
    else:
        jobs = expand(overrides) if options.multirun else [overrides]
        composed = [compose(one) for one in jobs]
        experiment = [build(settings) for settings in composed][-1]
    if options.cfg:
        flags.append("--resolve")
    flags = [flag for flag in flags if flag not in options.overrides]
    if options.cfg or options.info:
        for one, settings in zip(jobs, composed, strict=True):
            if options.multirun:
                print(f"---\n# {shlex.join(['ln-repro', 'run', *one])}")
            if options.cfg == "job" and not options.package and "reference" in settings:
                print(f"# {_total_rate(settings)}")
            sys.stdout.flush()
            multirun([*one, *(flag for flag in flags if flag not in ("-m", "--multirun"))], None)
        return 0
    worst, home = 0, (socket.gethostname(), os.getpid())

    def job(settings: dict[str, Any]) -> None:
        nonlocal worst
        try:
            _run_one(build(settings))
        except Interrupted as error:
            raise KeyboardInterrupt from error  # ends the whole multirun, not this job alone
        except Exception as error:
            if home != (socket.gethostname(), os.getpid()):
                raise  # a launcher has brought us elsewhere: this is how it comes back
            worst = max(worst, complain(error) if isinstance(error, LnReproError) else crashed(error))

    if options.multirun:
        runs = experiment.paths.runs
        with explained(runs, "paths.runs"):
            (runs / ".hydra").mkdir(parents=True, exist_ok=True)  # where Hydra leaves its multirun.yaml
    multirun([*overrides, *flags], job)
    return worst


def _run_queued(file: Path) -> int:
    from ln_repro.engine.device import resolve_precision
    from ln_repro.runner.run import run
    from ln_repro.sweep.queued import read

    experiment, code = read(file)
    print(run(resolve_precision(experiment), say, code))
    return 0


def _run_one(experiment: Any) -> None:
    from ln_repro.engine.device import resolve_precision
    from ln_repro.runner.run import run

    print(run(resolve_precision(experiment), say))


def _total_rate(settings: dict[str, Any]) -> str:
    from ln_repro.experiment.settings import build

    updates_per_epoch = settings["reference"]["updates_per_epoch"]
    rate = build(settings).learning_rate(updates_per_epoch)
    return f"total learning rate: {rate.sum():.4g} over {rate.total} updates of about {updates_per_epoch} an epoch"


def _run_help() -> int:
    from ln_repro.experiment.compose import experiments

    arms: dict[str, dict[str, str]] = {}
    for name, text in experiments().items():
        corpus, _, arm = name.partition("_")
        arms.setdefault(corpus, {})[arm] = text
    alike: dict[tuple[str, ...], list[str]] = {}
    for corpus, of_corpus in arms.items():
        alike.setdefault(tuple(of_corpus), []).append(corpus)
    print("usage: ln-repro run exp=CORPUS_ARM [key=value ...] [--cfg job] [-m exp=A,B seed=1,2] [--config-dir DIR]\n")
    for corpora in sorted(alike.values(), key=len, reverse=True):
        print(f"CORPUS is one of {', '.join(corpora)}; ARM is one of\n")
        for arm, text in arms[corpora[0]].items():
            print(f"  {arm}\n      {text}")
        print()
    print("--cfg job prints every setting of an experiment; any of them can be given as key=value.")
    print("--config-dir DIR finds exp/NAME.yaml, and files of the other groups, of your own.")
    return 0
