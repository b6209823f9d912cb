"""All schemes by name, and those in a user's own file."""

import sys
from functools import cache
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from ln_repro.errors import UserError
from ln_repro.model.residual import PostLN, PreLN, Residual
from ln_repro.model.schemes.inner import HybridNorm, NormFormer, SubLN
from ln_repro.model.schemes.ngpt import NGPT
from ln_repro.model.schemes.placed import (
    B2T,
    Derf,
    DyT,
    Keel,
    LayerNormScaling,
    MixLN,
    PeriLN,
    ResiDual,
    SiameseNorm,
)
from ln_repro.model.schemes.weighted import Admin, AdminClosed, DeepNorm, ReZero, TFixup

SCHEMES: dict[str, type[Residual]] = {
    "postln": PostLN,
    "preln": PreLN,
    "deepnorm": DeepNorm,
    "rezero": ReZero,
    "admin": Admin,
    "admin_closed": AdminClosed,
    "residual": ResiDual,
    "b2t": B2T,
    "tfixup": TFixup,
    "periln": PeriLN,
    "lnscale": LayerNormScaling,
    "mixln": MixLN,
    "normformer": NormFormer,
    "subln": SubLN,
    "hybridnorm": HybridNorm,
    "dyt": DyT,
    "ngpt": NGPT,
    "keel": Keel,
    "siamesenorm": SiameseNorm,
    "derf": Derf,
}


def scheme_of(norm: str) -> type[Residual]:
    """Return the scheme of a name, or of ``PATH:CLASS``."""
    return own_scheme(*norm.rpartition(":")[::2]) if ":" in norm else SCHEMES[norm]


@cache
def own_scheme(path: str, name: str) -> type[Residual]:
    """Return the class ``name`` of a Python file.

    Raises:
        UserError: the file cannot be executed, or has no such subclass of `Residual` with a ``forward``.
    """
    module = ModuleType("own_scheme")
    sys.modules[module.__name__] = module  # for dataclasses
    try:
        exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise failure(error, path) from error
    scheme = getattr(module, name, None)
    if scheme is None:
        defined = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise UserError(f"norm.file: {path} defines no class {name!r}; it defines {', '.join(defined) or 'nothing'}")
    if not (isinstance(scheme, type) and issubclass(scheme, Residual)):
        raise UserError(f"norm.file: {name} in {path} is not a subclass of ln_repro.model.Residual")
    if scheme.forward is Residual.forward:
        raise UserError(f"norm.file: {name} in {path} defines no forward(self, x, branch)")
    return scheme


def failure(error: BaseException, path: str) -> UserError:
    """Return the error to raise when a user's file fails, with the line where it does."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == path]
    at = f", line {lines[-1]}," if lines else ""
    return UserError(f"norm.file: {path}{at} fails with {type(error).__name__}: {' '.join(str(error).split())}")
