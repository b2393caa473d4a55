"""Several Gaussian columns in a batch and an account: no more is lost than was guaranteed, by the laws themselves.

The truth is worked out without the library: rows are means plus a root of their covariance times standard normals on
a grid, so that the same grid serves both values of a secret, and their sums have Laplace noise.
"""

import itertools
import math

import msgspec
import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.forecast import forecast

LOAD, TEMP = pf.Interval(0, 10), pf.Interval(-20, 40)
NAMES, LOWS, HIGHS = ["load", "temp"], np.array([0.0, -20.0]), np.array([10.0, 40.0])
SECRETS = [pf.Secret("load", LOAD), pf.Secret("temp", TEMP)]
HIDDEN = pf.Derived("load", column=NAMES, domain=[LOAD, TEMP])
ROWS, PHI, ACROSS = 2, 0.6, np.array([[0.5, 0.9], [0.9, 6.0]])
PRIOR = pf.GaussianPrior(pf.AR1(PHI), across=ACROSS)
CORNERS = [np.array(corner) for corner in itertools.product(*zip(LOWS, HIGHS, strict=True))]


def sums(known, values, size, across=ACROSS, change=None):
    """Return log weights and sums of both columns, on a grid, given that some columns of rows have these values."""
    lags = np.abs(np.subtract.outer(range(ROWS), range(ROWS)))
    covariance, mean = np.kron(PHI**lags, across), np.tile((LOWS + HIGHS) / 2, ROWS)
    rest = [place for place in range(2 * ROWS) if place not in known]
    toward = covariance[np.ix_(rest, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
    root = np.linalg.cholesky(
        covariance[np.ix_(rest, rest)] - toward @ covariance[np.ix_(known, rest)]
    )
    normals = np.array(list(itertools.product(np.linspace(-6, 6, size), repeat=len(rest))))
    rows = np.empty((len(normals), 2 * ROWS))
    rows[:, known] = values
    rows[:, rest] = mean[rest] + toward @ (np.array(values) - mean[known]) + normals @ root.T
    read = np.clip(rows.reshape(-1, ROWS, 2), LOWS, HIGHS)
    read = read if change is None else change(read)
    return -(normals**2).sum(axis=1) / 2, read.sum(axis=1)


def log_densities(known, values, scales, size):
    weights, total = sums(known, values, size)
    places = [
        np.concatenate([[-1e3], np.linspace(ROWS * low, ROWS * high, 4), [1e3]])
        for low, high in zip(LOWS, HIGHS, strict=True)
    ]
    at = np.array(list(itertools.product(*places)))
    return np.array(
        [logsumexp(weights - (np.abs(total - place) / scales).sum(axis=1)) for place in at]
    )


def true_loss(secret, scales):
    """Return the largest log ratio of densities of both noisy sums between two values of the secret, of any row."""
    worst = 0.0
    for row in range(ROWS):
        own = [2 * row] if secret is HIDDEN else [2 * row, 2 * row + 1]
        values = [corner[: len(own)] for corner in CORNERS]
        logs = [log_densities(own, value, scales, 21 if len(own) == 1 else 61) for value in values]
        worst = max(worst, *(float((a - b).max()) for a, b in itertools.permutations(logs, 2)))
    return worst


def scenario_of(secret=SECRETS, prior=PRIOR):
    return pf.Scenario(secret, prior, order_by="t")


def batch(secret=SECRETS, prior=PRIOR, rows=ROWS, first=0):
    frame = pl.DataFrame(
        {"t": range(first, first + rows), "load": [1.0] * rows, "temp": [0.0] * rows}
    )
    return pf.protect(frame, scenario_of(secret, prior))


def scales(plan):
    return np.array([noise.scale for noise in plan.noises.values()])


@pytest.mark.parametrize("secret", thinned([SECRETS, HIDDEN], 0.5), ids=["tuples", "one of them"])
def test_no_more_is_lost_than_is_promised(secret):
    """Sums of both columns of two rows: the loss is what is guaranteed, and more with a tenth less noise."""
    plan = batch(secret).private_sum("load").private_sum("temp").plan(pf.Pure(1.0))
    assert 0.99 < true_loss(secret, scales(plan)) <= 1.0
    assert true_loss(secret, 0.9 * scales(plan)) > 1.0


@pytest.mark.slow
def test_releases_of_one_column_each_add_up_along_one_coupling():
    """A release of each column: their total is no less than both tell together, and no more than both losses (M24)."""
    first, second = (batch().private_sum(name).plan(pf.Pure(0.5)) for name in NAMES)
    total = pf.compose([first, second], scenario_of()).total
    noise = np.array([*scales(first), *scales(second)])
    assert 0.99 * total < true_loss(SECRETS, noise) <= total <= 1.0 + 1e-9
    assert true_loss(SECRETS, 0.9 * noise) > total


@pytest.mark.parametrize("secret", [SECRETS, HIDDEN], ids=["tuples", "one of them"])
def test_accounts_forget_rows_that_are_far_away(secret):
    """Windows of load and of temperature by turns, day after day: for ever costs no less than many, and little more."""
    asked = batch(secret, rows=24)
    load, temp = (asked.private_sum(name).plan(pf.Pure(0.1)).cost for name in NAMES)
    far = msgspec.structs.replace(temp, offset=1000, steps_seen=(0, 1023))
    approx = pf.Approx(9.0, 1e-6)
    near, apart = (AccountCosts([scenario_of(secret)], approx) for _ in range(2))
    for account, second in ((near, temp), (apart, far)):
        account.add(load)
        account.add(second)
    assert apart.total().total == pytest.approx(0.1, rel=1e-3)
    assert 0.19 < near.total().total <= 0.2 * (1 + 1e-9)
    ever = forecast(near, load, every=24, limit=approx)
    many = forecast(near, load, every=24, until=24 * 40, limit=approx)
    assert many.total <= ever.total <= many.total * 1.01
    assert ever.fits == math.inf


def test_functions_with_limits_and_jumps():
    """What bends moves by its steepest slope; a count jumps, so all rows may move; columns hide together in groups."""
    asked = batch(prior=pf.GaussianPrior(pf.AR1(0.3), across=ACROSS), rows=8)
    bent = (
        asked.private_sum(pl.col("load").clip(2, 8), name="clipped")
        .private_sum("temp")
        .plan(pf.Pure(1.0))
    )
    plain = asked.private_sum("load").private_sum("temp").plan(pf.Pure(1.0))
    assert (scales(plain) / 2 / scales(bent)).sum() == pytest.approx(
        1.0, rel=1e-3
    )  # halves: both have equal shares
    counted = asked.private_count(pl.col("temp") > 30).plan(pf.Pure(1.0))
    assert scales(counted)[0] == pytest.approx(8, rel=1e-3)
    assert any("jump on an interval" in line for line in counted.explain().splitlines())


def test_bad_beliefs_and_secrets_are_refused():
    """What covariances of columns cannot be, and what to declare instead; nothing is read."""
    bins = pf.Secret("temp", pf.Bins([0, 1, 2], values=[0, 2]))
    listed = pf.Derived("load", values=[0, 1], column=NAMES, domain=[LOAD, TEMP])
    ar1, more = pf.AR1(0.5), np.eye(3)
    cases = [
        (
            lambda: pf.Scenario(SECRETS, pf.GaussianPrior(ar1), order_by="t"),
            "the secret has 2 columns",
        ),
        (
            lambda: pf.Scenario(SECRETS, pf.GaussianPrior(ar1, across=more), order_by="t"),
            "across is of 3 columns",
        ),
        (
            lambda: pf.Scenario(SECRETS, pf.GaussianPrior(np.eye(5)), order_by="t"),
            "the secret has 2 columns",
        ),
        (lambda: pf.Scenario(SECRETS[0], PRIOR, order_by="t"), "the secret has one column"),
        (lambda: pf.Scenario([SECRETS[0], bins], PRIOR, order_by="t"), "domain of 'temp'"),
        (lambda: pf.Scenario(listed, PRIOR, order_by="t"), "pf.Derived"),
        (
            lambda: pf.GaussianPrior(ar1, across=[[1, 0, 1], [0, 1, 1], [1, 1, 2]]),
            "determine each other",
        ),
        (lambda: pf.GaussianPrior(ar1, across=[[1, 0.5], [0.4, 1]]), "not symmetric"),
        (lambda: pf.GaussianPrior(ar1, across=[[1, math.nan], [math.nan, 1]]), "NaN"),
        (lambda: pf.GaussianPrior(ar1, across="temp"), "not a matrix"),
        (lambda: pf.GaussianPrior(ar1, across=ar1), "across is of type AR1"),
        (lambda: pf.GaussianPrior(ar1, variance=2.0, across=ACROSS), "together with across"),
        (lambda: PRIOR.conditional([0, 1], [0, 1], 0, 1, 0), "covariance is that of several"),
        (
            lambda: (
                batch(prior=pf.GaussianPrior(np.eye(4)), rows=3)
                .private_sum("load")
                .plan(pf.Pure(1))
            ),
            "position 2",
        ),
    ]
    for make, words in cases:
        with pytest.raises(pf.PufferflowError, match=words):
            make()


def test_beliefs_are_stored_and_described():
    """A scenario goes to text and back; its words name columns, and the secret that is one of them."""
    for prior in (PRIOR, pf.GaussianPrior(np.kron([[1, 0.5], [0.5, 1]], ACROSS))):
        for secret in (SECRETS, HIDDEN):
            scenario = pf.Scenario(secret, prior, order_by="t")
            assert pf.Scenario.from_json(scenario.to_json()) == scenario
    words = pf.Scenario(HIDDEN, PRIOR, order_by="t").describe()
    assert "the value of 'load' in every row" in words
    assert "2 columns of a row have a covariance matrix" in words


LOAD_AND_TEMP = {"rise": (pl.col("load") + pl.col("temp") / 6, np.array([1.0, 1 / 6]))}
LOAD_AND_TEMP["fall"] = (pl.col("load") - pl.col("temp") / 6, np.array([1.0, -1 / 6]))
LOAD_AND_TEMP["temp above all"] = (pl.col("temp") + 0.5 * pl.col("load"), np.array([0.5, 1.0]))


def loss_of_mixtures(secret, noises, across, size, change=None):
    """Return the loss of noisy sums over the columns, each with its factors and its scale, between two values."""
    factors, scale = np.array([mix for mix, _ in noises]), np.array([one for _, one in noises])
    corners = ROWS * np.array(CORNERS) @ factors.T
    ends = zip(corners.min(axis=0), corners.max(axis=0), strict=True)
    axes = [
        np.concatenate([[low - 1e3], np.linspace(low, high, 5), [high + 1e3]]) for low, high in ends
    ]
    places = np.array(list(itertools.product(*axes)))
    worst = 0.0
    for row in range(ROWS):
        own = [2 * row] if secret is HIDDEN else [2 * row, 2 * row + 1]
        logs = []
        for corner in CORNERS:
            weights, total = sums(own, corner[: len(own)], size, across, change)
            answers = total @ factors.T
            noise = (np.abs(answers[:, None] - places) / scale).sum(axis=2)
            logs.append(logsumexp(weights[:, None] - noise, axis=0))
        worst = max(worst, *(float((a - b).max()) for a, b in itertools.permutations(logs, 2)))
    return worst


@pytest.mark.parametrize("name", thinned(LOAD_AND_TEMP, 0.5))
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("secret", thinned([HIDDEN, SECRETS], 0.5), ids=["one of them", "tuples"])
def test_a_sum_over_both_columns_keeps_its_promise(secret, sign, name):
    """Load and temperature in one sum, correlated either way: columns that move it together count together."""
    across = ACROSS * np.array([[1, sign], [sign, 1]])
    asked, mix = LOAD_AND_TEMP[name]
    prior = pf.GaussianPrior(pf.AR1(PHI), across=across)
    (scale,) = scales(batch(secret, prior).private_sum(asked, name="x").plan(pf.Pure(1.0)))
    size = 21 if secret is HIDDEN else 61
    lost = loss_of_mixtures(secret, [(mix, scale)], across, size)
    assert lost <= 1.0
    one_way = secret is not HIDDEN or sign * mix[0] * mix[1] > 0
    assert lost > (0.999 if one_way else 0.4)
    assert loss_of_mixtures(secret, [(mix, 0.9 * scale)], across, size) > lost * 1.05


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("secret", [SECRETS, HIDDEN], ids=["tuples", "one of them"])
def test_releases_of_sums_over_both_columns_add_up(secret, sign):
    """Two such sums, one after the other: what the account counts is no less than both tell together."""
    across = ACROSS * np.array([[1, sign], [sign, 1]])
    prior = pf.GaussianPrior(pf.AR1(PHI), across=across)
    asked = [LOAD_AND_TEMP[name] for name in ("rise", "fall")]
    plans = [batch(secret, prior).private_sum(one, name="x").plan(pf.Pure(0.5)) for one, _ in asked]
    total = pf.compose(plans, scenario_of(secret, prior)).total
    noises = [(mix, scales(plan)[0]) for (_, mix), plan in zip(asked, plans, strict=True)]
    assert loss_of_mixtures(secret, noises, across, 21 if secret is HIDDEN else 41) <= total
    assert total <= 1.0 + 1e-9


@pytest.mark.parametrize("sign", [1, pytest.param(-1, marks=pytest.mark.slow)])
def test_a_sum_of_functions_that_rise_and_fall_keeps_its_promise(sign):
    """How far the temperature is from 10, added to the load: rows that move along may go either way."""
    across = ACROSS * np.array([[1, sign], [sign, 1]])
    asked = pl.col("load") + (pl.col("temp") - 10).abs() / 6
    prior = pf.GaussianPrior(pf.AR1(PHI), across=across)
    (scale,) = scales(batch(HIDDEN, prior).private_sum(asked, name="x").plan(pf.Pure(1.0)))

    def change(rows):
        return np.stack([rows[:, :, 0], np.abs(rows[:, :, 1] - 10)], axis=2)

    mix = np.array([1.0, 1 / 6])
    assert loss_of_mixtures(HIDDEN, [(mix, scale)], across, 21, change) <= 1.0
    assert scale <= 2 * (10 + 5) * (1 + 1e-6)


GAP = {"load": 1.0, "temp": -0.25}
HIDDEN_GAP = pf.Derived("gap", of=GAP, column=NAMES, domain=[LOAD, TEMP])
NEAR_GAP = pf.Derived(
    "gap", of=GAP, column=NAMES, domain=[LOAD, TEMP], pairs=pf.WithinDistance(6.0)
)


def given_the_gap(row, value, size, across):
    """Return log weights and sums of both columns, on a grid, given the difference in a row."""
    lags = np.abs(np.subtract.outer(range(ROWS), range(ROWS)))
    covariance, mean = np.kron(PHI**lags, across), np.tile((LOWS + HIGHS) / 2, ROWS)
    factors = np.zeros(2 * ROWS)
    factors[2 * row : 2 * row + 2] = list(GAP.values())
    toward = covariance @ factors / (factors @ covariance @ factors)
    rest = covariance - np.outer(toward, toward) * (factors @ covariance @ factors)
    values, vectors = np.linalg.eigh(rest)
    root = vectors[:, 1:] * np.sqrt(values[1:])  # one direction is known
    normals = np.array(list(itertools.product(np.linspace(-6, 6, size), repeat=3)))
    rows = mean + toward * (value - factors @ mean) + normals @ root.T
    read = np.clip(rows.reshape(-1, ROWS, 2), LOWS, HIGHS)
    return -(normals**2).sum(axis=1) / 2, read.sum(axis=1)


def loss_of_the_gap(noises, across, distance, size=21):
    """Return the loss of noisy sums, each with its factors and scale, between values that far apart."""
    factors, scale = np.array([mix for mix, _ in noises]), np.array([one for _, one in noises])
    axes = [[low, *np.linspace(-60, 60, 5), high] for low, high in [(-2e3, 2e3)] * len(noises)]
    places = np.array(list(itertools.product(*axes)))
    middle, worst = float((LOWS + HIGHS) / 2 @ list(GAP.values())), 0.0
    for row, start in itertools.product(range(ROWS), (-distance / 2, -distance, 0.0)):
        logs = []
        for value in (middle + start, middle + start + distance):
            weights, total = given_the_gap(row, value, size, across)
            noise = (np.abs((total @ factors.T)[:, None] - places) / scale).sum(axis=2)
            logs.append(logsumexp(weights[:, None] - noise, axis=0))
        worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
    return worst


GAP_QUERIES = {
    "load": (pl.col("load"), np.array([1.0, 0.0])),
    "temp": (pl.col("temp"), np.array([0.0, 1.0])),
    "both": (pl.col("load") + pl.col("temp") / 6, np.array([1.0, 1 / 6])),
}


@pytest.mark.parametrize("name", thinned(GAP_QUERIES, 0.4))
@pytest.mark.parametrize("sign", [1, pytest.param(-1, marks=pytest.mark.slow)])
def test_a_difference_of_columns_is_hidden(sign, name):
    """The secret is load − temp/4 of a row: sums of either column, or of both, lose no more than is promised."""
    across = ACROSS * np.array([[1, sign], [sign, 1]])
    asked, mix = GAP_QUERIES[name]
    prior = pf.GaussianPrior(pf.AR1(PHI), across=across)
    for secret, distance in ((HIDDEN_GAP, 25.0), (NEAR_GAP, 6.0)):
        assert secret.distance == distance
        (scale,) = scales(batch(secret, prior).private_sum(asked, name="x").plan(pf.Pure(1.0)))
        lost = loss_of_the_gap([(mix, scale)], across, distance)
        assert lost <= 1.0
        if secret is NEAR_GAP and name != "both":
            assert lost > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_releases_beside_a_hidden_difference_add_up(sign):
    """Sums of load and of temperature, one after the other: the account counts what both tell of the difference."""
    across = ACROSS * np.array([[1, sign], [sign, 1]])
    prior = pf.GaussianPrior(pf.AR1(PHI), across=across)
    asked = [GAP_QUERIES[name] for name in ("load", "temp")]
    plans = [
        batch(NEAR_GAP, prior).private_sum(one, name="x").plan(pf.Pure(0.5)) for one, _ in asked
    ]
    total = pf.compose(plans, scenario_of(NEAR_GAP, prior)).total
    noises = [(mix, scales(plan)[0]) for (_, mix), plan in zip(asked, plans, strict=True)]
    assert 0.4 < loss_of_the_gap(noises, across, 6.0) <= total <= 1.0 + 1e-9
    long = batch(NEAR_GAP, prior, rows=24).private_sum(asked[0][0], name="x").plan(pf.Pure(0.1))
    account = AccountCosts([scenario_of(NEAR_GAP, prior)], pf.Approx(9.0, 1e-6))
    account.add(long.cost)
    account.add(msgspec.structs.replace(long.cost, offset=1000, steps_seen=(0, 1023)))
    assert account.total().total < 0.101


def test_a_scenario_with_a_function_of_columns_is_read_back():
    """What is stored is the same scenario; scenarios without such a function are stored as before."""
    scenario = scenario_of(NEAR_GAP)
    assert pf.Scenario.from_json(scenario.to_json()) == scenario
    assert "of" not in HIDDEN.stored()
    assert scenario.secret.describe().startswith("'gap' = load - 0.25 temp of every row")


@pytest.mark.parametrize(
    "options",
    [
        {"of": {"load": 1, "temp": 0}},
        {"of": {"load": 1, "wind": 2}},
        {"of": {"load": math.nan}},
        {"of": 3},
        {"of": {"load": 1}, "values": [1, 2]},
        {"of": {"load": 1}, "name": "temp"},
        {"of": {"load": 1}, "column": None, "domain": None},
        {"of": {"load": 1}, "domain": [LOAD, [0, 1]]},
        {"of": {"load": 1}, "pairs": "adjacent"},
    ],
)
def test_what_is_no_function_of_columns_is_refused(options):
    """Unknown columns, factors of 0, lists of values, names of columns: an error that says what is allowed."""
    given = {"name": "gap", "column": NAMES, "domain": [LOAD, TEMP]} | options
    with pytest.raises(pf.UsageError, match="allowed"):
        pf.Derived(given.pop("name"), **given)


@pytest.mark.parametrize("prior", [pf.Independent(), pf.LatentClass([0.5, 0.5], [[1, 0], [0, 1]])])
def test_other_priors_refuse_a_function_of_columns(prior):
    """A prior that knows no covariance says nothing about a difference; without any assumption all rows move."""
    with pytest.raises(pf.PufferflowError):
        pf.Scenario(HIDDEN_GAP, prior, within="t")
    free = pf.protect(
        pl.DataFrame({"t": [0, 0], "load": [1.0, 2.0], "temp": [0.0, 1.0]}),
        pf.Scenario(HIDDEN_GAP, pf.AnyCorrelation(), within="t"),
    )
    (noise,) = free.private_sum("load").plan(pf.Pure(1.0)).noises.values()
    assert noise.scale == pytest.approx(20.0, rel=1e-8)
