"""Records of runs that never were."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from tests.examples import record

DATA = {"iwslt": "iwslt14", "wmt": "wmt14"}


def run(
    exp: str = "toy_postln_warm",
    seed: int = 1,
    losses: Sequence[float | None] = (5.0, 4.0),
    bleus: Sequence[float | None] = (),
    status: str = "finished",
    id: str = "",
    **axes: Any,
) -> dict[str, Any]:
    """Return a record with these losses and BLEUs by epoch; further axes at their defaults."""
    corpus, norm, *_ = exp.split("_")
    data = axes.get("data", DATA.get(corpus, corpus))
    epochs = [
        {"epoch": epoch, "valid_loss": loss, "test_bleu_tokenised": bleu}
        for epoch, (loss, bleu) in enumerate(zip_longest(losses, bleus), 1)
    ]
    defaults = {"data": data, "norm": norm, "init": "xavier_legacy", "lr": 0.002, "seed": seed, "precision": "fp32"}
    return record(
        exp=exp, id=id or f"{exp}-{seed}", status=status, epochs=epochs, axes=defaults | axes, data={"name": data}
    )
