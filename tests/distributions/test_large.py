"""Large laws: a million atoms on the line, and more pairs in space than a matrix holds."""

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf


def normals(size, spread, seed, dimension=1):
    rng = np.random.default_rng(seed)
    weights = rng.random(size)
    values = spread * rng.normal(size=size if dimension == 1 else (size, dimension))
    return pf.Law(values, weights / weights.sum())


@pytest.mark.slow
def test_a_million_atoms_on_the_line():
    """W_∞, W_2 and nearness of a million atoms each agree with each other and with the laws they come from."""
    mu, nu = normals(10**6, 1, 1), normals(10**6, 1.1, 2)
    assert pf.winf(mu, mu) == 0
    moved = pf.winf(mu, mu.shift(0.5))
    assert moved == pytest.approx(0.5, rel=1e-12)
    assert 0.09 < pf.wasserstein(mu, nu) < 0.11
    close = pf.near(mu, nu, 1e-3)
    assert 0.15 < close < pf.winf(mu, nu)


@pytest.mark.slow
def test_couplings_of_many_atoms():
    """A coupling of 10^5 atoms each leaves just the δ beyond the distance that it may."""
    mu, nu = normals(10**5, 1, 1), normals(10**5, 1.1, 2)
    close = pf.near(mu, nu, 1e-3, coupling=True)
    beyond = close.coupling.masses[abs(close.coupling.differences()) > close].sum()
    assert beyond == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("count", thinned([10**5, 10**6], 0.5))
def test_whole_numbers_at_length(count):
    """Laws on up to a million whole numbers, where every distance is shared by many pairs."""
    mu = pf.Law.empirical(np.arange(count))
    nu = pf.Law.empirical(np.arange(count) * 2)
    assert pf.winf(mu, nu) == count - 1
    assert pf.near(mu, nu, 0.5) == 0
    assert pf.near(mu, nu, 0.25) == pytest.approx(count / 2, abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [1, 2])
def test_many_atoms_in_space_give_a_bound(norm):
    """More pairs than fit in memory give an upper bound that says so, not far above the truth."""
    mu, step = normals(20_000, 1, 3, dimension=2), np.array([0.3, 0.4])
    nu = mu.shift(step)
    truth = np.linalg.norm(step, norm)
    for distance in (
        pf.winf(mu, nu, norm),
        pf.wasserstein(mu, nu, 2, norm),
        pf.near(mu, nu, 0.01, norm),
    ):
        assert distance.certainty == pf.Certainty.UPPER_BOUND
        assert "gathered in cells" in distance.note
    assert truth <= pf.winf(mu, nu, norm) <= truth + 1.5
    assert truth <= pf.wasserstein(mu, nu, 2, norm) <= truth + 1
    with pytest.raises(pf.Refused, match="too many for a coupling"):
        pf.winf(mu, nu, norm, coupling=True)


@pytest.mark.slow
def test_many_heavy_atoms_need_few_distances():
    """A thousand atoms each in the plane, with weights of any size, are exact up to rounding and quick."""
    mu, nu = normals(1000, 1, 4, dimension=2), normals(1000, 1.2, 5, dimension=2)
    winf = pf.winf(mu, nu)
    for delta in (1e-9, 1e-3, 0.1):
        near = pf.near(mu, nu, delta)
        assert near <= winf
        winf = near
