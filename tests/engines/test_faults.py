"""What goes wrong on a machine: clear errors of ours, before anything is charged where that can be known."""

import threading
import time
import traceback

import duckdb
import polars as pl
import postgres
import pytest
import sqlalchemy as sa
from pufferflow_connectors import postgresql as on_postgresql

import pufferflow as pf

SECRET = "s3cret-word"  # noqa: S105 - of nobody
SCENARIO = pf.Scenario(
    pf.Secret("level", domain=[0, 1, 2, 3]),
    pf.MarkovChain(
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]
    ),
    public=["meter", "hour"],
    order_by="hour",
    step=1,
    within="meter",
)


@pytest.fixture(scope="module")
def address(server):
    """The address of a schema with a table of meters."""
    place = postgres.database(server, "faults")
    with connected(place) as connection:
        connection.exec_driver_sql(
            "CREATE TABLE meters AS SELECT m AS meter, h AS hour, ((m * h) %% 5)::float8 AS level "
            "FROM generate_series(1, 6) m, generate_series(0, 3) h"
        )
    return place


def connected(place):
    return sa.create_engine(place, poolclass=sa.NullPool).begin()


@pytest.fixture
def table(address):
    """A copy of the table that a test may change."""
    name = f"meters_{time.monotonic_ns()}"
    with connected(address) as connection:
        connection.exec_driver_sql(f"CREATE TABLE {name} AS TABLE meters")
    return pf.table(address, name)


def plan(table):
    return pf.protect(table, SCENARIO).group_by("hour").private_sum("level").plan(pf.Pure(1.0))


def says_nothing(error, *words):
    """Check that an error leads to no other but ours, and that neither its text nor what it leads to has some words."""
    assert error.__cause__ is None
    assert error.__context__ is None or isinstance(error.__context__, pf.PufferflowError)
    assert not getattr(error, "__notes__", ())
    frames = [
        frame
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if "tests" not in frame.f_code.co_filename
    ]
    texts = [
        str(error),
        repr(error),
        *(repr(value) for frame in frames for value in frame.f_locals.values()),
    ]
    for word in (*words, "libpq", "LINE 1"):
        assert not any(word in text for text in texts), word
    return str(error)


def failing(work, *words, kind=pf.PufferflowError):
    with pytest.raises(kind) as caught:
        work()
    return says_nothing(caught.value, SECRET, *words)


def test_a_password_that_is_refused(server):
    wrong = server.replace("ledger@", f"nobody:{SECRET}@")
    assert "refuses the user or the password" in failing(lambda: plan(pf.table(wrong, "meters")))
    gone = server.replace("ledger@", f"ledger:{SECRET}@").replace("host=", "host=/not/there&x=")
    failing(lambda: plan(pf.table(gone, "meters")))
    failing(lambda: plan(pf.table(f"postgresql://ledger:{SECRET}@127.0.0.1:1/x", "meters")))


@pytest.mark.slow
@pytest.mark.parametrize("right", ["nothing", "public columns"])
def test_what_the_user_may_not_read(address, table, right):
    """Without a right on the table a plan is refused; without one on the private column, the release is."""
    user = f"reader_{right[:3]}_{time.monotonic_ns()}"
    with connected(address) as connection:
        connection.exec_driver_sql(
            f"CREATE ROLE {user} LOGIN; GRANT USAGE ON SCHEMA faults TO {user}"
        )
        if right == "public columns":
            connection.exec_driver_sql(f"GRANT SELECT (meter, hour) ON {table.name} TO {user}")
    theirs = pf.table(address.replace("ledger@", f"{user}@"), table.name)
    if right == "nothing":
        assert "permission is denied" in failing(lambda: plan(theirs))
    else:
        made = plan(theirs)
        assert "permission is denied" in failing(made.release)


@pytest.mark.slow
def test_a_table_that_is_dropped_after_the_plan(address, table, tmp_path):
    made = plan(table)
    with connected(address) as connection:
        connection.exec_driver_sql(f"DROP TABLE {table.name}")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        assert "no such table" in failing(lambda: made.release(account, id="one"))
        assert list(account.history()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "numeric(5, 1)", "int4"])
def test_a_column_whose_type_changes_after_the_plan(address, table, kind):
    """Another type would be read in another way, whether the machine could do it or not."""
    made = plan(table)
    with connected(address) as connection:
        connection.exec_driver_sql(
            f"ALTER TABLE {table.name} ALTER level TYPE {kind} USING level::{kind}"
        )
    assert "other columns than before" in failing(made.release)


@pytest.mark.slow
def test_rows_that_come_after_the_plan(address, table, tmp_path):
    made = plan(table)
    with connected(address) as connection:
        connection.exec_driver_sql(f"INSERT INTO {table.name} VALUES (7, 0, 1), (7, 2, 1)")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        failing(lambda: made.release(account, id="one"))
        assert list(account.history()) == []
        assert plan(table).release(account, id="one").frame.height == 4


@pytest.mark.slow
def test_rows_that_come_while_it_is_released_are_not_seen(address, table, monkeypatch):
    """Sums and facts are of one version of the table, whatever is added in between."""
    made, original, added = plan(table), on_postgresql.query_text, []

    def text(query, *facts):
        written = original(query, *facts)
        if "total0_0" in written:
            added.append("sums")
        elif added == ["sums"]:
            added.append("facts")
            with connected(address) as connection:
                connection.exec_driver_sql(
                    f"INSERT INTO {table.name} VALUES (8, 0, 1), (8, 1, 1), (8, 3, 1)"
                )
        return written

    monkeypatch.setattr(on_postgresql, "query_text", text)
    assert made.release().frame.height == 4
    assert added[:2] == ["sums", "facts"]
    failing(made.release)


