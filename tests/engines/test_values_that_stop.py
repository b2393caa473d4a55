"""No value of a row makes a query fail: after the cost was reserved, a failure would tell that somebody has it."""

import datetime as dt
from decimal import Decimal

import duckdb
import polars as pl
import postgres
import pytest
import sqlalchemy as sa
from thinned import nightly, thinned

import pufferflow as pf

PRESENCE = pf.Scenario(
    pf.Presence("person", "x", pf.Interval(0, 30), rows=1), pf.Independent(), public=["w"]
)
KEYS = [Decimal("1.00"), Decimal("2.00")]


@pytest.fixture(scope="module")
def table(server):
    """Twenty people with a weight, and one whose weight is no number."""
    address = postgres.database(server, "no_numbers")
    with sa.create_engine(address, poolclass=sa.NullPool).begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE people (person int, x float8, w numeric(10, 2), u numeric(10, 2))"
        )
        connection.exec_driver_sql(
            "INSERT INTO people SELECT i, 7, i, i FROM generate_series(1, 20) i"
        )
        connection.exec_driver_sql(
            "INSERT INTO people VALUES (21, 7, 'NaN', 'NaN'), (22, 7, NULL, NULL)"
        )
    return pf.table(address, "people")


@pytest.mark.slow
def test_nan_of_a_numeric_stops_no_release(table):
    """It is null, as decimals have no NaN: its row is in no listed group, and the sums of others are true."""
    plan = pf.protect(table, PRESENCE).group_by("w", keys=KEYS).private_sum("x").plan(pf.Pure(1e6))
    assert plan.release().frame["x_sum"].to_list() == pytest.approx([7, 7], abs=0.01)
    found = pf.protect(table, PRESENCE).group_by("w", keys="discover").private_count()
    assert found.plan(pf.Approx(1e3, 1e-3)).release().frame.columns == ["w", "count"]


@pytest.mark.slow
def test_nan_of_a_numeric_is_null_where_rows_are_public(table):
    """Both stand in one group, that of null; filters see null too."""
    scenario = pf.Scenario(
        pf.Secret("x", domain=pf.Interval(0, 30), missing=0), pf.Independent(), public=["w"]
    )
    frame = (
        pf.protect(table, scenario)
        .group_by("w")
        .private_sum("x")
        .plan(pf.Pure(1e6))
        .release()
        .frame
    )
    assert frame.filter(pl.col("w").is_null())["x_sum"].to_list() == pytest.approx([14], abs=0.01)
    known = (
        pf.protect(table, scenario)
        .filter(pl.col("w").is_not_null())
        .private_sum("x")
        .plan(pf.Pure(1e6))
    )
    assert known.release().frame["x_sum"][0] == pytest.approx(140, abs=0.01)


@pytest.mark.slow
def test_units_of_nan_are_the_unit_of_null(table):
    """As units they are one, of which one row counts."""
    unit = pf.Presence("u", "x", pf.Interval(0, 30), rows=1)
    plan = (
        pf.protect(table, pf.Scenario(unit, pf.Independent())).private_sum("x").plan(pf.Pure(1e6))
    )
    assert plan.release().frame["x_sum"][0] == pytest.approx(147, abs=0.01)


