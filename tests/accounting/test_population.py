"""Releases about the law that all rows are drawn from: totals add over all rows, never below the truth (M59)."""

import itertools

import numpy as np
import polars as pl
import pytest
from answers import asked, close_above, cost, largest_ratio
from games.report import play
from noisy import delta as delta_of

import pufferflow as pf
from pufferflow.accounting.rules.hidden_class import HiddenClassRule
from pufferflow.accounting.rules.latent_class import StarRule
from pufferflow.privacy.guarantee import GuaranteeFamily

FRAME = pl.DataFrame({"ill": [0, 1, 0, 0, 1] * 80, "city": ["a", "b"] * 200})


def scenario_of(*laws, rows=None):
    named = {f"law {place}": list(law) for place, law in enumerate(laws)}
    secret = pf.Population(
        "ill", domain=list(range(len(laws[0]))), laws=named, missing=0, rows=rows
    )
    return pf.Scenario(secret, pf.Independent(), public="city")


TWO = (0.6, 0.4), (0.7, 0.3)


def costs_of(size, releases):
    return [
        cost(pf.Laplace(scale), values, rows=(len(some), size - len(some)))
        for some, values, scale in releases
    ]


def truth_of(laws, size, releases):
    paths = np.array(list(itertools.product(range(len(laws[0])), repeat=size)))
    given = [np.prod(np.asarray(law)[paths], axis=1) for law in laws]
    sums = [np.asarray(values, float)[paths[:, some]].sum(axis=1) for some, values, _ in releases]
    return largest_ratio(given, sums, [scale for *_, scale in releases])


def close_to(total, truth):
    assert close_above(total, truth)
    return total


def random_case(seed):
    rng = np.random.default_rng(seed)
    points, size = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    laws = rng.dirichlet(np.full(points, 0.8), int(rng.integers(2, 4)))
    releases = [
        (
            sorted(rng.choice(size, int(rng.integers(1, size + 1)), replace=False).tolist()),
            rng.integers(-2, 3, points).tolist(),
            float(rng.uniform(0.5, 3)),
        )
        for _ in range(int(rng.integers(1, 4)))
    ]
    return laws, size, releases


@pytest.mark.parametrize("seed", range(20))
def test_totals_are_never_below_the_truth(seed):
    """Random releases about the same rows, overlapping rows or other rows, for several laws."""
    laws, size, releases = random_case(seed)
    total = StarRule().pure(asked(scenario_of(*laws), *costs_of(size, releases)))
    assert truth_of(laws, size, releases) <= total + 1e-12


def test_releases_about_disjoint_rows_add():
    """Five rows, then five others: twice the loss of one, and what the same rows twice would lose at most."""
    one, two = [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]
    releases = [(one, [0, 1], 5.0), (two, [0, 1], 5.0)]
    costs = costs_of(10, releases)
    alone = StarRule().pure(asked(scenario_of(*TWO), costs[0]))
    both = StarRule().pure(asked(scenario_of(*TWO), *costs))
    assert alone == pytest.approx(0.10274358, abs=1e-8)
    again = truth_of(TWO, 5, [releases[0], releases[0]])
    assert 2 * truth_of(TWO, 5, releases[:1]) == pytest.approx(0.20548715, abs=1e-8)
    assert close_to(both, again) > 0.20548715


def spent_after(tmp_path, limit, promise, rows=None, cities="ab", **options):
    """Return an account after a release about each city, and its totals."""
    scenario, totals = scenario_of(*TWO, rows=rows), []
    account = pf.Ledger(tmp_path / "ledger.db").open("health", scenario, limit=limit)
    for place, city in enumerate(cities):
        batch = pf.protect(FRAME, scenario).filter(pl.col("city") == city)
        batch.private_sum("ill", name="n").plan(promise, **options).release(account, str(place))
        totals.append(account.spent())
    return account, totals


