"""Settings of a connection change no answer, or the self-test refuses the machine; and it is taken again for others."""

import types

import duckdb
import pytest
import sqlalchemy as sa
from pufferflow_connectors import duckdb as on_duckdb
from pufferflow_connectors import postgresql as on_postgresql
from thinned import nightly

import pufferflow as pf
from pufferflow.engines import self_test
from pufferflow.engines.self_test import digest

ROLES = {
    "strings": "standard_conforming_strings = off",
    "zone": "TimeZone = 'America/St_Johns'",
    "dates": "DateStyle = 'SQL, DMY'",
    "digits": "extra_float_digits = -15",
    "path": "search_path = pg_temp",
    "nulls": "transform_null_equals = on",
    "letters": "client_encoding = 'LATIN1'",
}


@pytest.mark.slow
@pytest.mark.parametrize("role", nightly(ROLES, but=0.43))
def test_settings_of_a_user_of_postgresql(server, role):
    engine = sa.create_engine(server, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN; ALTER ROLE {role} SET {ROLES[role]}")
    theirs = pf.table(server.replace("ledger@", f"{role}@"), "not read")
    assert digest(on_postgresql.PostgreSql(theirs))


@pytest.mark.slow
def test_a_database_that_lacks_letters_is_refused(server):
    """Texts of a database in LATIN1 could not be compared with all labels there are."""
    engine = sa.create_engine(server, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        encoding = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        connection.exec_driver_sql(f"CREATE DATABASE few_letters {encoding}")
    table = pf.table(server.replace("/postgres?", "/few_letters?"), "not read")
    with pytest.raises(pf.UsageError, match="does not pass the self-test"):
        digest(on_postgresql.PostgreSql(table))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    nightly(
        [
            "threads = 4",
            "default_collation = 'nocase'",
            "preserve_insertion_order = false",
            "ieee_floating_point_ops = false",
            "TimeZone = 'America/St_Johns'",
            "default_null_order = 'nulls_first'",
        ],
        but=0.34,
    ),
)
def test_settings_of_duckdb(text):
    """The machine answers alike; and the connection is known as another, so that it is tested anew."""
    with duckdb.connect() as connection:
        relation = connection.sql("SELECT 1 AS a")
        backend = on_duckdb.DuckDb(relation, relation)
        before = backend.settings
        connection.execute(f"SET {text}")
        assert backend.settings != before
        assert digest(backend)


@pytest.mark.slow
def test_a_table_that_is_called_as_the_engine_calls_the_rows():
    """A table of the user's connection is not read in place of the relation."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE pufferflow_rows AS SELECT 3 AS level, 1 AS day FROM range(1000)"
        )
        relation = connection.sql("SELECT 1 AS level, 1 AS day")
        scenario = pf.Scenario(
            pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"]
        )
        batch = pf.protect(relation, scenario).group_by("day").private_sum("level")
        (load,) = batch.release(epsilon=100.0).frame["level_sum"]
        assert abs(load - 1) < 10


@pytest.mark.nightly
def test_settings_of_spark(session):
    """Answers are alike, or the machine is refused; a setting of SQL makes the session another one."""
    from pufferflow_connectors import spark as on_spark

    frame = session.range(1)
    backend = on_spark.Spark(frame, frame)
    passed = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "America/St_Johns"}
    passed |= {"spark.sql.caseSensitive": "true"}
    refused = {"spark.sql.parser.escapedStringLiterals": "true"}
    for name, value in {**passed, **refused}.items():
        before, known = session.conf.get(name), backend.settings
        session.conf.set(name, value)
        try:
            assert backend.settings != known
            if name in passed:
                assert digest(backend)
            else:
                with pytest.raises(pf.UsageError, match="does not pass the self-test"):
                    digest(backend)
        finally:
            session.conf.set(name, before)


@pytest.mark.slow
def test_names_and_labels_with_what_spark_reads_in_texts(session):
    """Braces, backticks and the engine's own name for the rows are texts like others."""
    names = ["pufferflow rows", "{rows}", "a`b", "by0"]
    rows = [(1.0, "`pufferflow rows`", 2, 3, 4), (2.0, "{rows}", 2, 3, 4)]
    frame = session.createDataFrame(rows, ["level", *names])
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=names)
    keys = (
        pf.protect(frame, scenario).group_by(*names).private_sum("level").release(epsilon=1.0).frame
    )
    assert sorted(keys["pufferflow rows"]) == ["`pufferflow rows`", "{rows}"]


def test_every_setting_of_an_engine_is_tested_once(monkeypatch):
    """The same engine with other settings may answer otherwise, so it is tested again."""
    tested = []
    monkeypatch.setattr(self_test, "_PASSED", {})
    monkeypatch.setattr(
        self_test,
        "digest",
        lambda backend: tested.append(backend.settings) or f"digest of {backend}",
    )
    engines = [
        types.SimpleNamespace(name="an engine", settings=(zone,))
        for zone in ("UTC", "UTC", "Berlin")
    ]
    digests = [self_test.check(engine) for engine in engines]
    assert tested == [("UTC",), ("Berlin",)]
    assert digests[0] == digests[1] != digests[2]
