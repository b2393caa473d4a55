"""Answers about one row each: Rényi losses along chains against quadrature of games that choose by earlier answers."""

import itertools
import math

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.stats import norm
from thinned import thinned

import pufferflow as pf
from pufferflow.calibration.chain_bounds import SINGLE_ANSWERS, ChainedRows
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.row_mechanisms import leak_of_order
from pufferflow.distributions.markov.single_answers import losses_of_answers
from pufferflow.distributions.markov.state_loss import Secrets

CUTS = (-0.4, 0.7)
"""Answers between these thresholds choose the next query."""


def pairs_of(states):
    return Secrets(np.argwhere(~np.eye(states, dtype=bool)))


def symmetric(stay, rows=1025):
    kernel = np.array([[[stay, 1 - stay], [1 - stay, stay]]])
    return Chain(kernel, np.zeros(rows - 1, dtype=np.intp), np.array([[0.5, 0.5]]))


def nodes(reach, points):
    """Nodes of a composite Gauss rule, their weights, and between which thresholds each is."""
    ends = [-reach, *CUTS, reach]
    at, weight = leggauss(points)
    parts = [
        ((b - a) / 2 * at + (a + b) / 2, (b - a) / 2 * weight) for a, b in itertools.pairwise(ends)
    ]
    values, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    return values, weights, np.repeat(np.arange(len(parts)), points)


class Game:
    """An adversary that asks about one row after another, with noise of deviation 1, chosen by earlier answers.

    In every row all answers of a path move by at most `budget` deviations between any two states.
    """

    def __init__(self, rng, rows, states, budget, stages, *, in_order=False, points=18):
        self.rng, self.budget, self.in_order = rng, budget, in_order
        self.data = np.array(list(itertools.product(range(states), repeat=rows)))
        self.values, self.weights, self.part = nodes(3 * budget + 6.5, points)
        self.density = np.ones((len(self.data), 1))
        self.weight = np.ones(1)
        spent, paths = [np.zeros((rows, states, states))], np.zeros(1, dtype=int)
        for stage in range(stages):
            queries = [self.query(one, last=stage == stages - 1) for one in spent]
            answers = norm.pdf(
                self.values[None, None] - np.array([m for m, _ in queries])[:, :, None]
            )
            own = answers[paths]
            self.density = (
                (self.density.T[:, :, None] * own).transpose(1, 0, 2).reshape(len(self.data), -1)
            )
            self.weight = np.outer(self.weight, self.weights).ravel()
            spent = [after for _, after in queries for _ in range(len(CUTS) + 1)]
            paths = (paths[:, None] * (len(CUTS) + 1) + self.part).ravel()

    def query(self, spent, *, last):
        """A query about some row with what its budget leaves: by how much each data set moves the answer."""
        states = spent.shape[1]
        first = max(np.flatnonzero(spent.any(axis=(1, 2))), default=0) if self.in_order else 0
        row = int(self.rng.integers(first, len(spent)))
        values = self.rng.uniform(size=states)
        if self.rng.random() < 0.5:
            values = np.round(values)
        values -= values.min()
        squares = (values[:, None] - values) ** 2
        left = self.budget**2 - spent[row]
        most = min(
            (
                left[pair] / squares[pair]
                for pair in np.argwhere(squares > 0).tolist()
                for pair in [tuple(pair)]
            ),
            default=0.0,
        )
        share = self.rng.choice([1.0, 0.5]) if not last else 1.0
        scale = math.sqrt(max(most, 0.0) * share)
        after = spent.copy()
        after[row] += squares * scale**2
        return values[self.data[:, row]] * scale, after

    def laws(self, chain, row):
        """The densities of all answers given each state of a row, at the nodes."""
        mass = chain.initial[0][self.data[:, 0]]
        for t in range(chain.length - 1):
            mass = mass * chain.kernels[chain.order[t]][self.data[:, t], self.data[:, t + 1]]
        given = [np.where(self.data[:, row] == state, mass, 0.0) for state in range(chain.states)]
        return [(one / one.sum()) @ self.density for one in given if one.sum() > 0]

    def renyi(self, p, q, alpha):
        return math.log((p**alpha * q ** (1 - alpha)) @ self.weight) / (alpha - 1)

    def hockey(self, p, q, epsilon):
        return np.maximum(p - math.exp(epsilon) * q, 0) @ self.weight


