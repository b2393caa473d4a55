"""Gaussian laws at the ends of what floats hold: singular and nearly equal covariances, tiny and huge steps."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import pufferflow as pf


@pytest.mark.slow
def test_singular_gaussians_are_not_underestimated():
    """W_2 of rank-one covariances is √(|u|²+|v|²−2|u·v|), and is not below it."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        u, v = rng.normal(size=(2, int(rng.integers(2, 5))))
        true = math.sqrt(max(u @ u + v @ v - 2 * abs(u @ v), 0))
        found = pf.wasserstein(
            pf.GaussianLaw(0 * u, np.outer(u, u)), pf.GaussianLaw(0 * v, np.outer(v, v))
        )
        assert true <= found <= true * (1 + 1e-4) + 1e-5


def test_nearly_equal_gaussians():
    """Deviations one float apart are a tiny distance apart, not none; labels are honest where rounding decides."""
    assert pf.wasserstein(pf.GaussianLaw(0, 1), pf.GaussianLaw(0, 1 + 2**-52), 2) >= 1.1e-16
    close = pf.wasserstein(pf.GaussianLaw([0, 0], 1), pf.GaussianLaw([0, 0], 1 + 1e-9))
    assert close >= 7e-10
    assert close.certainty == "upper_bound" or close < 7.2e-10
    thin = pf.GaussianLaw([0, 0], np.diag([1, 1e-20]))
    bound = pf.near(thin, thin.shift([0, 1e-10]), 0.9)
    assert bound.certainty == "upper_bound" or bound == 0


def test_tiny_and_huge_gaussian_steps():
    """Steps of 1e−200, 1e200 and 2⁵³+.6 are measured without under- or overflow and rounded up."""
    for scale in (1e-200, 1e200):
        assert pf.winf(pf.GaussianLaw(0, 1), pf.GaussianLaw(scale, 1)) == scale
        plane = pf.winf(pf.GaussianLaw([0, 0], 1), pf.GaussianLaw([3 * scale, 4 * scale], 1))
        assert plane == pytest.approx(5 * scale, rel=1e-12)
        for law in (pf.GaussianLaw(scale, 1), pf.GaussianLaw(scale, 4)):
            assert pf.near(pf.GaussianLaw(0, 1), law, 0.1) <= scale * (1 + 1e-12) + 10
            assert pf.wasserstein(pf.GaussianLaw(0, 1), law, 3) >= scale
    found = pf.winf(pf.GaussianLaw(2**53, 1), pf.GaussianLaw(-0.6, 1))
    assert Fraction(found) >= 2**53 + Fraction(0.6)
    assert pf.winf(pf.GaussianLaw(-1e308, 1), pf.GaussianLaw(1e308, 1)) == math.inf
    assert pf.winf(pf.GaussianLaw([-1e308, 0], 1), pf.GaussianLaw([1e308, 0], 1)) == math.inf
    assert pf.near(pf.GaussianLaw(0, 1), pf.GaussianLaw(1, 1), 1e-300) == pytest.approx(1)


@pytest.mark.parametrize(
    ("mean", "variance", "p", "true"),
    [
        (1001, 4, 2, math.sqrt(1001**2 + 1)),
        (1001, 4, 1, 1001.0),
        (18.36, (1 + 0.0178) ** 2, 40, 18.3603),
    ],
)
def test_far_gaussians_are_bounded_closely(mean, variance, p, true):
    """Where the exact moment is out of reach the bound is close, and says what it is."""
    found = pf.wasserstein(pf.GaussianLaw(0, 1), pf.GaussianLaw(mean, variance), p)
    assert true * (1 - 1e-5) <= found <= true * (1 + 1e-3)
    if found.certainty == "exact":
        assert found == pytest.approx(true, rel=1e-8)


@pytest.mark.parametrize("p", [500, 1e5, 1e300])
def test_high_moments_of_gaussians(p):
    """Moments of any order give a bound, never a NaN, and never one below the mean."""
    assert pf.wasserstein(pf.GaussianLaw(0, 1), pf.GaussianLaw(900, 4), p) >= 900


def test_linear_images_of_singular_gaussians():
    """A map onto the direction without spread gives a variance of 0 (up to rounding), not an error."""
    rng = np.random.default_rng(0)
    for u in rng.normal(size=(200, 2)):
        flat = pf.GaussianLaw([0, 0], np.outer(u, u)).map([-u[1], u[0]])
        assert abs(flat.covariance[0, 0]) < 1e-14


