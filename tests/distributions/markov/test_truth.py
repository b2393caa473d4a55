"""Distances of sums along short random chains against laws in rational numbers."""

from fractions import Fraction

import brute
import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core.rounding import float_above
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.near_of_sums import nearest
from pufferflow.distributions.markov.sums import Sums
from pufferflow.distributions.markov.winf_of_sums import farthest, listed, pair_of, three_terms


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_winf_is_the_truth(exact, seed):
    """2–4 states, 2–7 rows, zeros, changing kernels and signs: what is called exact is the truth, and most is."""
    rng, certain = np.random.default_rng(seed), 0
    for _ in range(15):
        chain = exact.random_chain(rng, step=Fraction(1, 10) if seed % 2 else 1)
        sums, pairs = exact.sums_of(chain), exact.every_pair(len(chain.initial))
        found, truth = farthest(sums, pairs), exact.largest(chain, exact.winf)
        assert found.length == float_above(truth)
        assert three_terms(sums, pairs).length >= found.length
        certain += found.exact
    assert certain > 11


def test_the_row_and_states_named_are_the_farthest(exact):
    """The witness attains the distance, and a mask of rows leaves out the others."""
    rng = np.random.default_rng(9)
    for _ in range(8):
        chain = exact.random_chain(rng)
        sums, pairs = exact.sums_of(chain), exact.every_pair(len(chain.initial))
        found = farthest(sums, pairs)
        if found.length:
            laws = [exact.law_given(chain, found.row, state) for state in found.states]
            assert float_above(exact.winf(*laws)) == found.length
        only = np.arange(sums.length) == rng.integers(sums.length)
        alone = farthest(sums, pairs, only)
        assert alone.length == float_above(exact.largest(chain, exact.winf, np.flatnonzero(only)))


@pytest.mark.parametrize("seed", thinned(range(2), 0.5))
def test_nearness_is_the_truth(exact, seed):
    """The least z that leaves at most δ unmatched, by maximum flow in rational numbers."""
    rng = np.random.default_rng(seed)
    for delta in (Fraction(1, 1000), Fraction(1, 20), Fraction(3, 10)):
        for _ in range(3):
            chain = exact.random_chain(rng, most_rows=4)
            found = nearest(exact.sums_of(chain), exact.every_pair(len(chain.initial)), delta)
            truth = exact.largest(chain, lambda mu, nu, delta=delta: brute.near(mu, nu, delta))
            assert found.length == float_above(truth)


def test_laws_are_those_of_paths(exact):
    """Both laws of every pair have the atoms and masses that the paths have."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        chain = exact.random_chain(rng, most_rows=5, step=Fraction(1, 10))
        sums, pairs = exact.sums_of(chain), exact.every_pair(len(chain.initial))
        seen = 0
        for row, states, mu, nu in listed(sums, pairs):
            for state, law, again in zip(states, (mu, nu), pair_of(sums, row, states), strict=True):
                truth = exact.law_given(chain, row, state)
                assert [Fraction(value) for value in law.values] == sorted(truth)
                assert law.weights == pytest.approx(
                    [float(truth[x]) for x in sorted(truth)], rel=1e-13
                )
                assert law == again
            seen = max(seen, float(pf.winf(mu, nu)))
        assert seen == farthest(sums, pairs).length


@pytest.mark.slow
def test_values_without_a_common_step_cost_their_error(exact):
    """Values that lie on no lattice: never below the truth, and at most a thousandth of the range above it."""
    rng = np.random.default_rng(11)
    for _ in range(2):
        chain = exact.random_chain(rng, most_rows=4)
        chain.values = [
            [Fraction(repr(x)) for x in rng.normal(size=len(row)).tolist()] for row in chain.values
        ]
        found = farthest(exact.sums_of(chain), exact.every_pair(len(chain.initial)))
        truth, total = (
            exact.largest(chain, exact.winf),
            sum(max(row) - min(row) for row in chain.values),
        )
        assert truth <= found.length <= truth + total / 1000
        assert not found.exact


def test_a_lattice_too_fine_for_exact_laws_gets_the_better_bound():
    """Values up to 40,000 with step 1 along 40 rows: the three terms on their own lattice, or all rows on a coarser."""
    kernel = np.array([[0.7, 0.3], [0.4, 0.6]])
    chain = Chain(kernel[None], np.zeros(39, dtype=np.intp), np.array([[0.5, 0.5]]))
    kinds = (np.arange(40) == 7).astype(np.intp)
    sums = Sums(chain, np.array([[0.0, 1e5], [0.0, 1e5 - 1]]), kinds)
    coarse = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(40, dtype=np.intp))
    rows, pairs = np.arange(40) < 2, np.array([[0, 1]])
    found, steps = farthest(sums, pairs, rows).length, farthest(coarse, pairs, rows).length
    assert steps * (1e5 - 1) <= found <= three_terms(coarse, pairs, rows).length * 1e5 + 41


def test_values_all_but_on_a_lattice_stay_on_it(exact):
    """0.1 + 0.2 beside 0.3: the lattice of tenths is kept, the error is far below it."""
    kernel = [[Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 5), Fraction(4, 5)]]
    made = exact.sums_of(exact.homogeneous(kernel, 12, (0, Fraction(3, 10))))
    off = made.values.copy()
    off[::2, 1] = 0.1 + 0.2
    found = farthest(Sums(made.chain, off, made.kinds), exact.every_pair(2))
    assert not found.exact
    assert farthest(made, exact.every_pair(2)).length == pytest.approx(found.length, abs=1e-12)


def test_the_worst_initial_law_counts():
    """Of several initial laws each is tried; a state that one of them cannot have is a secret under the others."""
    kernel = np.array([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    order, kinds = np.zeros(4, dtype=np.intp), np.zeros(5, dtype=np.intp)
    values, pairs = np.array([[0.0, 1.0, 50.0]]), np.array([[0, 1], [1, 2], [0, 2]])

    def length(*initial):
        sums = Sums(Chain(kernel, order, np.array(initial)), values, kinds)
        return (
            farthest(sums, pairs).length,
            three_terms(sums, pairs).length,
            nearest(sums, pairs, 0.01).length,
        )

    assert length([0.5, 0.5, 0.0])[0] == 1
    assert length([0.0, 0.0, 1.0]) == (0, 0, 0)
    assert length([0.5, 0.5, 0.0], [0.0, 0.0, 1.0]) == length([0.5, 0.5, 0.0])
    assert length([0.5, 0.5, 0.0], [0.3, 0.3, 0.4])[0] == 250


def test_rows_alike_are_no_distance():
    """Equal values: 0. Independent rows: one row's own values, though their laws tie everywhere."""
    chain = Chain(np.full((1, 3, 3), 1 / 3), np.zeros(29, dtype=np.intp), np.full((1, 3), 1 / 3))
    kinds, pairs = np.zeros(30, dtype=np.intp), np.array([[0, 1], [1, 2], [0, 2]])
    assert farthest(Sums(chain, np.ones((1, 3)), kinds), pairs).length == 0
    assert farthest(Sums(chain, np.array([[0.0, 1.0, 2.0]]), kinds), pairs).length == 2
    assert three_terms(Sums(chain, np.array([[0.0, 1.0, 2.0]]), kinds), pairs).length == 2


