"""The few numbers in the text of docs/results.md that no table has are those of the records."""

from pathlib import Path

import numpy as np
import pytest

from ln_repro.claims.arena import arena
from ln_repro.system.paths import CHECKOUT
from tests import committed

TEXT = " ".join(Path(CHECKOUT / "docs" / "results.md").read_text(encoding="utf-8").split())


def of(setting: str, arm: str = "postln_warm"):
    """Return a record of an arm at its own rate."""
    runs = committed.archive().evidence[setting].arms[arm]
    return runs[min(runs)].record


def test_the_length_of_runs_and_of_ramps() -> None:
    shares = {
        setting: of(setting).axes.warmup_updates / of(setting).updates for setting in ("toy", "multi30k6", "tatoeba")
    }
    toy, multi30k, tatoeba = (f"{share:.0%}".replace("%", " %") for share in shares.values())
    assert f"Warm-up takes {toy} of the updates on toy, {multi30k} on Multi30k and {tatoeba} on Tatoeba" in TEXT
    assert f"Toy has {of('toy').updates:,} updates" in TEXT
    assert f"Multi30k captions, {of('multi30k6').data.train_pairs:,} pairs" in TEXT


def test_an_eighth_of_the_ramp_is_enough_at_0_002_and_not_at_0_004() -> None:
    bleus = {arm: np.mean([run.bleu for run in committed.archive().evidence["toy"].arms[arm].values()])
             for arm in ("postln_warm_short", "postln_warm_short_high", "postln_warm")}  # fmt: skip
    assert bleus["postln_warm_short"] > 0.9 * bleus["postln_warm"] > 10 * bleus["postln_warm_short_high"]
    assert of("toy", "postln_warm_short_high").axes.lr == pytest.approx(0.004)


def test_post_ln_has_the_lowest_nll_of_all_schemes_on_toy() -> None:
    best = min(arena(committed.archive().evidence["toy"]), key=lambda entry: entry.nll.value)
    assert (best.scheme, best.arm) == ("postln", "postln_warm")
