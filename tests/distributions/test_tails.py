"""Tiny masses do not vanish, ties of float weights are ties, and a result says when rounding could matter."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import float_laws
from thinned import thinned

import pufferflow as pf

TINY = [1e-17, 1e-30, 1e-200, 5e-324]


@pytest.mark.parametrize("mass", thinned(TINY, 0.25))
@pytest.mark.parametrize("at", [-100.0, 100.0])
def test_a_tiny_mass_in_a_tail_counts(mass, at):
    """A mass of 1e−17 (or less) at distance 100 makes W_∞ at least 100, in either tail, on the line and in space."""
    law = pf.Law([0, at], [1.0, mass])
    assert pf.winf(law, pf.Law.point(0)) == 100
    assert pf.winf(pf.Law([0, 1], [0.5, 0.5]), law) >= 99
    far = pf.Law([[0, 0], [at, 0]], [1.0, mass])
    assert pf.winf(far, pf.Law.point([0, 0])) == 100
    assert pf.winf(pf.Law([[0, 0], [0, 1]], [0.5, 0.5]), far) >= 99


@pytest.mark.parametrize("surplus", [Fraction(1, 10**9), Fraction(1, 10**12), Fraction(1, 10**40)])
@pytest.mark.parametrize("dimension", [1, 2])
def test_a_tiny_surplus_has_to_move(surplus, dimension):
    """Between exact laws that differ by 10⁻¹² on two heavy atoms, that much has to go the whole way."""
    half = Fraction(1, 2)
    atoms = [0, 100] if dimension == 1 else [[0, 0], [100, 0]]
    mu, nu = pf.Law(atoms, [half, half]), pf.Law(atoms, [half + surplus, half - surplus])
    assert pf.winf(mu, nu) == 100
    assert pf.near(mu, nu, surplus / 2) == 100
    assert pf.near(mu, nu, surplus) == 0
    if surplus > Fraction(1, 10**14):
        floats = [pf.Law(atoms, law.probabilities) for law in (mu, nu)]
        assert pf.winf(*floats) == 100
        assert pf.near(*floats, float(surplus) / 2) == 100


@pytest.mark.parametrize("mass", TINY)
def test_a_tiny_mass_in_the_middle_counts(mass):
    """A mass too small to move any partial sum still has to go somewhere."""
    law = pf.Law([-200, 0, 200], [0.5, mass, 0.5])
    assert pf.winf(law, pf.Law([-200, 200], [0.5, 0.5])) >= 200
    plane = pf.Law([[-200, 0], [0, 0], [200, 0]], [0.5, mass, 0.5])
    assert pf.winf(plane, pf.Law([[-200, 0], [200, 0]], [0.5, 0.5])) >= 200


def test_a_tiny_mass_decides_between_tails():
    """Tail masses 2e−17 and 1e−17 differ by half, so half of the larger has to move; equal ones need not."""
    low, high = (pf.Law([0, 100], [1.0, mass]) for mass in (1e-17, 2e-17))
    assert pf.winf(low, high) == 100
    assert pf.winf(low, pf.Law([0, 101], [1.0, 1e-17])) == 1


@pytest.mark.parametrize("dimension", [1, 2])
def test_decimal_ties_are_ties(dimension):
    """0.1 + 0.2 and 0.3 are the same weight although their floats differ."""
    assert 0.1 + 0.2 != 0.3

    def law(values, weights):
        return pf.Law(values if dimension == 1 else [[x, 0] for x in values], weights)

    mu, nu = law([0, 1, 100], [0.1, 0.2, 0.7]), law([1, 101], [0.3, 0.7])
    distance = pf.winf(mu, nu)
    assert distance == 1
    assert distance.certainty == pf.Certainty.UPPER_BOUND
    assert "Fractions" in distance.note
    assert 0 < distance.rounding < 1e-14


def test_certainty_is_exact_where_rounding_cannot_matter():
    """Float weights give an exact result if no comparison was close or if the close ones change nothing."""
    assert (
        pf.winf(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])).certainty
        == "exact"
    )
    assert pf.winf(pf.Law([0, 1], [0.5, 0.5]), pf.Law([1, 2], [0.5, 0.5])).certainty == "exact"
    assert (
        pf.winf(pf.Law([0, 5], [0.1, 0.9]), pf.Law([1, 6], [0.1, 0.9])).certainty == "upper_bound"
    )
    thirds = [Fraction(1, 3), Fraction(2, 3)]
    assert pf.winf(pf.Law([0, 5], thirds), pf.Law([1, 6], thirds)).certainty == "exact"


def test_delta_is_read_as_it_prints():
    """A δ of .3 leaves exactly three tenths of a rational law unmatched, although the float .3 is a little less."""
    mu, nu = pf.Law.point(0), pf.Law([0, 9], [Fraction(7, 10), Fraction(3, 10)])
    assert Fraction(0.3) < Fraction(3, 10)
    assert pf.near(mu, nu, 0.3) == 0
    assert pf.near(mu, nu, 0.2999999) == 9


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("delta", [1e-12, 1e-15, 1e-17, 1e-300])
def test_a_delta_below_rounding_forgives_nothing(delta, dimension):
    """What is forgiven as rounding never outweighs δ: a mass just above a tiny δ still has to be matched."""
    far, near = ([100.0, 1.0], 0.0) if dimension == 1 else ([[100.0, 0.0], [1.0, 0.0]], [0.0, 0.0])
    law = pf.Law(far, [2 * delta, 1 - 2 * delta])
    assert pf.near(law, pf.Law.point(near), delta) == 100
    light = pf.Law(far, [delta / 2, 1 - delta / 2])
    assert pf.near(light, pf.Law.point(near), delta) in (1, 100)


def test_near_is_not_the_quantile_coupling():
    """On {0,1} and {1,10} half of the mass is at distance 0, which the quantile coupling does not see (M4)."""
    mu, nu = pf.Law([0, 1], [0.5, 0.5]), pf.Law([1, 10], [0.5, 0.5])
    assert pf.near(mu, nu, 0.5) == 0
    quantile = pf.winf(mu, nu, coupling=True).coupling
    assert abs(quantile.differences()).min() == 1


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("dimension", [1, 2])
def test_atoms_of_any_size(scale, dimension):
    """Tiny and huge atoms are measured to the last digits, without overflow on the way."""

    def law(values):
        return pf.Law(
            [scale * x if dimension == 1 else [scale * x, 0] for x in values], [Fraction(1, 2)] * 2
        )

    assert pf.winf(law([0, 1]), law([0, 3])) == pytest.approx(2 * scale, rel=1e-14)
    assert pf.near(law([0, 1]), law([0, 3]), 0.5) == 0
    assert pf.wasserstein(law([0, 1]), law([0, 3]), 2) == pytest.approx(
        math.sqrt(2) * scale, rel=1e-12
    )


def test_distances_too_long_for_a_float_are_infinite():
    """A step that no float can hold is reported as infinite, an upper bound."""
    mu, nu = pf.Law.point(-1.7e308), pf.Law.point(1.7e308)
    for distance in (pf.winf(mu, nu), pf.near(mu, nu, 0.1), pf.wasserstein(mu, nu, 2)):
        assert distance == math.inf
        assert distance.certainty == pf.Certainty.UPPER_BOUND


def test_distances_are_rounded_up():
    """0.03 − 0.01 rounds to a float below the exact difference of the two floats; the distance does not."""
    distance = pf.winf(pf.Law.point(0.01), pf.Law.point(0.03))
    assert Fraction(distance) >= Fraction(0.03) - Fraction(0.01)
    assert Fraction(0.03 - 0.01) < Fraction(0.03) - Fraction(0.01)
    for norm in (1, 2, math.inf):
        plane = pf.winf(pf.Law.point([0.1, 0.2]), pf.Law.point([0.7, 0.9]), norm)
        steps = [Fraction(0.7) - Fraction(0.1), Fraction(0.9) - Fraction(0.2)]
        if norm == 2:
            assert Fraction(plane) ** 2 >= sum(step**2 for step in steps)
        else:
            assert Fraction(plane) >= (sum(steps) if norm == 1 else max(steps))


def test_fraction_atoms_are_measured_exactly():
    """Atoms a float cannot hold keep their distance: 1/3 to 1/3 + 1e−30 is 1e−30."""
    third, step = Fraction(1, 3), Fraction(1, 10**30)
    mu, nu = pf.Law.point(third), pf.Law.point(third + step)
    assert pf.winf(mu, nu) == pytest.approx(1e-30, rel=1e-15)
    assert pf.near(mu, nu, 0.5) == pytest.approx(1e-30, rel=1e-15)
    assert pf.winf(pf.Law.point([third, 0]), pf.Law.point([third + step, 0])) == pytest.approx(
        1e-30, rel=1e-15
    )
    assert pf.winf(
        pf.Law([third, 0.5], [0.5, 0.5]), pf.Law([0.25, 0.5], [0.5, 0.5])
    ) == pytest.approx(1 / 12)


@pytest.mark.slow
@given(float_laws(), float_laws(), st.floats(1e-9, 0.9))
def test_float_distances_stay_between_their_bounds(mu, nu, delta):
    """For weights over 18 orders of magnitude: no less than the supports are apart, no more than the supports span.

    Both ways it is the same, unless it hangs on less mass than the weights are rounded by.
    """
    steps = abs(mu.values[:, None] - nu.values[None, :])
    apart = max(steps.min(axis=0).max(), steps.min(axis=1).max())
    span = max(mu.values.max(), nu.values.max()) - min(mu.values.min(), nu.values.min())
    winf = pf.winf(mu, nu)
    assert apart <= winf <= np.nextafter(span, np.inf)
    back = pf.winf(nu, mu)
    assert back == winf or pf.near(mu, nu, winf.rounding) <= min(winf, back)
    assert pf.near(mu, nu, delta) <= winf
    assert pf.winf(mu, mu) == 0


@pytest.mark.slow
@given(float_laws(), float_laws())
def test_float_weights_read_as_fractions_agree(mu, nu):
    """The floats as the exact rational numbers they are, divided by their sum, are never farther apart than claimed.

    Unless they tie: then the claim is an upper bound only up to rounding, and says so.
    """
    exact = [
        pf.Law(law.values, [Fraction(w) / sum(map(Fraction, law.weights)) for w in law.weights])
        for law in (mu, nu)
    ]
    found, true = pf.winf(mu, nu), pf.winf(*exact)
    assert found >= true or found.certainty == pf.Certainty.UPPER_BOUND
    if found.certainty == pf.Certainty.EXACT:
        assert found == true
