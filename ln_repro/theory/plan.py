"""What has to be measured on the simplified model, with what, and who judges it."""

from collections.abc import Callable, Iterator, Sequence

from ln_repro.theory import judge_lemmas, judge_simplified, lemmas, simplified
from ln_repro.theory.finding import Finding
from ln_repro.theory.unit import Measure, Measured, Unit

NORMS = ("postln", "preln")
LEMMA_LAYERS = 12
POSITIONS = (8, 32, 128)
TOKENS = 256
"""Positions in all of a hidden-state measurement, as whole sequences."""
DRAWS = 4
"""Times as many draws of hidden states as of gradients: Lemma 2's rules want at least 20."""

MEASURES: dict[str, Measure] = {**lemmas.MEASURES, **simplified.MEASURES}
JUDGES: tuple[Callable[[Measured], Finding], ...] = (
    judge_lemmas.lemma_1,
    judge_lemmas.lemma_2_post,
    judge_lemmas.lemma_2_pre,
    judge_lemmas.lemma_3,
    judge_lemmas.boundedness,
    judge_simplified.theorem_1_post,
    judge_simplified.theorem_1_pre,
    judge_simplified.extended_post,
    judge_simplified.extended_pre,
)


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