MOMENTS = ("'infinity'", "'-infinity'", "'0001-01-01'")
POSTGRESQL = {
    "date": (dt.date(2024, 1, 1), (*MOMENTS, "'4713-01-01 BC'", "'5874897-12-31'")),
    "timestamp": (dt.datetime(2024, 1, 1), (*MOMENTS, "'4713-01-01 BC'", "'294276-12-31'")),  # noqa: DTZ001
    "timestamptz": (
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        (*MOMENTS, "'4713-01-02 BC'", "'294276-12-30'"),
    ),
    "text": ("a", ("''", "repeat('x', 100000)", "E'\\u200b'")),
    "float8": (1.0, ("'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e308", "5e-324")),
    "float4": (1.0, ("'NaN'", "'-Infinity'", "3e38")),
    "boolean": (True, ("NULL", "false")),
    "int8": (1, ("9223372036854775807", "-9223372036854775808")),
    "numeric(38, 0)": (1, ("'NaN'", "'99999999999999999999999999999999999999'")),
    "numeric(38, 38)": (0, ("'NaN'", "'-0.99999999999999999999999999999999999999'")),
}
"""Types of PostgreSQL, an ordinary value of each, and odd ones."""
SPARK = {
    "date": (
        dt.date(2024, 1, 1),
        ("'0001-01-01'", "'9999-12-31'", "'1582-10-14'", "'-0044-03-15'", "'+10000-01-01'"),
    ),
    "timestamp_ntz": (
        dt.datetime(2024, 1, 1),  # noqa: DTZ001
        ("'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'+294247-01-09'"),
    ),
    "timestamp": (
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        ("'0001-01-01'", "'1582-10-10'", "'+294247-01-09'"),
    ),
    "string": ("a", ("''", "repeat('x', 100000)", "unhex('FF')")),
    "double": (1.0, ("'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e308", "5e-324")),
    "float": (1.0, ("'NaN'", "'-Infinity'", "3e38")),
    "boolean": (True, ("NULL", "false")),
    "bigint": (1, ("9223372036854775807", "-9223372036854775808")),
    "decimal(38, 0)": (1, ("'99999999999999999999999999999999999999'",)),
    "decimal(38, 38)": (0, ("'-0.99999999999999999999999999999999999999'",)),
}
"""The same for Spark."""
DUCKDB = {
    "DATE": (dt.date(2024, 1, 1), (*MOMENTS, "'5877641-06-23 (BC)'", "'5881580-07-10'")),
    "TIMESTAMP": (
        dt.datetime(2024, 1, 1),  # noqa: DTZ001
        (*MOMENTS, "'290309-12-22 (BC) 00:00:00'", "'294247-01-10'"),
    ),
    "VARCHAR": ("a", ("''", "repeat('x', 100000)")),
    "DOUBLE": (1.0, ("'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e308")),
    "FLOAT": (1.0, ("'NaN'", "'-Infinity'", "3e38")),
    "BOOLEAN": (True, ("NULL", "false")),
    "BIGINT": (1, ("9223372036854775807", "-9223372036854775808")),
    "UBIGINT": (1, ("18446744073709551615",)),
    "DECIMAL(38, 0)": (1, ("'99999999999999999999999999999999999999'",)),
    "DECIMAL(38, 38)": (0, ("'-0.99999999999999999999999999999999999999'",)),
}


def made(run, kind, odd):
    run(f"CREATE TABLE odd (person int, x float8, w {kind})")
    run("INSERT INTO odd SELECT i, i, NULL FROM generate_series(1, 20) AS t(i)")
    for place, value in enumerate(odd):
        run(f"INSERT INTO odd VALUES ({21 + place}, 3, {value})")


def plans(table, key):
    """Return the plans that can be made of a table with an odd column: as a key, a unit, in a filter, as the secret."""
    presence = pf.Presence("person", "x", pf.Interval(0, 30), rows=1)
    batch = pf.protect(table, pf.Scenario(presence, pf.Independent(), public=["w"]))
    unit = pf.Scenario(pf.Presence("w", "x", pf.Interval(0, 30), rows=1), pf.Independent())
    secret = pf.Scenario(pf.Presence("person", "w", pf.Interval(0, 30), rows=1), pf.Independent())
    makers = [
        lambda: batch.group_by("w", keys=[key]).private_sum("x").plan(pf.Pure(1.0)),
        lambda: batch.group_by("w", keys="discover").private_count().plan(pf.Approx(1.0, 1e-3)),
        lambda: batch.filter(pl.col("w") == key).private_sum("x").plan(pf.Pure(1.0)),
        lambda: batch.filter(pl.col("w") > key).private_sum("x").plan(pf.Pure(1.0)),
        lambda: batch.filter(pl.col("w").dt.year() == 2024).private_sum("x").plan(pf.Pure(1.0)),
        lambda: pf.protect(table, unit).private_sum("x").plan(pf.Pure(1.0)),
        lambda: pf.protect(table, secret).private_sum("w").plan(pf.Pure(1.0)),
    ]
    for make in makers:
        try:
            yield make()
        except pf.UsageError:  # before anything is read or spent, whatever the rows are
            continue


