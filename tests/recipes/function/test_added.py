"""A sum of arcsinh(x) is asked like any other, on a domain that is listed; on an interval it is refused by name."""

import math

import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame({"level": [0, 1, 3]})


def test_a_function_of_listed_values_is_summed():
    """The answer is what Polars gives, but for a noise that is hardly there."""
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
    found = (
        pf.protect(ROWS, scenario)
        .private_sum(pl.col("level").arcsinh(), "load")
        .release(epsilon=1e9)
    )
    assert found.frame["load"][0] == pytest.approx(math.asinh(1) + math.asinh(3), abs=1e-5)


def test_a_function_that_is_not_linear_is_refused_on_an_interval():
    """Nothing was said of its curve."""
    scenario = pf.Scenario(pf.Secret("level", domain=pf.Interval(0, 3)), pf.Independent())
    with pytest.raises(pf.PufferflowError, match="sinh"):
        pf.protect(ROWS, scenario).private_sum(pl.col("level").arcsinh(), "load").plan(pf.Pure(1.0))
