"""Make fairseq 0.12.2 work, and quickly, with current versions of Python and torch.

`apply` must run before fairseq is imported, and runs only in workers.
"""

import dataclasses
import sys
import warnings
from typing import Any

INSTALL = "pip install --no-deps fairseq==0.12.2"


def apply() -> None:
    """Make fairseq importable; may be called twice."""
    hide_trackers()
    quiet_warnings()
    import_with_hashable_dataclasses()
    leave_the_compiler_out()
    leave_cudnn_attention_out()


def hide_trackers() -> None:
    """Keep fairseq from importing wandb and tensorboardX if they are installed, which takes a second per process."""
    for name in ("wandb", "tensorboardX"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None makes the import fail


def quiet_warnings() -> None:
    """Hide warnings about fairseq, about which users can do nothing: old escapes, and pinned memory without a GPU."""
    warnings.filterwarnings("ignore", category=SyntaxWarning)
    warnings.filterwarnings("ignore", message=".*pin_memory.*")


def import_with_hashable_dataclasses() -> None:
    """Import fairseq with hashable dataclasses, because Python 3.11 rejects unhashable defaults of dataclass fields."""
    original = dataclasses.dataclass

    def hashable(cls: Any = None, /, **options: Any) -> Any:
        def wrap(c: type) -> type:
            made: Any = original(c, **options)
            if made.__hash__ is None and made.__module__.split(".")[0] == "fairseq":
                made.__hash__ = object.__hash__
            return made

        return wrap if cls is None else wrap(cls)

    dataclasses.dataclass = hashable
    try:
        import fairseq  # noqa: F401
    finally:
        dataclasses.dataclass = original


def leave_the_compiler_out() -> None:
    """Keep torch's optimizers from importing its compiler, which takes a second of CPU per process.

    They import it to exempt some methods from compilation. torch caches the exempt version as an attribute of the
    method, which is set here to the method itself; no optimizer is ever compiled.
    """
    import torch

    for method in vars(torch.optim.Optimizer).values():
        if original := getattr(method, "__wrapped__", None):
            original.__dynamo_disable = original


def leave_cudnn_attention_out() -> None:
    """Keep torch from computing attention with cuDNN, which compiles a kernel for every new shape of a batch.

    torch 2.11 prefers cuDNN for bf16 on Hopper GPUs (its pull request 162073). On an H200, 50 updates of `toy` took 5
    times as long in bf16 as in fp32, for which cuDNN is not used. How much time this saves has not been measured.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)