@pytest.mark.slow
@pytest.mark.parametrize("kind", nightly(POSTGRESQL, but=0.5))
def test_no_value_of_postgresql_stops_a_release(server, kind):
    """Whatever plan can be made can be released."""
    key, odd = POSTGRESQL[kind]
    address = postgres.database(server, f"odd_{list(POSTGRESQL).index(kind)}")
    with sa.create_engine(address, poolclass=sa.NullPool).begin() as connection:
        made(lambda text: connection.exec_driver_sql(text.replace("%", "%%")), kind, odd)
    found = [plan.release().frame.height for plan in plans(pf.table(address, "odd"), key)]
    assert len(found) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", DUCKDB)
def test_no_value_of_duckdb_stops_a_release(kind):
    """Whatever plan can be made can be released."""
    key, odd = DUCKDB[kind]
    with duckdb.connect() as connection:
        made(connection.execute, kind, odd)
        found = [plan.release().frame.height for plan in plans(connection.table("odd"), key)]
    assert len(found) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("kind", nightly(SPARK, but=0.4))
def test_no_value_of_spark_stops_a_release(session, kind, ansi):
    """Whatever plan can be made can be released, whether errors of casts stop its queries or not."""
    key, odd = SPARK[kind]
    rows = [
        f"SELECT {21 + place} AS person, 3D AS x, CAST({value} AS {kind}) AS w"
        for place, value in enumerate(odd)
    ]
    usual = f"SELECT CAST(id AS INT) AS person, CAST(id AS DOUBLE) AS x, CAST(NULL AS {kind}) AS w FROM range(1, 21)"
    frame = session.sql(" UNION ALL ".join([usual, *rows]))
    before = session.conf.get("spark.sql.ansi.enabled")
    session.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        found = [plan.release().frame.height for plan in plans(frame, key)]
    finally:
        session.conf.set("spark.sql.ansi.enabled", before)
    assert len(found) >= 3


def physical(kind, stored, values):
    """Return values of a type by the numbers that stand for them in memory."""
    return pl.Series(values, dtype=stored).cast(kind)


ENDS = {bits: [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1] for bits in (32, 64)}
POLARS = {
    "date": (dt.date(2024, 1, 1), physical(pl.Date, pl.Int32, ENDS[32])),
    "datetime": (dt.datetime(2024, 1, 1), physical(pl.Datetime("us"), pl.Int64, ENDS[64])),  # noqa: DTZ001
    "nanoseconds": (dt.datetime(2024, 1, 1), physical(pl.Datetime("ns"), pl.Int64, ENDS[64])),  # noqa: DTZ001
    "with a zone": (
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        physical(pl.Datetime("us", "Europe/Berlin"), pl.Int64, ENDS[64]),
    ),
    "text": ("a", pl.Series(["", "x" * 100_000, "\x00", "\u200b"])),
    "float": (1.0, pl.Series([float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324])),
    "single": (1.0, pl.Series([float("nan"), -float("inf"), 3e38], dtype=pl.Float32)),
    "boolean": (True, pl.Series([None, False])),
    "whole": (1, pl.Series(ENDS[64])),
    "unsigned": (1, pl.Series([2**64 - 1, 0], dtype=pl.UInt64)),
    "decimal": (Decimal(1), pl.Series(["9" * 37, "-" + "9" * 37]).cast(pl.Decimal(38, 0))),
    "category": ("a", pl.Series(["", None, "b"], dtype=pl.Categorical)),
}
"""The same for frames of Polars: the ends of what a type can hold in memory."""


@pytest.mark.parametrize("kind", thinned(POLARS, 0.08))
def test_no_value_of_polars_stops_a_release(kind):
    """Whatever plan can be made can be released."""
    key, odd = POLARS[kind]
    usual = pl.Series([None] * 20, dtype=odd.dtype)
    column = pl.concat([usual, odd])
    frame = pl.DataFrame({"person": range(len(column)), "x": [3.0] * len(column), "w": column})
    found = [plan.release().frame.height for plan in plans(frame, key)]
    assert len(found) >= 3