def random_chain(rng, states, rows):
    sharp = rng.choice([0.2, 1.0, 4.0])
    kernels = rng.dirichlet(np.full(states, sharp), (2, states)) * 0.98 + 0.02 / states
    if rng.random() < 0.5:
        kernels = kernels * 0.3 + np.eye(states) * 0.7
    return Chain(
        kernels, rng.integers(0, 2, rows - 1).astype(np.intp), rng.dirichlet(np.ones(states))[None]
    )


def check(rng, states, rows, stages, *, in_order=False):
    chain, budget = random_chain(rng, states, rows), float(rng.choice([0.3, 0.8, 1.3]))
    game, ratios = Game(rng, rows, states, budget, stages, in_order=in_order), list[float]()
    for row in range(rows):
        bound = ChainedRows(chain, Secrets(pairs_of(states).pairs, np.arange(rows) == row))
        for p, q in itertools.permutations(game.laws(chain, row), 2):
            assert p @ game.weight == pytest.approx(1, abs=1e-5)
            for alpha in (1.5, 3.0):
                loss, proof = bound.answers_loss(pf.Renyi.of(alpha=alpha), budget)
                assert proof == SINGLE_ANSWERS
                ratios.append(game.renyi(p, q, alpha) / loss)
            epsilon = bound.answers_loss(pf.Approx.of(delta=0.01), budget)[0]
            assert game.hockey(p, q, epsilon) <= 0.01
    assert max(ratios) <= 1 + 1e-7
    return ratios


def test_two_answers_chosen_by_the_first_lose_no_more():
    """Adaptive rows and queries, in any order: Rényi losses and hockey sticks stay below, and come near."""
    ratios = [one for seed in range(12) for one in check(np.random.default_rng(seed), 2, 2, 2)]
    assert max(ratios) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "rows"), thinned([(2, 2), (2, 3), (3, 2), (3, 3)], 0.5, unpack=True)
)
@pytest.mark.parametrize("in_order", [False, True])
def test_three_answers_in_any_order_lose_no_more(states, rows, in_order):
    """Earlier answers choose the row, the query and its noise; of three states also between which of them."""
    rng = np.random.default_rng([states, rows])
    for _ in range(6):
        check(rng, states, rows, 3, in_order=in_order)


@pytest.mark.parametrize(
    ("alpha", "rho", "loss"),
    [
        (2.0, 0.01, 0.09206209),
        (2.0, 0.1, 1.19181323),
        (8.0, 0.02, 0.28258071),
        (2.0, 0.3, 4.48646973),
    ],
)
def test_losses_for_ever_are_those_of_the_closed_form(alpha, rho, loss):
    """Stay-probability .9: M38's figures, the last one at the divergence of the kernel's rows."""
    found = losses_of_answers(
        symmetric(0.9), np.array([rho]), np.array([alpha]), pairs_of(2), longer=True
    )
    assert found.endless
    assert found.losses[0] == pytest.approx(loss, rel=1e-7)


@pytest.mark.parametrize(("stay", "scale"), [(0.9, 23.251429), (0.1, 23.251429), (0.6, 8.773643)])
def test_one_gaussian_answer_a_row_for_ever(stay, scale):
    """(1, 1e-6) for ever needs a deviation of 23.251 at .9, where M37 needs 36.587; at .6 M37 needs less."""
    rows, promise = ChainedRows(symmetric(stay), pairs_of(2), endless=True), pf.Approx(1.0, 1e-6)
    loss, proof = rows.answers_loss(promise.kind, 1 / scale)
    assert proof == SINGLE_ANSWERS
    assert loss == pytest.approx(1.0, rel=3e-6)


