"""No value of a row makes a query fail: after the cost was reserved, a failure would tell that somebody has it."""

from decimal import Decimal

import polars as pl
import postgres
import pytest
import sqlalchemy as sa

import pufferflow as pf

PRESENCE = pf.Scenario(pf.Presence("person", "x", pf.Interval(0, 30), rows=1), pf.Independent(), public=["w"])
KEYS = [Decimal("1.00"), Decimal("2.00")]


@pytest.fixture(scope="module")
def table(server):
    """Twenty people with a weight, and one whose weight is no number."""
    address = postgres.database(server, "no_numbers")
    with sa.create_engine(address, poolclass=sa.NullPool).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE people (person int, x float8, w numeric(10, 2), u numeric(10, 2))")
        connection.exec_driver_sql("INSERT INTO people SELECT i, 7, i, i FROM generate_series(1, 20) i")
        connection.exec_driver_sql("INSERT INTO people VALUES (21, 7, 'NaN', 'NaN'), (22, 7, NULL, NULL)")
    return pf.table(address, "people")


def test_nan_of_a_numeric_stops_no_release(table):
    """It is null, as decimals have no NaN: its row is in no listed group, and the sums of others are true."""
    plan = pf.protect(table, PRESENCE).group_by("w", keys=KEYS).private_sum("x").plan(pf.Pure(1e6))
    assert plan.release().frame["x_sum"].to_list() == pytest.approx([7, 7], abs=0.01)
    found = pf.protect(table, PRESENCE).group_by("w", keys="discover").private_count()
    assert found.plan(pf.Approx(1e3, 1e-3)).release().frame.columns == ["w", "count"]


def test_nan_of_a_numeric_is_null_where_rows_are_public(table):
    """Both stand in one group, that of null; filters see null too."""
    scenario = pf.Scenario(pf.Secret("x", domain=pf.Interval(0, 30), missing=0), pf.Independent(), public=["w"])
    frame = pf.protect(table, scenario).group_by("w").private_sum("x").plan(pf.Pure(1e6)).release().frame
    assert frame.filter(pl.col("w").is_null())["x_sum"].to_list() == pytest.approx([14], abs=0.01)
    known = pf.protect(table, scenario).filter(pl.col("w").is_not_null()).private_sum("x").plan(pf.Pure(1e6))
    assert known.release().frame["x_sum"][0] == pytest.approx(140, abs=0.01)


def test_units_of_nan_are_the_unit_of_null(table):
    """As units they are one, of which one row counts."""
    unit = pf.Presence("u", "x", pf.Interval(0, 30), rows=1)
    plan = pf.protect(table, pf.Scenario(unit, pf.Independent())).private_sum("x").plan(pf.Pure(1e6))
    assert plan.release().frame["x_sum"][0] == pytest.approx(147, abs=0.01)
