"""Laws that all rows are drawn from: noise is never too small, and for counts it is the smallest there is (M59)."""

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from answers import largest_ratio
from noisy import delta as delta_of
from noisy import renyi as renyi_of

import pufferflow as pf
from pufferflow.calibration import latent_mixture
from pufferflow.calibration.differing_rows import DifferingRowsLoss
from pufferflow.calibration.latent_mixture import counts_of_differing
from pufferflow.release.explain.population import largest_gap

SCALES = {
    (0.4, 0.3): {10: 1.07436540, 100: 10.14186790, 1000: 100.14917624},
    (0.05, 0.01): {10: 0.76428882, 100: 4.45132806, 1000: 40.46794411},
}
FARTHEST = {(0.4, 0.3): {10: 2, 50: 6, 200: 22}, (0.05, 0.01): {10: 3, 50: 13, 200: 50}}


def scenario_of(*shares, **options):
    return pf.Scenario(pf.Population.share("ill", list(shares), **options), pf.Independent())


def laws_of(shares, rows):
    return pf.laws(scenario_of(*shares), pf.Statistic.total(rows))


def loss_of_count(rows, p, q, scale):
    """The closed form: the ratio in one of the tails."""
    grown = math.expm1(1 / scale)
    up = math.log((1 + grown * p) / (1 + grown * q))
    down = math.log((1 + grown * (1 - q)) / (1 + grown * (1 - p)))
    return rows * max(up, down)


