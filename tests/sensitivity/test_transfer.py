"""Laws and losses along Markov chains, against everything that a short chain can do (M18–M20)."""

from fractions import Fraction

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from tests.support.chains import given, kernel, scenario


def _law(paths, weights, table):
    """Return the law of Σ w φ(x) over paths with their probabilities, with exact atoms."""
    found: dict[Fraction, Fraction] = {}
    for path, chance in paths.items():
        total = sum(
            (Fraction(w) * Fraction(table[x]) for w, x in zip(weights, path, strict=True)),
            Fraction(0),
        )
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


@pytest.mark.parametrize(
    ("name", "states", "positions", "weights", "initial", "period"), CASES, ids=str
)
def test_laws_and_distances_equal_enumeration(name, states, positions, weights, initial, period):
    """Listed laws have the enumerated atoms and weights; W_∞, group movement and messages agree with them."""
    rng = np.random.default_rng(len(name))
    matrices = [kernel(rng, states) for _ in range(period)]
    table = rng.integers(-3, 4, states)
    table[:2] = (0, 2)
    law = _stationary(matrices) if initial == "stationary" else rng.dirichlet(np.ones(states))
    options = {"initial": "stationary" if initial == "stationary" else law.tolist()}
    where = scenario(
        matrices[0] if period == 1 else matrices,
        **options,
        **({"period": period} if period > 1 else {}),
    )
    laws = pf.laws(where, pf.Statistic(weights, table, positions))
    farthest, losses, noise = 0.0, 0.0, pf.Laplace(3.0)
    listed = {(pair.row, pair.secrets): pair for pair in laws}
    assert len(listed) == len(positions) * states * (states - 1) // 2
    for (row, (a, b)), pair in listed.items():
        true = [
            _law(given(matrices, law, positions, row, state), weights, table) for state in (a, b)
        ]
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
            pair = [
                _law(given([matrix], law, [0, 1, 2], row, state), weights, table)
                for state in (0, 2)
            ]
            assert pf.winf(*pair) <= found * (1 + 1e-12)
            assert pf.loss(
                [tuple(pair)], pf.Laplace(2.0), pf.Pure, bound=pf.Exact()
            ) <= messages * (1 + 1e-9)


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
        outputs = (
            np.array(np.meshgrid(np.union1d(axis, inner), np.union1d(axis, inner))).reshape(2, -1).T
        )
        worst = 0.0
        for row in range(4):
            likelihoods = []
            for state in (0, 1):
                paths = given([matrix], law, range(4), row, state)
                points = np.array([weights @ np.array([table[x] for x in path]) for path in paths])
                chance = np.array([float(p) for p in paths.values()])
                exponents = -np.abs(outputs[:, None, :] - points[None]).sum(axis=2) / noise.scale
                likelihoods.append(
                    np.log((np.exp(exponents - exponents.max()) * chance).sum(axis=1))
                    + exponents.max()
                )
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
QUILTS = [
    (29.762, 81.435),
    (3.5718, 11.537),
    (0.2387, 1.1731),
    (6.7236, 15.572),
    (251.37, 343.19),
    (1.5249, 5.5517),
]


