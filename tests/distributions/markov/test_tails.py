"""Masses far below what floats hold: they decide W_∞ all the same (M8)."""

import importlib
from fractions import Fraction

import numpy as np
import pytest

from pufferflow.core.errors import Refused
from pufferflow.distributions.lattice import (
    KEPT,
    SPAN,
    DistanceInterval,
    convolve,
    disjoint_planes,
    gap,
    levels,
    mix,
    normalise,
    rescale,
    yardstick,
)
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.near_of_sums import nearest
from pufferflow.distributions.markov.sums import Sums
from pufferflow.distributions.markov.winf_of_sums import farthest, pair_of, three_terms

module = importlib.import_module("pufferflow.distributions.markov.winf_of_sums")
ANTI = [[Fraction(1, 50), Fraction(49, 50)], [Fraction(49, 50), Fraction(1, 50)]]
UNEVEN = [[Fraction(1, 50), Fraction(49, 50)], [Fraction(3, 5), Fraction(2, 5)]]


def number(planes):
    """The numbers on planes, exactly."""
    return sum(
        Fraction(float(plane)) / Fraction(SPAN) ** depth for depth, plane in enumerate(planes)
    )


def tail_walk(kernel, rows, row, values=(0, 1)):
    """W_∞ of the counts given either state of a row, in whole numbers over one denominator: exact at any length."""
    whole = [[int(p * 50) for p in line] for line in kernel]
    laws = []
    for state in range(2):
        now = [[1], [1]] if row else [[int(x == state)] for x in range(2)]
        for t in range(1, rows):
            moved = [[0] * values[x] + now[x] + [0] * (1 - values[x]) for x in range(2)]
            kept = [y for y in range(2) if t != row or y == state]
            now = [[0] * len(moved[0]) for _ in range(2)]
            for y in kept:
                now[y] = [whole[0][y] * a + whole[1][y] * b for a, b in zip(*moved, strict=True)]
        moved = [[0] * values[x] + now[x] + [0] * (1 - values[x]) for x in range(2)]
        laws.append([a + b for a, b in zip(*moved, strict=True)])
    totals = [sum(law) for law in laws]
    return _steps([mass * totals[1] for mass in laws[0]], [mass * totals[0] for mass in laws[1]])


def _steps(left, right):
    """The longest step of the quantile coupling of two lists of whole numbers with one sum."""
    farthest_step, i, j = 0, 0, 0
    a, b = left[0], right[0]
    while True:
        while not a and i + 1 < len(left):
            i, a = i + 1, left[i + 1]
        while not b and j + 1 < len(right):
            j, b = j + 1, right[j + 1]
        if not a:
            return farthest_step
        farthest_step = max(farthest_step, abs(i - j))
        a, b = a - min(a, b), b - min(a, b)


@pytest.mark.parametrize("kernel", [ANTI, UNEVEN], ids=["anticorrelated", "uneven"])
def test_sixty_rows(exact, kernel):
    """Every row of T=60 against whole numbers; the least mass is 1e-102."""
    sums = exact.sums_of(exact.homogeneous(kernel, 60))
    for row in (0, 1, 2, 17, 30, 58, 59):
        found = farthest(sums, exact.every_pair(2), np.arange(60) == row)
        assert (found.length, found.exact) == (tail_walk(kernel, 60, row), True)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [ANTI, UNEVEN], ids=["anticorrelated", "uneven"])
