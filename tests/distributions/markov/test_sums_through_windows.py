"""Nearness of long chains through windows: never below the truth, and near it."""

import importlib

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.distributions.distances import near
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.near_of_sums import (
    LawPairs,
    View,
    Windows,
    law_labels,
    nearest,
)
from pufferflow.distributions.markov.sums import Sums, lattice, read_secrets
from pufferflow.distributions.markov.winf_of_sums import listed

module = importlib.import_module("pufferflow.distributions.markov.near_of_sums")
PAIRS = np.array([[0, 1]])


def views_of(sums, reach, pairs, rows=None):
    where = lattice(sums, 10**6)
    windows = Windows(sums, where)
    windows.widen(reach)
    return [
        View(sums, read_secrets(sums, pairs, rows), where, windows, initial)
        for initial in sums.chain.initial
    ]


def through_windows(sums, reach, pairs, delta, rows=None):
    """What one reach finds, both sides together and each alone; ∞ if nothing."""
    views = views_of(sums, reach, pairs, rows)
    found = (
        module._search_windows(views, delta, jointly=True),
        module._search_windows(views, delta, jointly=False),
    )
    return [np.inf if one is None else one.length for one in found]


def truth_of(sums, pairs, delta, rows=None):
    """The same by transport of one pair of laws after the other."""
    return max(float(near(mu, nu, delta)) for _, _, mu, nu in listed(sums, pairs, rows))


def some_chain(rng, states, length, kernels):
    """Kernels that take turns, values of both signs that take turns, one or two initial laws."""
    matrices = rng.dirichlet(np.ones(states), (kernels, states))
    order = np.arange(length - 1) % kernels
    chain = Chain(
        matrices, order.astype(np.intp), rng.dirichlet(np.ones(states), rng.integers(1, 3))
    )
    values = rng.integers(-2, 4, (2, states)).astype(float)
    return Sums(chain, values, (np.arange(length) % 2).astype(np.intp))


@pytest.mark.slow
def test_windows_are_never_below_the_truth():
    """Random chains, window of 1 to 10 rows: at least the nearness of the whole laws, and often equal to it."""
    rng, equal = np.random.default_rng(1), 0
    for _ in range(12):
        states = int(rng.integers(2, 4))
        sums = some_chain(rng, states, 24, int(rng.integers(1, 3)))
        pairs = np.array([(0, 1), (0, states - 1)])
        delta, rows = float(rng.choice([0.3, 0.1, 0.02])), rng.random(24) < 0.3
        rows[12] = True
        truth = truth_of(sums, pairs, delta, rows)
        assert nearest(sums, pairs, delta, rows).length == truth
        for reach in (1, 3, 10):
            together, apart = through_windows(sums, reach, pairs, delta, rows)
            assert truth <= together
            assert truth <= apart
        equal += together == truth
    assert equal > 5


@pytest.mark.parametrize("reach", [1, 2, 4])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_ends_that_do_not_meet_cost_their_share(reach, before):
    """A chain that seldom moves on one side of row 12: rows beyond a short window still tell its states apart."""
    kernels = np.array([[[0.95, 0.05], [0.05, 0.95]], [[0.5, 0.5], [0.5, 0.5]]])
    order = ((np.arange(23) < 12) != before).astype(np.intp)
    chain = Chain(kernels, order, np.array([[0.5, 0.5]]))
    sums, rows = (
        Sums(chain, np.array([[0.0, 1.0]]), np.zeros(24, dtype=np.intp)),
        np.arange(24) == 12,
    )
    for delta in (0.3, 0.6, 0.9):
        assert truth_of(sums, PAIRS, delta, rows) <= min(
            through_windows(sums, reach, PAIRS, delta, rows)
        )


