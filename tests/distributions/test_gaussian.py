"""Distances of Gaussian laws against duality, quadrature and finely discretised laws."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from thinned import thinned

import pufferflow as pf

C = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.5]])
STEP = np.array([3.0, -1.0, 0.5])


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_equal_covariances_translate(norm):
    """With one covariance every distance is the norm of the difference of means."""
    mu, nu = pf.GaussianLaw(np.zeros(3), C), pf.GaussianLaw(STEP, C)
    length = np.linalg.norm(STEP, norm)
    for distance in (
        pf.winf(mu, nu, norm),
        pf.wasserstein(mu, nu, 1, norm),
        pf.wasserstein(mu, nu, 7, norm),
    ):
        assert distance == pytest.approx(length, rel=1e-12)
        assert distance >= length
        assert distance.certainty == "exact"
    assert pf.winf(pf.GaussianLaw(0, 1), pf.GaussianLaw(3, 1)) == 3.0


def test_unequal_covariances_are_infinitely_far():
    """Different spreads have W_∞ = ∞, and the result says so, even if they differ by rounding only."""
    for variance in (2.0, 1 + 1e-15):
        distance = pf.winf(pf.GaussianLaw(0, 1), pf.GaussianLaw(0, variance))
        assert distance == math.inf
        assert "covariances differ" in distance.note


@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.1, 0.5])
def test_nearness_is_tight_by_duality(delta):
    """The half-space that is hardest to match gives the same number as the coupling (Euclidean norm)."""
    mu, nu = pf.GaussianLaw(np.zeros(3), C), pf.GaussianLaw(STEP, C)
    z = float(pf.near(mu, nu, delta))

    def hidden(
        a,
    ):  # mass of the half-space with normal a that stays unmatched within z, as a Gaussian argument
        return -(a @ STEP - z * np.linalg.norm(a)) / math.sqrt(a @ C @ a)

    worst = min(minimize(hidden, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13}).fun
                for start in (STEP, np.linalg.solve(C, STEP), np.ones(3)))  # fmt: skip
    assert 2 * stats.norm.cdf(-worst / 2) - 1 == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("norm", thinned([1, 2, math.inf], 0.33))
@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_nearness_bounds_hold_in_every_norm(norm, delta):
    """No half-space leaves more than δ unmatched at the z that is claimed."""
    rng = np.random.default_rng(0)
    mu, nu = pf.GaussianLaw(np.zeros(3), C), pf.GaussianLaw(STEP, C)
    z = float(pf.near(mu, nu, delta, norm))
    dual = {1: math.inf, 2: 2, math.inf: 1}[norm]
    for a in [*rng.normal(size=(2000, 3)), STEP, np.linalg.solve(C, STEP), np.sign(STEP)]:
        hidden = (a @ STEP - z * np.linalg.norm(a, dual)) / math.sqrt(a @ C @ a)
        assert 2 * stats.norm.cdf(hidden / 2) - 1 <= delta + 1e-9


@pytest.mark.parametrize("dimension", [2, 9])
def test_nearness_in_the_norm_one_counts_all_coordinates(dimension):
    """Two spheres of different width: a movement along the diagonal is √d times as long in the norm 1."""
    same = np.zeros(dimension)
    mu, nu = (pf.GaussianLaw(same, width * np.eye(dimension)) for width in (1.0, 4.0))
    lengths = [float(pf.near(mu, nu, 0.05, norm)) for norm in (1, 2)]
    assert lengths[0] >= lengths[1] * math.sqrt(dimension) * (1 - 1e-9)


def discretised(law, size=4001):
    deviation = math.sqrt(law.covariance[0, 0])
    grid = np.linspace(law.mean[0] - 9 * deviation, law.mean[0] + 9 * deviation, size)
    weights = stats.norm.pdf(grid, law.mean[0], deviation)
    return pf.Law(grid, weights / weights.sum())


@pytest.mark.parametrize(("step", "deviation"), [(0.0, 2.0), (1.0, 1.0), (3.0, 0.3), (0.5, 1.5)])
def test_line_equals_discretised_laws(step, deviation):
    """On R, W_p and nearness agree with those of the laws cut into thousands of atoms, or are above as they say."""
    mu, nu = pf.GaussianLaw(0, 1), pf.GaussianLaw(step, deviation**2)
    fine = discretised(mu), discretised(nu)
    for p in (1, 2, 3.5, 8):
        found = pf.wasserstein(mu, nu, p)
        assert found == pytest.approx(pf.wasserstein(*fine, p), rel=2e-3)
        assert found.certainty == "exact"
    for delta in (0.01, 0.1, 0.3):
        found, true = pf.near(mu, nu, delta), pf.near(*fine, delta)
        assert found >= true - 0.01
        if found.certainty == "exact":
            assert found == pytest.approx(true, abs=0.01)


def test_w2_is_bures():
    """W₂ of commuting covariances is the Euclidean distance of means and deviations; singular ones are no exception."""
    mu, nu = (
        pf.GaussianLaw([0, 0], np.diag([1.0, 4.0])),
        pf.GaussianLaw([1, 2], np.diag([9.0, 0.0])),
    )
    assert pf.wasserstein(mu, nu) == pytest.approx(math.sqrt(1 + 4 + 4 + 4), rel=1e-9)
    assert pf.wasserstein(nu, mu) == pytest.approx(math.sqrt(13), rel=1e-9)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_bounds_are_not_below_a_sampled_optimum(norm, p):
    """Without a closed form the bound is not below W_p of large samples, nor far above its coupling's cost."""
    rng = np.random.default_rng(1)
    mu, nu = pf.GaussianLaw([0, 0], C[:2, :2]), pf.GaussianLaw([1, -2], np.eye(2))
    sampled = [
        pf.Law.empirical(rng.multivariate_normal(law.mean, law.covariance, 400)) for law in (mu, nu)
    ]
    bound = pf.wasserstein(mu, nu, p, norm)
    assert bound >= 0.85 * pf.wasserstein(*sampled, p, norm)
    coupling = pf.wasserstein(mu, nu, p, norm, coupling=True).coupling
    draws = rng.multivariate_normal(mu.mean, mu.covariance, 20000)
    images = (draws - mu.mean) @ coupling.matrix.T + nu.mean
    np.testing.assert_allclose(np.cov(images.T), nu.covariance, atol=0.05)
    cost = float(np.mean(np.linalg.norm(draws - images, norm, axis=1) ** p) ** (1 / p))
    assert 0.98 * cost <= bound <= 2 * cost


def test_singular_couplings_are_refused():
    """A coupling that is no map of X is refused, with the exchange that helps."""
    mu, nu = pf.GaussianLaw([0, 0], np.diag([1.0, 0.0])), pf.GaussianLaw([0, 0], np.eye(2))
    with pytest.raises(pf.Refused, match="singular"):
        pf.wasserstein(mu, nu, coupling=True)
    assert pf.wasserstein(nu, mu, coupling=True).coupling.matrix == pytest.approx(
        np.diag([1.0, 0.0])
    )


def test_nearness_keeps_what_cannot_overlap():
    """Along a direction without spread nothing overlaps, so the step there is kept whole."""
    flat = np.diag([1.0, 0.0])
    assert pf.near(
        pf.GaussianLaw([0, 0], flat), pf.GaussianLaw([0.5, 2], flat), 0.9
    ) == pytest.approx(2)
    assert pf.near(pf.GaussianLaw(0, 0), pf.GaussianLaw(1, 0), 0.9) == pytest.approx(1)
