"""What has to be measured, and how often."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ln_repro.theory import lemmas, real, simplified
from ln_repro.theory.checks import CHECKS
from ln_repro.theory.unit import Measure, Unit, among

NORMS = ("postln", "preln")
LEMMA_LAYERS = 12
POSITIONS = (8, 32, 128)
TOKENS = 256
"""Positions in all of a hidden-state measurement, as whole sequences."""
LAYERS = 6
"""Of the Transformer that is looked at layer by layer: the paper's 6-6."""
REAL = {"width": 512, "ffn": 1024}
"""The Transformers: the paper's on IWSLT14."""
MEASURES: dict[str, Measure] = {**lemmas.MEASURES, **simplified.MEASURES, **real.MEASURES}


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Args:
        lengths: by width of the simplified model, the lengths of the sequences whose hidden states are measured.
        widths: of its feed-forward, in multiples of the model's.
        gradient_dims: widths of the simplified model whose gradients are measured.
        depths: layers of the simplified model, for gradients.
        real_depths: layers of the Transformers' encoder, and as many of the decoder.
        inits: initialisations of the Transformers besides Xavier, and tied embeddings, at these depths.
        seeds: of the Transformers' gradients, and of everything else at least.
    """

    lengths: Mapping[int, Sequence[int]]
    widths: Sequence[int]
    gradient_dims: Sequence[int]
    depths: Sequence[int]
    real_depths: Sequence[int]
    other_depths: Sequence[int]
    seeds: int = 10


DIMS = (64, 128, 256, 512)
QUICK = Scale({128: POSITIONS, 512: (32,)}, (1,), (128,), (6, 48), (6, 14), ())
FULL = Scale(dict.fromkeys(DIMS, POSITIONS), (1, 2, 4), DIMS, (6, 8, 10, 12, 14, 24, 48), (6, 8, 10, 12, 14),
             (6, 10, 14))  # fmt: skip

# How many seeds a verdict needs: the half-width of the interval and three standard errors of the mean have to fit
# between the value and the nearest bound. For the spread s of a seed that takes about (5.1 s / margin)^2 seeds. The
# spreads below are those of earlier measurements. The Transformers' exponents of L have s = 0.073 and a margin of 0.13
# (9 seeds), the growth over layers s = 0.17 on a log scale and a margin of 0.45 (4), so that `Scale.seeds` is enough.
HIDDEN_DRAWS = 8000
"""Over d: TH-2 in the simplified model, s = 0.35 / sqrt(d) and a margin of 2 %; never under 20."""
GRADIENT_DRAWS = 4400
"""Over d: TH-7 in the simplified model, s = 1.04 / sqrt(d) for depths 6 to 48, the exponent 0.08 from its bound."""
BOUNDED_DRAWS = 20
"""TH-5 in Pre-LN's decoder: s = 0.022, the largest share 0.026 below 0.125 (19 seeds)."""


def units(scale: Scale, ids: Collection[str]) -> list[Unit]:
    """List what the checks of the claims ``ids`` need at this scale, the longest measurements first."""
    checks = [check for check in CHECKS if check.claim in ids]
    planned = [*real_units(scale), *simplified_units(scale)]
    return [unit for unit in planned if any(among(unit, check.what, check.where) for check in checks)]


def real_units(scale: Scale) -> list[Unit]:
    """List the Transformers: the last gradient at every depth, the others and hidden states at the paper's."""
    made: list[tuple[str, int, dict[str, Any]]] = []

    def add(what: str, norm: str, layers: int, init: str = "xavier", tied: bool = False, seeds: int = 0) -> None:
        settings: dict[str, Any] = {"norm": norm, "layers": layers, "init": init, "tied": tied}
        if what == "real_hidden_states":
            settings["batches"] = 1
        made.append((what, max(seeds, scale.seeds), settings))

    inits = ("xavier", *(("fairseq", "xavier_legacy") if scale.other_depths else ()))
    for norm in NORMS:
        for init in inits:
            if init != "xavier_legacy" or norm == "postln":
                add("real_gradients", norm, LAYERS, init)
        for init, depths in (("xavier", scale.real_depths), ("fairseq", scale.other_depths)):
            for layers in depths:
                if layers != LAYERS:  # `real_gradients` has it
                    add("real_last_gradient", norm, layers, init)
    for init in inits[:2]:
        for layers in scale.other_depths:
            add("real_last_gradient", "preln", layers, init, tied=True)
    add("real_hidden_states", "preln", LAYERS, seeds=BOUNDED_DRAWS)
    add("real_hidden_states", "postln", LAYERS)
    if scale.other_depths:
        add("real_hidden_states", "postln", LAYERS, "fairseq")
    made.sort(key=lambda one: -one[2]["layers"])
    return [Unit.of(what, seed, **settings, **REAL) for what, seeds, settings in made for seed in range(1, seeds + 1)]


def simplified_units(scale: Scale) -> list[Unit]:
    """List the closed forms, hidden states and gradients of the simplified model."""
    hidden = [unit for d, lengths in scale.lengths.items() for unit in _hidden(d, lengths, scale)]
    gradients = [unit for d in scale.gradient_dims for unit in _gradients(d, scale)]
    return [*gradients, *hidden, *(unit for d in scale.lengths for unit in _closed_forms(d, scale.seeds))]


def _closed_forms(d: int, seeds: int) -> Iterator[Unit]:
    """Lemmas 1 and 3."""
    for seed in range(1, seeds + 1):
        for sigma in (0.5, 1.0, 2.0):
            yield Unit.of("relu", seed, d=d, sigma=sigma, numbers=lemmas.NUMBERS)
        yield Unit.of("jacobian", seed, d=d)


def _hidden(d: int, lengths: Sequence[int], scale: Scale) -> Iterator[Unit]:
    """Lemma 2 and boundedness: the paper's width of feed-forward at every length, wider ones at one."""
    sizes = [*((d, positions) for positions in lengths), *((width * d, 32) for width in scale.widths[1:])]
    for d_ff, positions in sizes:
        for norm in NORMS:
            for seed in range(1, max(scale.seeds, 20, HIDDEN_DRAWS // d) + 1):
                yield Unit.of("hidden_norms", seed, d=d, d_ff=d_ff, layers=LEMMA_LAYERS, norm=norm,
                              positions=positions, sequences=TOKENS // positions)  # fmt: skip


def _gradients(d: int, scale: Scale) -> Iterator[Unit]:
    """Theorem 1: four mini-batches of one sequence."""
    for width in scale.widths[:2]:
        for norm in NORMS:
            for layers in scale.depths:
                for seed in range(1, max(scale.seeds, GRADIENT_DRAWS // d) + 1):
                    yield Unit.of("gradients", seed, d=d, d_ff=width * d, layers=layers, norm=norm,
                                  positions=32, sequences=1, batches=4)  # fmt: skip
