"""Finite laws at the ends of what floats hold: light and far atoms, sums of many, ties and slivers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import pufferflow as pf

HALF = Fraction(1, 2)
ORIGIN = pf.Law.point([0, 0])


@pytest.mark.parametrize("mass", [Fraction(1, 10**17), Fraction(1, 10**30)])
@pytest.mark.parametrize("p", [1, 2, 40])
def test_light_atoms_cost_in_space(mass, p):
    """W_p on R^d charges a light far atom, whichever side it is on, with rational and with float weights."""
    exact = pf.Law([[0, 0], [100, 0]], [1 - mass, mass])
    floats = pf.Law([[0, 0], [100, 0]], [1.0, float(mass)])
    true = 100 * float(mass) ** (1 / p)
    for law in (exact, floats):
        for pair in ((law, ORIGIN), (ORIGIN, law)):
            found = pf.wasserstein(*pair, p, coupling=True)
            assert found >= true * (1 - 1e-12)
            assert found == pytest.approx(true, rel=1e-6)
            assert found.coupling.marginals()[0].min() >= float(mass) * (1 - 1e-9)


def test_couplings_keep_light_atoms():
    """Every atom has its mass in the coupling, to the last digits, however light it is."""
    light = Fraction(1, 10**30)
    cases = [
        (
            pf.winf,
            pf.Law([0, 1], [HALF, HALF]),
            pf.Law([2, 4, 5], [HALF - light, 2 * light, HALF - light]),
        ),
        (near_tenth, pf.Law([0, 1], [1 - light, light]), pf.Law([0, 1], [HALF, HALF])),
        (
            pf.winf,
            pf.Law([[0, 0], [1, 0]], [1 - light, light]),
            pf.Law([[0, 0], [1, 0]], [HALF, HALF]),
        ),
        (pf.winf, pf.Law([[0, 0], [1, 0]], [1.0, 1e-16]), pf.Law([[0, 0], [2, 0]], [1.0, 1e-17])),
        (
            near_tenth,
            pf.Law([[0, 0], [1, 0]], [1.0, 1e-16]),
            pf.Law([[0, 0], [2, 0]], [1.0, 1e-17]),
        ),
    ]
    for distance, mu, nu in cases:
        left, right = distance(mu, nu, coupling=True).coupling.marginals()
        np.testing.assert_allclose(left, mu.probabilities, rtol=1e-9)
        np.testing.assert_allclose(right, nu.probabilities, rtol=1e-9)


def near_tenth(mu, nu, **options):
    return pf.near(mu, nu, 0.1, **options)


@pytest.mark.parametrize("dimension", [1, 2])
def test_rational_and_float_atoms_mix_exactly(dimension):
    """10²⁰+1 and the float 1e20 are 1 apart, although floats would make them one."""

    def point(x):
        return pf.Law.point(x if dimension == 1 else [x, 0])

    for mu, nu in ((point(10**20 + 1), point(1e20)), (point(1e20), point(10**20 + 1))):
        for distance in (pf.winf(mu, nu), pf.wasserstein(mu, nu, 1), pf.near(mu, nu, 0.1)):
            assert distance == pytest.approx(1, rel=1e-14)
            assert distance >= 1
    for x in (0, 0.2, 0.3):
        assert Fraction(pf.winf(point(Fraction(1, 3)), point(x))) >= abs(
            Fraction(1, 3) - Fraction(x)
        )


def test_rational_vectors_are_not_rounded():
    """In the plane too, whole numbers past floats keep their distance."""
    mu = pf.Law([[10**20 + 1, 0], [0, 0.5]], [HALF, HALF])
    nu = pf.Law([[10**20, 0], [0, 0]], [HALF, HALF])
    assert pf.winf(mu, nu) == 1
    assert pf.near(mu, nu, Fraction(1, 10)) == 1
    assert pf.wasserstein(mu, nu, 1) == pytest.approx(0.75)


@pytest.mark.parametrize("dimension", [1, 2])
def test_atoms_beyond_floats(dimension):
    """An atom of 10⁴⁰⁰ beside float atoms is infinitely far for a float, an upper bound."""
    huge = pf.Law([10**400, 0] if dimension == 1 else [[10**400, 0], [0, 0]], [HALF, HALF])
    small = pf.Law([0.5, 0] if dimension == 1 else [[0.5, 0], [0, 0]], [HALF, HALF])
    for distance in (pf.winf(huge, small), pf.wasserstein(huge, small, 2)):
        assert (distance, distance.certainty) == (math.inf, "upper_bound")
    assert pf.near(huge, small, 0.75) >= 0


def test_exact_weights_give_exact_powers():
    """W_40 of weights that differ by 10⁻³⁰ is found, not drowned in float rounding."""
    shift = Fraction(1, 10**30)
    mu = pf.Law([0, 1], [Fraction(2, 3), Fraction(1, 3)])
    nu = pf.Law([0, 1], [Fraction(2, 3) + shift, Fraction(1, 3) - shift])
    assert pf.wasserstein(mu, nu, 40) == pytest.approx(1e-30 ** (1 / 40), rel=1e-12)


def test_subnormal_products_are_charged():
    """Masses so small that mass times cost underflows still cost at least what they do."""
    mu = pf.Law.point(0.0)
    atoms = [0.49 + 1e-9 * i for i in range(30)]
    nu = pf.Law([0.0, *atoms, 1.0], [1.0] + [5e-324] * 31)
    assert pf.wasserstein(mu, nu, 1) >= 16 * 5e-324


def test_ties_are_noted_for_wasserstein():
    """W_p of float laws that tie says that it holds up to the rounding of weights."""
    distance = pf.wasserstein(
        pf.Law([0, 0.3, 1e6], [0.1 + 0.2, 0.2, 0.5]), pf.Law([0, 0.3, 1e6], [0.3, 0.2, 0.5]), 40
    )
    assert distance.certainty == "upper_bound"
    assert "Fractions" in distance.note


@pytest.mark.slow
def test_gathering_survives_tiny_and_single_atoms(monkeypatch):
    """Gathered laws are bounds at any scale, one of them a single point included."""
    from pufferflow.distributions import distances as gathering

    monkeypatch.setattr(gathering, "MOST_PAIRS", 50)
    monkeypatch.setattr(gathering, "_MOST_ATOMS", 20)
    rng = np.random.default_rng(0)
    atoms, weights = rng.normal(size=(60, 2)), np.full(60, 1 / 60)
    for scale in (1e-310, 1e-200, 1.0, 1e200):
        for other in (np.zeros((1, 2)), rng.normal(size=(50, 2))):
            mu, nu = (
                pf.Law(scale * atoms, weights),
                pf.Law(scale * other, np.full(len(other), 1 / len(other))),
            )
            bounds = [pf.winf(mu, nu), pf.wasserstein(mu, nu, 2), pf.near(mu, nu, 0.1)]
            with monkeypatch.context() as all_pairs:
                all_pairs.setattr(gathering, "MOST_PAIRS", 10**6)
                exact = [pf.winf(mu, nu), pf.wasserstein(mu, nu, 2), pf.near(mu, nu, 0.1)]
            assert all(bound >= value for bound, value in zip(bounds, exact, strict=True))
            assert all(
                bound <= value + 4 * scale for bound, value in zip(bounds, exact, strict=True)
            )


@pytest.mark.parametrize("p", [1e5, 1e308])
def test_high_moments_of_finite_laws(p):
    """A p near the end of floats behaves as W_∞, on the line and in the plane."""
    mu, nu = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 3], [0.5, 0.5])
    assert pf.wasserstein(mu, nu, p) == pytest.approx(2, rel=1e-4)
    planes = (law.map(lambda x: np.stack([x, 0 * x], 1)) for law in (mu, nu))
    assert pf.wasserstein(*planes, p) == pytest.approx(2, rel=1e-4)


def test_squares_do_not_underflow():
    """A step of 1 beside atoms of 1e200 is 1 long, in W_p and in nearness."""
    far = [1e200, 0]
    mu, nu = pf.Law([far, [0, 0]], [HALF, HALF]), pf.Law([far, [0, 1]], [HALF, HALF])
    assert pf.wasserstein(mu, nu, 1) == pytest.approx(0.5)
    for p in (1, 2, 40):
        small = pf.wasserstein(
            pf.Law([[1, 0], [0, 0]], [HALF, HALF]), pf.Law([[1, 0], [1e-170, 0]], [HALF, HALF]), p
        )
        assert small == pytest.approx(1e-170 * 0.5 ** (1 / p), rel=1e-9)
    quarter, eighth = Fraction(1, 4), Fraction(1, 8)
    mu = pf.Law([far, [0, 0], [1, 0]], [HALF, quarter, quarter])
    nu = pf.Law([far, [-0.5, 0], [1, 0]], [HALF, eighth, 3 * eighth])
    assert pf.near(mu, nu, eighth) == 0.5


@pytest.mark.slow
def test_sums_of_many_terms_are_bounded():
    """A hundred thousand light atoms beside a heavy one add up exactly."""
    n = 10**5
    counts = np.ones(n + 1, dtype=np.int64)
    counts[0] = 2**55 - n
    atoms = np.concatenate([[-1], -0.9 + 1e-9 * np.arange(n)])
    law = pf.Law.empirical(atoms, counts=counts)
    true = (
        sum((-Fraction(x) * int(c) for x, c in zip(atoms, counts, strict=True)), Fraction(0))
        / 2**55
    )
    assert Fraction(pf.wasserstein(law, pf.Law.point(0), 1)) >= true


def test_subnormal_masses_are_told_apart():
    """A mass of 1e−323 and one of 5e−324 are different masses, so half of the larger has to move."""
    mu, nu = pf.Law([0, 100], [1.0, 5e-324]), pf.Law([0, 100], [1.0, 1e-323])
    assert pf.winf(mu, nu) == 100


def test_weights_beyond_the_range_of_floats():
    """Weights of 10⁻³²⁰, on the line and in the plane, do not overflow the search."""
    tiny = Fraction(1, 10**320)
    assert (
        pf.near(
            pf.Law([0.0, 1.0], [1 - tiny, tiny]),
            pf.Law([0.0, 2.0], [Fraction(1, 3), Fraction(2, 3)]),
            0.1,
        )
        == 2
    )
    light = pf.Law([[0, 0], [1, 0]], [1.0, 5e-324]), pf.Law([[0, 0], [2, 0]], [0.3, 0.7])
    assert pf.wasserstein(*light) == pytest.approx(2 * math.sqrt(0.7))


def test_sums_that_round_differently():
    """Two float laws whose weights both round to sum 1, from different sides, still have a distance."""
    unit = 2**-52
    mu, nu = pf.Law([[0, 0], [1, 0]], [0.75 + 2.5 * unit, 0.25]), pf.Law([[0, 0]], [1 - unit])
    for pair in ((mu, nu), (nu, mu)):
        assert pf.winf(*pair) == 1
        assert pf.near(*pair, 1e-17) == 1


@pytest.mark.parametrize("size", [400, 4000])
def test_the_search_is_quick_on_atoms_of_all_scales(size, monkeypatch):
    """The number of trials does not grow with the number of atoms, be they spread over sixteen orders of magnitude."""
    from pufferflow.distributions import wasserstein_1d as line_near

    trials, worst_set = [], line_near._worst_set
    monkeypatch.setattr(line_near, "_worst_set", lambda *a: trials.append(1) or worst_set(*a))
    rng = np.random.default_rng(0)
    mu = pf.Law.empirical(10 ** rng.uniform(-8, 8, size))
    nu = pf.Law.empirical(rng.integers(0, 20, size) + 1e-9 * rng.integers(0, 1000, size))
    found = pf.near(mu, nu, 0.01)
    assert len(trials) < 150
    assert found == pf.near(nu, mu, 0.01)


def test_slivers_go_to_heavy_atoms():
    """What rounding leaves over is put where it is not felt, not onto an atom of 1e−17."""
    light, heavy = pf.Law.point(0.0), pf.Law([0.0, 5.0], [1e-17, 1 - 2**-52])
    left = pf.Law([0.0], [1.0])
    for distance in (pf.near(left, heavy, 0.1, coupling=True), pf.winf(left, heavy, coupling=True)):
        assert distance.coupling.marginals()[1][0] == pytest.approx(1e-17, rel=1e-9)
    assert light == left
    planes = [law.map(lambda x: np.stack([x, 0 * x], 1)) for law in (left, heavy)]
    for distance in (pf.winf(*planes, coupling=True), pf.wasserstein(*planes, coupling=True)):
        assert distance.coupling.marginals()[1][0] == pytest.approx(1e-17, rel=1e-9)


@pytest.mark.parametrize("p", [2, 8, 40])
def test_high_powers_in_space_are_as_close_as_on_the_line(p):
    """Laws that lie on a line in the plane have there the W_p they have on the line, for high p too."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        lines = [finely_weighted(rng) for _ in range(2)]
        planes = [law.map(lambda x: np.stack([x, 0 * x], 1)) for law in lines]
        assert pf.wasserstein(*planes, p) == pytest.approx(
            pf.wasserstein(*lines, p), rel=1e-6, abs=1e-9
        )


