"""All schemes by name."""

from ln_repro.engine.plugin.residual import PostLN, PreLN, Residual
from ln_repro.engine.plugin.schemes.inner import HybridNorm, NormFormer, SubLN
from ln_repro.engine.plugin.schemes.ngpt import NGPT
from ln_repro.engine.plugin.schemes.placed import B2T, DyT, LayerNormScaling, MixLN, PeriLN, ResiDual
from ln_repro.engine.plugin.schemes.weighted import Admin, AdminClosed, DeepNorm, ReZero, TFixup

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
}
