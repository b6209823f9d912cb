"""What fairseq 0.12.2 needs on today's Python and torch, each item with its reason.

`apply` runs before anything imports fairseq, in the engine's own processes only.
"""

import argparse
import dataclasses
import sys
import warnings
from collections.abc import Callable
from typing import Any

INSTALL = "pip install --no-deps fairseq==0.12.2"


def apply() -> None:
    """Make fairseq importable and its checkpoints loadable. Safe to call twice.

    Raises:
        ModuleNotFoundError: fairseq is not installed.
    """
    hide_trackers()
    quiet_warnings()
    import_with_hashable_dataclasses()
    trust_checkpoint_types()
    leave_the_compiler_out()


def hide_trackers() -> None:
    """Keep fairseq from importing wandb and tensorboardX, which it tries whenever they are there.

    A second each time a process starts, and wandb is known in one room only, which is not this one.
    """
    for name in ("wandb", "tensorboardX"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None makes the import fail


def quiet_warnings() -> None:
    """Keep fairseq's use of old interfaces out of the log; they are nothing a user can act on."""
    warnings.filterwarnings("ignore", category=SyntaxWarning)
    for text in (".*torch.cuda.amp.*", ".*hydra.experimental.*", ".*strict.*", ".*package header.*", ".*pin_memory.*"):
        warnings.filterwarnings("ignore", message=text)


def import_with_hashable_dataclasses() -> None:
    """Import fairseq while its dataclasses get a hash.

    Python 3.11 rejects a dataclass default that has no hash, and fairseq's configuration is full of them.
    """
    original = dataclasses.dataclass

    def hashable(cls: Any = None, /, **options: Any) -> Any:
        def wrap(c: type) -> type:
            made: Any = original(c, **options)
            if made.__hash__ is None and made.__module__.split(".")[0] == "fairseq":
                made.__hash__ = object.__hash__
            return made

        return wrap if cls is None else wrap(cls)

    replaced: Callable[..., Any] = hashable
    dataclasses.dataclass = replaced
    try:
        import fairseq  # noqa: F401
    finally:
        dataclasses.dataclass = original


def trust_checkpoint_types() -> None:
    """Let torch load fairseq's checkpoints, which hold an `argparse.Namespace`, with `weights_only` left on.

    Since torch 2.6 that is the default of `torch.load`, and the only safe one.
    """
    import torch

    torch.serialization.add_safe_globals([argparse.Namespace])


def leave_the_compiler_out() -> None:
    """Keep torch's optimizers from importing its compiler, a second of CPU each time a training starts.

    They do it to exempt some of their methods from being compiled, and no optimizer is ever compiled here. torch keeps
    the exempt form of a function with it, which here is the function itself.
    """
    import torch

    for method in vars(torch.optim.Optimizer).values():
        if plain := getattr(method, "__wrapped__", None):
            plain.__dynamo_disable = plain
