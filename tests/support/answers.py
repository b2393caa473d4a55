"""Several noisy sums about one row or one group: their costs, and the truth about what they tell, found slowly."""

import itertools
import math

import numpy as np

import pufferflow as pf
from pufferflow.accounting.rules.base import UnitReleases
from pufferflow.published.cost import Cost, Rows, Shape, digest_of


def cost(noise, *values, scenario=None, promise=1.0, regions=None, **fields):
    """Return the cost of a release whose sums add `values`, a row for each sum, at the points of a finite domain."""
    priors = () if scenario is None else tuple(map(digest_of, scenario.priors))
    made = pf.Pure(promise) if isinstance(promise, float) else promise
    table = tuple(tuple(map(float, row)) for row in values) or None
    fields["rows"] = Rows(*fields["rows"]) if "rows" in fields else None
    shape = Shape(made, "", priors, noise.stored(), len(values), values=table, **fields)
    return Cost(shape, regions=regions or {})


def asked(scenario, *costs):
    """Return several releases about one unit, under the first prior of a scenario."""
    return UnitReleases(scenario, scenario.priors[0], costs)


def largest_ratio(laws, sums, scales):
    """Return the largest log ratio between any two laws on some points, of sums with Laplace noise.

    `laws` holds a law on the points per secret, `sums` the value of each sum at each point. In every coordinate the
    ratio of likelihoods is a quotient of two functions A·e^y + B·e^−y between atoms, so it is largest at an atom.
    """
    laws, sums = np.asarray(laws, float), np.asarray(sums, float)
    outputs = np.array(list(itertools.product(*[np.unique(one) for one in sums])))
    steps = np.abs(outputs[:, :, None] - sums[None]) / np.asarray(scales, float)[None, :, None]
    likelihoods = np.exp(-steps.sum(axis=1)) @ laws.T
    with np.errstate(divide="ignore"):
        logs = np.log(likelihoods)
    return max(
        float((logs[:, a] - logs[:, b]).max())
        for a, b in itertools.permutations(range(len(laws)), 2)
    )


def close_above(total, truth, most=1e-9):
    """Say whether a total is not below the truth, and above it by rounding only."""
    return truth - 1e-12 <= total <= truth + most and math.isfinite(total)
