"""Closed forms against autograd, torch's own norm and independent draws."""

import math

import pytest
import torch

from ln_repro.theory import lemmas


def test_the_moment_of_a_relu_and_its_error() -> None:
    """By symmetry half the square survives: E r^2 = s^2 / 2, E r^4 = 3 s^4 / 2, so Var r^2 / (E r^2)^2 = 5."""
    x = torch.randn(400_000, generator=torch.Generator().manual_seed(1), dtype=torch.double) * 3
    squares = x.relu().square()
    assert float(squares.mean()) == pytest.approx(lemmas.relu_moment(1, 3.0), rel=4 * lemmas.relu_error(400_000))
    assert float(squares.var() / squares.mean() ** 2) == pytest.approx(5, rel=0.05)


@pytest.mark.parametrize(("d_ff", "share"), [(512, 1 / 2), (1024, 4 / 9), (2048, 8 / 25), (256, 4 / 9)])
def test_what_a_feed_forward_layer_adds(d_ff: int, share: float) -> None:
    assert lemmas.feed_forward_share(512, d_ff) == pytest.approx(share)
    assert lemmas.post_square(512, d_ff) == pytest.approx(1 + share)


def test_the_jacobian_is_that_of_torchs_layer_norm() -> None:
    x = 2 + 3 * torch.randn(24, dtype=torch.double)
    norm = torch.nn.LayerNorm(24, eps=0.0, elementwise_affine=False)
    expected = torch.autograd.functional.jacobian(norm, x)
    torch.testing.assert_close(lemmas.norm_jacobian(x), expected, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(lemmas.measured_jacobian(x), expected, atol=1e-12, rtol=1e-12)


def test_the_last_gradient_in_the_simplest_case() -> None:
    """d_ff = d, Post-LN: d/2 of the ReLUs, 2/3 of the norm, one over the targets."""
    assert lemmas.last_gradient(1000, 1000, 1.5, 100) == pytest.approx(math.sqrt(1000 / 3 / 100), rel=2e-3)
