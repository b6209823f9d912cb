"""Made-up runs: as many as a rule needs, with the numbers that a test wants."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ln_repro.claims.evidence import Arm, Evidence, gather
from ln_repro.claims.judge import arms_of_rules
from ln_repro.experiment.compose import CONF
from ln_repro.experiment.data import LABELLED
from ln_repro.experiment.registry import registered
from ln_repro.experiment.settings import Experiment
from ln_repro.records.archive import Run
from tests.examples import SIGNATURE, diverged, experiment, recorded, with_events

EPOCHS, RATE = 15, 1e-3
NOISE = (-0.02, -0.01, 0.0, 0.01, 0.02)
"""What a number differs by from seed to seed, as a part of a unit."""
KNOWN = {name.partition("_")[2] for name in registered(CONF)}
FINGERPRINT = "made up"
Arms = dict[str, dict[str, Any]]


@cache
def made_experiment(exp: str, **changes: Any) -> Experiment:
    """Return the settings of a made-up named experiment: its suffix decides the rate; arms differ by their norm."""
    words = exp.partition("_")[2].split("_")
    rate = RATE * (2 if "high" in words else 0.5 if "low" in words else 1)
    settings = {"exp": exp, "norm": "_".join(word for word in words if word not in ("high", "low")), "lr": rate,
             "train__max_epoch": EPOCHS}  # fmt: skip
    corpus = exp.partition("_")[0].removeprefix("mini")
    if corpus in LABELLED:
        settings |= {"task": "classification", "data__name": corpus}
    return experiment(**settings | changes)


def named(exp: str) -> Arm | None:
    """Return the arm of a made-up experiment; None if there is no arm of that name."""
    if exp.partition("_")[2] not in KNOWN:
        return None
    return Arm.of(made_experiment(exp))


def made(
    exp: str = "toy_postln_warm", seed: int = 1, bleu: float = 30.0, loss: float = 4.0,
    bleus: Sequence[float | None] = (), losses: Sequence[float | None] = (),
    probes: Mapping[int, Sequence[float]] | None = None, rule: str = "", axes: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Run:  # fmt: skip
    """Return a run with this BLEU and lowest validation loss, or with these after every epoch.

    ``probes`` are gradients of the layers by update, ``rule`` is that by which it diverged, and ``axes`` are those that
    the settings do not have. ``changes`` differ from the settings of its name (see `tests.examples.settings`).
    """
    settings = made_experiment(exp, **changes)
    length = len(losses or bleus or range(EPOCHS))
    epochs = [
        {"epoch": epoch, "update": 100 * epoch, "valid_loss": bits, "valid_nll_loss": bits and bits - 1.0,
         "valid_bleu": None, "test_bleu": score, "test_bleu_tokenised": score}
        for epoch, bits, score in zip(range(1, length + 1), losses or [loss] * length, bleus or [bleu] * length,
                                      strict=True)
    ]  # fmt: skip
    score = {"score": bleu, "signature": SIGNATURE.replace("13a", "none"), "epoch": EPOCHS}
    own = {"norm": exp.partition("_")[2].partition("_")[0], "precision": "fp32", **(axes or {})}
    own |= {"task": "masked_lm"} if "bert" in exp.partition("_")[0] else {}
    events = [{"kind": "probe", "name": "gradients", "update": at, "batches": 100,
               "values": {kind: {"decoder.w2": norms} for kind in ("norm_of_mean", "mean_of_norms")}}
              for at, norms in (probes or {}).items()]  # fmt: skip
    return with_events(recorded(
        exp=exp, id=f"{exp}-{seed}-{settings.lr:g}-{settings.model.layers}", status="diverged" if rule else "finished",
        divergence=diverged()["divergence"] | {"rule": rule} if rule else None,
        axes=settings.axes | own | {"seed": seed}, epochs=epochs,
        updates=100 * length, bleu={"test": score, "test_tokenised": score},
        data={"name": exp.partition("_")[0], "fingerprint": FINGERPRINT},
        settings={**settings.settings(), "seed": seed},
    ), events)  # fmt: skip


def made_runs(setting: str, arms: Mapping[str, Mapping[str, Any]], seeds: int = 5) -> list[Run]:
    """Return ``seeds`` runs of every arm, each a little different in BLEU and loss."""
    return [
        made(f"{setting}_{arm}", seed, **{**given, "bleu": given.get("bleu", 30.0) + 10 * NOISE[(seed - 1) % 5],
                                          "loss": given.get("loss", 4.0) + NOISE[(seed - 1) % 5]})
        for arm, given in arms.items()
        for seed in range(1, seeds + 1)
    ]  # fmt: skip


def on_rates(setting: str, arms: Mapping[str, Mapping[float, Sequence[float]]], **more: Any) -> list[Run]:
    """Return runs of arms at learning rates: by arm and rate, the BLEU of every seed."""
    return [
        made(f"{setting}_{arm}", seed, bleu, lr=rate, **more)
        for arm, rates in arms.items()
        for rate, bleus in rates.items()
        for seed, bleu in enumerate(bleus, 1)
    ]


def gathered(runs: Sequence[Run], unigram_bits: float = 9.0) -> dict[str, Evidence]:
    """Return runs as evidence by setting."""
    known = {"unigram_bits": unigram_bits, "source_blind_bits": unigram_bits - 2}
    return gather(runs, named, arms_of_rules(), {FINGERPRINT: known})


def collapsing(exp: str, rate: float, bleu: float, gradients: Sequence[float], seed: int = 101) -> Run:
    """Return a run with probes at updates 0, 32, ...; ``gradients`` are those of the first encoder layer."""
    same = {"cosine": {"encoder": [0.1, 0.5], "decoder": [0.2, 1.0]}, "nll": {"eval": 1.0, "dropout": 1.0}}
    events = [{"kind": "probe", "name": "collapse", "update": 32 * at, "batches": 3,
               "values": {**same, "gradient": {"encoder.w2": [gradient, 9.0], "decoder.w2": [2.0, 9.0]}}}
              for at, gradient in enumerate(gradients)]  # fmt: skip
    return with_events(made(exp, seed, bleu, loss=4 - bleu / 100, lr=rate).record, events)


def line(first: float, last: float, points: int) -> list[float]:
    return [first + (last - first) * at / (points - 1) for at in range(points)]


def held(arms: Mapping[str, Mapping[float, Sequence[float]]], exp: str = "toy_postln_warm", **more: Any) -> Evidence:
    """Return evidence of arms at rates, by arm and rate the BLEU of every seed; an arm's usual rate is the first.

    Of BERT, what is given is the part of the way from the unigram entropy to the best arm's loss, in percent.
    """
    masked = "bert" in exp
    rates = {arm: {rate: {seed: made(exp, seed, bleu, **({"loss": 10 - 0.08 * bleu} if masked else {}) | more)
                          for seed, bleu in enumerate(bleus, 1)}
                   for rate, bleus in of_rate.items()} for arm, of_rate in arms.items()}  # fmt: skip
    usual = {arm: next(iter(of_rate.values())) for arm, of_rate in rates.items()}
    return Evidence(usual, rates, entropies={"unigram_bits": 9.0} if masked else {})
