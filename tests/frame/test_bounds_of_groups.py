"""Bounds of values by public group: no more is lost than was promised, by all data sets of small worlds."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp

import pufferflow as pf

LEVELS = [0, 1, 3]
BOUNDS = {"a": (0, 1), "b": (0, 3), "c": (1, 3)}
INDEPENDENT, ANY = pf.Independent(), pf.AnyCorrelation()
STAY = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
WEIGHTS, CLASSES = [0.4, 0.6], np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
CROSSING = (["a", "a", "b", "b", "c", "a", "b"], [1, 1, 1, 1, 2, 2, 2])
OF_UNITS = (["a", "a", "a", "b", "b", "b", "c"], [1, 1, 1, 2, 2, 2, 3])
OF_STEPS = (["a", "b", "c", "b", "a", "b", "c"], [1, 1, 1, 1, 2, 2, 2])


def rows(groups, houses):
    hours = [sum(other == house for other in houses[:place]) for place, house in enumerate(houses)]
    return pl.DataFrame({"grade": groups, "house": houses, "hour": hours, "level": [LEVELS[0]] * len(groups)})


def batch(frame, prior=INDEPENDENT, domain=LEVELS, *, ordered=False, **grouping):
    order = {"order_by": "hour"} if ordered else {}
    scenario = pf.Scenario(pf.Secret("level", domain), prior, within="house", public=["grade"], **order)
    return pf.protect(frame, scenario).group_by("grade", **grouping)


def scale_of(plan, name="level_sum"):
    """Return the scale of each group's noise."""
    own = plan.summary().filter(pl.col("query") == name)
    return {group.removeprefix("grade="): scale for group, scale in own.select("group", "scale").rows()}


def worlds(prior, count):
    """Yield all values of a unit's rows, by their places in the domain, with their probability."""
    for path in itertools.product(range(len(LEVELS)), repeat=count):
        if prior == "chain":
            start = np.linalg.matrix_power(STAY, 300)[0]
            yield path, start[path[0]] * math.prod(STAY[a, b] for a, b in itertools.pairwise(path))
        else:
            yield path, float((WEIGHTS * np.prod([CLASSES[:, state] for state in path], axis=0)).sum())


def contributions(paths, groups, bounds):
    """Return what a unit adds to the sum of each of its groups, for all values of its rows."""
    values = np.array(LEVELS, dtype=float)[np.array(paths)]
    clipped = np.stack([np.clip(values[:, row], *bounds[group]) for row, group in enumerate(groups)], axis=1)
    named = sorted(set(groups))
    return named, np.stack([clipped[:, [own == group for own in groups]].sum(axis=1) for group in named], axis=1)


def true_loss(prior, groups, bounds, scales):
    """Return the largest log ratio of densities of the published vector between two values of a row."""
    paths, masses = zip(*worlds(prior, len(groups)), strict=True)
    states, masses = np.array(paths), np.log(masses)
    named, atoms = contributions(paths, groups, bounds)
    axes = [np.unique([column.min() - 1e4, *column, column.max() + 1e4]) for column in atoms.T]
    places = np.array(list(itertools.product(*axes)))
    near = -(np.abs(places[:, None] - atoms[None]) / [scales[group] for group in named]).sum(axis=2)
    worst = 0.0
    for row in range(len(groups)):
        given = [states[:, row] == state for state in range(len(LEVELS))]
        logs = [logsumexp(near[:, own] + masses[own], axis=1) - logsumexp(masses[own]) for own in given]
        worst = max(worst, *(float((a - b).max()) for a, b in itertools.permutations(logs, 2)))
    return worst


def free_loss(groups, bounds, scales):
    """Return the largest loss between any two data sets of a unit."""
    named, atoms = contributions(list(itertools.product(range(3), repeat=len(groups))), groups, bounds)
    return float((np.abs(atoms[:, None] - atoms[None]) / [scales[group] for group in named]).sum(axis=2).max())


def units(groups, houses):
    for house in sorted(set(houses)):
        yield [group for group, own in zip(groups, houses, strict=True) if own == house]


PRIORS = {
    "any": (ANY, False),
    "chain": (pf.MarkovChain(STAY), True),
    "class": (pf.LatentClass(WEIGHTS, CLASSES), False),
}


@pytest.mark.parametrize("table", [CROSSING, OF_UNITS, OF_STEPS], ids=["crossing", "of units", "of steps"])
@pytest.mark.parametrize("kind", PRIORS)
def test_dependent_rows_lose_no_more_than_is_promised(kind, table):
    """Units within a group, and crossing groups: the exact loss of the published vector is at most what is promised."""
    prior, ordered = PRIORS[kind]
    plan = batch(rows(*table), prior, ordered=ordered).private_sum("level", bounds=BOUNDS).plan(pf.Pure(1.0))
    scales = scale_of(plan)
    own = [
        free_loss(groups, BOUNDS, scales) if kind == "any" else true_loss(kind, groups, BOUNDS, scales)
        for groups in units(*table)
    ]
    assert max(own) <= 1.0
    if kind == "any":
        assert max(own) > 0.95
