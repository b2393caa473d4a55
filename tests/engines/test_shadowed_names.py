"""Functions and operators of a user that have the names of built-in ones: they are not called, or are refused.

After an honest self-test in the same process they multiplied sums by up to 1,000, under unchanged noise.
"""

import duckdb
import polars as pl
import postgres
import pytest
import sqlalchemy as sa

import pufferflow as pf

ROWS = pl.DataFrame({"g": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
SCENARIO = pf.Scenario(pf.Secret("x", domain=pf.Interval(0, 4), missing=0), pf.Independent(), public=["g"])


def released(table):
    batch = pf.protect(table, SCENARIO).private_sum("x").private_count(pl.col("x") > 1)
    return batch.plan(pf.Pure(1e6)).release().frame


def near_the_truth(frame):
    (sums, counts) = frame.row(0)
    return abs(sums - 6) < 0.01 and abs(counts - 2) < 0.01


MACROS = {
    "sum": "CREATE MACRO sum(x) AS 1000 * list_aggregate(list(x), 'sum')",
    "count_if": "CREATE MACRO count_if(x) AS 1000 * count(*)",
    "//": 'CREATE MACRO "//"(a, b) AS 1000',
    "+": 'CREATE TEMP MACRO "+"(a, b) AS a - b',
}


@pytest.mark.parametrize("name", MACROS)
def test_macros_of_duckdb_are_refused_under_names_of_its_own(name):
    with duckdb.connect() as honest:
        assert near_the_truth(released(honest.from_arrow(ROWS.to_arrow())))
    with duckdb.connect() as connection:
        relation = connection.from_arrow(ROWS.to_arrow())
        plan = pf.protect(relation, SCENARIO).private_sum("x").plan(pf.Pure(1.0))
        connection.execute(MACROS[name])
        with pytest.raises(pf.SourceFailed, match="read in place of DuckDB's own"):
            plan.release()
        with pytest.raises(pf.SourceFailed, match="read in place of DuckDB's own"):
            released(relation)


def test_macros_of_duckdb_under_other_names_are_no_matter():
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO thrice(x) AS 3 * x")
        assert near_the_truth(released(connection.from_arrow(ROWS.to_arrow())))


def stored(address):
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(f"postgresql:{address.partition(':')[2]}") as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("meters", ROWS.to_arrow(compat_level=pl.CompatLevel.oldest()), mode="create")
        connection.commit()
    return pf.table(address, "meters")


EVIL = (
    "CREATE SCHEMA evil",
    "CREATE FUNCTION evil.div(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 1000 * $1'",
    "CREATE FUNCTION {schema}.div(numeric, integer) RETURNS numeric LANGUAGE sql AS 'SELECT 1000 * $1'",
    "CREATE FUNCTION {schema}.mod(numeric, integer) RETURNS numeric LANGUAGE sql AS 'SELECT 7::numeric'",
    "CREATE AGGREGATE {schema}.sum(bigint) (sfunc = pg_catalog.int8_sum, stype = numeric, initcond = '1000')",
    "CREATE FUNCTION {schema}.wrong(float8, float8) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR {schema}.> (LEFTARG = float8, RIGHTARG = float8, FUNCTION = {schema}.wrong)",
)


@pytest.mark.parametrize("schema", ["public", "evil"])
def test_functions_of_postgresql_are_its_own(server, schema):
    """Neither better matches in `public` nor a path that begins with another schema decide what is called."""
    address = postgres.database(server, f"shadowed_{schema}")
    table = stored(address)
    plan = pf.protect(table, SCENARIO).private_sum("x").private_count(pl.col("x") > 1).plan(pf.Pure(1e6))
    assert near_the_truth(plan.release().frame)
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for text in EVIL:
            connection.exec_driver_sql(text.format(schema=schema))
        name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET search_path = evil, public, pg_catalog')
    assert near_the_truth(plan.release().frame)
    assert near_the_truth(released(table))


def test_names_that_postgresql_would_cut_are_refused(server):
    with pytest.raises(pf.Misuse, match="70 bytes"):
        pf.protect(pf.table(server, "a" * 70), SCENARIO)
