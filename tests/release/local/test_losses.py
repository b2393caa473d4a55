"""The loss of perturbed rows under a scenario, against the exact loss over all outputs of all rows."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts

EPSILON = 0.7


def chain_law(kernel, initial, length):
    """All sequences of states with their probabilities."""
    sequences = np.array(list(itertools.product(range(len(initial)), repeat=length)))
    masses = np.array(
        [
            initial[s[0]] * math.prod(kernel[a][b] for a, b in itertools.pairwise(s))
            for s in sequences
        ]
    )
    return sequences, masses


def exact_loss(sequences, masses, tables):
    """The largest log ratio of the probabilities of an output of all rows, given two states of one of them.

    `tables[t]` are the chances of what row t publishes; None of a row that publishes nothing.
    """
    length = sequences.shape[1]
    outputs = itertools.product(*(range(1 if one is None else one.shape[1]) for one in tables))
    likely = [
        math.prod(
            np.ones(len(masses)) if one is None else one[sequences[:, t], y] for t, (one, y) in row
        )
        for row in (list(enumerate(zip(tables, output, strict=True))) for output in outputs)
    ]
    worst = 0.0
    for t in range(length):
        states = range(sequences.max() + 1)
        given = [masses * (sequences[:, t] == state) for state in states]
        for a, b in itertools.permutations([s for s in states if given[s].sum() > 0], 2):
            ratios = [
                (h @ given[a] / given[a].sum()) / (h @ given[b] / given[b].sum()) for h in likely
            ]
            worst = max(worst, math.log(max(ratios)))
    return worst


def batch_of(prior, length, domain, keep=None, **more):
    """A frame of one sequence, of which the hours `keep` are selected."""
    scenario = pf.Scenario(pf.Secret("x", domain=domain, **more), prior, order_by="hour", start=0)
    batch = pf.protect(pl.DataFrame({"hour": range(length), "x": [domain[0]] * length}), scenario)
    return batch if keep is None else batch.filter(pl.col("hour").is_in(list(keep)))


TWO = [
    ([[0.9, 0.1], [0.1, 0.9]], "stationary", [0.5, 0.5]),
    ([[0.95, 0.05], [0.2, 0.8]], "stationary", [0.8, 0.2]),
    ([[0.3, 0.7], [0.6, 0.4]], [0.9, 0.1], [0.9, 0.1]),
]


@pytest.mark.parametrize(("kernel", "initial", "law"), TWO)
@pytest.mark.parametrize("keep", [range(5), [0, 3, 4], [2]])
def test_two_states_lose_exactly_what_is_promised(kernel, initial, law, keep):
    """Randomised response on rows of a two-state chain attains the bridge (M35, M36): the loss is exact."""
    channel = pf.local.randomized_response([0, 1], EPSILON)
    plan = (
        batch_of(pf.MarkovChain(kernel, initial=initial), 5, [0, 1], keep)
        .private_local("x", channel)
        .plan()
    )
    tables = [channel.matrix if t in keep else None for t in range(5)]
    exact = exact_loss(*chain_law(kernel, law, 5), tables)
    floor = max(exact, channel.epsilon)  # one row alone, too, is hidden
    assert floor <= plan.loss <= floor * (1 + 1e-9)
    assert plan.guarantee.epsilon >= plan.loss
    assert plan.cost.shape.exposure[0, 1] >= channel.epsilon  # what an account adds up


@pytest.mark.slow
def test_more_states_lose_no_more_than_is_promised():
    """Three states, random kernels, mechanisms of several shapes: never above the guarantee, and not far below it."""
    rng, shares = np.random.default_rng(4), []
    for _ in range(12):
        kernel = rng.dirichlet(np.ones(3), 3).round(3) + 0.01
        kernel /= kernel.sum(axis=1, keepdims=True)
        law = np.full(3, 1 / 3)
        channels = [
            pf.local.randomized_response([0, 1, 2], EPSILON),
            pf.local.randomized_response([0, 1, 2], EPSILON).erased(0.4),
            pf.local.binary_erasure(
                {0: 0.5, 1: 0.3, 2: 0.2}, {0: 0.2, 1: 0.3, 2: 0.5}, EPSILON, 0.2
            ),
        ]
        for channel in channels:
            batch = batch_of(pf.MarkovChain(kernel.tolist(), initial=law.tolist()), 4, [0, 1, 2])
            plan = batch.private_local("x", channel).plan()
            exact = exact_loss(*chain_law(kernel, law, 4), [channel.matrix] * 4)
            assert exact <= plan.loss * (1 + 1e-12)
            shares.append(exact / plan.loss)
    assert np.median(shares) > 0.8


def test_a_shared_class_and_any_correlation():
    """Rows that share a hidden class lose what all outputs reveal about one of them; under any dependence k·ε."""
    channel = pf.local.randomized_response([0, 1], EPSILON)
    weights, rows = [0.4, 0.6], np.array([[0.9, 0.1], [0.2, 0.8]])
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), pf.LatentClass(weights, rows.tolist()), within="unit"
    )
    frame = pl.DataFrame({"unit": [1] * 4 + [2] * 3, "x": [0] * 7})
    plan = pf.protect(frame, scenario).private_local("x", channel).plan()
    sequences = np.array(list(itertools.product(range(2), repeat=4)))
    masses = sum(w * np.prod(law[sequences], axis=1) for w, law in zip(weights, rows, strict=True))
    exact = exact_loss(sequences, masses, [channel.matrix] * 4)
    assert exact <= plan.loss <= exact * (1 + 1e-6)
    any_dependence = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.AnyCorrelation(), within="unit")
    plan = pf.protect(frame, any_dependence).private_local("x", channel).plan()
    assert plan.loss == pytest.approx(4 * channel.epsilon, rel=1e-12)
    alike = exact_loss(np.array([[0] * 4, [1] * 4]), np.array([0.5, 0.5]), [channel.matrix] * 4)
    assert alike == pytest.approx(plan.loss, rel=1e-9)  # rows that are copies attain it


def test_independent_rows_lose_epsilon():
    """Each row is hidden by its own channel, whatever others publish; so are several columns, each by itself."""
    channel = pf.local.randomized_response([0, 1], EPSILON)
    frame = pl.DataFrame({"x": [0, 1, 1], "y": [0, 2, 1]})
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent())
    assert pf.protect(frame, scenario).private_local("x", channel).plan().loss == channel.epsilon
    both = pf.Scenario(
        [pf.Secret("x", domain=[0, 1]), pf.Secret("y", domain=[0, 1, 2])], pf.Independent()
    )
    assert pf.protect(frame, both).private_local("x", channel).plan().loss == channel.epsilon


def test_other_beliefs_pay_for_the_group():
    """Priors without a chain or a tree pay what any dependence pays (M35); the worst of several priors counts."""
    channel = pf.local.randomized_response([0, 1], EPSILON)
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    plan = batch_of([chain, pf.AnyCorrelation()], 5, [0, 1]).private_local("x", channel).plan()
    assert plan.loss == pytest.approx(5 * channel.epsilon)
    still = pf.MarkovChain([[1.0, 0.0], [0.0, 1.0]], initial=[0.5, 0.5])
    plan = batch_of(still, 5, [0, 1]).private_local("x", channel).plan()
    assert plan.loss == pytest.approx(5 * channel.epsilon)  # all rows are one


@pytest.mark.parametrize(
    "prior", [pf.WeaklyDependent(0.25), pf.GaussianPrior(pf.AR1(0.5), variance=1.0)], ids=repr
)
def test_movements_of_sums_are_none_of_rows(prior):
    """Rows that move against each other leave a sum where it is, and show in their own channels: each counts."""
    batch = batch_of(prior, 5, [0, 1, 2])
    plan = batch.private_local("x", pf.local.randomized_response([0, 1, 2], EPSILON)).plan()
    assert plan.loss == pytest.approx(5 * plan.channel.epsilon)
    account = AccountCosts([batch.request.scenario], pf.Pure(99.0))
    for _ in range(2):
        account.add(plan.cost)
    assert account.total().total == pytest.approx(10 * plan.channel.epsilon)


@pytest.mark.parametrize("promise", [pf.Pure(1.0), pf.Approx(1.0, 1e-3), pf.Renyi(4, 0.5)])
def test_a_promise_is_met_and_used_up(promise):
    """The ε that a plan finds keeps the guarantee, and one that is larger by a thousandth does not."""
    batch = batch_of(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), 24, [0, 1]).private_local("x")
    plan = batch.plan(promise)
    assert promise.follows_from(pf.Pure(plan.loss))
    larger = batch_of(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), 24, [0, 1]).private_local(
        "x", plan.channel.at(plan.channel.epsilon * 1.001)
    )
    assert not promise.follows_from(pf.Pure(larger.plan().loss))


def test_the_largest_epsilon_of_a_row_is_the_known_one():
    """24 hours with stay-probability .9 and ε = 1: .1226683 (M36 (ii))."""
    plan = (
        batch_of(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), 24, [0, 1])
        .private_local("x")
        .plan(pf.Pure(1.0))
    )
    assert plan.channel.epsilon == pytest.approx(0.1226683, rel=1e-5)


def test_releases_of_the_same_rows_add_up_before_the_chain():
    """Two releases tell what doubled exposures tell (M35), for two states exactly; with a noisy sum more than one."""
    kernel, law = [[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5]
    batch = batch_of(pf.MarkovChain(kernel), 4, [0, 1])
    channel = pf.local.randomized_response([0, 1], EPSILON)
    cost = batch.private_local("x", channel).plan().cost
    account = AccountCosts([batch.request.scenario], pf.Pure(9.0))
    for _ in range(2):
        account.add(cost)
    p = channel.matrix
    twice = np.einsum("xa,xb->xab", p, p).reshape(2, 4)
    exact = exact_loss(*chain_law(kernel, law, 4), [twice] * 4)
    assert exact <= account.total().total <= exact * (1 + 1e-6)
    summed = batch.private_sum("x").plan(pf.Pure(1.0))
    with_sum = AccountCosts([batch.request.scenario], pf.Pure(9.0))
    for one in (cost, summed.cost):
        with_sum.add(one)
    assert with_sum.total().total > max(cost.shape.promise.epsilon, 1.0)


@pytest.mark.parametrize("limit", [pf.Renyi(4, 9.0), pf.Approx(9.0, 1e-6)])
def test_only_pure_losses_of_channels_are_counted(limit):
    """An account of Rényi losses, or of (ε, δ), is charged what follows from a pure loss, never that of the noise."""
    for prior in (pf.Independent(), pf.AnyCorrelation(), pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])):
        batch = batch_of(prior, 3, [0, 1])
        plan = batch.private_local("x", pf.local.randomized_response([0, 1], EPSILON)).plan()
        account = AccountCosts([batch.request.scenario], limit)
        for _ in range(2):
            account.add(plan.cost)
        pure = AccountCosts([batch.request.scenario], pf.Pure(99.0))
        for _ in range(2):
            pure.add(plan.cost)
        kind = limit.kind
        assert account.total().total == pytest.approx(
            kind.loss_from(pf.Pure(pure.total().total)), rel=1e-9
        )


def test_a_table_of_two_columns():
    """Perturbing a column reveals about another exactly what its law lets through, if it has two values."""
    table = pf.Table({"s": [0, 0, 1, 1], "x": [0, 1, 0, 1], "probability": [0.35, 0.15, 0.2, 0.3]})
    scenario = pf.Scenario(pf.Secret("s", domain=[0, 1]), table)
    channel = pf.local.randomized_response([0, 1], EPSILON)
    batch = pf.protect(pl.DataFrame({"s": [0, 1], "x": [1, 1]}), scenario)
    plan = batch.private_local("x", channel).plan()
    given = np.array([[0.7, 0.3], [0.4, 0.6]]) @ channel.matrix
    exact = np.abs(np.log(given[0] / given[1])).max()
    assert exact <= plan.loss <= exact * (1 + 1e-9)
    assert plan.certificate.ordinary is None
    assert batch.private_local("s", channel).plan().loss == channel.epsilon  # the secret itself
    account = AccountCosts([scenario], pf.Pure(9.0))
    for _ in range(2):
        account.add(plan.cost)
    twice = np.einsum("xa,xb->xab", channel.matrix, channel.matrix).reshape(2, 4)
    given = np.array([[0.7, 0.3], [0.4, 0.6]]) @ twice
    exact = np.abs(np.log(given[0] / given[1])).max()
    assert exact <= account.total().total <= exact * (1 + 1e-6)
    assert (
        batch.private_local("x").plan(pf.Pure(5.0)).loss < 1
    )  # as open as can be: the law lets no more through


def test_tables_of_more_values_lose_no_more_than_is_promised():
    """Random tables of a secret and a column of four values, by the exact law of the output."""
    rng = np.random.default_rng(9)
    for _ in range(15):
        law = rng.dirichlet(np.ones(4), 3) + 0.01
        law /= law.sum(axis=1, keepdims=True)
        rows = [(s, x, law[s, x] / 3) for s in range(3) for x in range(4)]
        table = pf.Table(
            dict(zip(("s", "x", "probability"), map(list, zip(*rows, strict=True)), strict=True))
        )
        scenario = pf.Scenario(pf.Secret("s", domain=[0, 1, 2]), table)
        channel = pf.local.randomized_response([0, 1, 2, 3], 1.5)
        plan = (
            pf.protect(pl.DataFrame({"s": [0, 1], "x": [1, 1]}), scenario)
            .private_local("x", channel)
            .plan()
        )
        outputs = law @ channel.matrix
        exact = np.log(outputs[:, None] / outputs).max()
        assert exact <= plan.loss <= channel.epsilon
