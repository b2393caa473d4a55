"""Laws and losses along Markov chains, against everything that a short chain can do (M18–M20)."""

from fractions import Fraction

import numpy as np
import pytest

import pufferflow as pf
from tests.support.chains import given, kernel, scenario


def _law(paths, weights, table):
    """Return the law of Σ w φ(x) over paths with their probabilities, with exact atoms."""
    found: dict[Fraction, Fraction] = {}
    for path, chance in paths.items():
        total = sum((Fraction(w) * Fraction(table[x]) for w, x in zip(weights, path, strict=True)), Fraction(0))
        found[total] = found.get(total, Fraction(0)) + chance
    return pf.Law(list(found), list(found.values()))


def _stationary(matrices):
    """Return the stationary law of a turn of matrices, by many turns."""
    law = np.full(len(matrices[0]), 1 / len(matrices[0]))
    for _ in range(4000):
        for matrix in matrices:
            law = law @ matrix
    return law / law.sum()


CASES = [
    ("two states", 2, [0, 1, 2, 3], [1, 1, 1, 1], "stationary", 1),
    ("signed weights", 3, [0, 1, 2, 3], [1, -1, 2, -3], "stationary", 1),
    ("gaps", 2, [1, 2, 5, 6], [1, 2, 1, 1], "vector", 1),
    ("four states", 4, [0, 1, 2], [1, 0, -2], "vector", 1),
    ("a period", 2, [0, 1, 2, 3, 4], [1, 1, 0, 1, 1], "stationary", 2),
]


@pytest.mark.parametrize(("name", "states", "positions", "weights", "initial", "period"), CASES, ids=str)
def test_laws_and_distances_equal_enumeration(name, states, positions, weights, initial, period):
    """Listed laws have the enumerated atoms and weights; W_∞, group movement and messages agree with them."""
    rng = np.random.default_rng(len(name))
    matrices = [kernel(rng, states) for _ in range(period)]
    table = rng.integers(-3, 4, states)
    table[:2] = (0, 2)
    law = _stationary(matrices) if initial == "stationary" else rng.dirichlet(np.ones(states))
    options = {"initial": "stationary" if initial == "stationary" else law.tolist()}
    where = scenario(matrices[0] if period == 1 else matrices, **options, **({"period": period} if period > 1 else {}))
    laws = pf.laws(where, pf.Statistic(weights, table, positions))
    farthest, losses, noise = 0.0, 0.0, pf.Laplace(3.0)
    listed = {(pair.row, pair.secrets): pair for pair in laws}
    assert len(listed) == len(positions) * states * (states - 1) // 2
    for (row, (a, b)), pair in listed.items():
        true = [_law(given(matrices, law, positions, row, state), weights, table) for state in (a, b)]
        for found, expected in zip(pair, true, strict=True):
            assert found.values.tolist() == pytest.approx([float(v) for v in expected.values])
            assert found.probabilities == pytest.approx(expected.probabilities, rel=1e-9)
        farthest = max(farthest, float(pf.winf(*true)))
        losses = max(losses, pf.loss([tuple(true)], noise, pf.Pure, bound=pf.Exact()))
    movement = laws.pieces[0].winf(1)
    assert movement.length == pytest.approx(farthest)
    group = sum(abs(w) for w in weights) * float(np.ptp(table))
    assert laws.pieces[0].span(1).length == pytest.approx(group)
    assert losses <= pf.loss(laws, noise, pf.Pure, bound=pf.Messages()) * (1 + 1e-9)
    assert losses <= pf.loss(laws, noise, pf.Pure, bound=pf.Quilt()) * (1 + 1e-9)


def test_a_free_start_counts_every_mixture():
    """With a free initial law, W_∞ of laws under any two initial laws is not above what is found."""
    rng = np.random.default_rng(5)
    matrix, table, weights = kernel(rng, 3), [0, 1, 4], [1, 2, -1]
    laws = pf.laws(scenario(matrix, initial="free"), pf.Statistic(weights, table))
    found = laws.pieces[0].winf(1).length
    messages = pf.loss(laws, pf.Laplace(2.0), pf.Pure, bound=pf.Messages())
    for _ in range(20):
        law = rng.dirichlet(np.full(3, 0.3))
        for row in range(3):
            pair = [_law(given([matrix], law, [0, 1, 2], row, state), weights, table) for state in (0, 2)]
            assert pf.winf(*pair) <= found * (1 + 1e-12)
            assert pf.loss([tuple(pair)], pf.Laplace(2.0), pf.Pure, bound=pf.Exact()) <= messages * (1 + 1e-9)


