"""Sequences that began before 1970, or below 0, need the noise of the same sequences moved in time."""

import datetime as dt

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.models.priors.covariance import Factors

STEPS = [[0.9, 0.1], [0.2, 0.8]]
TURNS = [STEPS, [[0.6, 0.4], [0.3, 0.7]], [[0.5, 0.5], [0.3, 0.7]]]
PRIORS = {
    "chain": pf.MarkovChain(STEPS),
    "chain that starts": pf.MarkovChain(STEPS, initial=[0.7, 0.3]),
    "turns of three": pf.MarkovChain(TURNS, period=3),
    "chains between": pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.7]], [[0.9, 0.2], [0.3, 0.9]]),
}
SECRETS = {"each": pf.Secret("level", domain=[0, 1]), "first": pf.Initial("level", domain=[0, 1])}
PROMISES = {"pure": pf.Pure(1.0), "approx": pf.Approx(1.0, 1e-6), "gdp": pf.Gdp(0.5)}


CORRELATED = [
    [1.0, 0.9, 0.0, 0.0],
    [0.9, 1.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 1.0],
]
VALUES = {
    "each": pf.Secret("level", domain=pf.Interval(0, 1)),
    "first": pf.Initial("level", domain=pf.Interval(0, 1)),
}


def noises(secret, prior, promise, times, start, step=1):
    """Return the noise of a sum over rows at these times."""
    rows = pl.DataFrame({"time": times, "meter": 1, "level": [0, 1, 1][: len(times)]}).lazy()
    scenario = pf.Scenario(secret, prior, order_by="time", within="meter", start=start, step=step)
    return rows.puffer.protect(scenario).private_sum("level").plan(promise).noises


@pytest.mark.parametrize("promise", thinned(PROMISES.values(), 0.3), ids=PROMISES)
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("prior", thinned(PRIORS.values(), 0.5), ids=PRIORS)
def test_a_start_below_zero_is_a_start(prior, secret, promise):
    """Whole numbers below 0, across 0, and days before 1970 count as those above, if their phase is the same."""
    after = noises(secret, prior, promise, [3, 4, 6], 3)
    assert noises(secret, prior, promise, [0, 1, 3], 0) == after
    for start in (-3, -300):
        assert noises(secret, prior, promise, [start, start + 1, start + 3], start) == after
    first = dt.date(1969, 12, 29)
    days = [first + dt.timedelta(days=days) for days in (0, 1, 3)]
    assert noises(secret, prior, promise, days, first.isoformat(), "1d") == after


@pytest.mark.parametrize("secret", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(
    "covariance", [pf.AR1(0.5), pf.AR1(-0.5), pf.Kernel([1.0, 0.5, 0.2])], ids=repr
)
def test_correlations_depend_on_how_far_rows_lie_apart(covariance, secret):
    """Correlations that are known by the time between rows are the same on both sides of 0."""
    prior, promise = pf.GaussianPrior(covariance), PROMISES["pure"]
    assert noises(secret, prior, promise, [-3, -2, 0], -3) == noises(
        secret, prior, promise, [3, 4, 6], 3
    )


@pytest.mark.parametrize(
    ("secret", "start", "times"),
    [
        ("each", -4, [-4, -3]),
        ("each", -1, [-1, 0]),
        ("first", -2, [-2, 0]),
        ("first", -2, [0, 1]),
        ("first", -9, [0]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_matrix_has_no_rows_below_zero(known, secret, start, times):
    """Rows and starts below 0 are not counted from the end of a matrix; there -2 would hardly depend on 0 and 1."""
    matrix = CORRELATED if known else Factors(CORRELATED, CORRELATED)
    with pytest.raises(pf.UsageError, match=r"position -\d, and the covariance matrix has 4 rows"):
        noises(VALUES[secret], pf.GaussianPrior(matrix), PROMISES["pure"], times, start)


def test_positions_that_floats_round_are_refused():
    """Along a chain positions have to be exact on both sides of 0."""
    for far in (-(2.0**53), 2.0**53):
        with pytest.raises(pf.UsageError, match="whole numbers of steps"):
            PRIORS["chain"].chain([far], -(2.0**53))


def test_rows_before_the_start_are_refused():
    """A row before the sequence began has no law."""
    with pytest.raises(pf.PufferflowError, match="start"):
        noises(SECRETS["each"], PRIORS["chain that starts"], PROMISES["pure"], [-3, -2, 0], -2)