@pytest.mark.parametrize("stay", thinned([0.55, 0.9, 0.99, 0.999], 0.5))
def test_slow_chains_come_to_rest(stay):
    """F = log((1 − τ)/(1 − Kτ))/(α − 1) where Kτ < 1, and else the divergence of the rows; never below it."""
    orders, deviations, tau = 1 + 2.0 ** np.arange(-3, 9), 0.004, abs(2 * stay - 1)
    own = orders * deviations**2 / 2
    found = losses_of_answers(symmetric(stay), own, orders, pairs_of(2), longer=True).losses
    gain = np.exp((orders - 1) * own)
    finite = gain * tau < 1
    side = np.where(
        finite, np.log((1 - tau) / np.where(finite, 1 - gain * tau, 1.0)) / (orders - 1), np.inf
    )
    logs = np.log([stay, 1 - stay])
    kernel = np.logaddexp(*(orders[:, None] * logs + (1 - orders)[:, None] * logs[::-1]).T) / (
        orders - 1
    )
    total, known = own + 2 * np.minimum(side, kernel), np.isfinite(found)
    assert known[finite].all()
    assert (found >= total * (1 - 1e-12)).all()
    assert found[known] == pytest.approx(total[known], rel=1e-5)


@pytest.mark.parametrize("states", thinned([2, 3, 4, 5], 0.5))
def test_losses_agree_with_those_of_cheapest_plans(states):
    """One coupling that leaves common mass in place is the cheapest up to three states, and near it for more."""
    rng, orders = np.random.default_rng(states), np.array([1.5, 2.0, 5.0])
    for rows in (1, 2, 6):
        chain = random_chain(rng, states, rows)
        found = losses_of_answers(chain, 0.05 * orders, orders, pairs_of(states)).losses
        off = 1 - np.eye(states)
        plans = [
            leak_of_order(chain, 0.05 * alpha * off, alpha, pairs_of(states))
            for alpha in orders.tolist()
        ]
        assert (found >= np.array(plans) * (1 - 1e-7)).all()
        assert (found <= np.array(plans) * (1 + (1e-7 if states < 4 else 0.05))).all()


def test_losses_grow_with_deviations_and_with_the_chain():
    rows, kind = ChainedRows(symmetric(0.8), pairs_of(2), endless=True), pf.Approx.of(delta=1e-6)
    losses = [rows.answers_loss(kind, row)[0] for row in (0.0, 1e-3, 0.01, 0.05, 0.2, 0.5, 2.0)]
    assert losses[0] == 0
    assert losses == sorted(losses)
    for length in (1, 2, 10, 100):
        finite = ChainedRows(symmetric(0.8, length), pairs_of(2))
        assert finite.answers_loss(kind, 0.05)[0] <= losses[3] * (1 + 1e-9)


def test_a_day_of_kernels_for_ever_is_above_many_days():
    rng, orders = np.random.default_rng(7), 1 + 2.0 ** np.arange(-2, 7)
    kernels = rng.dirichlet(np.full(3, 2.0), (24, 3)) * 0.5 + np.eye(3) / 2
    start, own = stationary(kernels)[None], orders * 0.02
    chains = [Chain(kernels, np.arange(steps) % 24, start) for steps in (30, 100, 24 * 48)]
    losses = [losses_of_answers(chain, own, orders, pairs_of(3)).losses for chain in chains[:2]]
    found = losses_of_answers(chains[2], own, orders, pairs_of(3), longer=True)
    assert found.endless
    assert (losses[0] <= losses[1] * (1 + 1e-9)).all()
    assert (losses[1] <= found.losses * (1 + 1e-9)).all()
    assert found.losses[:7] == pytest.approx(losses[1][:7], rel=1e-3)


