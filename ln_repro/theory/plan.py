"""What has to be measured, with what, and who judges it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ln_repro.theory import judge_lemmas, judge_real, judge_simplified, lemmas, real, simplified
from ln_repro.theory.finding import Finding
from ln_repro.theory.unit import Measure, Measured, Unit

NORMS = ("postln", "preln")
LEMMA_LAYERS = 12
POSITIONS = (8, 32, 128)
TOKENS = 256
"""Positions in all of a hidden-state measurement, as whole sequences."""
DRAWS = 4
"""Times as many draws of hidden states as of gradients: Lemma 2's rules want at least 20."""

Judge = Callable[[Measured], Finding]
MEASURES: dict[str, Measure] = {**lemmas.MEASURES, **simplified.MEASURES, **real.MEASURES}
JUDGES: dict[str, tuple[str, Judge]] = {
    "TH-1": ("relu", judge_lemmas.lemma_1),
    "TH-2": ("hidden_norms", judge_lemmas.lemma_2_post),
    "TH-2-real": ("real_hidden_states", judge_real.stream_post),
    "TH-3": ("hidden_norms", judge_lemmas.lemma_2_pre),
    "TH-3-real": ("real_hidden_states", judge_real.stream_pre),
    "TH-4": ("jacobian", judge_lemmas.lemma_3),
    "TH-5": ("real_hidden_states", judge_real.boundedness_real),
    "TH-5-simplified": ("hidden_norms", judge_lemmas.boundedness),
    "T1-post": ("gradients", judge_simplified.theorem_1_post),
    "T1-pre": ("gradients", judge_simplified.theorem_1_pre),
    "TH-6": ("real_last_gradient", judge_real.last_layer_post),
    "TH-7": ("real_last_gradient", judge_real.last_layer_pre),
    "TH-7-tied": ("real_last_gradient", judge_real.last_layer_pre_tied),
    "TH-8": ("real_gradients", judge_real.layers_post),
    "TH-9": ("real_gradients", judge_real.layers_pre),
    "TH-11": ("gradients", judge_simplified.extended_post),
    "T1-layers": ("gradients", judge_simplified.extended_pre),
}
"""By the id of the finding: what has to be measured, and who judges it."""


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    dims: Sequence[int]
    """Widths of the simplified model."""
    depths: Sequence[int]
    """Layers of the simplified model."""
    real_depths: Sequence[int]
    """Layers of the real models' encoder, and as many of the decoder."""
    seeds: int
    """Of the real models; of the simplified one, which costs little, at least `SIMPLIFIED_SEEDS`."""


SIMPLIFIED_SEEDS = 10
REAL = {"width": 512, "ffn": 1024}
"""The real models: the paper's on IWSLT14."""
QUICK = Scale((128,), (6, 8, 10, 12, 14), (6, 14), 5)
FULL = Scale((64, 128, 256, 512), (6, 8, 10, 12, 14, 24, 48), (6, 8, 10, 12, 14), 10)


def units(scale: Scale, ids: Collection[str]) -> list[Unit]:
    """List what the findings ``ids`` need at this scale, the longest measurements first."""
    wanted = {JUDGES[name][0] for name in ids}
    simplified_seeds = max(scale.seeds, SIMPLIFIED_SEEDS)
    planned = [*real_units(scale.real_depths, scale.seeds),
               *simplified_units(scale.dims, scale.depths, simplified_seeds)]  # fmt: skip
    return [unit for unit in planned if unit.what in wanted]


def judge(measured: Measured, ids: Collection[str]) -> list[Finding]:
    """Return the findings ``ids``, in the order of `JUDGES`."""
    return [judge(measured) for name, (_, judge) in JUDGES.items() if name in ids]


def real_units(depths: Sequence[int], seeds: int) -> list[Unit]:
    """List the real models: the last gradient at every depth, the others and hidden states at the paper's."""
    settings: list[tuple[str, dict[str, Any]]] = []
    for norm in NORMS:
        settings += [("real_last_gradient", {"norm": norm, "layers": layers, "tied": False}) for layers in depths]
        settings += [("real_gradients", {"norm": norm, "layers": judge_real.LAYERS, "tied": False}),
                     ("real_hidden_states", {"norm": norm, "layers": judge_real.LAYERS})]  # fmt: skip
    settings += [("real_last_gradient", {"norm": "preln", "layers": layers, "tied": True}) for layers in depths]
    settings.sort(key=lambda setting: -setting[1]["layers"])
    return [Unit.of(what, seed, **setting, **REAL) for what, setting in settings for seed in range(1, seeds + 1)]


def simplified_units(dims: Sequence[int], depths: Sequence[int], seeds: int) -> list[Unit]:
    """List the units that the checks need at widths ``dims`` and depths ``depths``, over ``seeds`` seeds."""
    units: list[Unit] = []
    for d in dims:
        units += [*_closed_forms(d, seeds), *_hidden(d, seeds), *_gradients(d, depths, seeds)]
    return units


def _closed_forms(d: int, seeds: int) -> Iterator[Unit]:
    """Lemmas 1 and 3."""
    for seed in range(1, seeds + 1):
        for sigma in (0.5, 1.0, 2.0):
            yield Unit.of("relu", seed, d=d, sigma=sigma, numbers=2**20)
        yield Unit.of("jacobian", seed, d=d)


def _hidden(d: int, seeds: int) -> Iterator[Unit]:
    """Lemma 2 and boundedness: the paper's width of feed-forward at every length, the Transformers' at one."""
    for d_ff, positions in (*((d, positions) for positions in POSITIONS), (2 * d, 32), (4 * d, 32)):
        for norm in NORMS:
            for seed in range(1, DRAWS * seeds + 1):
                yield Unit.of("hidden_norms", seed, d=d, d_ff=d_ff, layers=LEMMA_LAYERS, norm=norm,
                              positions=positions, sequences=TOKENS // positions)  # fmt: skip


def _gradients(d: int, depths: Sequence[int], seeds: int) -> Iterator[Unit]:
    """Theorem 1: four mini-batches of one sequence."""
    for d_ff in (d, 2 * d):
        for norm in NORMS:
            for layers in depths:
                for seed in range(1, seeds + 1):
                    yield Unit.of("gradients", seed, d=d, d_ff=d_ff, layers=layers, norm=norm,
                                  positions=32, sequences=1, batches=4)  # fmt: skip
