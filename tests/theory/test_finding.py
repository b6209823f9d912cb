"""Which verdict an interval allows."""

import json
import math

import pytest

from ln_repro.theory.finding import Finding, Tally
from ln_repro.verdict import near, together, verdict

PASS = (-0.15, 0.15)


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((-0.1, 0.1), "reproduced"),
        ((-0.15, 0.15), "reproduced"),
        ((0.1, 0.2), "inconclusive"),
        ((-1, 1), "inconclusive"),
        ((0.16, 0.2), "contradicted"),
        ((-0.6, -0.4), "contradicted"),
        ((-math.inf, math.inf), "inconclusive"),
        ((math.nan, math.nan), "inconclusive"),
    ],
)
def test_a_verdict_follows_from_where_the_interval_lies(interval: tuple[float, float], said: str) -> None:
    assert verdict(interval, PASS) == said


def test_near_means_within_four_standard_errors() -> None:
    values = [1.0, 2.0, 3.0]  # the standard error is 0.577
    assert near(values, (4.3, 5)) == "reproduced" == near(values, (0, 0))
    assert near(values, (4.4, 5)) == "contradicted" == near(values, (-1, -0.4))


def test_every_part_has_to_hold_and_there_have_to_be_enough_seeds() -> None:
    assert together(["reproduced", "reproduced"], seeds=10, minimum=10) == "reproduced"
    assert together(["reproduced", "inconclusive"], seeds=10, minimum=10) == "inconclusive"
    assert together(["contradicted", "inconclusive", "reproduced"], seeds=10, minimum=10) == "contradicted"
    assert together(["contradicted"], seeds=9, minimum=10) == "inconclusive"
    assert together([], seeds=10, minimum=10) == "inconclusive"


def test_a_tally_counts_the_fewest_seeds_and_spans_all_intervals() -> None:
    tally = Tally()
    tally.add("d=64", {"x": 1.0}, (0.9, 1.1), ["reproduced"], 12)
    tally.add("d=128", {"x": 2.0}, (1.0, 1.3), ["reproduced"], 10)
    finding = tally.finding("TH-0", "s", "p", "q", "r", minimum=10)
    assert (finding.interval, finding.seeds, finding.verdict) == ((0.9, 1.3), 10, "reproduced")
    assert finding.values == {"d=64": {"x": 1.0}, "d=128": {"x": 2.0}}
    assert tally.finding("TH-0", "s", "p", "q", "r", minimum=11).verdict == "inconclusive"


def test_a_finding_is_json_with_the_keys_of_the_contract_and_what_the_interval_is_of() -> None:
    values = {"64": {"interval": (1.0, math.inf)}}
    found = Finding("TH-0", "s", "p", values, "q", (-math.inf, 1.0), "r", "inconclusive", 1).as_dict()
    assert list(found) == ["id", "statement", "paper", "values", "quantity", "interval", "rule", "verdict", "seeds"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["interval"] == [None, 1.0] and found["values"] == {"64": {"interval": [1.0, None]}}
