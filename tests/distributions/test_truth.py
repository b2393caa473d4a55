"""Distances of thousands of small random laws against the truth, found by linear programs and rational flows."""

import math
from fractions import Fraction

import brute
import numpy as np
import pytest
from laws import float_law_of, law_of, random_law
from thinned import nightly
from within_time import within_time

import pufferflow as pf

DELTAS = [Fraction(0), Fraction(1, 100), Fraction(1, 10), Fraction(3, 10), Fraction(1, 2)]


def root(value, norm, dimension):
    return math.sqrt(value) if dimension > 1 and norm == 2 else float(value)


def check(rng, dimension, norm):
    mu, nu = (
        random_law(rng, dimension=dimension, span=9 if dimension == 1 else 4) for _ in range(2)
    )
    delta = DELTAS[rng.integers(len(DELTAS))]
    true_winf, true_near = brute.winf(mu, nu, norm), brute.near(mu, nu, delta, norm)
    exact = pf.winf(law_of(mu), law_of(nu), norm), pf.near(law_of(mu), law_of(nu), delta, norm)
    for found, true in zip(exact, (true_winf, true_near), strict=True):
        assert found.certainty == pf.Certainty.EXACT
        assert found == pytest.approx(root(true, norm, dimension), rel=1e-15)
        square = Fraction(found) ** 2 if dimension > 1 and norm == 2 else Fraction(found)
        assert square >= true
    floats = float_law_of(mu), float_law_of(nu)
    assert pf.winf(*floats, norm) == exact[0]
    assert pf.near(*floats, float(delta), norm) == exact[1]
    return mu, nu


@pytest.mark.slow
@pytest.mark.parametrize("part", nightly(range(10), but=0.5))
def test_line_equals_rational_flows(part):
    """On the line W_∞ and nearness are exact for rational weights, and the same for the floats nearest to them."""
    rng = np.random.default_rng(part)
    for _ in range(200):
        check(rng, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_space_equals_rational_flows(norm):
    """In the plane and in space W_∞ and nearness are exact, in every norm."""
    rng = np.random.default_rng(17)
    for trial in range(60):
        check(rng, 2 + trial % 2, norm)


PROGRAMS = [(2, 2, 0), *((1, 2, part) for part in range(6)), (2, 1, 0), (3, math.inf, 0)]


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "norm", "part"), PROGRAMS)
def test_wasserstein_equals_linear_programs(dimension, norm, part):
    """W_p equals the optimum of the transport program, to the program's own precision, and is not below it."""
    rng = np.random.default_rng(5 + part)
    for _ in range(40):
        mu, nu = (random_law(rng, dimension=dimension) for _ in range(2))
        for p in (1, 1.7, 3):
            found = pf.wasserstein(law_of(mu), law_of(nu), p, norm)
            assert found == pytest.approx(brute.wasserstein(mu, nu, p, norm), rel=1e-7, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *nightly(range(1, 8))])
def test_many_lines_equal_rational_flows(part):
    """The same for ten thousand laws more, larger ones among them, by as many parts as there is time for."""
    rng = np.random.default_rng(1000 + part)
    for _ in within_time(range(1200), 30, least=300):
        check(rng, 1, 2)
    for _ in within_time(range(60), 30, least=20):
        mu, nu = (random_law(rng, most=16, span=40) for _ in range(2))
        assert pf.winf(law_of(mu), law_of(nu)) == brute.winf(mu, nu)
        assert pf.near(law_of(mu), law_of(nu), Fraction(1, 20)) == brute.near(
            mu, nu, Fraction(1, 20)
        )


@pytest.mark.slow
@pytest.mark.parametrize("norm", nightly([1, 2, math.inf], but=0.34))
def test_many_spaces_equal_rational_flows(norm):
    """The same for many laws on R² and R³."""
    rng = np.random.default_rng(99)
    for trial in within_time(range(500), 45, least=100):
        check(rng, 2 + trial % 2, norm)
