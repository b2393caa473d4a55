"""Columns of weights that stand for many rows: the laws of rows one by one, and an answer for groups of any size."""

import math
import time

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.pattern import of_pattern
from tests.support.chains import kernel
from tests.support.patterns import pattern, values

INTERVAL = pf.Secret("x", domain=pf.Interval(0, 4))
LATENT = pf.LatentClass([0.3, 0.7], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
COUNTED = {
    "any correlation": (values(3), pf.AnyCorrelation()),
    "independent": (values(3), pf.Independent()),
    "presence": (pf.Presence("person", "x", [0, 1, 2]), pf.Independent()),
    "presence in groups": (pf.Presence("person", "x", [0, 1, 2]), pf.AnyCorrelation()),
    "latent class": (values(3), LATENT),
    "hidden class": (pf.Derived("kind", column="x", domain=[0, 1, 2]), LATENT),
    "gaussian": (INTERVAL, pf.GaussianPrior(pf.Exchangeable(0.2))),
    "nearly independent": (INTERVAL, pf.WeaklyDependent(0.3)),
    "table": (
        values(3),
        pf.Table({"x": [0, 1, 2, 0], "t": [0, 0, 1, 1], "probability": [0.4, 0.1, 0.2, 0.3]}, "t"),
    ),
    "chain": (values(3), pf.MarkovChain(kernel(np.random.default_rng(2), 3))),
}


@pytest.mark.parametrize("name", thinned(COUNTED, 0.23))
@pytest.mark.parametrize(
    "weights", [[[1, 0, 2]], [[1, 0, 2], [1, 1, 0]]], ids=["one answer", "two answers"]
)
def test_counted_rows_are_rows_one_by_one(name, weights):
    """A column of weights that stands for n rows has the laws of n columns, and its witness is a row of it."""
    secret, prior = COUNTED[name]
    counts, table = [2, 1, 1], None if secret is INTERVAL else [0.0, 1.0, 3.0]
    counted = implied(prior, pf.Statistic(weights, table, counts=counts, column="x"), secret)
    each = implied(
        prior, pf.Statistic(np.repeat(weights, counts, axis=1), table, column="x"), secret
    )
    assert [counted.span(norm).length for norm in (1, 2)] == [
        each.span(norm).length for norm in (1, 2)
    ]
    assert counted.winf(1).length == each.winf(1).length
    assert counted.winf(1).witness.row == each.winf(1).witness.row
    if prior.ordered or isinstance(prior, pf.LatentClass | pf.Table):
        losses = [
            pf.loss(laws, pf.Laplace(2.0), pf.Pure, bound=pf.Messages()) for laws in (counted, each)
        ]
        assert losses[0] == losses[1]


@pytest.mark.parametrize(
    "counts", [[1.5, 2], [0, 1], [1], [math.nan, 1], ["a", 1], [[1, 1]]], ids=str
)
def test_counts_are_whole_numbers(counts):
    """Counts are whole numbers from 1, one for each column, and rows with counts have no positions."""
    with pytest.raises(pf.UsageError):
        pf.Statistic([1, 0], counts=counts)
    with pytest.raises(pf.UsageError, match="positions"):
        pf.Statistic([1, 0], positions=[0, 3], counts=[2, 1])
    assert pf.Statistic([1, 0], counts=[1, 1]).counts is None


HUGE = {
    **COUNTED,
    "sampled": (values(3), pf.Simulator(lambda *given: np.zeros(given[3]), draws=10, seed=1)),
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("cells", [1, 1000])
def test_groups_of_any_size_have_an_answer(name, cells):
    """20 million rows of one group, in one cell or a thousand: every guarantee finds a noise, in a moment."""
    secret, prior = HUGE[name]
    table = np.array([[0.0, 2.0]]) if secret is INTERVAL else np.array([[0.0, 1.0, 3.0]])
    counts = None if prior.ordered else [20_000_000 // cells] * cells
    where = pattern(range(cells), range(cells) if prior.ordered else None, counts)
    begun = time.perf_counter()
    for noise, promise in ((pf.Laplace, pf.Pure(1.0)), (pf.Gaussian, pf.Renyi(4, 1.0))):
        found = pf.calibrate(of_pattern(prior, secret, where, table, "x"), promise, noise=noise)
        assert 0 < found.noise.scale < math.inf
    assert time.perf_counter() - begun < 10


def test_a_million_cells():
    """A group in a million cells is bounded by formula: its movements are a million rows in the norm 1, 1000 in 2."""
    where, table = pattern(np.arange(10**6)), np.array([[0.0, 1.0, 3.0]])
    laws = of_pattern(pf.AnyCorrelation(), values(3), where, table, "x")
    assert [laws.winf(norm).length for norm in (1, 2, math.inf)] == [3e6, 3e3, 3.0]
    assert laws.dimension == 10**6
    with pytest.raises(pf.Refused):
        list(laws)
    alone = of_pattern(pf.Independent(), values(3), where, table, "x")
    assert (alone.dimension, alone.winf(1).length) == (1, 3.0)
