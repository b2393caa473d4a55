"""Rows along a chain by what answers reveal about each of them.

Never below exact losses, and budgets that are used up.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from thinned import thinned

import pufferflow as pf
from pufferflow.calibration.chain_bounds import ROW_BY_ROW, STEP_BY_STEP, ChainedRows
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.state_loss import Secrets


def chained(kernel, rows, law=None, **more):
    kernel = np.asarray(kernel, dtype=np.float64)[None]
    start = stationary(kernel) if law is None else np.array(law)
    pairs = Secrets(np.argwhere(~np.eye(kernel.shape[-1], dtype=bool)))
    return ChainedRows(Chain(kernel, np.zeros(rows - 1, dtype=np.intp), start[None]), pairs, **more)


def laws_of_sums(rows, values, weights):
    """For every secret row and state, the atoms of Σ weights·values[state] and their probabilities."""
    kernel, (start,) = rows.chain.kernels[0], rows.chain.initial
    states = np.array(list(itertools.product(range(len(start)), repeat=rows.chain.length)))
    masses = start[states[:, 0]] * np.prod(kernel[states[:, :-1], states[:, 1:]], axis=1)
    atoms = values[states] @ weights
    for row in range(rows.chain.length):
        yield [(atoms[states[:, row] == a], masses[states[:, row] == a]) for a in range(len(start))]


def densities(rows, values, weights, sigma, at):
    for of_row in laws_of_sums(rows, values, weights):
        laws = [
            norm.pdf(at[:, None], atoms, sigma) @ (masses / masses.sum())
            for atoms, masses in of_row
        ]
        yield from itertools.permutations(laws, 2)


CHAINS = {
    "two states": ([[0.9, 0.1], [0.2, 0.8]], [0.0, 1.0], None),
    "that alternate": ([[0.2, 0.8], [0.7, 0.3]], [0.0, 1.0], [0.9, 0.1]),
    "three states": ([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], [0.0, 1.0, 0.6], None),
}


@pytest.mark.parametrize("name", thinned(CHAINS, 0.3))
@pytest.mark.parametrize("sigma", thinned([0.8, 2.0, 6.0], 0.3))
def test_losses_of_sums_are_above_the_exact_ones(name, sigma):
    # sums with Gaussian noise are μ-Gaussian in each row; their exact laws are mixtures
    kernel, values, law = CHAINS[name]
    rows, values = chained(kernel, 5, law), np.array(values)
    at = np.linspace(-12 * sigma - 6, 12 * sigma + 6, 8001)
    step, row = at[1] - at[0], 1 / sigma
    for weights in map(np.array, ([1.0, 1, 1, 1, 1], [1.0, -1, 1, -1, 1], [0, 0, 1.0, 1, 0])):
        approx, proof = rows.loss(pf.Approx.of(delta=0.01), row)
        renyi, coupled = rows.loss(pf.Renyi.of(alpha=3), row)
        assert coupled == STEP_BY_STEP
        assert proof in (ROW_BY_ROW, STEP_BY_STEP)
        by_pairs = rows._coupled(pf.Approx.of(delta=0.01), row, math.inf)
        for p, q in densities(rows, values, weights, sigma, at):
            inside = q > 1e-280
            assert math.log((p[inside] ** 3 * q[inside] ** -2).sum() * step) / 2 <= renyi
            for epsilon in (approx, by_pairs):
                assert (np.maximum(p - math.exp(epsilon) * q, 0)).sum() * step <= 0.01


def test_a_group_that_moves_less_than_its_rows_together_caps_the_loss():
    # alternating weights: rows move the sum against each other
    rows, kind = chained([[0.95, 0.05], [0.05, 0.95]], 9), pf.Renyi.of(alpha=2)
    assert rows.loss(kind, 0.5, group=0.5)[0] < rows.loss(kind, 0.5)[0]
    assert rows.loss(kind, 0.5, group=0.5)[0] == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize(
    "promise",
    thinned(
        [
            *(
                pf.Approx(1.0, 1e-6),
                pf.Approx(0.3, 1e-3),
                pf.Renyi(3, 0.5),
                pf.ApproxRenyi(3, 0.5, 1e-4),
            ),
            *(pf.Tv(0.05), pf.RenyiCurve([2, 8], [0.1, 1.0]), pf.TradeOff(1.0, 1e-5, 0.3)),
        ],
        0.3,
    ),
    ids=repr,
)
def test_budgets_keep_the_promise_and_use_it_up(promise):
    # with a tenth more than the budget the guarantee is not kept by the same proof
    rows = chained([[0.9, 0.1], [0.2, 0.8]], 24)
    row, proof = rows.deviations(promise, group=24.0)
    assert row > 0

    def kept(by):
        kinds = [
            (rows.loss(one.kind, row * by, group=24 * row * by)[0], one.loss)
            for one in promise.singles
        ]
        return all(loss <= allowed * (1 + 1e-9) + 1e-12 for loss, allowed in kinds)

    assert kept(1)
    assert not kept(1.1)
    assert proof in (ROW_BY_ROW, STEP_BY_STEP)


@pytest.mark.parametrize("promise", [pf.Pure(1.0), pf.Zcdp(0.5), pf.Gdp(1.0)], ids=repr)
def test_promises_that_no_way_leads_to_have_no_budget(promise):
    # neither masses nor single orders say anything of these
    assert chained([[0.9, 0.1], [0.2, 0.8]], 9).deviations(promise)[0] == 0


def test_pure_losses_cross_as_messages_do():
    # P = [[.9, .1], [.1, .9]]: .8724 for ever from .1 a row, and back (M36)
    rows = chained([[0.9, 0.1], [0.1, 0.9]], 4001, endless=True)
    assert rows.pure_loss(0.1) == pytest.approx(0.87244134, abs=1e-7)
    assert rows.pure_row(1.0) == pytest.approx(0.1157344, abs=1e-6)
    assert rows.pure_loss(rows.pure_row(1.0)) <= 1


def test_what_is_not_hidden_at_all_is_lost():
    # an infinite loss of each row, or one beyond the floats, is never a small one of the chain
    rows = chained([[0.9, 0.1], [0.2, 0.8]], 9)
    assert rows.pure_loss(math.inf) == math.inf
    assert rows.pure_loss(1e5) == math.inf
    assert rows.loss(pf.Approx.of(delta=1e-6), math.inf)[0] == math.inf
    assert rows.loss(pf.Renyi.of(alpha=2), math.inf)[0] == math.inf
    assert rows.pure_loss(500.0) >= 500
    assert (
        math.isnan(rows.bridge.leak(math.nan).loss) or rows.bridge.leak(math.nan).loss == math.inf
    )


def test_nothing_told_of_rows_is_nothing_told():
    # no movement at all has no loss under any guarantee
    rows = chained([[0.9, 0.1], [0.2, 0.8]], 9)
    assert rows.loss(pf.Approx.of(delta=1e-6), 0.0)[0] == 0
    assert rows.loss(pf.Renyi.of(alpha=2), 0.0)[0] == 0
    assert rows.pure_loss(0.0) == 0


@pytest.mark.slow
def test_a_chain_that_goes_on_loses_more_than_any_part_of_it():
    # endless bounds are above those of every finite length
    kinds = [pf.Approx.of(delta=1e-6), pf.Renyi.of(alpha=2)]
    endless = chained([[0.8, 0.2], [0.3, 0.7]], 2000, endless=True)
    for length, kind in itertools.product((1, 2, 9, 60, 300), kinds):
        finite = chained([[0.8, 0.2], [0.3, 0.7]], length)
        assert finite.loss(kind, 0.05, group=3.0)[0] <= endless.loss(kind, 0.05, group=3.0)[0] * (
            1 + 1e-6
        )


@pytest.mark.slow
def test_a_chain_whose_messages_do_not_come_to_rest_has_no_endless_bound():
    # rows that never forget lose without end, although a hundred of them lose a finite amount
    still = [[1.0, 0.0], [0.0, 1.0]]
    finite, endless = chained(still, 150, [0.5, 0.5]), chained(still, 150, [0.5, 0.5], endless=True)
    assert finite.pure_loss(0.01) < 2
    assert endless.pure_loss(0.01) == math.inf
    assert endless.loss(pf.Approx.of(delta=1e-6), 0.01)[0] == math.inf
    assert endless.loss(pf.Renyi.of(alpha=2), 0.01)[0] == math.inf


def test_many_differing_rows_of_an_endless_chain_move_answers_by_any_amount():
    # nothing bounds how far so many rows move answers, unless all rows of a group do
    endless = chained([[0.99, 0.01], [0.01, 0.99]], 1025, endless=True)
    counts, masses = endless._differing
    assert counts[-1] == math.inf
    assert masses[-1] > 0
    assert counts[np.isfinite(counts)].max() <= 512
    assert endless._coupled(pf.Renyi.of(alpha=2), 0.001, math.inf) == math.inf
    assert endless._coupled(pf.Renyi.of(alpha=2), 0.001, 1.0) < 1.01


@pytest.mark.slow
def test_rough_messages_are_above_fine_ones():
    # of many states messages say how far any two differ: sooner, and never less
    fine = chained(np.random.default_rng(0).dirichlet(np.ones(4), size=4) * 0.5 + np.eye(4) / 2, 12)
    rough = ChainedRows(replace(fine.chain, coarse=True), fine.secrets)
    kind = pf.Approx.of(delta=1e-6)
    assert fine.bridge.epsilon(0.02, 1e-6) <= rough.bridge.epsilon(0.02, 1e-6)
    assert fine.loss(kind, 0.02)[0] <= rough.loss(kind, 0.02)[0]
