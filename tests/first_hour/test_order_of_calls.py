"""Rows and groups are chosen before queries: an error says so, and shows the order with the columns that were typed."""

import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame({"area": ["n", "s"], "floor": [1, 2], "kwh": [1.0, 2.0]})
SCENARIO = pf.Scenario(
    pf.Secret("kwh", pf.Interval(0, 5)), pf.Independent(), public=["area", "floor"]
)

WRONG = {
    "group_by": (lambda b: b.group_by("area"), '.group_by("area").private_sum("kwh")'),
    "two groups": (
        lambda b: b.group_by("area", "floor"),
        '.group_by("area", "floor").private_sum("kwh")',
    ),
    "a named group": (
        lambda b: b.group_by(high=pl.col("floor") > 1),
        '.group_by("high").private_sum("kwh")',
    ),
    "a selector": (
        lambda b: b.group_by(pl.col("area", "floor")),
        '.group_by("area").private_sum("kwh")',
    ),
    "filter": (lambda b: b.filter(floor=1), '.filter(…).private_sum("kwh")'),
    "with_columns": (
        lambda b: b.with_columns(high=pl.col("floor") > 1),
        '.with_columns(…).private_sum("kwh")',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_choosing_rows_after_a_query_is_refused_with_the_right_order(name):
    """The error says what all queries of a batch share, and in which order to type it."""
    wrong, typed = WRONG[name]
    asked = pf.protect(ROWS, SCENARIO).private_sum("kwh")
    with pytest.raises(pf.UsageError) as caught:
        wrong(asked)
    assert (
        "after a query, the sum of kwh: all queries of a batch are about the same rows"
        in caught.value.problem
    )
    assert caught.value.instead.startswith(typed)


def test_the_right_order_works():
    """What the error shows runs, for several queries."""
    asked = pf.protect(ROWS, SCENARIO).group_by("area").private_sum("kwh").private_mean("kwh")
    assert asked.release(epsilon=1.0).frame.columns == ["area", "kwh_sum", "kwh_mean"]
