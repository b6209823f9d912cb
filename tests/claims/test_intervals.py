"""The prediction interval; the others are recomputed by numpy (test_recomputed) or decide the theory (tests/theory)."""

import random

from ln_repro.claims.intervals import prediction_interval


def test_one_more_value_of_a_normal_distribution_lies_in_the_prediction_interval_as_often_as_it_says() -> None:
    draw = random.Random(1)
    inside = 0
    for _ in range(2000):
        *values, last = (draw.gauss(3.0, 0.5) for _ in range(5))
        low, high = prediction_interval(values, 0.9)
        inside += low <= last <= high
    assert 1750 < inside < 1850
