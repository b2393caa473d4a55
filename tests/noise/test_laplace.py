"""What Laplace noise loses at all orders and along the whole trade-off curve, by numbers of its own (M9)."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import pufferflow as pf

SHIFTS = [1e-9, 0.01, 0.4, 1.0, 3.0, 9.0]
PAIRS = [(pf.Law.point(0), pf.Law.point(2))]


def errors_of_the_second_kind(shift, first):
    """Return the least probability of missing the shift where one is seen in so many cases without it."""
    small = math.exp(-shift)
    middle = np.where(first < small / 2, 1 - first / small, small / (4 * np.maximum(first, 1e-300)))
    return np.where(first > 0.5, small * (1 - first), middle)


@pytest.mark.parametrize("shift", SHIFTS)
def test_no_order_exceeds_the_concentrated_loss_and_orders_near_1_attain_it(shift):
    """D_α ≤ ρα at every order, worked out to fifty digits; for α → 1 a ρ smaller by a tenth fails."""
    with mp.workdps(50):
        rho, u = mp.mpf(pf.Laplace(1.0).zcdp(shift)), mp.mpf(shift)
        for alpha in map(mp.mpf, ("1.000001", "1.01", "1.5", "2", "7", "60", "1000")):
            lead = alpha / (2 * alpha - 1) * mp.exp((alpha - 1) * u)
            loss = mp.log(lead + (alpha - 1) / (2 * alpha - 1) * mp.exp(-alpha * u)) / (alpha - 1)
            assert loss <= rho * alpha
            assert loss > 0.9 * rho * alpha or alpha > 1.001


@pytest.mark.parametrize("shift", SHIFTS)
def test_the_curve_of_errors_lies_above_that_of_a_gaussian_and_touches_it(shift):
    """No test tells a shift from none better than N(0, 1) from N(μ, 1), one as well: .9 of μ fails."""
    mu = pf.Laplace(1.0).gdp(shift)
    first = np.concatenate([np.geomspace(1e-30, 0.5, 4000), 1 - np.geomspace(1e-12, 0.5, 1000)])
    curve = errors_of_the_second_kind(shift, first)
    assert (curve >= stats.norm.cdf(stats.norm.isf(first) - mu) * (1 - 1e-12) - 1e-16).all()
    if shift > 1e-6:  # the corner, where both errors are alike
        corner = math.exp(-shift / 2) / 2
        assert stats.norm.cdf(stats.norm.isf(corner) - 0.9 * mu) > corner * (1 + 1e-6)


def test_calibration_uses_the_noise_s_own_numbers():
    """Under ρ and μ Laplace noise is what its own loss asks for, less than its pure loss would; vectors too."""
    for promise, loss in ((pf.Zcdp(0.5), pf.Laplace.zcdp), (pf.Gdp(1.5), pf.Laplace.gdp)):
        noise = pf.calibrate(PAIRS, promise, noise=pf.Laplace).noise
        assert loss(noise, 2.0) <= promise.loss < loss(noise.at(0.999 * noise.scale), 2.0)
        assert not promise.follows_from(pf.Pure(noise.pure(2.0)))
        corners = [(pf.Law.point((0, 0)), pf.Law.point(end)) for end in ((2, 0), (1, 1))]
        assert pf.calibrate(corners, promise, noise=pf.Laplace).noise.scale == pytest.approx(
            noise.scale, rel=1e-6
        )


@pytest.mark.parametrize("loss", [pf.Laplace.zcdp, lambda noise, shift: noise.gdp(shift) ** 2])
def test_a_shift_that_coordinates_share_loses_no_more_than_one_of_them(loss):
    """ρ and μ² are convex in the shift, so in a ball of the norm 1 the corners lose the most."""
    noise, shifts = pf.Laplace(1.0), np.linspace(0.0, 30.0, 600)
    assert (np.diff(loss(noise, shifts), 2) >= -1e-9).all()