@pytest.mark.parametrize(
    ("anchor", "quilts"),
    thinned(list(zip(ANCHORS, QUILTS, strict=True)), 0.3, unpack=True),
    ids=[str(a[:3]) for a in ANCHORS],
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
    assert (
        exact
        <= auto
        <= min(messages, pf.calibrate(laws, pf.Pure(1), bound=pf.GWM()).noise.scale) * (1 + 1e-6)
    )


def test_renyi_promises_follow_from_pure_ones():
    """M29: on a chain too long to list, a Rényi guarantee is kept by messages, and auto is not above them."""
    laws = pf.laws(scenario([[0.9, 0.1], [0.1, 0.9]]), pf.Statistic.total(3000))
    promise = pf.Renyi(4, 0.5)
    found = pf.calibrate(laws, promise, bound=pf.Messages())
    pure = pf.loss(laws, found.noise, pf.Pure, bound=pf.Messages())
    assert pf.Pure(pure).renyi_epsilon(4) <= 0.5
    assert pf.calibrate(laws, pf.Approx(1.0, 1e-6), bound=pf.Messages()).noise.scale > 0


@pytest.mark.slow
def test_the_first_value_alone_is_hidden_by_less():
    """The secret of a sequence's start needs less noise, the later the rows that are asked about."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    first = pf.Scenario(secret=pf.Initial("level", domain=[0, 1]), prior=chain, order_by="hour")
    scales = [
        pf.calibrate(
            pf.laws(first, pf.Statistic([1] * 24, positions=range(start, start + 24))), pf.Pure(1)
        ).noise.scale
        for start in (0, 5, 20, 60)
    ]
    assert scales == sorted(scales, reverse=True)
    assert scales[-1] < scales[0] / 4


NOWHERE = {
    "absorbed": pf.MarkovChain([[0.0, 1.0], [0.0, 1.0]], initial=[1, 0]),
    "turns from a known start": pf.MarkovChain([[0.0, 1.0], [1.0, 0.0]], initial=[1, 0]),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_where_nothing_can_be_hidden_no_noise_is_needed(name):
    """If no row that is asked about can have two states, every guarantee holds without noise, under every bound."""
    where = pf.Scenario(
        secret=pf.Secret("level", domain=[0, 1]), prior=NOWHERE[name], order_by="hour"
    )
    for weights in ([1, 1, 1], [[1, 1, 0], [0, 1, 1]]):
        statistic = pf.Statistic(weights, positions=[1, 2, 3])
        laws = pf.laws(where, statistic)
        for bound in ("auto", pf.Messages(), pf.Exact(), pf.DAGWM(), pf.GWM()):
            assert pf.loss(laws, pf.Laplace(1.0), pf.Pure, bound=bound) == 0, name
        assert pf.calibrate(laws, pf.Pure(1.0)).noise.scale == 0
        assert pf.calibrate(laws, pf.Pure(1.0), bound=pf.Messages()).noise.scale == 0


def test_no_bound_is_left_out_for_states_that_cannot_be():
    """A mean difference of impossible states does not keep the better bound from being tried."""
    matrix = [[0, 0.935, 0.065], [0, 0.093, 0.907], [0, 0.96, 0.04]]
    where = scenario(matrix, initial=[0.036, 0.198, 0.766], pairs=[(0, 1), (0, 2)])
    laws = pf.laws(where, pf.Statistic([0, 2, 2, 1], [3, 0, -3]))
    assert laws.pieces[0].least(0, 1) <= laws.pieces[0].winf(1).length
    assert pf.calibrate(
        laws, pf.Pure(1.0), bound=[pf.Messages(), pf.GWM()]
    ).noise.scale == pytest.approx(3.0)


@pytest.mark.slow
def test_vectors_too_large_to_compare_have_a_bound():
    """A histogram of a day is answered quickly.

    By messages for a pure guarantee, by the group's movement for others.
    """
    laws = pf.laws(scenario(kernel(np.random.default_rng(0), 4)), pf.Statistic.histogram(24, 4))
    assert pf.calibrate(laws, pf.Pure(1.0)).bound == pf.Messages()
    found = pf.calibrate(laws, pf.Renyi(4, 1.0), noise=pf.Gaussian)
    assert found.certainty == "upper_bound"
    assert found.sensitivity <= 48 * (1 + 1e-9)
    with pytest.raises(pf.Refused):
        pf.calibrate(laws, pf.Pure(1.0), bound=pf.DAGWM())


@pytest.mark.slow
def test_values_without_a_common_step_are_quick():
    """A sum of two rows with irrational weights is near or far in seconds, and never farther than the group."""
    laws = pf.laws(scenario([[0.7, 0.3], [0.4, 0.6]]), pf.Statistic([2**0.5, 3.14159265358979]))
    piece = laws.pieces[0]
    assert (
        piece.near(0.01, 1).length
        <= piece.winf(1).length * (1 + 1e-9)
        <= piece.span(1).length * (1 + 1e-8)
    )


def test_laws_are_a_sequence():
    """Length, places and iteration agree, also where a free start has more pairs and a certain row has fewer."""
    free = pf.Scenario(
        secret=pf.Secret("level", domain=[0, 1]),
        prior=[
            pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], initial=start)
            for start in ("free", [1.0, 0.0], "stationary")
        ],
        order_by="hour",
    )
    laws = pf.laws(free, pf.Statistic.total(3))
    assert [laws[place] for place in range(len(laws))] == list(laws)


def test_noise_without_a_pure_loss_is_no_number_for_messages():
    """Gaussian noise has no pure loss, along chains, stars and quilts alike. Under a hidden class it has others."""
    star = pf.Scenario(
        secret=pf.Secret("x", [0, 1]), prior=pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    )
    chain = scenario([[0.9, 0.1], [0.2, 0.8]])
    for where, bound in ((star, pf.Messages()), (chain, pf.Messages()), (chain, pf.Quilt())):
        laws = pf.laws(where, pf.Statistic.total(4))
        assert pf.loss(laws, pf.Gaussian(1.0), pf.Pure, bound=bound) == float("inf")
        promise = pf.Renyi(2, 1.0) if where is chain else pf.Pure(1.0)
        with pytest.raises(pf.Refused):
            pf.calibrate(laws, promise, noise=pf.Gaussian, bound=bound)


def test_the_order_of_the_two_values_does_not_matter():
    """A secret pair named the other way round costs the same: both orders are looked at."""
    rng = np.random.default_rng(4)
    for _ in range(6):
        matrix, law = kernel(rng, 2), rng.dirichlet([1, 1]).tolist()
        losses = []
        for pair in ((0, 1), (1, 0)):
            laws = pf.laws(scenario(matrix, initial=law, pairs=[pair]), pf.Statistic([1, 2, -1]))
            losses.append(
                [
                    pf.loss(laws, pf.Laplace(1.0), pf.Pure, bound=bound)
                    for bound in (pf.Messages(), pf.Quilt())
                ]
            )
        assert losses[0] == pytest.approx(losses[1], rel=1e-12)