@pytest.mark.parametrize("rows", [400, 1000])
def test_long_chains_against_whole_numbers(exact, kernel, rows):
    """Masses down to 1e-1700."""
    sums = exact.sums_of(exact.homogeneous(kernel, rows))
    for row in (0, 1, rows // 3, rows - 1):
        found = farthest(sums, exact.every_pair(2), np.arange(rows) == row)
        assert (found.length, found.exact) == (tail_walk(kernel, rows, row), True)


def test_a_mass_below_all_floats_decides(exact):
    """State 2 has probability 1e-200 a step and moves the sum by 10: both laws reach as far, or one goes farther."""
    tiny = Fraction(1, 10**200)
    kernel = [[Fraction(1, 2), Fraction(1, 2) - tiny, tiny]] * 2 + [[Fraction(1, 3)] * 3]
    chain = exact.homogeneous(kernel, 5, (0, 1, 10), [Fraction(1, 2), Fraction(1, 2) - tiny, tiny])
    found = farthest(exact.sums_of(chain), exact.every_pair(3))
    assert found.length == exact.largest(chain, exact.winf)
    assert exact.law_given(chain, 2, 0)[Fraction(30)] < Fraction(1, 10**390)


def test_random_kernels_with_tiny_entries(exact):
    """Entries of 1e-30 to 1e-300 among others, in any place."""
    rng, certain = np.random.default_rng(5), 0
    for _ in range(12):
        chain = exact.random_chain(rng, most_rows=6, states=3)
        for kernel in chain.kernels:
            line, state = rng.integers(3), rng.integers(3)
            kernel[line] = list(kernel[line])
            tiny = Fraction(1, 10 ** int(rng.choice([30, 150, 300])))
            if kernel[line][state] == 0:
                kernel[line][state] = tiny
                largest = max(range(3), key=kernel[line].__getitem__)
                kernel[line][largest] -= tiny
        found = farthest(exact.sums_of(chain), exact.every_pair(3))
        truth = exact.largest(chain, exact.winf)
        assert found.length == truth if found.exact else found.length >= 0
        certain += found.exact
    assert certain >= 9


def test_tails_that_differ_below_every_float():
    """Alive for eight rows more has probability 1e-800 if alive now, none if not: that alone moves the sum, by 50."""
    kernel = np.array([[1.0, 0.0], [1.0, 1e-100]])
    chain = Chain(kernel[None], np.zeros(8, dtype=np.intp), np.array([[0.5, 0.5]]))
    sums = Sums(chain, np.array([[0.0, 0.0], [0.0, 50.0]]), np.repeat([0, 1], [8, 1]))
    first, pairs = np.arange(9) == 0, np.array([[0, 1]])
    assert farthest(sums, pairs, first).length == three_terms(sums, pairs, first).length == 50
    assert nearest(sums, pairs, 1e-6, first).length == 0


def test_a_light_atom_between_two_halves_has_to_go_somewhere():
    """Half at 0, half at 10, and 1e-17 at 5 in one law only: at least 5, though no sum shows it. Equal laws: 0."""
    by = yardstick(10, 2, 11)
    halves, light = np.zeros((2, 1, 11))
    halves[0, [0, 10]] = light[0, [0, 10]] = 0.5
    light[0, 5] = 1e-17
    mu, nu = levels(halves, 0, by), levels(light, 0, by)
    assert (
        min(
            gap(mu, nu, by, DistanceInterval(0, 0, 1)).length,
            gap(nu, mu, by, DistanceInterval(0, 0, 1)).length,
        )
        >= 5
    )
    assert (
        gap(nu, nu, by, DistanceInterval(0, 0, 1)).length
        == gap(mu, mu, by, DistanceInterval(0, 0, 1)).length
        == 0
    )
    assert gap(mu, levels(halves, 3, by), by, DistanceInterval(0, 0, 1)) == DistanceInterval(
        3, 3, 13
    )


def test_laws_of_their_own_need_floats():
    """Masses below 1e-290 are refused as floats, and kept by `farthest`."""
    chain = Chain(
        np.array([[[0.999, 0.001], [0.5, 0.5]]]),
        np.zeros(119, dtype=np.intp),
        np.array([[1.0, 0.0]]),
    )
    low = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(120, dtype=np.intp))
    pair_of(low, 40, (0, 1))
    far = Sums(
        Chain(np.array([[[0.999, 0.001], [0.999, 0.001]]]), chain.order, chain.initial),
        low.values,
        low.kinds,
    )
    with pytest.raises(Refused, match="1e-290"):
        pair_of(far, 40, (0, 1))
    assert farthest(far, np.array([[0, 1]])).length == 1


def test_planes_keep_every_digit():
    """Numbers from 1 to 1e-2000 on planes: settled, mixed, convolved and normalised, each to 15 digits."""
    rng = np.random.default_rng(2)
    planes = np.where(
        rng.random((4, 3, 20)) < 0.5, np.ldexp(rng.random((4, 3, 20)) + 0.5, -180), 0.0
    )
    planes[0, :, 7] = rng.random(3) + 0.5
    given = rescale(planes).planes
    kernel = rescale(np.array([[[1e-300, 0.5, 0.5], [0.2, 1e-5, 0.8], [1.0, 0.0, 0.0]]]))
    results = mix(kernel, rescale(planes))
    sums = rescale(convolve(given[:, 0], given[:, 1])).planes
    for at in range(20):
        for state in range(3):
            truth = number(planes[:, state, at])
            assert number(given[:, state, at]) == pytest.approx(truth, rel=1e-15)
            terms = [
                number(kernel.planes[:, state, b]) * number(planes[:, b, at]) for b in range(3)
            ]
            assert _close(number(results.planes[:, state, at]), sum(terms))
        pairs = [number(planes[:, 0, i]) * number(planes[:, 1, at - i]) for i in range(at + 1)]
        assert _close(number(sums[:, at]), sum(pairs))
    assert ((given == 0) | (given >= KEPT)).all()
    assert ((given > 0).sum(axis=0) <= 1).all()
    one = disjoint_planes(normalise(given[:, 0]))
    assert float(sum(number(one[:, at]) for at in range(20))) == pytest.approx(1, rel=1e-14)


def _close(found, truth):
    return found == truth or abs(found / truth - 1) < Fraction(1, 10**14)


def test_three_terms_serve_what_is_too_long_for_more():
    """What is too long for exact laws gets the bound, what is too long for that is refused."""
    kernel = np.array([[[0.7, 0.3], [0.3, 0.7]]])

    def made(rows):
        chain = Chain(kernel, np.zeros(rows - 1, dtype=np.intp), np.array([[0.5, 0.5]]))
        return Sums(chain, np.array([[0.0, 1.0]]), np.zeros(rows, dtype=np.intp))

    assert three_terms(made(300), np.array([[0, 1]])).length == 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "most_points", lambda _: 100)
        found = farthest(made(300), np.array([[0, 1]]))
        assert (found.length, found.exact) == (3, False)
    with pytest.raises(Refused, match="too many"):
        farthest(made(1_000_000), np.array([[0, 1]]))