def test_several_windows_of_one_chain_are_never_below_the_joint_truth():
    """Overlapping windows are one vector; messages are never below the largest log ratio over a grid of outputs."""
    rng = np.random.default_rng(11)
    for _ in range(6):
        matrix, table = kernel(rng, 2), [0.0, 1.0]
        weights = np.array([[1, 1, 1, 0], [0, 1, -1, 1]], dtype=float)
        law = rng.dirichlet([1, 1])
        laws = pf.laws(scenario(matrix, initial=law.tolist()), pf.Statistic(weights, table))
        noise = pf.Laplace(1.5)
        promised = pf.loss(laws, noise, pf.Pure, bound=pf.Messages())
        axis = np.linspace(-60, 60, 5)
        inner = np.arange(-1, 4)
        outputs = np.array(np.meshgrid(np.union1d(axis, inner), np.union1d(axis, inner))).reshape(2, -1).T
        worst = 0.0
        for row in range(4):
            likelihoods = []
            for state in (0, 1):
                paths = given([matrix], law, range(4), row, state)
                points = np.array([weights @ np.array([table[x] for x in path]) for path in paths])
                chance = np.array([float(p) for p in paths.values()])
                exponents = -np.abs(outputs[:, None, :] - points[None]).sum(axis=2) / noise.scale
                likelihoods.append(np.log((np.exp(exponents - exponents.max()) * chance).sum(axis=1)) + exponents.max())
            worst = max(worst, float(np.abs(likelihoods[0] - likelihoods[1]).max()))
        assert worst <= promised * (1 + 1e-9)
        assert worst >= promised / 4


ANCHORS = [
    (0.4, 0.6, 0.2, 7.4931, 10),
    (0.4, 0.6, 1, 1.4673, 2),
    (0.4, 0.6, 5, 0.23778, 0.4),
    (0.3, 0.7, 1, 2.2572, 3),
    (0.1, 0.9, 0.2, 44.925, 50),
    (0.1, 0.9, 5, 0.79393, 2),
]
QUILTS = [(29.762, 81.435), (3.5718, 11.537), (0.2387, 1.1731), (6.7236, 15.572), (251.37, 343.19), (1.5249, 5.5517)]


@pytest.mark.parametrize(
    ("anchor", "quilts"), list(zip(ANCHORS, QUILTS, strict=True)), ids=[str(a[:3]) for a in ANCHORS]
)
def test_the_anchor_table(anchor, quilts):
    """T=100, count, stationary: auto and messages reach the exact minimum, W_∞/ε, quilts and group as published."""
    q, p, epsilon, least, movement = anchor
    laws = pf.laws(scenario([[1 - q, q], [1 - p, p]]), pf.Statistic.total(100))

    def scale(bound):
        return pf.calibrate(laws, pf.Pure(epsilon), noise=pf.Laplace, bound=bound).noise.scale

    assert scale(pf.Messages()) == pytest.approx(least, rel=5e-5)
    assert scale("auto") == pytest.approx(least, rel=5e-5)
    assert scale(pf.GWM()) == pytest.approx(movement, rel=1e-9)
    assert scale(pf.Group()) == pytest.approx(100 / epsilon)
    assert scale(pf.Quilt()) == pytest.approx(quilts[0], rel=1e-4)
    assert scale(pf.Quilt(approximate=True)) == pytest.approx(quilts[1], rel=1e-4)


@pytest.mark.parametrize(("stay", "distance"), [(0.6, 2), (0.7, 3), (0.8, 5), (0.9, 10)])
def test_distances_of_a_count(stay, distance):
    """W_∞ of a count of 100 steps of a symmetric binary chain is 2, 3, 5, 10."""
    laws = pf.laws(scenario([[stay, 1 - stay], [1 - stay, stay]]), pf.Statistic.total(100))
    reach = laws.pieces[0].winf(1)
    assert reach.length == distance
    assert reach.certainty == "exact"


def test_anticorrelated_chains_fall_back_on_the_movement():
    """q=.6, p=.3, T=20, ε=1: 1.850 by one number a row, 1.831 by matrices, the exact minimum .790; auto is the best."""
    laws = pf.laws(scenario([[0.4, 0.6], [0.7, 0.3]]), pf.Statistic.total(20))
    messages = pf.calibrate(laws, pf.Pure(1), bound=pf.Messages()).noise.scale
    exact = pf.calibrate(laws, pf.Pure(1), bound=pf.Exact()).noise.scale
    auto = pf.calibrate(laws, pf.Pure(1)).noise.scale
    assert messages == pytest.approx(1.8306, abs=1e-3)
    assert exact == pytest.approx(0.790, abs=2e-3)
    assert exact <= auto <= min(messages, pf.calibrate(laws, pf.Pure(1), bound=pf.GWM()).noise.scale) * (1 + 1e-6)


def test_renyi_promises_follow_from_pure_ones():
    """M29: on a chain too long to list, a Rényi promise is kept by messages, and auto is not above them."""
    laws = pf.laws(scenario([[0.9, 0.1], [0.1, 0.9]]), pf.Statistic.total(3000))
    promise = pf.Renyi(4, 0.5)
    found = pf.calibrate(laws, promise, bound=pf.Messages())
    pure = pf.loss(laws, found.noise, pf.Pure, bound=pf.Messages())
    assert pf.Pure(pure).renyi_epsilon(4) <= 0.5
    assert pf.calibrate(laws, pf.Approx(1.0, 1e-6), bound=pf.Messages()).noise.scale > 0


def test_the_first_value_alone_is_hidden_by_less():
    """The secret of a sequence's start needs less noise, the later the rows that are asked about."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    first = pf.Scenario(secret=pf.Initial("level", domain=[0, 1]), prior=chain, order_by="hour")
    scales = [
        pf.calibrate(pf.laws(first, pf.Statistic([1] * 24, positions=range(start, start + 24))), pf.Pure(1)).noise.scale
        for start in (0, 5, 20, 60)
    ]
    assert scales == sorted(scales, reverse=True)
    assert scales[-1] < scales[0] / 4
