"""Worlds in which accounts once guaranteed too much: menus of plans, and the laws of what is asked."""

import itertools

import numpy as np
import polars as pl

import pufferflow as pf
from games.tables import gaussians, tail
from games.world import Pair, Release, World, finite, release_of

TABLE = {"x": 0.73, "y": 0.97, "z": 0.97}
"""How likely each column is the secret itself; columns are independent given it."""
CLASSES = 63
"""Rows of a group in hidden classes."""


def table_of(columns=None):
    """Return a scenario with a secret behind several columns, its world, and what a column is on each data set."""
    columns = TABLE if columns is None else columns
    rows = list(itertools.product((0, 1), repeat=1 + len(columns)))
    chances = [
        0.5
        * np.prod(
            [
                share if value == row[0] else 1 - share
                for value, share in zip(row[1:], columns.values(), strict=True)
            ]
        )
        for row in rows
    ]
    names = ["s", *columns]
    data = dict(zip(names, (list(one) for one in zip(*rows, strict=True)), strict=True))
    scenario = pf.Scenario(pf.Derived("s"), pf.Table({**data, "probability": chances}))
    world = World.given(rows, chances, data["s"])
    return scenario, world, {name: np.array(data[name], float) for name in names}


def asked_of_table(scenario, columns):
    """Return a function from a column, a guarantee and options to a release of its sum over one row."""
    frame = pl.DataFrame({name: [0] for name in columns if name != "s"})

    def release(column, promise, **options):
        plan = pf.protect(frame, scenario).private_sum(column).plan(promise, **options)
        return release_of(f"{column} {promise!r}", plan, columns[column], most=32)

    return release


def classes():
    """Return a scenario whose classes tie the first row to the second or the third, its world, and what is asked.

    The pair of values lies around the point where they reveal nothing about the class, and both classes are equally
    likely given either. Rows from the fourth on have another mean in each class.
    """
    centres, variances = (0.0, 1.0), (1.0, 0.5)
    prior = pf.GaussianMixture(
        [0.772340353525199, 1 - 0.772340353525199],
        means=list(centres),
        covariances=[_tied(place + 1, one) for place, one in enumerate(variances)],
    )
    secret = pf.Initial("x", pf.Interval(-50, 50), pairs=[(1.5, 2.5)])
    scenario = pf.Scenario(secret, prior, order_by="hour")
    atoms = [(place, value) for place in (0, 1) for value in (1.5, 2.5)]
    shares = prior.pairs(secret)[0].tops.centre[0]
    world = World.given(atoms, [shares[place] for place, _ in atoms], [value for _, value in atoms])
    frame = pl.DataFrame({"hour": range(CLASSES), "x": [0.0] * CLASSES})

    def release(rows, promise):
        batch = (
            pf.protect(frame, scenario).filter(pl.col("hour").is_in(list(rows))).private_sum("x")
        )
        plan = batch.plan(promise, noise=pf.Gaussian)
        means, squares = np.zeros(4), np.full(4, plan.noises["x_sum"].scale ** 2)
        for at, (place, value) in enumerate(atoms):
            for row in rows:
                factor = 1.0 if row == 0 else 0.99 if row == place + 1 else 0.0
                means[at] += centres[place] + factor * (value - centres[place])
                squares[at] += variances[place] * (1 - factor**2)
        return Release(
            f"rows {rows!r} {promise!r}", plan, gaussians(means, np.sqrt(squares), most=90)
        )

    return scenario, world, release


def _tied(place, variance):
    matrix = np.eye(CLASSES)
    matrix[0, place] = matrix[place, 0] = 0.99
    return (matrix * variance).tolist()


def presence(**options):
    """Return a scenario about whether a unit with one row is there, its world, and counts and discovered keys."""
    secret = pf.Presence("unit", "x", domain=[0, 1], rows=1, **options)
    scenario = pf.Scenario(secret, pf.Independent(), public=["town"])
    batch = pf.protect(pl.DataFrame({"unit": [0, 1], "town": ["a", "b"], "x": [0, 1]}), scenario)
    there = np.array([0.0, 1.0])

    def count(promise, noise=pf.Gaussian):
        plan = batch.private_count().plan(promise, noise=noise)
        return release_of(f"count {promise!r} {noise.__name__}", plan, there, most=150)

    def keys(promise, noise=pf.Gaussian):
        """The unit is alone in a town: its key appears if the noisy number of rows is above the threshold."""
        plan = batch.group_by("town", keys="discover").private_count().plan(promise, noise=noise)
        known = plan.mechanism.noise.threshold
        chance = tail(known.noise, float(known.above - 1 + known.grid / 2))
        return finite(
            f"keys {promise!r} {noise.__name__}", plan, [[0.0, chance], [1.0, 1 - chance]]
        )

    return scenario, World.given([0, 1], [0.5, 0.5], [0, 1]), count, keys


def longer_file():
    """Return a scenario of a sequence, its world of the first row's value, and sums over it in longer files."""
    secret = pf.Secret("x", domain=pf.Interval(0, 1.02), pairs=[(0, 1)])
    scenario = pf.Scenario(secret, pf.GaussianPrior(pf.AR1(0.5)), order_by="t")
    first = np.array([0.0, 1.0])

    def release(rows, promise, noise, column="x"):
        frame = pl.DataFrame({"t": range(rows), "x": [0.0] * rows})
        batch = pf.protect(frame, scenario).filter(pl.col("t") == 0).private_sum(column, name="x")
        return release_of(
            f"{rows} rows {promise!r}", batch.plan(promise, noise=noise, row_privacy=False), first
        )

    return scenario, World.given([0, 1], [0.5, 0.5], [0, 1]), release


def pair_of(first, second, size):
    """Return a pair of two data sets, in both orders."""
    pair = Pair("two data sets", np.eye(size)[first], np.eye(size)[second])
    return [pair, pair.reversed()]
