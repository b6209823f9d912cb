"""Made-up runs: as many as a rule needs, with the numbers that a test wants."""

from collections.abc import Mapping, Sequence
from typing import Any

from ln_repro.report.evidence import Evidence, Run, gather

from ln_repro.compose import named
from tests.examples import axes_of

EPOCHS = 15
NOISE = (-0.02, -0.01, 0.0, 0.01, 0.02)
"""What a number differs by from seed to seed, as a part of a unit."""


def made_run(exp: str, seed: int, bleu: float, loss: float, **more: Any) -> Run:
    """Return a run that ends with these; ``curve`` is BLEU by epoch, ``losses`` validation loss by epoch, ``falls``
    training loss by update, ``probes`` the gradients by update."""
    axes = {**axes_of(exp), "seed": seed, "precision": "fp32"}
    curve = more.get("curve") or dict.fromkeys(range(1, EPOCHS + 1), bleu)
    epochs = [
        {"epoch": epoch, "update": 100 * epoch, "valid_loss": more.get("losses", {}).get(epoch, loss),
         "valid_nll_loss": loss - 1.0, "valid_bleu": None,
         "test_bleu": value, "test_bleu_tokenised": value}
        for epoch, value in curve.items()
    ]  # fmt: skip
    score = {"score": bleu, "signature": "made up", "epoch": EPOCHS}
    record = {"schema": 1, "id": f"{exp}-{seed}", "exp": exp, "status": "finished", "axes": axes | more.get("axes", {}),
              "epochs": epochs, "bleu": {"test": score, "test_tokenised": score}}  # fmt: skip
    events = [{"kind": "train", "update": at, "loss": value} for at, value in more.get("falls", {}).items()]
    events += [{"kind": "probe", "update": at, "values": {"norm_of_mean": {"decoder.w2": norms}}}
               for at, norms in more.get("probes", {}).items()]  # fmt: skip
    return Run(record, events)


def made_runs(corpus: str, arms: Mapping[str, Mapping[str, Any]], seeds: int = 5) -> list[Run]:
    """Return ``seeds`` runs of every arm, each a little different in BLEU and loss."""
    return [
        made_run(f"{corpus}_{arm}", seed, **{**given, "bleu": given.get("bleu", 30.0) + 10 * NOISE[(seed - 1) % 5],
                                             "loss": given.get("loss", 4.0) + NOISE[(seed - 1) % 5]})
        for arm, given in arms.items()
        for seed in range(1, seeds + 1)
    ]  # fmt: skip


def made_evidence(corpus: str, arms: Mapping[str, Mapping[str, Any]], seeds: int = 5) -> dict[str, Evidence]:
    """Return them as evidence."""
    return gather(made_runs(corpus, arms, seeds), named)


def straight(first: float, last: float, points: Sequence[int]) -> dict[int, float]:
    """Return a line through so many points."""
    step = (last - first) / (len(points) - 1)
    return {at: first + step * number for number, at in enumerate(points)}