def test_no_pairs_are_no_distance():
    """Nothing to hide, nothing to move."""
    chain = Chain(np.full((1, 2, 2), 0.5), np.zeros(3, dtype=np.intp), np.full((1, 2), 0.5))
    sums = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(4, dtype=np.intp))
    none = np.empty((0, 2), dtype=np.intp)
    for found in (farthest(sums, none), three_terms(sums, none), nearest(sums, none, 0.1)):
        assert (found.length, found.exact) == (0, found.exact)
    assert farthest(sums, np.array([[0, 1]]), np.zeros(4, dtype=bool)).length == 0


def test_a_chain_of_one_row():
    """One row: its own two values."""
    chain = Chain(np.full((1, 2, 2), 0.5), np.zeros(0, dtype=np.intp), np.full((1, 2), 0.5))
    sums = Sums(chain, np.array([[0.5, -2.0]]), np.zeros(1, dtype=np.intp))
    assert (
        farthest(sums, np.array([[0, 1]])).length
        == three_terms(sums, np.array([[0, 1]])).length
        == 2.5
    )
    assert nearest(sums, np.array([[0, 1]]), 0.1).length == 2.5


def test_what_cannot_be_is_refused():
    """Shapes that do not fit, states that do not exist or cannot be there, values on no lattice."""
    chain = Chain(np.eye(2)[None], np.zeros(2, dtype=np.intp), np.array([[1.0, 0.0]]))
    kinds, values = np.zeros(3, dtype=np.intp), np.array([[0.0, 1.0]])
    for bad in (
        (values[:, :1], kinds),
        (values * np.nan, kinds),
        (values, kinds[1:]),
        (values, kinds + 1),
    ):
        with pytest.raises(pf.UsageError):
            Sums(chain, *bad)
    sums = Sums(chain, values, kinds)
    with pytest.raises(pf.UsageError):
        farthest(sums, np.array([[0, 2]]))
    with pytest.raises(pf.UsageError):
        farthest(sums, np.array([[0, 1]]), np.ones(2, dtype=bool))
    with pytest.raises(pf.UsageError):
        pair_of(sums, 3, (0, 1))
    with pytest.raises(pf.UsageError):
        nearest(sums, np.array([[0, 1]]), 1.0)
    with pytest.raises(pf.Refused, match="cannot have"):
        pair_of(sums, 0, (0, 1))
    with pytest.raises(pf.Refused, match="no common step"):
        pair_of(
            Sums(chain, np.array([[0.0, 1.0], [0.0, 0.1234567891234]]), np.array([0, 1, 0])),
            0,
            (0, 0),
        )
