"""Public weights of rows that depend on each other.

No more is lost than was guaranteed, by all data sets of small worlds.
"""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from thinned import thinned

import pufferflow as pf

level, price = pl.col("level"), pl.col("price")
COST = (level * price).alias("cost")
STAY = np.array([[0.8, 0.2], [0.3, 0.7]])


def rows(prices, houses, levels=(0, 1)):
    """Return rows in order within each house."""
    hours = [sum(other == house for other in houses[:place]) for place, house in enumerate(houses)]
    count = len(prices)
    return pl.DataFrame(
        {
            "house": houses,
            "hour": hours,
            "day": [hour // 2 for hour in hours],
            "price": pl.Series(prices, dtype=pl.Float64),
            "level": [levels[0]] * count,
        }
    )


def batch(frame, prior, domain, *, ordered=True):
    order = {"order_by": "hour"} if ordered else {}
    secret = pf.Secret("level", domain=domain)
    return pf.protect(
        frame, pf.Scenario(secret, prior, within="house", public=["price", "day"], **order)
    )


def chain_paths(transition, count):
    start = np.linalg.matrix_power(transition, 300)[0]
    for path in itertools.product(range(len(transition)), repeat=count):
        yield (
            path,
            start[path[0]] * math.prod(transition[a, b] for a, b in itertools.pairwise(path)),
        )


def shown_paths(transition, emission, count):
    """Yield what a hidden chain shows, with its probability, by the states summed out step by step."""
    start = np.linalg.matrix_power(transition, 300)[0]
    for shown in itertools.product(range(emission.shape[1]), repeat=count):
        forward = start * emission[:, shown[0]]
        for symbol in shown[1:]:
            forward = (forward @ transition) * emission[:, symbol]
        yield shown, float(forward.sum())


def class_paths(weights, laws, count):
    for path in itertools.product(range(laws.shape[1]), repeat=count):
        yield path, float((weights * np.prod([laws[:, state] for state in path], axis=0)).sum())


def true_loss(paths, levels, columns, scales):
    """Return the largest log ratio of densities of noisy sums Σ_r columns[o][r]·level_r between two values of a row."""
    paths = list(paths)
    states, masses = np.array([path for path, _ in paths]), np.log([mass for _, mass in paths])
    atoms = np.array(levels, dtype=float)[states] @ np.array(columns, dtype=float).T
    axes = [np.unique([column.min() - 1e4, *column, column.max() + 1e4]) for column in atoms.T]
    if len(axes) > 1:
        axes = [[*axis[:: max(len(axis) // 8, 1)], axis[-1]] for axis in axes]
    places = np.array(list(itertools.product(*axes)))
    near = -(np.abs(places[:, None, :] - atoms[None]) / scales).sum(axis=2)
    worst = 0.0
    for row in range(states.shape[1]):
        given = [states[:, row] == state for state in range(len(levels))]
        logs = [
            logsumexp(near[:, own] + masses[own], axis=1) - logsumexp(masses[own]) for own in given
        ]
        worst = max(worst, *(float((a - b).max()) for a, b in itertools.permutations(logs, 2)))
    return worst


def scales(plan):
    return np.array([noise.scale for noise in plan.noises.values()])


def read(prices):
    """Return weights as they are read: to 30 binary digits of the largest."""
    unit = 2.0 ** (math.frexp(np.abs(prices).max())[1] - 30)
    return np.rint(np.array(prices) / unit) * unit


HOUSES = [1, 1, 1, 1, 2, 2, 2]


def of_house(prices, house):
    return [one for one, own in zip(prices, HOUSES, strict=True) if own == house]


@pytest.mark.parametrize("seed", thinned(range(8), 0.1))
def test_chains_with_weights_lose_no_more_than_is_promised(seed):
    """Random weights of both signs, of houses with prices of their own; a sum without weights beside one with them."""
    rng = np.random.default_rng(seed)
    transition = 0.8 * rng.dirichlet(np.ones(3), 3) + 0.2 / 3
    prices = read(rng.normal(size=7) * rng.choice([1.0, 0.01, 0.0], 7, p=[0.6, 0.3, 0.1]))
    chain, levels = pf.MarkovChain(transition), [0, 1, 3]
    asked = batch(rows(prices, HOUSES), chain, levels).private_sum(COST)
    alone, both = asked.plan(pf.Pure(1.0)), asked.private_sum("level").plan(pf.Pure(1.0))
    by_day = (
        batch(rows(prices, HOUSES), chain, levels)
        .group_by("day")
        .private_sum(COST)
        .plan(pf.Pure(1.0))
    )
    for house in (1, 2):
        own = np.array(of_house(prices, house))
        paths = list(chain_paths(transition, len(own)))
        assert true_loss(paths, levels, [own], scales(alone)) <= 1.0
        assert true_loss(paths, levels, [own, np.ones(len(own))], scales(both)) <= 1.0
        days = np.arange(len(own)) // 2
        assert (
            true_loss(paths, levels, [own * (days == day) for day in (0, 1)], scales(by_day)) <= 1.0
        )
    free = (
        batch(rows(prices, HOUSES), pf.AnyCorrelation(), levels)
        .private_sum(COST)
        .plan(pf.Pure(1.0))
    )
    assert (scales(alone) <= scales(free) * (1 + 1e-6)).all()


def test_a_tariff_of_two_states_needs_the_noise_it_has():
    """Prices by the hour, alike in all houses, above 0: the loss is what is guaranteed.

    More with a tenth less noise.
    """
    tariff = read([0.2, 0.5, 1.0, 0.3])
    prices = [*tariff, *tariff[:3]]
    plan = (
        batch(rows(prices, HOUSES), pf.MarkovChain(STAY), [0, 1])
        .private_sum(COST)
        .plan(pf.Pure(1.0))
    )
    paths = list(chain_paths(STAY, 4))
    assert 0.999 < true_loss(paths, [0, 1], [tariff], scales(plan)) <= 1.0
    assert true_loss(paths, [0, 1], [tariff], 0.9 * scales(plan)) > 1.0
    dear = (
        batch(rows([1.0] * 7, HOUSES), pf.MarkovChain(STAY), [0, 1])
        .private_sum(COST)
        .plan(pf.Pure(1.0))
    )
    assert scales(plan)[0] < 0.9 * scales(dear)[0]


@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
def test_hidden_chains_with_weights_lose_no_more_than_is_promised(seed):
    """Weights of rows with hidden states: sums, two beside each other, and two releases on an account."""
    rng = np.random.default_rng(seed)
    transition = 0.8 * rng.dirichlet(np.ones(2), 2) + 0.1
    emission = 0.9 * rng.dirichlet(np.ones(3), 2) + 0.1 / 3
    prices = read(rng.normal(size=7) * rng.choice([1.0, 0.01, 0.0], 7, p=[0.6, 0.3, 0.1]))
    prior, levels = pf.HiddenMarkov(transition, emission), [0, 1, 3]
    asked = batch(rows(prices, HOUSES), prior, levels).private_sum(COST)
    alone, both = (
        one.plan(pf.Pure(1.0), row_privacy=False) for one in (asked, asked.private_sum("level"))
    )
    total, losses = pf.compose([alone, alone], asked.request.scenario).total, []
    for house in (1, 2):
        own = np.array(of_house(prices, house))
        paths = list(shown_paths(transition, emission, len(own)))
        losses.append(true_loss(paths, levels, [own], scales(alone)))
        assert true_loss(paths, levels, [own, np.ones(len(own))], scales(both)) <= 1.0
        assert true_loss(paths, levels, [own, own], np.repeat(scales(alone), 2)) <= total
    assert 0.9 < max(losses) <= 1.0


def test_a_tariff_of_a_hidden_chain_needs_the_noise_it_has():
    """Prices by the hour, alike in all houses: with a tenth less noise more is lost than was promised."""
    tariff, emission = read([0.2, 0.5, 1.0, 0.3]), np.array([[0.9, 0.1], [0.2, 0.8]])
    prior = pf.HiddenMarkov(STAY, emission)
    asked = batch(rows([*tariff, *tariff[:3]], HOUSES), prior, [0, 1]).private_sum(COST)
    plan = asked.plan(pf.Pure(1.0), row_privacy=False)
    paths = list(shown_paths(STAY, emission, 4))
    assert true_loss(paths, [0, 1], [tariff], scales(plan)) <= 1.0
    assert true_loss(paths, [0, 1], [tariff], 0.9 * scales(plan)) > 1.0


def test_unselected_rows_are_secret_too():
    """A row between two that are asked about has no weight, and is revealed about by both."""
    prices = read([1.0, 0.4, 0.9, 0.0, 0.5, 0.4, 0.3])
    asked = batch(rows(prices, HOUSES), pf.MarkovChain(STAY), [0, 1]).filter(price != 0.4)
    plan = asked.private_sum(COST).plan(pf.Pure(1.0))
    own = np.array([1.0, 0.0, 0.9, 0.0])
    assert true_loss(chain_paths(STAY, 4), [0, 1], [own], scales(plan)) <= 1.0
    assert true_loss(chain_paths(STAY, 4), [0, 1], [own], 0.8 * scales(plan)) > 1.0


@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
def test_shared_classes_with_weights_lose_no_more_than_is_promised(seed):
    """Survey weights of houses of different sizes, in any order: with half the noise the guarantee would be broken."""
    rng = np.random.default_rng(seed)
    weights, laws, levels = (
        np.array([0.4, 0.6]),
        0.8 * rng.dirichlet(np.ones(3), 2) + 0.2 / 3,
        [0, 1, 3],
    )
    prices = read(rng.choice([-1.0, 1.0], 7) * rng.uniform(0.1, 2.0, 7))
    asked = batch(
        rows(prices, HOUSES), pf.LatentClass(weights, laws), levels, ordered=False
    ).private_sum(COST)
    plan, both = asked.plan(pf.Pure(1.0)), asked.private_sum("level").plan(pf.Pure(1.0))
    losses = []
    for house in (1, 2):
        own = np.array(of_house(prices, house))
        paths = list(class_paths(weights, laws, len(own)))
        losses.append(true_loss(paths, levels, [own], scales(plan)))
        assert true_loss(paths, levels, [own, np.ones(len(own))], scales(both)) <= 1.0
    assert 0.5 < max(losses) <= 1.0
    quiet = 0.5 * scales(plan)
    first = np.array(of_house(prices, 1))
    assert true_loss(class_paths(weights, laws, 4), levels, [first], quiet) > 1.0


def farthest(weights, factors, width):
    """Return the longest movement of Σ w_r·x_r over all rows that are secret, each moving as far as it may or not."""
    flags = np.array(list(itertools.product([0, 1], repeat=len(weights))))
    moved = np.clip(factors * width, -width, width)
    return max(float(np.abs(flags @ (weights * own)).max()) for own in moved)


@pytest.mark.parametrize("kind", thinned(["ar1", "negative", "exchangeable", "matrix"], 0.5))
def test_gaussian_rows_with_weights_move_as_far_as_is_said(kind):
    """By all subsets of rows that move: weights of one sign are exact, of both signs never too small."""
    rng = np.random.default_rng(5)
    root = rng.normal(size=(4, 4))
    given = {
        "ar1": (pf.AR1(0.7), 0.7 ** abs(np.subtract.outer(range(4), range(4)))),
        "negative": (pf.AR1(-0.7), (-0.7) ** abs(np.subtract.outer(range(4), range(4)))),
        "exchangeable": (pf.Exchangeable(0.4), 0.4 + 0.6 * np.eye(4)),
        "matrix": (root @ root.T, root @ root.T / np.diag(root @ root.T)[:, None]),
    }
    covariance, factors = given[kind]
    for signs in (np.ones(7), np.array([1, -1, 1, -1, 1, 1, -1])):
        prices = read(signs * rng.uniform(0.1, 2.0, 7))
        prior = pf.GaussianPrior(covariance)
        asked = batch(
            rows(prices, HOUSES), prior, pf.Interval(0, 10), ordered=kind != "exchangeable"
        )
        plan = asked.private_sum(COST).plan(pf.Pure(1.0))
        truth = [
            farthest(np.array(of_house(prices, house)), factors[:n, :n], 10)
            for house, n in ((1, 4), (2, 3))
        ]
        assert max(truth) <= scales(plan)[0]
        if kind == "exchangeable" and (signs > 0).all():
            assert (
                scales(plan)[0] <= max(truth) * 1.3
            )  # each house has its own weights, in falling order
    tariff = read([0.2, 0.5, 1.0, 0.3])
    asked = batch(
        rows([*tariff, *tariff[:3]], HOUSES),
        pf.GaussianPrior(covariance),
        pf.Interval(0, 10),
        ordered=True,
    )
    exact = asked.private_sum(COST).plan(pf.Pure(1.0))
    assert farthest(tariff, factors, 10) == pytest.approx(scales(exact)[0], rel=1e-5)


def test_accounts_add_releases_with_weights():
    """Two releases of a tariff.

    The total is no less than both reveal about a row, along a chain and translated together.
    """
    tariff = read([0.2, 0.5, 1.0, 0.3])
    frame = rows([*tariff, *tariff[:3]], HOUSES)
    for prior, domain in (
        (pf.MarkovChain(STAY), [0, 1]),
        (pf.GaussianPrior(pf.AR1(0.7)), pf.Interval(0, 1)),
    ):
        asked = batch(frame, prior, domain)
        plans = [asked.private_sum(one).plan(pf.Pure(0.5)) for one in (COST, "level")]
        total = pf.compose(plans, asked.request.scenario).total
        assert total < math.inf
        both = np.concatenate([scales(plan) for plan in plans])
        columns = [tariff, np.ones(4)]
        if prior.joint_laws:
            assert true_loss(chain_paths(STAY, 4), [0, 1], columns, both) <= total
        else:
            factors = 0.7 ** abs(np.subtract.outer(range(4), range(4)))
            moved = sum(
                np.outer(column, np.ones(4)) / scale
                for column, scale in zip(columns, both, strict=True)
            )
            assert float((factors * moved.T).sum(axis=1).max()) <= total * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["chain", "class"])
def test_weights_that_grow_after_the_plan_are_refused(kind):
    """A source where another row, or another house, has the large weight now is not released."""
    prices = np.array([0.2, 0.5, 1.0, 0.3, 0.2, 0.5, 0.1])
    frame = rows(prices, HOUSES).with_columns(pl.Series("price", prices))
    prior = pf.MarkovChain(STAY) if kind == "chain" else pf.LatentClass([0.5, 0.5], STAY)
    asked = batch(frame, prior, [0, 1], ordered=kind == "chain")
    plan = asked.private_sum(COST).plan(pf.Pure(1.0))
    prices[:] = [0.2, 1.0, 1.0, 0.3, 0.2, 0.5, 0.1]
    with pytest.raises(pf.PufferflowError, match="other rows"):
        plan.release()
    prices[:] = [0.2, 0.5, 1.0, 0.3, 0.2, 0.5, 0.1]
    assert plan.release().frame.height == 1


@pytest.mark.slow
def test_many_weights_and_many_houses():
    """Weights that all differ, of houses that begin at different hours: planned in seconds, pages are made."""
    rng = np.random.default_rng(3)
    houses = np.repeat(range(60), 24)
    frame = pl.DataFrame(
        {
            "house": houses,
            "hour": np.tile(range(24), 60) + houses % 20,
            "price": rng.uniform(0.5, 1.0, 1440),
        }
    ).with_columns(level=pl.lit(0), day=pl.lit(1))
    for prior, ordered in ((pf.MarkovChain(STAY), True), (pf.LatentClass([0.5, 0.5], STAY), False)):
        plan = batch(frame, prior, [0, 1], ordered=ordered).private_sum(COST).plan(pf.Pure(1.0))
        group = batch(frame, pf.AnyCorrelation(), [0, 1]).private_sum(COST).plan(pf.Pure(1.0))
        assert scales(plan)[0] < scales(group)[0]
        assert "level * price" in plan.explain()
