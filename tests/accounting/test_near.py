"""Releases under classes of tables and latent classes: totals are never below the truth of any member."""

import itertools

import numpy as np
import pytest
from answers import asked, cost, largest_ratio

import pufferflow as pf
from pufferflow.accounting.rules.latent_class import StarRule
from pufferflow.accounting.rules.table import NearRule
from pufferflow.models.priors.latent_class import LatentClassesNear
from pufferflow.models.priors.near import Around
from pufferflow.models.priors.table import LawsGiven, TablesNear


def around(laws, width):
    laws = np.asarray(laws, float)
    low, high = (laws - width).clip(0), (laws + width).clip(0, 1)
    return Around(laws, low, high, np.minimum((high - laws).sum(axis=1), (laws - low).sum(axis=1)))


def member(rng, regions):
    """A member of each region: from the centre as far as bounds allow towards some law."""
    aims = rng.dirichlet(np.full(regions.states, 0.2), len(regions))
    ways = aims - regions.centre
    room = np.where(ways > 0, regions.high - regions.centre, regions.centre - regions.low)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.nan_to_num(room / np.abs(ways), nan=1.0, posinf=1.0).min(axis=1, keepdims=True)
    return regions.centre + np.minimum(steps, 1.0) * ways


def near_tables(rng, width):
    """A class of tables of a hidden column and two that are read, of two and three points."""
    sizes = {"ill": 2, "x": 2, "y": 3}
    questions = [(h, (a,)) for h in sizes for a in sizes if a != h]
    questions += [(h, tuple(a for a in sizes if a != h)) for h in sizes]
    shape = [(sizes[h], int(np.prod([sizes[a] for a in others]))) for h, others in questions]
    laws = [rng.dirichlet(np.ones(columns), rows) for rows, columns in shape]
    joint = laws[questions.index(("ill", ("x", "y")))].reshape(2, 2, 3)
    laws[questions.index(("ill", ("x",)))], laws[questions.index(("ill", ("y",)))] = (
        joint.sum(axis=2),
        joint.sum(axis=1),
    )
    given = tuple(
        LawsGiven(*question, around(law, width))
        for question, law in zip(questions, laws, strict=True)
    )
    return TablesNear(
        tuple(sizes), tuple(tuple(range(size)) for size in sizes.values()), given, width
    )


@pytest.mark.parametrize("seed", range(20))
def test_totals_about_a_row_are_never_below_the_truth(seed):
    """Releases that read one column or the other, under random members of the joint law of both."""
    rng = np.random.default_rng(seed)
    prior, columns = (
        near_tables(rng, 0.05),
        [str(rng.choice(["x", "y"])) for _ in range(int(rng.integers(1, 4)))],
    )
    points = np.array(list(itertools.product(range(2), range(3))))
    values = [rng.integers(-2, 3, 2 if name == "x" else 3).tolist() for name in columns]
    scales = rng.uniform(0.5, 3, len(columns)).tolist()
    sums = [
        np.array(table)[points[:, "xy".index(name)]]
        for name, table in zip(columns, values, strict=True)
    ]
    scenario = pf.Scenario(secret=pf.Derived("ill"), prior=prior)
    costs = [
        cost(pf.Laplace(s), v, column=name)
        for s, v, name in zip(scales, values, columns, strict=True)
    ]
    total = NearRule().pure(asked(scenario, *costs))
    (_, laws) = prior.given("ill", ["x", "y"])
    truth = max(largest_ratio(member(rng, laws), sums, scales) for _ in range(30))
    assert 0 < truth <= total + 1e-12
    if len(set(columns)) > 1:
        assert total < 8 * truth


def test_the_total_of_a_column_that_is_the_secret_is_its_own_loss():
    """Whoever reads the hidden column itself sees it, whatever the laws of the others."""
    prior = near_tables(np.random.default_rng(0), 0.05)
    scenario = pf.Scenario(secret=pf.Secret("x", domain=[0, 1]), prior=prior)
    assert NearRule().pure(
        asked(scenario, cost(pf.Laplace(2.0), [0, 1], column="x"))
    ) == pytest.approx(0.5)
    both = asked(
        scenario,
        cost(pf.Laplace(2.0), [0, 1], column="x"),
        cost(pf.Laplace(1.0), [0, 1, 2], column="y"),
    )
    assert 0.5 < NearRule().pure(both) <= 2.5 + 1e-12


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_totals_about_a_group_are_never_below_the_truth(seed, derived):
    """Releases about random rows of a group, under random members of weights and rows."""
    rng = np.random.default_rng(seed)
    points, size = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    prior = LatentClassesNear(
        around(rng.dirichlet([2, 2], 1), 0.05), around(rng.dirichlet([2] * points, 2), 0.05), 0.05
    )
    asks = [
        sorted(rng.choice(size, int(rng.integers(1, size + 1)), replace=False).tolist())
        for _ in range(2)
    ]
    tables, scales = rng.integers(-2, 3, (2, points)), rng.uniform(0.5, 3, 2)
    domain = list(range(points))
    secret = (
        pf.Derived("kind", column="level", domain=domain)
        if derived
        else pf.Secret("level", domain=domain)
    )
    scenario = pf.Scenario(secret=secret, prior=prior, within="house")
    costs = [
        cost(pf.Laplace(s), t.tolist(), rows=(len(a), size - len(a)))
        for s, t, a in zip(scales, tables, asks, strict=True)
    ]
    total = StarRule().pure(asked(scenario, *costs))
    paths = np.array(list(itertools.product(domain, repeat=size)))
    sums = [t[paths[:, a]].sum(axis=1) for t, a in zip(tables, asks, strict=True)]
    for _ in range(10):
        weights, rows = (member(rng, part) for part in prior.regions)
        given = np.array([np.prod(law[paths], axis=1) for law in rows])
        if derived:
            assert largest_ratio(given, sums, scales) <= total + 1e-12
            continue
        joint = weights[0] @ given
        for row in range(size):
            laws = [np.where(paths[:, row] == point, joint, 0.0) for point in domain]
            assert largest_ratio([law / law.sum() for law in laws], sums, scales) <= total + 1e-12
