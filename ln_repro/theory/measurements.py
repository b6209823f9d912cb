"""The measurements: models, sizes and numbers of seeds, and how they are run and stored."""

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch

from ln_repro.records.events import end_of_torn_line
from ln_repro.system.pool import apply
from ln_repro.theory import lemmas, real
from ln_repro.theory.checks import CHECKS
from ln_repro.theory.unit import Measure, Measured, Measurement, Unit
from ln_repro.version import NUMERICS

NORMS = ("postln", "preln")
LEMMA_LAYERS = 12
POSITIONS = (8, 32, 128)
TOKENS = 256  # number of positions of a hidden-state measurement, over all of its sequences
LAYERS = 6  # number of layers of the Transformer that is measured layer by layer, the paper's 6-6 model
REAL = {"width": 512, "ffn": 1024}  # widths of the Transformers, as in the paper on IWSLT14
MEASURES: dict[str, Measure] = {
    measure.__name__: measure
    for measure in (lemmas.relu, lemmas.jacobian, lemmas.hidden_norms, lemmas.gradients, real.real_gradients,
                    real.real_uncrossed_gradients, real.real_last_gradient, real.real_hidden_states)
}  # fmt: skip
"""The measuring functions by name."""


@dataclass(frozen=True)
class Scale:
    """The extent of the measurements."""

    lengths: Mapping[int, Sequence[int]]  # of sequences, for hidden states of the simplified model, by its width
    widths: Sequence[int]  # of its feed-forward layers, in multiples of the model's width
    gradient_dims: Sequence[int]  # widths of the simplified model for gradients
    depths: Sequence[int]  # numbers of layers of the simplified model for gradients
    real_depths: Sequence[int]  # numbers of layers of the Transformers, in the encoder and in the decoder
    other_depths: Sequence[int]  # likewise, for other initialisations and for tied embeddings
    seeds: int = 10  # for the gradients of the Transformers; the minimum for everything else


DIMS = (64, 128, 256, 512)
QUICK = Scale({128: POSITIONS, 512: (32,)}, (1,), (128,), (6, 48), (6, 14), ())
FULL = Scale(
    dict.fromkeys(DIMS, POSITIONS), (1, 2, 4), DIMS, (6, 8, 10, 12, 14, 24, 48), (6, 8, 10, 12, 14), (6, 10, 14)
)

# The number of seeds is chosen so that the half-width of the interval plus three standard errors of the mean fit
# between the value and the nearest bound: about (5.1 s / margin)^2, where s is the standard deviation over seeds in
# earlier measurements. The Transformers' exponents of L have s = 0.073 and a margin of 0.13 (9 seeds), the growth over
# layers s = 0.17 on a log scale and a margin of 0.45 (4 seeds), so `Scale.seeds` is sufficient.
HIDDEN_DRAWS = 8000
"""TH-2 in the simplified model uses HIDDEN_DRAWS / d seeds, at least 20: s = 0.35 / sqrt(d), margin 2 %."""
GRADIENT_DRAWS = 4400
"""TH-7 in the simplified model uses GRADIENT_DRAWS / d seeds: s = 1.04 / sqrt(d) for depths 6 to 48, margin 0.08."""
BOUNDED_DRAWS = 20  # number of seeds for TH-5 in Pre-LN's decoder: s = 0.022, margin 0.026 (19 seeds)


def units(scale: Scale, ids: Collection[str]) -> list[Unit]:
    """Return the units that the checks of the claims ``ids`` need at this scale, in descending order of cost."""
    checks = [check for check in CHECKS if check.claim in ids]
    planned = [*real_units(scale), *simplified_units(scale)]
    return [unit for unit in planned if any(unit.matches(check.what, check.where) for check in checks)]