def test_both_sides_share_delta():
    """Either side alone is 10 apart with probability .08, both together with .15: more than .1."""
    before, after = [[0.5 / 0.96, 0.46 / 0.96], [0.0, 1.0]], [[1.0, 0.0], [0.92, 0.08]]
    kernels = np.array([[[0.96, 0.04]] * 2, before, after, [[1.0, 0.0]] * 2])
    chain = Chain(kernels, np.array([0, 1, 2, 3, 3, 3]), np.array([[0.96, 0.04]]))
    sums = Sums(chain, np.array([[0.0, 0.0], [0.0, 10.0]]), np.array([0, 1, 0, 1, 0, 0, 0]))
    rows = np.arange(7) == 2
    assert truth_of(sums, PAIRS, 0.1, rows) == 10
    assert through_windows(sums, 2, PAIRS, 0.1, rows) == [10, 20]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]], ids=["second", "first"])
def test_a_state_too_rare_for_floats_is_not_seen_through_windows(order):
    """Alive at row 12 has probability 1e-1200: what its past is like is not known, and counts as unmatched."""
    kernel = np.array([[1.0, 0.0], [1.0, 1e-100]])[np.ix_(order, order)]
    chain = Chain(kernel[None], np.zeros(29, dtype=np.intp), np.array([[0.5, 0.5]]))
    sums = Sums(chain, np.array([[0.0, 1.0]])[:, order], np.zeros(30, dtype=np.intp))
    rows = np.arange(30) == 12
    assert through_windows(sums, 4, PAIRS, 0.01, rows) == [np.inf, np.inf]
    assert nearest(sums, PAIRS, 0.01, rows).length == 13


@pytest.mark.parametrize("settled", [False, True])
def test_every_row_has_one_that_stands_for_it(settled):
    """Rows looked at agree with those they stand for in the steps and values around them, and in the law before."""
    rng, reach = np.random.default_rng(12), 2
    sums = some_chain(rng, 2, 200, 1 + settled)
    if settled:
        kernel = sums.chain.kernels[0]
        chain = Chain(kernel[None], np.zeros(199, dtype=np.intp), stationary([kernel])[None])
        sums = Sums(chain, sums.values, rng.integers(0, 2, 200))
    for view in views_of(sums, reach, PAIRS):
        chosen = view._inner.tolist()
        assert len(chosen) < 150
        for row in range(reach + 1, 199 - reach):
            assert any(_agree(sums, view._marginals[0], row, other, reach) for other in chosen)


def _agree(sums, laws, row, other, reach):
    steps = [sums.chain.order[at - reach : at + reach].tolist() for at in (row, other)]
    kinds = [sums.kinds[at - reach : at + reach].tolist() for at in (row, other)]
    same = np.allclose(laws[row - reach], laws[other - reach], rtol=3e-14, atol=0)
    return same and steps[0] == steps[1] and kinds[0] == kinds[1]


@pytest.mark.slow
def test_states_that_cannot_be_are_no_secrets_in_windows():
    """Zeros in kernels, a transient state, a start that is certain."""
    kernel = np.array([[0.0, 0.6, 0.4], [0.5, 0.5, 0.0], [0.2, 0.0, 0.8]])
    lost = np.array([[0.0, 1.0, 0.0, 0.0], *np.hstack([np.zeros((3, 1)), kernel]).tolist()])
    chain = Chain(lost[None], np.zeros(39, dtype=np.intp), np.array([[1.0, 0.0, 0.0, 0.0]]))
    sums = Sums(chain, np.array([[9.0, 0.0, 1.0, 3.0]]), np.zeros(40, dtype=np.intp))
    pairs = np.array([(a, b) for a in range(4) for b in range(a)])
    truth = truth_of(sums, pairs, 0.05)
    for reach in (8, 16):
        together, apart = through_windows(sums, reach, pairs, 0.05)
        assert truth <= together <= apart


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "length"), [(1e-2, 9), (1e-9, 10)])
def test_any_length(delta, length):
    """Stay-probability .9: what a thousand rows need is what a million need, within one step."""
    kernel = np.array([[0.9, 0.1], [0.1, 0.9]])

    def made(rows):
        chain = Chain(kernel[None], np.zeros(rows - 1, dtype=np.intp), np.array([[0.5, 0.5]]))
        return Sums(chain, np.array([[0.0, 1.0]]), np.zeros(rows, dtype=np.intp))

    short = nearest(made(300), PAIRS, delta)
    long = nearest(made(5_000), PAIRS, delta)
    assert (short.exact, long.exact) == (True, False)
    assert short.length <= length
    assert long.length == length


