"""`ln-repro run`: run one or several experiments, or show their configuration."""

import argparse
import shlex
import textwrap
from itertools import pairwise
from pathlib import Path

from ln_repro.claims.words import display_name
from ln_repro.commands.messages import OneLineParser, own_folder, report_error, say
from ln_repro.engine import process
from ln_repro.errors import Interrupted, UserError
from ln_repro.experiment import compose
from ln_repro.experiment.name import Name
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import Experiment, build
from ln_repro.sweep.grid import SweepRequest
from ln_repro.sweep.queued import read
from ln_repro.system.distributed import this_rank


def run_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags of `run`: the supported ones of Hydra, and our own."""
    flags = OneLineParser(prog="ln-repro run", add_help=False)
    flags.add_argument("-h", "--help", action="store_true")
    flags.add_argument("--list", action="store_true")
    flags.add_argument("-m", "--multirun", action="store_true")
    flags.add_argument("-c", "--cfg", choices=["job", "hydra", "all"])
    kinds = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
    flags.add_argument("-i", "--info", nargs="?", const="all", choices=kinds)
    flags.add_argument("--queued", type=Path)  # how a sweep starts its runs
    flags.add_argument("--stack")  # how it starts the process that trains several runs like the queued one
    own_folder(flags)
    flags.add_argument("overrides", nargs="*")
    return flags


HELP = """\
usage: ln-repro run exp=SETTING_ARM [key=value ...] [--cfg job]
                    [-m exp=A,B seed=1,2] [--config-dir DIR]

Train, decode and score one experiment, for example exp=toy_preln_nowarm. The
same command resumes an interrupted run. The most used options:

  seed=1              the seed of weights, batches and dropout
  lr=1e-3             the highest learning rate
  norm=deepnorm       the norm placement; norm.file=PATH gives your own
  schedule.warmup_updates=400
                      the length of the linear ramp; 0: none
  train.max_epoch=3   the number of epochs; or train.max_update=N
  train.device=cpu    cpu, cuda or auto
  data.source=PATH    the original archive or folder, instead of a download
  probe=all           measure gradients, updates and curvature in training
  tracker=none        do not mirror the run to wandb
  rerun=true          start again, and set the old directory aside

  --list              describe every SETTING and ARM, and your own experiments
  --cfg job           print all options of an experiment with their values;
                      conf/ and ln_repro/experiment/settings.py describe them
  -m, --multirun      run every combination of comma-separated values
  --config-dir DIR    add your own exp/NAME.yaml, grid/NAME.yaml and the files
                      that these name; they take precedence

docs/guide.md has the other options, and torchrun for several GPUs."""


def run_command(arguments: list[str]) -> int:
    assignments = [
        argument
        for before, argument in pairwise(["", *arguments])
        if "=" in argument and not argument.startswith("-") and before != "--config-dir"
    ]
    options = run_parser().parse_intermixed_args([argument for argument in arguments if argument not in assignments])
    overrides = compose.with_own_norm([*assignments, *options.overrides])
    compose.search_also(options.config_dir)
    if options.queued:
        if overrides:
            raise UserError(f"--queued: takes no overrides; leave out {' '.join(overrides)}")
        if options.stack:
            process.become_stack_trainer(read(options.queued), options.stack.split(","))
        _run_one(read(options.queued))
        return 0
    if options.help or options.list:
        print(HELP if options.help else _experiments())
        return 0
    for key in (override.partition("=")[0] for override in overrides):
        if key in {*SweepRequest.model_fields, "hydra/launcher"}:
            raise UserError(f"{key}: is not for one run; see `ln-repro sweep --help` (grid=NAME launcher=slurm, ...)")
    shown = options.cfg or options.info
    if this_rank().size > 1 and (shown or options.multirun):
        raise UserError("torchrun: starts a single run; leave out --multirun, --cfg and --info")
    if not this_rank().leads:
        process.follow_rank_zero()
    jobs = compose.expand(overrides) if options.multirun else [overrides]
    built = [build(compose.compose(job)) for job in jobs]
    if shown:
        for job in jobs:
            if options.multirun:
                print(f"---\n# {shlex.join(['ln-repro', 'run', *job])}")
            with compose.hydra_app() as app:
                if options.cfg:  # Hydra's own part cannot be resolved before a run
                    app.show_cfg(compose.PRIMARY, job, options.cfg, package=None, resolve=options.cfg != "hydra")
                else:
                    app.show_info(options.info, compose.PRIMARY, job)
    elif options.multirun:
        return max(map(_run_one_of_several, built))
    else:
        _run_one(built[0])
    return 0


def _run_one(experiment: Experiment) -> None:
    from ln_repro.runner.run import run  # takes time that `--cfg` and `--help` need not

    print(run(resolve_precision(experiment), say))


def _run_one_of_several(experiment: Experiment) -> int:
    """Run one experiment of a multirun and return its exit code; only an interruption ends the whole multirun."""
    try:
        _run_one(experiment)
    except (Interrupted, BrokenPipeError):
        raise
    except Exception as error:
        return report_error(error)
    return 0


def _experiments() -> str:
    """Describe every experiment, in paragraphs of settings with the same arms."""
    arms: dict[str, dict[str, str]] = {}
    for name, text in compose.experiments().items():
        corpus, arm = Name.of(name)
        if arm:
            norm, _, rest = text.partition(" ")
            arms.setdefault(corpus, {})[arm] = f"{display_name(norm)} {rest}"
    alike: dict[tuple[str, ...], list[str]] = {}
    for corpus, of_corpus in arms.items():
        alike.setdefault(tuple(of_corpus), []).append(corpus)
    lines, settings = [], compose.descriptions("setting")
    for corpora in sorted(alike.values(), key=len, reverse=True):
        described = {corpus: settings.get(corpus, "") for corpus in corpora}
        for kind, texts in (("SETTING is one of", described), ("and ARM one of", arms[corpora[0]])):
            lines += [kind, ""]
            for name, text in texts.items():
                lines += [f"  {name}", *(f"      {line}" for line in textwrap.wrap(text, 74, break_on_hyphens=False))]
            lines.append("")
    if single := [name for name in compose.experiments() if "_" not in name]:
        lines.append(f"Your own experiments: exp={', exp='.join(single)}")
    return "\n".join(lines)