def real_units(scale: Scale) -> list[Unit]:
    """Return the units of Transformers: last gradients at every depth, all gradients and hidden states at 6 layers."""
    full = bool(scale.other_depths)
    inits = ("xavier", "fairseq") if full else ("xavier",)
    models = [("real_gradients", norm, LAYERS, init, False) for init in inits for norm in NORMS]
    if full:
        models.append(("real_gradients", "postln", LAYERS, "xavier_legacy", False))
    models += [("real_uncrossed_gradients", "postln", LAYERS, "xavier", False)]
    for init, depths in (("xavier", scale.real_depths), ("fairseq", scale.other_depths)):
        models += [
            ("real_last_gradient", norm, layers, init, False) for norm in NORMS for layers in depths if layers != LAYERS
        ]
        models += [("real_last_gradient", "preln", layers, init, True) for layers in scale.other_depths]
    models += [("real_hidden_states", "preln", LAYERS, "xavier", False)]
    models += [("real_hidden_states", "postln", LAYERS, init, False) for init in inits]
    planned = []
    for what, norm, layers, init, tied in sorted(models, key=lambda model: -model[2]):
        hidden = what == "real_hidden_states"
        seeds = max(BOUNDED_DRAWS, scale.seeds) if hidden and norm == "preln" else scale.seeds
        settings = {"norm": norm, "layers": layers, "init": init, "tied": tied, **REAL}
        if hidden:
            settings["batches"] = 1
        planned += [Unit.of(what, seed, **settings) for seed in range(1, seeds + 1)]
    return planned


def simplified_units(scale: Scale) -> Iterator[Unit]:
    """Yield the units of the simplified model's gradients and hidden states, and of the closed forms."""
    for d in scale.gradient_dims:  # Theorem 1, from four mini-batches of one sequence
        seeds = range(1, max(scale.seeds, GRADIENT_DRAWS // d) + 1)
        for width, norm, layers, seed in product(scale.widths[:2], NORMS, scale.depths, seeds):
            yield Unit.of(
                "gradients", seed, d=d, d_ff=width * d, layers=layers, norm=norm, positions=32, sequences=1, batches=4
            )
    for d, lengths in scale.lengths.items():  # Lemma 2 and boundedness, with wider feed-forward layers at one length
        sizes = [*((d, positions) for positions in lengths), *((width * d, 32) for width in scale.widths[1:])]
        seeds = range(1, max(scale.seeds, 20, HIDDEN_DRAWS // d) + 1)
        for (d_ff, positions), norm, seed in product(sizes, NORMS, seeds):
            yield Unit.of("hidden_norms", seed, d=d, d_ff=d_ff, layers=LEMMA_LAYERS, norm=norm, positions=positions,
                          sequences=TOKENS // positions)  # fmt: skip
    for d, seed in product(scale.lengths, range(1, scale.seeds + 1)):  # Lemmas 1 and 3
        for sigma in (0.5, 1.0, 2.0):
            yield Unit.of("relu", seed, d=d, sigma=sigma, numbers=lemmas.NUMBERS)
        yield Unit.of("jacobian", seed, d=d)


def measure(units: Sequence[Unit], store: Path, progress: Callable[[int], None]) -> Measured:
    """Return the measurement of every unit, by all cores, reusing those in the file ``store``.

    Each result is appended to the file as soon as it is available, as a JSON object on a line of its own. ``progress``
    is called with the number of units that are done since its last call.
    """
    results = stored(store)
    missing = [unit for unit in units if unit.key not in results]
    with store.open("a+b") as file:
        progress(len(units) - len(missing))
        file.write(end_of_torn_line(file))
        for unit, result in zip(missing, apply(run, missing), strict=True):
            results[unit.key] = result
            line = {"unit": unit.key, "numerics": NUMERICS, "result": result}
            file.write(f"{json.dumps(line)}\n".encode())
            file.flush()
            progress(1)
    return [(unit, results[unit.key]) for unit in units]


def run(unit: Unit) -> Measurement:
    """Return the measurement of a unit, computed by one thread."""
    torch.set_num_threads(1)
    return MEASURES[unit.what](unit)


def instructions() -> str:
    """Return the CPU instruction set that torch uses."""
    return torch.backends.cpu.get_cpu_capability()


def stored(store: Path) -> dict[str, Measurement]:
    """Return the stored measurements by unit, without damaged lines and those of other versions of the numerics."""
    results: dict[str, Measurement] = {}
    for line in store.read_bytes().splitlines() if store.exists() else []:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            if entry["numerics"] == NUMERICS:
                results[entry["unit"]] = entry["result"]
    return results