@pytest.mark.slow
def test_rows_of_a_cycle_and_a_start_far_from_it():
    """Kernels of a day take turns, from any start: as an exact look at a shorter chain of the same days."""
    rng = np.random.default_rng(4)
    kernels = rng.dirichlet([2.0, 1.0], (6, 2))

    def made(rows):
        order = (np.arange(rows - 1) % 6).astype(np.intp)
        return Sums(
            Chain(kernels, order, np.eye(2)), np.array([[0.0, 1.0]]), np.zeros(rows, dtype=np.intp)
        )

    assert nearest(made(5_400), PAIRS, 1e-4).length == nearest(made(150), PAIRS, 1e-4).length


@pytest.mark.slow
def test_what_never_forgets_is_refused():
    """A chain that alternates for ever has no nearness that does not grow with it."""
    chain = Chain(
        np.array([[[0.0, 1.0], [1.0, 0.0]]]),
        np.zeros(59_999, dtype=np.intp),
        np.array([[0.5, 0.5]]),
    )
    weighted = Sums(chain, np.array([[0.0, 1.0]]), np.zeros(60_000, dtype=np.intp))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_WORK", 1e6)
        with pytest.raises(pf.Refused):
            nearest(weighted, PAIRS, 0.01)


def test_unmatched_mass_is_a_flow():
    """Many pairs at once: what stays unmatched at every distance is what one pair at a time says."""
    rng = np.random.default_rng(6)
    given = [
        (rng.dirichlet(np.full(7, 0.3), 1), rng.dirichlet(np.full(9, 0.3), 1)) for _ in range(12)
    ]
    pairs = LawPairs.of(given)
    for z in range(10):
        for (mu, nu), unmatched in zip(given, pairs.unmatched(z), strict=True):
            laws = [pf.Law(np.arange(law.shape[1]), law[0]) for law in (mu, nu)]
            if unmatched > 1e-6:
                assert float(near(*laws, unmatched + 1e-9)) <= z
                assert float(near(*laws, unmatched - 1e-9)) > z


@pytest.mark.slow
def test_windows_of_values_without_a_step():
    """The error of a lattice counts for the window alone, not for all rows."""
    kernel = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    chain = Chain(kernel[None], np.zeros(9_999, dtype=np.intp), stationary([kernel])[None])
    values = np.array([[0.0, np.sqrt(2.0), np.pi]])
    sums = Sums(chain, values, np.zeros(10_000, dtype=np.intp))
    rows = np.arange(10_000) == 5_000
    found = nearest(sums, np.array([[0, 2]]), 0.01, rows).length
    short = Sums(
        Chain(kernel[None], chain.order[:60], chain.initial), np.round(values, 1), sums.kinds[:61]
    )
    assert (
        0.9 * truth_of(short, np.array([[0, 2]]), 0.01, rows[:61] | (np.arange(61) == 30))
        < found
        < 12
    )


def test_laws_that_are_alike_share_a_label():
    """Equal within 1e-14, not within 1e-12; a state without mass is its own cell."""
    laws = np.array(
        [[0.3, 0.7], [0.3 * (1 + 1e-17), 0.7], [0.3 + 1e-12, 0.7 - 1e-12], [0.0, 1.0], [1.0, 0.0]]
    )
    labels = law_labels(laws)
    assert labels[0] == labels[1]
    assert len(set(labels.tolist())) == 4