@pytest.mark.slow
def test_a_connection_that_is_lost_in_a_query(address, table, tmp_path, monkeypatch):
    """After the reservation it stays reserved, and the same release ends it later."""
    made, original = plan(table), on_postgresql.query_text
    lost = threading.Thread(target=end_of_waiting, args=[address])

    def text(query, *facts):
        written = original(query, *facts)
        slow = f"SELECT answer.* FROM ({written}) AS answer, (SELECT pg_sleep(60)) AS waiting"
        return slow if "total0_0" in written else written

    with pf.Ledger(tmp_path / "ledger.db") as ledger, monkeypatch.context() as patch:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        patch.setattr(on_postgresql, "query_text", text)
        lost.start()
        assert "stopped in the middle of an answer" in failing(
            lambda: made.release(account, id="one"), "pg_sleep", "administrator"
        )
        lost.join()
        assert [entry.state for entry in account.history()] == ["reserved"]
        patch.undo()
        assert made.release(account, id="one").frame.height == 4
        assert [entry.state for entry in account.history()] == ["committed"]


def end_of_waiting(address):
    """End the connection whose query waits, from another one."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%%waiting%%' AND pid <> "
    for _ in range(600):
        with connected(address) as connection:
            if connection.exec_driver_sql(
                f"{query} pg_backend_pid() AND state = 'active'"
            ).fetchall():
                return
        time.sleep(0.05)


POSTGRESQL_TYPES = [
    ("char(3)", "'a'"), ("numeric", "1"), ("numeric(50, 2)", "1"), ("money", "1"), ("interval", "'1 day'"),
    ("uuid", "'00000000-0000-0000-0000-000000000000'"), ("int[]", "'{1}'"), ("json", "'1'"), ("jsonb", "'1'"),
    ("bytea", "'a'"), ("time", "'10:00'"), ("timetz", "'10:00+01'"), ("bit(3)", "'101'"), ("inet", "'::1'"),
]  # fmt: skip
DUCKDB_TYPES = [
    ("HUGEINT", "1"), ("UHUGEINT", "1"), ("INTEGER[]", "[1]"), ("STRUCT(a INTEGER)", "{'a': 1}"), ("UUID", "uuid()"),
    ("INTERVAL", "INTERVAL 1 DAY"), ("UNION(a INTEGER)", "1"), ("BIT", "'101'"), ("TIMETZ", "'10:00:00+01'"),
    ("MAP(VARCHAR, INTEGER)", "MAP {'a': 1}"), ("BLOB", "'a'"), ("JSON", "'1'"), ("VARIANT", "1"), ("BIGNUM", "1"),
]  # fmt: skip


@pytest.mark.slow
def test_types_without_a_meaning_on_postgresql(address):
    """A column of such a type is refused by its name where it is needed, and disturbs nothing where it is not."""
    columns = ", ".join(
        f"{value}::{kind} AS c{place}" for place, (kind, value) in enumerate(POSTGRESQL_TYPES)
    )
    with connected(address) as connection:
        connection.exec_driver_sql(f"CREATE TABLE odd AS SELECT 1 AS level, 2 AS day, {columns}")
    refuses_each(lambda: pf.table(address, "odd"), POSTGRESQL_TYPES)


@pytest.mark.slow
def test_types_without_a_meaning_on_duckdb():
    with duckdb.connect() as connection:
        columns = ", ".join(
            f"CAST({value} AS {kind}) AS c{place}"
            for place, (kind, value) in enumerate(DUCKDB_TYPES)
        )
        connection.execute(f"CREATE TABLE odd AS SELECT 1 AS level, 2 AS day, {columns}")
        refuses_each(lambda: connection.table("odd"), DUCKDB_TYPES)


def refuses_each(table, types):
    secret = pf.Secret("level", domain=[0, 1, 2, 3])
    good = pf.Scenario(secret, pf.Independent(), public=["day"])
    assert (
        pf.protect(table(), good)
        .group_by("day")
        .private_sum("level")
        .release(epsilon=1.0)
        .frame.height
        == 1
    )
    for place in range(len(types)):
        scenario = pf.Scenario(secret, pf.Independent(), public=["day", f"c{place}"])
        with pytest.raises(pf.UsageError, match=f"The column 'c{place}' is .*no meaning here"):
            pf.protect(table(), scenario)
        private = pf.Scenario(
            pf.Secret(f"c{place}", domain=[0, 1]), pf.Independent(), public=["day"]
        )
        with pytest.raises(pf.UsageError, match=f"The column 'c{place}' is .*no meaning here"):
            pf.protect(table(), private)


@pytest.mark.parametrize("ordered", [True, False])
def test_public_columns_that_are_nearly_unique_are_refused(monkeypatch, ordered):
    """What comes back grows with the distinct rows of public columns, so there is a limit, and the column is named."""
    relation = duckdb.connect().sql(
        "SELECT i // 4 AS meter, i % 4 AS hour, i AS at, i % 2 AS level FROM range(8) r(i)"
    )
    order = {"order_by": "hour", "step": 1, "within": "meter"} if ordered else {}
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1]), pf.Independent(), public=["meter", "hour", "at"], **order
    )
    batch = pf.protect(relation, scenario).filter(pl.col("at") < 6).private_sum("level")
    monkeypatch.setattr(
        "pufferflow.engines.public_rows.MOST_DISTINCT", 3
    )  # not of the self-test, which has passed
    with pytest.raises(pf.UsageError, match="the column 'at' has most of them"):
        batch.plan(pf.Pure(1.0)).release()