def test_nothing_is_said_where_nothing_is_known():
    """Classes, pure and concentrated guarantees, chains that never forget, and many states have no such loss."""
    kind, chain = pf.Approx.of(delta=1e-6), symmetric(0.9)
    rows = ChainedRows(chain, pairs_of(2), endless=True)
    band = Chains(chain.kernels, chain.kernels, chain.order, chain.initial)
    still = Chain(np.eye(2)[None], chain.order, chain.initial)
    many = Chain(np.full((1, 20, 20), 0.05), chain.order, np.full((1, 20), 0.05))
    assert ChainedRows(band, pairs_of(2), endless=True).answers_loss(kind, 0.01)[0] == math.inf
    assert ChainedRows(still, pairs_of(2), endless=True).answers_loss(kind, 0.01)[0] == math.inf
    assert ChainedRows(many, pairs_of(20)).answers_loss(kind, 0.01)[0] == math.inf
    assert rows.answers_loss(kind, math.inf)[0] == math.inf
    assert [rows.answers_loss(one, 0.01)[0] for one in (pf.Pure(1.0).kind, pf.Gdp(1.0).kind)] == [
        math.inf
    ] * 2


@pytest.mark.parametrize("deviations", [0.01, 0.2, 1.0])
def test_one_loss_for_all_orders_is_above_that_of_each(deviations):
    """ρα is at least the loss of each order, and near the largest loss per order; far orders count by kernels."""
    rows, kind = ChainedRows(symmetric(0.9), pairs_of(2), endless=True), pf.Zcdp(1.0).kind
    rho = rows.answers_loss(kind, deviations)[0]
    orders = 1 + 2.0 ** np.arange(-6, 16, 0.37)
    losses = [rows.answers_loss(pf.Renyi.of(alpha), deviations)[0] for alpha in orders]
    known = [loss / alpha for loss, alpha in zip(losses, orders, strict=True) if loss < math.inf]
    assert max(known) <= rho <= 1.2 * max(known)
    assert rho >= deviations**2 / 2
    certain = np.array([[1.0, 0.0], [0.1, 0.9]])
    chain = Chain(certain[None], np.zeros(3, dtype=np.intp), np.array([[0.5, 0.5]]))
    assert ChainedRows(chain, pairs_of(2)).answers_loss(kind, deviations)[0] == math.inf


def test_other_rows_that_never_forget_lose_as_one():
    """Along a chain that stays, three rows of one value lose three times a row: the sum of their squares."""
    still = Chain(np.eye(2)[None], np.zeros(2, dtype=np.intp), np.array([[0.5, 0.5]]))
    loss = ChainedRows(still, pairs_of(2)).answers_loss(pf.Renyi.of(alpha=3), 0.5)[0]
    assert loss == pytest.approx(3 * 3 * 0.125, rel=1e-9)
    assert loss >= 3 * 3 * 0.125


@pytest.mark.parametrize("states", [2, 3])
def test_several_first_laws_lose_what_each_mixture_of_them_loses(states):
    """Any law of the first row is a mixture of extreme ones, with other weights given each state of a row."""
    rng, orders = np.random.default_rng(30 + states), np.array([1.5, 3.0, 8.0])
    for _ in range(6):
        chain = random_chain(rng, states, 4)
        corners = Chain(chain.kernels, chain.order, np.eye(states))
        whole = losses_of_answers(corners, 0.05 * orders, orders, pairs_of(states)).losses
        for law in [np.eye(states)[0], *rng.dirichlet(np.ones(states), 4)]:
            member = Chain(chain.kernels, chain.order, law[None])
            found = losses_of_answers(member, 0.05 * orders, orders, pairs_of(states)).losses
            assert (found <= whole * (1 + 1e-9)).all()


def test_values_that_a_row_cannot_have_are_no_secrets():
    """A first law without one of its states: the first row hides nothing, and later ones lose something."""
    kernel = np.array([[[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]])
    chain = Chain(kernel, np.zeros(3, dtype=np.intp), np.array([[1.0, 0.0, 0.0]]))
    orders = np.array([2.0])
    first, second = (
        losses_of_answers(
            chain, 0.1 * orders, orders, Secrets(pairs_of(3).pairs, np.arange(4) == row)
        )
        for row in (0, 1)
    )
    assert first.losses[0] <= 0.2 * (1 + 1e-9)
    assert 0.2 < second.losses[0] < math.inf