def binomial(rows, share):
    return np.array(
        [math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(rows + 1)]
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_count_loses_what_its_atoms_say(seed):
    """A hundred laws each: the closed form is the largest ratio at an atom, and the bound is the same."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        rows, scale = int(rng.integers(1, 12)), float(rng.uniform(0.2, 6))
        q, p = np.sort(rng.uniform(0.01, 0.99, 2)).tolist()
        laws = [binomial(rows, p), binomial(rows, q)]
        truth = largest_ratio(laws, [np.arange(rows + 1.0)], [scale])
        assert loss_of_count(rows, p, q, scale) == pytest.approx(truth, rel=1e-11)
        found = pf.loss(laws_of((p, q), rows), pf.Laplace(scale), pf.Pure, bound=pf.Messages())
        assert truth - 1e-12 <= found <= truth * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("shares", SCALES)
def test_the_smallest_noise_of_a_count_is_found(shares):
    """The known scales; a tenth less breaks the guarantee."""
    for rows, scale in SCALES[shares].items():
        found = pf.calibrate(laws_of(shares, rows), pf.Pure(1.0)).noise.scale
        assert found == pytest.approx(scale, rel=1e-6)
        assert loss_of_count(rows, *shares, found) <= 1.0
        assert loss_of_count(rows, *shares, 0.9 * found) > 1.05


@pytest.mark.parametrize("shares", FARTHEST)
def test_a_sum_moves_less_far_than_all_rows(shares):
    """The farthest movement of exact laws."""
    exact = [Fraction(str(share)) for share in shares]
    for rows, steps in FARTHEST[shares].items():
        assert laws_of(exact, rows).winf(1).length == steps


def test_a_million_rows_take_no_longer():
    """The noise of a share is the gap over epsilon, whatever the number of rows; Gaussian noise hardly more."""
    rows = 10**6
    laplace = pf.calibrate(laws_of((0.4, 0.3), rows), pf.Pure(1.0)).noise.scale / rows
    assert laplace == pytest.approx(0.1, rel=1e-5)
    gap = largest_gap(scenario_of(0.4, 0.3).secret, [0.0, 1.0])
    assert gap == pytest.approx(0.1)
    order = pf.calibrate(laws_of((0.4, 0.3), rows), pf.Renyi(2, 1.0), noise=pf.Gaussian)
    assert 0.1 < order.noise.scale / rows < 0.1001


def random_sums(seed):
    """Return laws of a row with a few values, sums about some rows with scales, and the truth by enumeration."""
    rng = np.random.default_rng(seed)
    points, rows = int(rng.integers(2, 4)), int(rng.integers(1, 5))
    laws = rng.dirichlet(np.full(points, 0.8), int(rng.integers(2, 4)))
    paths = np.array(list(itertools.product(range(points), repeat=rows)))
    given = [np.prod(law[paths], axis=1) for law in laws]
    weights = rng.integers(0, 3, (int(rng.integers(1, 3)), rows))
    values = rng.integers(-2, 3, points)
    scale = float(rng.uniform(0.5, 3))
    sums = values[paths] @ weights.T
    truth = largest_ratio(given, list(sums.T.astype(float)), [scale] * len(weights))
    return laws, weights, values, scale, truth


@pytest.mark.parametrize("seed", range(30))
def test_sums_never_lose_more_than_is_said(seed):
    """Rows of two or three values, several laws, one sum or two, weights that leave rows out."""
    laws, weights, values, scale, truth = random_sums(seed)
    named = {f"law {place}": law.tolist() for place, law in enumerate(laws)}
    secret = pf.Population("x", domain=list(range(len(laws[0]))), laws=named)
    statistic = pf.Statistic(weights.tolist(), values.tolist())
    found = pf.loss(
        pf.laws(pf.Scenario(secret, pf.Independent()), statistic),
        pf.Laplace(scale),
        pf.Pure,
        bound=pf.Messages(),
    )
    assert truth <= found + 1e-12


def planned(group=None, rows=5, declared=None, **options):
    """Return a plan of a count of rows, all together or in two groups of so many."""
    groups = 1 if group is None else 2
    frame = pl.DataFrame({"ill": [0] * rows * groups, "city": list("ab"[:groups]) * rows})
    scenario = pf.Scenario(
        pf.Population.share("ill", [0.4, 0.3], missing=0, rows=declared),
        pf.Independent(),
        public="city",
    )
    batch = pf.protect(frame, scenario)
    batch = batch if group is None else batch.group_by(group)
    return batch.private_count(pl.col("ill") == 1, name="n").plan(**options)


def test_counts_of_disjoint_rows_add():
    """Two cities of five rows reveal twice what one does: the same epsilon needs about twice the noise."""
    one = planned(guarantee=pf.Pure(0.10274358 * (1 + 1e-7)), row_privacy=False)
    two = planned("city", guarantee=pf.Pure(0.20548715 * (1 + 1e-7)), row_privacy=False)
    assert one.noises["n"].scale == pytest.approx(5.0, rel=1e-5)
    assert two.noises["n"].scale == pytest.approx(5.0, rel=1e-5)


def test_noise_that_hides_the_law_hides_a_row_too():
    """Unless it is asked not to: laws that hardly differ need no noise, and rows do."""
    shares = pf.Population.share("ill", [0.51, 0.5], missing=0)
    batch = pf.protect(pl.DataFrame({"ill": [0] * 20}), pf.Scenario(shares, pf.Independent()))
    counted = batch.private_count(pl.col("ill") == 1, name="n")
    kept, bare = (
        counted.plan(pf.Pure(1.0), row_privacy=row_privacy) for row_privacy in (True, False)
    )
    assert kept.noises["n"].scale >= 1
    assert bare.noises["n"].scale < 0.1
    assert kept.ordinary.epsilon <= 1
    assert "differential privacy: epsilon" in kept.explain()


@pytest.mark.parametrize("shares", [(0.4, 0.3), (0.05, 0.01), (0.9, 0.2)])
@pytest.mark.parametrize("rows", [1, 5, pytest.param(40, marks=pytest.mark.slow)])
def test_gaussian_noise_loses_no_more_than_by_how_many_rows_differ(shares, rows):
    """Against the integral of both laws of one sum, at several scales."""
    mu, nu = (pf.Law(range(rows + 1), binomial(rows, share).tolist()) for share in shares)
    loss = DifferingRowsLoss(np.array([[1 - p, p] for p in shares]), rows)
    for scale in (0.5, 0.4 * rows):
        noise = pf.Gaussian(scale)
        truth = max(renyi_of(mu, nu, noise, 2.0), renyi_of(nu, mu, noise, 2.0))
        assert truth <= loss.renyi(1 / scale**2, 2.0) + 1e-9
        for epsilon in (0.1, 1.0):
            one = max(delta_of(mu, nu, noise, epsilon), delta_of(nu, mu, noise, epsilon))
            assert one <= loss.delta(1 / scale**2, epsilon) + 1e-9


def test_rows_that_differ_say_as_much_as_movement():
    """One sum of 50 rows, whose exact Rényi loss is .06112201."""
    loss = DifferingRowsLoss(np.array([[0.6, 0.4], [0.7, 0.3]]), 50)
    assert 0.06112201 < loss.renyi(1 / 20**2, 2.0) < 0.076


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.4, 0.3), (0.002, 0.001)])
def test_laplace_noise_may_ignore_many_differing_rows(shares):
    """Against the exact delta of one count; where few rows differ it beats all pure losses."""
    rows = 40
    mu, nu = (pf.Law(range(rows + 1), binomial(rows, share).tolist()) for share in shares)
    loss = DifferingRowsLoss(np.array([[1 - p, p] for p in shares]), rows)
    for exposure, epsilon in ((0.1, 0.2), (2.0, 2.0), (6.0, 6.0)):
        noise = pf.Laplace(1 / exposure)
        truth = max(delta_of(mu, nu, noise, epsilon), delta_of(nu, mu, noise, epsilon))
        assert truth <= loss.delta_of_pure(exposure, epsilon) + 1e-9


def test_numbers_of_many_rows_have_no_smaller_tails(monkeypatch):
    """From tails of the binomial law as from its masses, at every number of rows."""
    laws = np.array([[0.6, 0.4], [0.7, 0.3]])
    listed, counts = counts_of_differing(laws, 20_000, 64, 8)
    monkeypatch.setattr(latent_mixture, "_MOST_LISTED", 10)
    masses, at = counts_of_differing(laws, 20_000, 64, 8)
    for count in np.union1d(counts, at)[::5]:
        exact = math.fsum(listed[counts >= count])
        rough = math.fsum(masses[at >= count])
        assert rough >= exact * (1 - 1e-6) or count not in at
    assert masses.sum() == pytest.approx(1, abs=1e-6)
    most = DifferingRowsLoss(laws, 10**9)
    assert most.renyi(100 / 10**18, 2.0) == pytest.approx(1.0, rel=1e-3)


def test_no_answer_names_the_right_law_more_often_than_the_floor():
    """Of all thresholds of a noisy count the best one is right under both laws in at most so many cases."""
    shares, rows = (0.4, 0.3), 30
    scale = pf.calibrate(laws_of(shares, rows), pf.Pure(1.0)).noise.scale
    first, second = (binomial(rows, share) for share in shares)
    floor = 1 / (1 + math.exp(-1.0))
    counts = np.arange(rows + 1)
    for threshold in np.linspace(0, rows, 301):
        above = np.where(
            counts > threshold,
            1 - np.exp(-np.abs(counts - threshold) / scale) / 2,
            np.exp(-np.abs(counts - threshold) / scale) / 2,
        )
        assert min(first @ above, 1 - second @ above) <= floor


def test_plans_say_that_the_difference_is_hidden_by_design():
    """The gap over epsilon, and how often a rule may be right, stand beside the noise."""
    said = planned(guarantee=pf.Pure(1.0)).explain()
    assert "no rule names the right one of two under both in more than 73.2" in said
    assert "per row tends to 0.1, the gap between the laws divided by epsilon" in said
    assert "rows are independent draws from one of the laws" in said
    assert "no rule names" in planned(guarantee=pf.Approx(1.0, 1e-6)).explain()
    assert "no rule names" not in planned(guarantee=pf.Renyi(2, 1.0)).explain()
    remedies = planned(guarantee=pf.Pure(1.0)).check()["way_on"].to_list()
    assert "more rows do not help" in remedies[0]


@pytest.mark.parametrize("group", [None, "city"])
def test_plans_say_that_there_are_more_rows_than_declared(group):
    """Rows beyond `rows` of the secret are noted, since accounts then count Gaussian noise without it."""
    more = {
        rows: planned(group, 5, declared=rows, guarantee=pf.Pure(1.0)).explain() for rows in (4, 10)
    }
    found = 5 if group is None else 10
    assert f"{found} rows are selected, and the secret declares rows=4" in more[4]
    assert "the secret declares" not in more[10]
