"""The k-fold of the largest loss is not below what outputs tell, nor below the sum of losses."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from pufferflow.accounting.rules.k_fold import KFoldRule

import pufferflow as pf
from pufferflow.accounting.rules.additive import CouplingRule
from pufferflow.accounting.rules.base import UnitReleases

SCENARIO = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.AnyCorrelation(), within="house")
FRAME = pl.DataFrame({"house": [1, 1, 1], "x": [0, 1, 1]})


def plans(*epsilons):
    batch = pf.protect(FRAME, SCENARIO).private_sum("x")
    return [batch.plan(pf.Pure(epsilon)) for epsilon in epsilons]


def truth(released):
    """The largest log ratio of all answers on a grid, between three rows that are 0 and three that are 1."""
    noises = [plan.noises["x_sum"] for plan in released]
    grid = np.linspace(-20, 23, 87)
    ratios = [noise.logpdf(grid - 3) - noise.logpdf(grid) for noise in noises]
    return max(abs(sum(found)) for found in itertools.product(*ratios))


@pytest.mark.parametrize("epsilons", [(1.0,), (1.0, 0.5), (0.2, 0.2, 0.7)])
def test_no_output_tells_more(epsilons):
    """Truth ≤ sum of losses ≤ k times the largest, for pure losses and for those of an order."""
    released = plans(*epsilons)
    unit = UnitReleases(SCENARIO, SCENARIO.priors[0], [plan.certificate.cost for plan in released])
    found = KFoldRule().pure(unit)
    assert truth(released) <= CouplingRule().pure(unit) <= found
    assert found == pytest.approx(len(epsilons) * max(epsilons), rel=1e-6)
    assert CouplingRule().renyi(unit, 4.0) <= KFoldRule().renyi(unit, 4.0) < math.inf


def test_the_least_total_carries():
    """A tighter rule is named where there is one."""
    total = pf.compose(plans(1.0, 0.5), SCENARIO)
    assert total.total == pytest.approx(1.5, rel=1e-6)
    assert total.rule != KFoldRule.name


def test_squared_deviations_add():
    """Three releases with Gaussian noise move together as far as √3 times one of them."""
    batch = pf.protect(FRAME, SCENARIO).private_sum("x")
    plan = batch.plan(pf.Approx(1.0, 1e-5), noise=pf.Gaussian)
    unit = UnitReleases(SCENARIO, SCENARIO.priors[0], [plan.certificate.cost] * 3)
    assert KFoldRule().gaussian(unit) == pytest.approx(CouplingRule().gaussian(unit))