def test_accounts_add_what_different_cities_reveal(tmp_path):
    """Filters on public columns separate no rows; the ledger says why, and has the same total when it is read again."""
    account, totals = spent_after(tmp_path, pf.Pure(2.0), pf.Pure(0.5), row_privacy=False)
    assert totals[0].epsilon == pytest.approx(0.5, rel=1e-6)
    assert totals[1].epsilon > 1.0
    said = account.explain()
    assert "are drawn from one law, and a release about any of them reveals something" in said
    assert "nothing is said about a row's value: the secret is the law of all rows" in said
    again = pf.Ledger(tmp_path / "ledger.db").open("health", scenario_of(*TWO), limit=pf.Pure(2.0))
    assert again.spent() == totals[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "promise"),
    [
        (pf.Approx(300.0, 1e-6), pf.Approx(0.5, 1e-7)),
        (pf.Renyi(2, 300.0), pf.Renyi(2, 0.1)),
    ],
)
def test_gaussian_noise_is_counted_where_the_rows_of_all_tables_are_declared(
    tmp_path, limit, promise
):
    """Without their number all rows may change; a declared number that a table exceeds counts as none."""
    totals = {}
    for rows in (None, 399, 400):
        path = tmp_path / str(rows)
        path.mkdir()
        totals[rows] = spent_after(path, limit, promise, rows, noise="gaussian")[1][-1].loss
    assert totals[400] < totals[None] == pytest.approx(totals[399])


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_gaussian_releases_about_the_same_rows_are_one(times, epsilon):
    """As many counts with Gaussian noise say as much as one with less noise, whose delta is an integral."""
    rows, noise = 8, pf.Gaussian(3.0)
    laws = [
        pf.Law(range(rows + 1), [float(p) for p in _binomial(rows, share)]) for share in (0.4, 0.3)
    ]
    less = noise.at(noise.scale / times**0.5)
    truth = max(delta_of(*laws, less, epsilon), delta_of(*laws[::-1], less, epsilon))
    releases = asked(scenario_of(*TWO, rows=rows), *[cost(noise, [0, 1], rows=(rows, 0))] * times)
    kind = GuaranteeFamily(pf.Approx(1.0, truth))
    assert epsilon <= HiddenClassRule().by_own(releases, kind) + 1e-9


def _binomial(rows, share):
    counts = np.arange(rows + 1)
    steps = np.cumprod(np.append(1.0, (rows - counts[:-1]) / (counts[:-1] + 1)))
    return steps * share**counts * (1 - share) ** (rows - counts)


def test_numbers_of_rows_count_for_every_release():
    """A release about few of the declared rows may be about those that differ, as others are."""
    few, all_rows = (cost(pf.Gaussian(3.0), [0, 1], rows=(many, 8 - many)) for many in (2, 8))
    kind = GuaranteeFamily(pf.Approx(1.0, 1e-6))
    totals = [
        HiddenClassRule().by_own(asked(scenario_of(*TWO, rows=8), *some), kind)
        for some in ([few, all_rows], [all_rows, few], [all_rows, all_rows])
    ]
    assert totals == pytest.approx([totals[0]] * 3, rel=1e-12)
    assert totals[0] < np.inf
    undeclared = asked(scenario_of(*TWO), few)
    too_many = asked(scenario_of(*TWO, rows=7), few)
    assert [HiddenClassRule().by_own(one, kind) for one in (undeclared, too_many)] == [np.inf] * 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pure", "approx", "renyi"])
def test_no_strategy_tells_more_of_the_law_than_the_limit(kind):
    """Adaptive adversaries of three rows, who choose each release after the answers before it."""
    for seed in range(2):
        played = play("population", kind, seed)
        assert played.found.ratio <= 1 + 1e-8


def test_compose_counts_all_rows_too():
    """Plans about different cities, without a ledger."""
    scenario = scenario_of(*TWO)
    plans = [
        pf.protect(FRAME, scenario)
        .filter(pl.col("city") == city)
        .private_sum("ill", name="n")
        .plan(pf.Pure(0.5), row_privacy=False)
        for city in "ab"
    ]
    assert pf.compose(plans, scenario).guarantee.epsilon > 1.0
