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
SCENARIO = pf.Scenario(
    pf.Secret("x", domain=pf.Interval(0, 4), missing=0), pf.Independent(), public=["g"]
)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", MACROS)
def test_macros_of_duckdb_are_refused_under_names_of_its_own(name):
    with duckdb.connect() as honest:
        assert near_the_truth(released(honest.from_arrow(ROWS.to_arrow())))
    with duckdb.connect() as connection:
        relation = connection.from_arrow(ROWS.to_arrow())
        plan = pf.protect(relation, SCENARIO).private_sum("x").plan(pf.Pure(1.0))
        connection.execute(MACROS[name])
        with pytest.raises(pf.SourceError, match="read in place of DuckDB's own"):
            plan.release()
        with pytest.raises(pf.SourceError, match="read in place of DuckDB's own"):
            released(relation)


@pytest.mark.slow
def test_macros_of_duckdb_under_other_names_are_no_matter():
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO thrice(x) AS 3 * x")
        assert near_the_truth(released(connection.from_arrow(ROWS.to_arrow())))


def stored(address):
    from adbc_driver_postgresql import dbapi

    with (
        dbapi.connect(f"postgresql:{address.partition(':')[2]}") as connection,
        connection.cursor() as cursor,
    ):
        cursor.adbc_ingest(
            "meters", ROWS.to_arrow(compat_level=pl.CompatLevel.oldest()), mode="create"
        )
        connection.commit()
    return pf.table(address, "meters")


BETTER_MATCHES = (
    "CREATE FUNCTION {}.div(numeric, integer) RETURNS numeric LANGUAGE sql AS 'SELECT 1000 * $1'",
    "CREATE FUNCTION {}.mod(numeric, integer) RETURNS numeric LANGUAGE sql AS 'SELECT 7::numeric'",
)
EARLIER_ONES = (
    *BETTER_MATCHES,
    "CREATE AGGREGATE {}.sum(bigint) (sfunc = pg_catalog.int8_sum, stype = numeric, initcond = '1000')",
    "CREATE FUNCTION {}.wrong(float8, float8) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR {}.> (LEFTARG = float8, RIGHTARG = float8, FUNCTION = {}.wrong)",
)


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [False, True], ids=["better matches", "another schema first"])
def test_functions_of_postgresql_are_its_own(server, earlier):
    """Neither better matches beside the table nor a path that begins with another schema decide what is called."""
    schema = f"shadowed_{int(earlier)}"
    address = postgres.database(server, schema)
    honest = stored(address)
    assert near_the_truth(released(honest))
    where = "evil" if earlier else schema
    with sa.create_engine(address, poolclass=sa.NullPool).begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS evil")
        for text in EARLIER_ONES if earlier else BETTER_MATCHES:
            connection.exec_driver_sql(text.format(where, where))
    path = f"evil,{schema},pg_catalog" if earlier else schema
    theirs = pf.table(address.replace(f"search_path%3D{schema}", f"search_path%3D{path}"), "meters")
    assert near_the_truth(released(honest))
    assert near_the_truth(released(theirs))


def test_names_that_postgresql_would_cut_are_refused(server):
    with pytest.raises(pf.UsageError, match="70 bytes"):
        pf.protect(pf.table(server, "a" * 70), SCENARIO)