def test_a_fraction_next_to_one_is_not_rounded_to_one():
    """δ = 1 − 10⁻³⁰ is not 1: Gaussians 1000 apart still have to be moved most of the way."""
    assert pf.near(pf.GaussianLaw(0, 1), pf.GaussianLaw(1000, 1), 1 - Fraction(1, 10**30)) > 900
    nearly = Decimal("0.29999999999999999999")
    assert pf.near(pf.Law.point(0), pf.Law([0, 9], [Fraction(7, 10), Fraction(3, 10)]), nearly) == 9


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_a_step_without_spread_is_kept_however_small(norm):
    """Across a direction without spread nothing overlaps, be the step 1e−16."""
    flat = pf.GaussianLaw([0, 0], np.diag([1, 0]))
    assert pf.near(flat, flat.shift([1, 1e-16]), 0.9, norm) >= 1e-16


@pytest.mark.parametrize(("p", "norm"), [(3, 2), (2, 1), (2, math.inf), (7, 2)])
def test_nearly_equal_covariances_in_other_norms(p, norm):
    """Bounds by the W_2 coupling stay above W_2 itself where covariances differ by rounding or are nearly singular."""
    close = pf.GaussianLaw([0, 0], 1), pf.GaussianLaw([0, 0], 1 + 2**-52)
    assert pf.wasserstein(*close, p, norm) >= 1.5e-16
    first = [
        [0.011004980699277054, 0.0069791840707207585],
        [0.0069791840707207585, 0.004426088703043651],
    ]
    second = [
        [0.011004980729445673, 0.006979184068876969],
        [0.006979184068876969, 0.0044260887110991725],
    ]
    assert (
        pf.wasserstein(pf.GaussianLaw([0, 0], first), pf.GaussianLaw([0, 0], second), p, norm)
        >= 3.068e-7 / 1.5
    )


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e300, 1e308])
def test_gaussians_of_any_scale_raise_nothing(scale):
    """Means and variances at the ends of floats give bounds, possibly infinite, and no warning."""
    pairs = [
        (pf.GaussianLaw(-scale, 1), pf.GaussianLaw(scale, 4)),
        (pf.GaussianLaw(-scale, 1), pf.GaussianLaw(scale, 1)),
        (pf.GaussianLaw([0, 0], scale), pf.GaussianLaw([1, 0], scale * 0.5)),
        (pf.GaussianLaw([0, 0], 1e-320), pf.GaussianLaw([1, 0], scale)),
        (pf.GaussianLaw(0, 1e-300), pf.GaussianLaw(1e200, 1e-300)),
    ]
    for mu, nu in pairs:
        for norm in (1, 2, math.inf):
            assert pf.winf(mu, nu, norm) >= 0
            for p in (1, 2, 3):
                assert pf.wasserstein(mu, nu, p, norm) >= 0
            assert pf.near(mu, nu, 0.1, norm) >= 0


def test_images_of_singular_gaussians_have_distances():
    """Variances that are rounding are 0 or above, so W_p and nearness of such images work."""
    rng = np.random.default_rng(1)
    for u in rng.normal(size=(100, 2)):
        flat = pf.GaussianLaw([0, 0], np.outer(u, u)).map([-u[1], u[0]])
        assert flat.covariance[0, 0] >= 0
        assert pf.wasserstein(flat, pf.GaussianLaw(0, 1)) <= 1 + 1e-9
        assert pf.near(flat, pf.GaussianLaw(0, 1), 0.1) >= 0


def test_nearly_singular_couplings_are_refused():
    """A Gaussian coupling that floats could not hold is refused rather than returned with wrong marginals."""
    thin = pf.GaussianLaw([0, 0], np.diag([1, 1e-12]))
    with pytest.raises(pf.Refused, match="singular"):
        pf.wasserstein(thin, pf.GaussianLaw([0, 0], 1), coupling=True)


@pytest.mark.slow
def test_nearness_across_thin_directions_is_not_underestimated():
    """For covariances of condition 10⁷ no half-space, measured in long floats, leaves more than δ unmatched."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        angle, thin, delta = (
            rng.uniform(0, np.pi),
            10 ** rng.uniform(-8, -5),
            rng.uniform(0.05, 0.6),
        )
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        law = pf.GaussianLaw([0, 0], turn @ np.diag([1, thin]) @ turn.T)
        step = turn @ [0, rng.uniform(0.5, 3) * math.sqrt(thin)]
        z = float(pf.near(law, law.shift(step), delta))
        if not z:
            continue
        angles = (
            np.longdouble(angle) + np.pi / 2 + np.linspace(-3e-4, 3e-4, 20001, dtype=np.longdouble)
        )
        a = np.stack([np.cos(angles), np.sin(angles)])
        spread = np.einsum("ik,ij,jk->k", a, law.covariance.astype(np.longdouble), a)
        hidden = float(((np.abs(step @ a) - z) / np.sqrt(spread)).max())
        assert special.erf(hidden / 2 / math.sqrt(2)) <= delta * (1 + 1e-12)
