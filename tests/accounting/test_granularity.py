"""Rows that reveal nothing about each other.

What releases about one row reveal about its value adds up, pair by pair.
"""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from answers import asked, close_above, cost, largest_ratio
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.rules.additive import GranularityRule

RULE = GranularityRule()
LEVELS = [0, 1, 2, 3]
FREE = pf.Scenario(secret=pf.Secret("level", domain=LEVELS), prior=pf.Independent())
NEAR = pf.Scenario(
    secret=pf.Secret("level", domain=LEVELS, pairs="adjacent"), prior=pf.Independent()
)


def pairs_of(scenario):
    return [(LEVELS.index(a), LEVELS.index(b)) for a, b in scenario.secret.value_pairs()]


def releases(rng, count=3, noise=pf.Laplace):
    return [
        (
            noise(float(rng.uniform(0.5, 3))),
            rng.integers(-3, 4, (int(rng.integers(1, 3)), 4)).astype(float),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("scenario", [FREE, NEAR])
def test_the_pure_total_is_the_truth(scenario):
    """Of a row that is known but for two values, the likelihood ratio is attained: the total is exactly that."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        some = releases(rng)
        total = RULE.pure(asked(scenario, *(cost(noise, *values) for noise, values in some)))
        sums = np.concatenate([values for _, values in some])
        scales = [noise.scale for noise, values in some for _ in values]
        truth = max(largest_ratio(np.eye(4)[[a, b]], sums, scales) for a, b in pairs_of(scenario))
        assert close_above(total, truth)


def test_renyi_totals_add_pair_by_pair():
    """Losses are those of one pair of values, not of the worst pair of each release."""
    low = cost(pf.Laplace(1.0), [0, 4, 4, 4])
    high = cost(pf.Laplace(1.0), [0, 0, 0, 5])
    both = pf.Laplace(1.0).renyi(4, 3.0) + pf.Laplace(1.0).renyi(5, 3.0)
    assert close_above(RULE.renyi(asked(FREE, low, high), 3.0), both)
    apart = max(pf.Laplace(1.0).renyi(4, 3.0), pf.Laplace(1.0).renyi(5, 3.0))
    assert close_above(RULE.renyi(asked(NEAR, low, high), 3.0), apart)


def test_gaussian_movements_add_like_squares():
    """Releases that move by 3 and 4 standard deviations move by 5 together; μ of Laplace noise adds, of others none."""
    both = cost(pf.Gaussian(2.0), [0, 6, 6, 6]), cost(pf.Gaussian(1.0), [0, 4, 4, 4])
    assert close_above(RULE.gaussian(asked(FREE, *both)), 5.0)
    third = pf.Laplace(1.0).gdp(2.0)
    assert close_above(
        RULE.gaussian(asked(FREE, *both, cost(pf.Laplace(1.0), [0, 2, 2, 2]))), math.hypot(5, third)
    )
    assert (
        RULE.gaussian(asked(FREE, *both, cost(pf.GeneralizedCauchy(1.0), [0, 1, 1, 1]))) == math.inf
    )
    assert RULE.pure(asked(FREE, *both)) == math.inf


def test_a_sum_without_noise_costs_nothing_only_if_it_stays():
    """Where no pair of values moves it; else everything."""
    still, moving = cost(pf.Gaussian(0.0), [2, 2, 2, 2]), cost(pf.Laplace(0.0), [0, 0, 0, 1])
    noisy = cost(pf.Gaussian(1.0), [0, 1, 2, 3])
    assert close_above(RULE.gaussian(asked(FREE, still, noisy)), 3.0)
    for total in (
        RULE.pure(asked(FREE, moving)),
        RULE.gaussian(asked(FREE, moving)),
        RULE.renyi(asked(FREE, moving), 2),
    ):
        assert total == math.inf


@pytest.mark.parametrize("seed", thinned(range(3), 0.33))
def test_order_does_not_matter_and_more_never_cost_less(seed):
    """Whatever the releases and the kind of loss."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        some = [cost(noise, *values) for noise, values in releases(rng, 4)]
        for loss in (RULE.pure, lambda one: RULE.renyi(one, 2.5)):
            totals = [loss(asked(FREE, *some[: n + 1])) for n in range(4)]
            assert totals == sorted(totals)
            assert (
                len(
                    {round(loss(asked(FREE, *order)), 12) for order in itertools.permutations(some)}
                )
                == 1
            )


def test_one_release_alone_costs_what_it_promises():
    """A count with Laplace noise of scale 2 costs 1/2; a thousand of them 500."""
    one = cost(pf.Laplace(2.0), [0, 1, 1, 1])
    assert RULE.pure(asked(FREE, one)) == 0.5
    assert close_above(RULE.pure(asked(FREE, *[one] * 1000)), 500.0)


def test_on_an_interval_movements_are_those_of_its_paired_values():
    """`alone` tells every sum at two paired values."""
    scenario = pf.Scenario(
        secret=pf.Secret("level", domain=pf.Interval(0, 10)), prior=pf.Independent()
    )
    one = cost(pf.Laplace(2.0), independent_moves=((0.0, 10.0), (3.0, 1.0)))
    assert close_above(RULE.pure(asked(scenario, one, one)), 12.0)
    assert RULE.pure(asked(scenario, cost(pf.Laplace(2.0), [0, 1]))) == math.inf


@pytest.mark.parametrize(
    "scenario",
    [
        pf.Scenario(secret=pf.Secret("level", domain=LEVELS), prior=pf.AnyCorrelation()),
        pf.Scenario(secret=pf.Presence(within="person", rows=2), prior=pf.Independent()),
    ],
)
def test_nothing_is_said_of_rows_that_hang_together_or_may_be_missing(scenario):
    """Rows left out after each release's own filters can be in any number of them."""
    assert RULE.pure(asked(scenario, cost(pf.Laplace(1.0), [0, 1, 1, 1]))) == math.inf


def test_a_column_that_is_not_the_secret_is_not_known():
    """And a table of another length is none of this domain."""
    assert RULE.pure(asked(FREE, cost(pf.Laplace(1.0), [0, 1, 1, 1], column="income"))) == math.inf
    assert RULE.pure(asked(FREE, cost(pf.Laplace(1.0), [0, 1]))) == math.inf


def test_filters_on_what_is_missing_keep_rows_apart():
    """Rows with null in a public column are others than those without, and than those with any value of it."""
    frame = pl.DataFrame({"day": [1, None, 2], "level": [0, 1, 2]})
    scenario = pf.Scenario(pf.Secret("level", domain=LEVELS), pf.Independent(), public=["day"])
    day = pl.col("day")
    for filters, expected in (
        ([day.is_null(), day.is_not_null()], 1.0),
        ([day.is_null(), ~day.is_null(), day == 2], 2.0),
        ([day.is_null(), day == 1, day > 1], 1.0),
        ([day.is_not_null(), day > 1], 2.0),
        ([day.is_null(), (day > 1) | day.is_null()], 2.0),
    ):
        plans = [
            pf.protect(frame, scenario).filter(one).private_sum("level").plan(pf.Pure(1.0))
            for one in filters
        ]
        assert pf.compose(plans, scenario).total == pytest.approx(expected)
