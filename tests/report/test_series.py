"""Records of an arm to a curve: means, intervals, and which runs are not averaged with which."""

from typing import Any

import pytest

from ln_repro.records.record import Record
from ln_repro.report.series import curve
from tests.claims.made import made


def run(seed: int = 1, **given: Any) -> Record:
    """Return the record of a made-up run."""
    return made(seed=seed, **given).record


def test_an_interval_ends_where_the_quantity_does() -> None:
    found = curve([run(seed=1, bleus=[0.0, 99.0]), run(seed=2, bleus=[90.0, 100.0])], "bleu")
    assert found and found.intervals == {1: (0, 100), 2: (pytest.approx(99.5 - 12.7062 / 2, abs=1e-4), 100)}


def test_a_diverged_run_is_marked_where_it_ended_and_the_mean_goes_on_without_it() -> None:
    found = curve([run(seed=1, losses=[5.0, 3.0]), run(seed=2, losses=[9.0], rule="stuck")], "loss")
    assert found and found.ends == [(1, 9.0)] and found.means == {1: 7.0, 2: 3.0} and list(found.intervals) == [1]
