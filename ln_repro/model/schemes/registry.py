"""All schemes by name, and those in a user's own file."""

import sys
from functools import cache
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from ln_repro.errors import UserError
from ln_repro.model.residual import PostLN, PreLN, Residual
from ln_repro.model.schemes import centred, later, ngpt

SCHEMES: dict[str, type[Residual]] = {
    "postln": PostLN,
    "preln": PreLN,
    "deepnorm": later.DeepNorm,
    "rezero": later.ReZero,
    "admin": later.Admin,
    "admin_closed": later.AdminClosed,
    "residual": later.ResiDual,
    "b2t": later.B2T,
    "tfixup": later.TFixup,
    "periln": later.PeriLN,
    "lnscale": later.LayerNormScaling,
    "mixln": later.MixLN,
    "normformer": later.NormFormer,
    "subln": later.SubLN,
    "hybridnorm": later.HybridNorm,
    "dyt": later.DyT,
    "ngpt": ngpt.NGPT,
    "keel": later.Keel,
    "siamesenorm": later.SiameseNorm,
    "derf": later.Derf,
    "centred": centred.Centred,
    "centredfull": centred.CentredFull,
    "centredforward": centred.CentredForward,
    "centredgradient": centred.CentredGradient,
    "shrunk": centred.Shrunk,
    "shrunksignal": centred.ShrunkSignal,
}


def scheme_of(norm: str) -> type[Residual]:
    """Return the scheme of a name, or of ``PATH:CLASS``."""
    path, colon, name = norm.rpartition(":")
    return own_scheme(path, name) if colon else SCHEMES[norm]


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
