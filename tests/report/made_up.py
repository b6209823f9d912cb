"""Records of runs that never were."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from ln_repro.report.evidence import Evidence, Run, gather

from ln_repro.compose import named
from tests.examples import axes_of, record


def run(
    exp: str = "toy_postln_warm",
    seed: int = 1,
    losses: Sequence[float | None] = (5.0, 4.0),
    bleus: Sequence[float | None] = (),
    status: str = "finished",
    id: str = "",
    experiment: dict[str, Any] | None = None,
    **axes: Any,
) -> dict[str, Any]:
    """Return a record with these losses and BLEUs by epoch; further axes at their defaults."""
    defaults = {**axes_of(exp), "seed": seed, "precision": "fp32"}
    epochs = [
        {"epoch": epoch, "valid_loss": loss, "valid_nll_loss": loss, "test_bleu_tokenised": bleu}
        for epoch, (loss, bleu) in enumerate(zip_longest(losses, bleus), 1)
    ]
    kept = {"eval": {}} if experiment is None else experiment
    return record(
        exp=exp, id=id or f"{exp}-{seed}", status=status, epochs=epochs, axes=defaults | axes, experiment=kept
    )


def evidence_of(records: Sequence[dict[str, Any]]) -> dict[str, Evidence]:
    """Return records as evidence."""
    return gather([Run(record) for record in records], named)
