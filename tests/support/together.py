"""What several noisy sums along a chain reveal about one row, by all sequences and all worst outputs."""

import itertools
from typing import NamedTuple

import numpy as np
import polars as pl

import pufferflow as pf


class Asked(NamedTuple):
    """A release: the hours it sums over, φ at the states, and the ε of its own guarantee."""

    hours: tuple
    values: tuple
    epsilon: float


def frame(rows, group="a"):
    """Return rows of one sequence; what their states are does not matter to any plan."""
    return pl.DataFrame({"hour": range(rows), "group": [group] * rows, "state": [0] * rows})


def plan_of(data, scenario, asked, **options):
    """Return the plan of a release."""
    batch = pf.protect(data, scenario).filter(pl.col("hour").is_in(list(asked.hours)))
    chosen = pl.col("state").replace_strict(
        dict(enumerate(map(float, asked.values))), return_dtype=pl.Float64
    )
    return batch.private_sum(chosen, name="answer").plan(
        options.pop("promise", pf.Pure(asked.epsilon)), **options
    )


def chain_truth(transition, initial, rows, releases, pairs=None):
    """Return the largest log ratio of likelihoods of all answers together, over rows, pairs of states and outputs.

    `releases` are (hours, values, Laplace scale). Laplace likelihoods of finite laws are most unlike at atoms.
    """
    states = len(transition)
    paths = np.array(list(itertools.product(range(states), repeat=rows)))
    chances = np.asarray(initial)[paths[:, 0]]
    for step in range(1, rows):
        chances = chances * np.asarray(transition)[paths[:, step - 1], paths[:, step]]
    sums = [
        np.asarray(values, float)[paths[:, list(hours)]].sum(axis=1)
        for hours, values, _ in releases
    ]
    outputs = np.array(list(itertools.product(*[np.unique(one) for one in sums])))
    logs = np.zeros((len(outputs), len(paths)))
    for place, (one, (_, _, scale)) in enumerate(zip(sums, releases, strict=True)):
        logs -= np.abs(outputs[:, [place]] - one[None]) / scale
    likelihoods = np.exp(logs)
    worst = 0.0
    for row in range(rows):
        given = []
        for state in range(states):
            weights = np.where(paths[:, row] == state, chances, 0.0)
            given.append(likelihoods @ (weights / weights.sum()))
        for a, b in pairs or itertools.permutations(range(states), 2):
            worst = max(worst, float(np.log(given[a] / given[b]).max()))
    return worst
