"""Intervals against published tables and by hand."""

import math
import random

import pytest

from ln_repro.claims.intervals import (
    exponent,
    exponent_interval,
    layer_means,
    mean_interval,
    prediction_interval,
    ratio_interval,
    slope,
)


def test_the_interval_of_a_mean() -> None:
    low, high = mean_interval([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2)
    assert (high - low) / 2 == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)


def test_one_draw_bounds_nothing() -> None:
    assert mean_interval([1.0]) == (-math.inf, math.inf)
    assert ratio_interval([1.0]) == (0.0, math.inf)


def test_a_ratio_is_treated_alike_both_ways_up() -> None:
    low, high = ratio_interval([1.0, 2.0, 8.0])
    assert ratio_interval([1.0, 1 / 2, 1 / 8]) == pytest.approx((1 / high, 1 / low))
    assert math.sqrt(low * high) == pytest.approx(16 ** (1 / 3))


def test_an_exponent_is_fitted_seed_by_seed() -> None:
    assert exponent({6: 6**-0.5, 14: 14**-0.5, 48: 48**-0.5}) == pytest.approx(-0.5)
    curves = [{x: 3 * seed * x**k for x in (6, 12, 48)} for seed, k in ((1, -0.4), (2, -0.5), (3, -0.6))]
    assert exponent_interval(curves) == pytest.approx(mean_interval([-0.4, -0.5, -0.6]))


def test_slope_and_means_count_layers_from_one() -> None:
    assert slope([2.0, 3.5, 5.0]) == pytest.approx(1.5)
    assert layer_means([[1.0, 2.0], [3.0, 6.0]]) == {"1": 2.0, "2": 4.0}


def test_one_more_value_of_a_normal_distribution_lies_in_the_prediction_interval_as_often_as_it_says() -> None:
    draw = random.Random(1)
    inside = 0
    for _ in range(2000):
        *values, last = (draw.gauss(3.0, 0.5) for _ in range(5))
        low, high = prediction_interval(values, 0.9)
        inside += low <= last <= high
    assert 1750 < inside < 1850