def finely_weighted(rng):
    """A law whose weights need some seventy bits, so that no float holds them."""
    parts = [int(rng.integers(1, 2**30)) * 2**40 + int(rng.integers(2**40)) for _ in range(5)]
    return pf.Law(rng.integers(0, 9, 5), [Fraction(part, sum(parts)) for part in parts])


@pytest.mark.parametrize("p", [2, 4])
def test_far_clusters_do_not_mix(p):
    """Between clusters 10⁶ apart that balance exactly nothing moves, so W_p is that of the small moves inside them."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        near_by, far_off = (finely_weighted(rng).map(lambda x: 1e-3 * x) for _ in range(2))
        moved = [finely_weighted(rng).map(lambda x: 1e-3 * x) for _ in range(2)]
        lines = [
            pf.Law.mixture([first, second.shift(1e6)], [HALF, HALF])
            for first, second in ((near_by, far_off), (moved[0], moved[1]))
        ]
        planes = [law.map(lambda x: np.stack([x, 0 * x], 1)) for law in lines]
        assert pf.wasserstein(*planes, p) == pytest.approx(pf.wasserstein(*lines, p), rel=1e-6)


def test_one_infinite_step_leaves_the_others_their_length():
    """An atom too far for floats, shared by both laws, does not change how long the steps of the others are."""
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    mu = pf.Law([[10**400, 0], [0, 0], [100, 0]], [half, quarter, quarter])
    nu = pf.Law([[10**400, 0], [2.9, 2.9], [103, 0]], [half, quarter, quarter])
    for norm, true in ((1, 5.8), (2, 2.9 * math.sqrt(2)), (math.inf, 3)):
        for distance in (pf.winf(mu, nu, norm), pf.near(mu, nu, Fraction(1, 10), norm)):
            assert distance == pytest.approx(true, rel=1e-15)
