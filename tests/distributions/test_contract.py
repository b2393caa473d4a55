"""What every distance owes its users, whatever the laws: on the line, in space, and between Gaussians."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from laws import float_law_of, law_of, random_law
from thinned import thinned

import pufferflow as pf

COUNT = 60
SLACK = 1e-9


def line(rng):
    return law_of(random_law(rng))


def line_of_floats(rng):
    return float_law_of(random_law(rng))


def space(rng):
    return law_of(random_law(rng, dimension=2, span=5))


def space_of_floats(rng):
    return float_law_of(random_law(rng, dimension=3, span=4))


def gaussian(rng):
    return pf.GaussianLaw(rng.normal(size=2), [[2.0, 0.5], [0.5, 1.0]])


def gaussians_of_any_spread(rng):
    return pf.GaussianLaw(rng.normal(), rng.choice([0.5, 1, 3]))


FAMILIES = [line, line_of_floats, space, space_of_floats, gaussian, gaussians_of_any_spread]


every_part = pytest.mark.parametrize("part", thinned(range(3), 0.33, slow=0.67))
"""Each part has laws of its own."""


def triples(family, count=COUNT, seed=3):
    rng = np.random.default_rng(seed)
    return [(family(rng), family(rng), family(rng)) for _ in range(count)]


def distances(norm):
    return [
        lambda a, b: pf.winf(a, b, norm),
        lambda a, b: pf.wasserstein(a, b, 1, norm),
        lambda a, b: pf.wasserstein(a, b, 2.5, norm),
        lambda a, b: pf.near(a, b, 0.1, norm),
    ]


@pytest.mark.parametrize("family", thinned(FAMILIES, 0.22))
@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_distances_are_metrics(family, norm):
    """Zero to oneself, the same in both orders; W_∞ and W_p satisfy the triangle inequality."""
    for a, b, c in triples(family, COUNT // 3):
        for distance in distances(norm):
            assert distance(a, a) == 0
            assert distance(a, b) == pytest.approx(distance(b, a), rel=SLACK, abs=SLACK)
        exact = distance(a, b).certainty == distance(b, c).certainty == pf.Certainty.EXACT
        for distance in distances(norm)[:3] if exact or not isinstance(a, pf.GaussianLaw) else []:
            assert distance(a, c) <= distance(a, b) + distance(b, c) + SLACK


@pytest.mark.parametrize("family", thinned(FAMILIES, 0.06))
@every_part
def test_distances_scale_and_ignore_translation(family, part):
    """Moving both laws changes nothing; stretching both stretches every distance."""
    for a, b, _ in triples(family, COUNT // 6, seed=part):
        shift = 3 if a.dimension == 1 else [3] * a.dimension
        for distance in distances(2):
            plain = distance(a, b)
            assert distance(a.shift(shift), b.shift(shift)) == pytest.approx(
                plain, rel=SLACK, abs=SLACK
            )
            under_model_error = (
                law.map(-4 if isinstance(law, pf.GaussianLaw) else lambda x: -4 * x)
                for law in (a, b)
            )
            assert distance(*under_model_error) == pytest.approx(4 * plain, rel=SLACK, abs=SLACK)


@pytest.mark.parametrize("family", thinned(FAMILIES, 0.06))
@every_part
def test_distances_are_ordered(family, part):
    """W_p grows with p up to W_∞; nearness starts at W_∞ and falls with δ."""
    for a, b, _ in triples(family, COUNT // 3, seed=part):
        powers = [pf.wasserstein(a, b, p) for p in (1, 1.5, 2, 4, 8, math.inf)]
        exact = [
            p
            for p in powers
            if p.certainty == pf.Certainty.EXACT or not isinstance(a, pf.GaussianLaw)
        ]
        assert all(low <= high * (1 + SLACK) for low, high in itertools.pairwise(exact))
        nearness = [pf.near(a, b, delta) for delta in (0, 1e-12, 0.01, 0.1, 0.3, 0.99)]
        assert nearness[0] == pf.winf(a, b)
        assert all(low >= high for low, high in itertools.pairwise(nearness))


@pytest.mark.parametrize("family", thinned(FAMILIES[:4], 0.08))
@every_part
def test_norms_are_ordered(family, part):
    """‖·‖_∞ ≤ ‖·‖₂ ≤ ‖·‖₁ ≤ √d‖·‖₂ holds for every distance; on the line the norm is of no account."""
    for a, b, _ in triples(family, COUNT // 6, seed=part):
        for one, two, largest in zip(distances(1), distances(2), distances(math.inf), strict=True):
            values = largest(a, b), two(a, b), one(a, b), math.sqrt(a.dimension) * two(a, b)
            assert all(low <= high + SLACK for low, high in itertools.pairwise(values))
            if a.dimension == 1:
                assert values[0] == values[1] == values[2]


@pytest.mark.parametrize("family", thinned(FAMILIES[:4], 0.25))
@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_couplings_attain_their_distance(family, norm):
    """The coupling returned has the two laws as marginals, and its steps have the length that was claimed."""
    for a, b, _ in triples(family, COUNT // 3):
        for distance in (
            pf.winf(a, b, norm, coupling=True),
            pf.wasserstein(a, b, 2, norm, coupling=True),
            pf.near(a, b, 0.1, norm, coupling=True),
        ):
            left, right = distance.coupling.marginals()
            np.testing.assert_allclose(left, a.probabilities, atol=1e-12)
            np.testing.assert_allclose(right, b.probabilities, atol=1e-12)
            assert (distance.coupling.masses >= 0).all()
        steps = [lengths(d.coupling, norm) for d in (pf.winf(a, b, norm, coupling=True),)]
        assert steps[0].max() == pytest.approx(pf.winf(a, b, norm))
        moved = pf.wasserstein(a, b, 2, norm, coupling=True)
        cost = moved.coupling.masses @ lengths(moved.coupling, norm) ** 2
        assert math.sqrt(cost) == pytest.approx(moved, rel=1e-9, abs=1e-9)
        close = pf.near(a, b, 0.1, norm, coupling=True)
        beyond = close.coupling.masses[lengths(close.coupling, norm) > close + 1e-12].sum()
        assert beyond <= 0.1 + 1e-12


def lengths(coupling, norm):
    steps = np.asarray(coupling.differences(), dtype=float).reshape(len(coupling.masses), -1)
    return np.linalg.norm(steps, norm, axis=1)


@pytest.mark.parametrize("distance", [pf.winf, pf.wasserstein, lambda a, b: pf.near(a, b, 0.1)])
def test_laws_must_match(distance):
    """Two kinds of law, two dimensions, or no law at all are refused by name."""
    finite, plane, gauss = pf.Law.point(0), pf.Law.point([0, 0]), pf.GaussianLaw(0, 1)
    for left, right, says in (
        (finite, plane, "dimension 1 and 2"),
        (finite, gauss, "Law and GaussianLaw"),
        (gauss, pf.GaussianLaw([0, 0], 1), "dimension 1 and 2"),
        (finite, [0, 1], "type list"),
        (None, finite, "type NoneType"),
    ):
        with pytest.raises(pf.UsageError, match=says):
            distance(left, right)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda a: pf.winf(a, a, 3), "norm is 3"),
        (lambda a: pf.winf(a, a, norm="2"), "norm is '2'"),
        (lambda a: pf.winf(a, a, norm=True), "norm is True"),
        (lambda a: pf.wasserstein(a, a, 0.5), "p is 0.5"),
        (lambda a: pf.wasserstein(a, a, math.nan), "p is nan"),
        (lambda a: pf.wasserstein(a, a, "2"), "p is of type str"),
        (lambda a: pf.near(a, a, 1), "delta is 1.0"),
        (lambda a: pf.near(a, a, -1e-9), "delta is -1e-09"),
        (lambda a: pf.near(a, a, math.nan), "delta is nan"),
        (lambda a: pf.near(a, a, None), "delta is of type NoneType"),
        (
            lambda _: pf.near(pf.GaussianLaw(0, 1), pf.GaussianLaw(1, 1), 0.1, coupling=True),
            "a coupling of Gaussian laws",
        ),
    ],
)
def test_bad_arguments_are_refused(call, says):
    """Norm, p and δ outside their range are named by an error of ours."""
    with pytest.raises(pf.UsageError, match=says):
        call(pf.Law.point(0))


def test_distances_are_numbers_with_evidence():
    """A distance adds and prints like a float and keeps its evidence when pickled."""
    import copy
    import pickle

    distance = pf.winf(
        pf.Law([0, 1], [Fraction(1, 3), Fraction(2, 3)]), pf.Law.point(2), coupling=True
    )
    assert repr(distance) == "2.0"
    assert distance + 1 == 3
    for twin in (pickle.loads(pickle.dumps(distance)), copy.copy(distance)):
        assert (twin, twin.certainty, twin.rounding) == (distance, pf.Certainty.EXACT, 0.0)
        assert twin.coupling.masses.tolist() == distance.coupling.masses.tolist()
