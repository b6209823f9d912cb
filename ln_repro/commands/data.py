"""`ln-repro data`: list, prepare and verify corpora."""

import argparse
import re

from ln_repro.commands.messages import say
from ln_repro.corpus import prepare as corpus
from ln_repro.corpus.registry import CORPORA
from ln_repro.errors import UserError
from ln_repro.experiment.compose import compose, search_also
from ln_repro.experiment.data import Data
from ln_repro.experiment.settings import Paths
from ln_repro.experiment.validation import validate


def data_command(options: argparse.Namespace) -> None:
    """Run `data list`, `data prepare` or `data verify`."""
    search_also(options.config_dir)
    if options.action != "list" and not any(o.startswith("data=") for o in options.overrides):
        raise UserError(f"data: no corpus is given; use data=NAME ({', '.join(CORPORA)})")
    for override in options.overrides:
        if re.match(r"[+~]*(data|paths)\b", override) is None:
            raise UserError(f"{override}: not for a corpus; expected data=NAME, data.KEY=VALUE or paths.data=DIR")
    settings = compose(["~exp", *options.overrides])
    data = validate(Data, settings["data"], "data")
    root = validate(Paths, settings["paths"], "paths").data
    if options.action == "list":
        print(f"{'corpus':10}{'state':10}pairs of sentences")
        for name, known in CORPORA.items():
            state = "prepared" if corpus.prepared_folders(root, name) else "absent"
            pairs = ", ".join(f"{count:,} {split}" for split, count in known.pairs.items())
            print(f"{name:10}{state:10}{pairs}".rstrip())
            print(f"    {known.description}")
    elif options.action == "prepare":
        prepared = corpus.prepare(data, root, say)
        if data.only:
            print(*(prepared.folder / "text" / f"{data.only}.{lang}" for lang in data.languages), sep="\n")
        else:
            print(prepared.folder)
    elif problems := corpus.verify(data, root):
        raise UserError(f"{data.name}: {'; '.join(problems)}")
    else:
        print(f"{data.name}: every checksum and count matches")
