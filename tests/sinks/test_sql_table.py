"""The sink that is a SQL table: numbers exactly, one transaction, other tables and rows refused, no password told."""

import math
import sqlite3
from datetime import UTC, date, datetime

import jobs
import ons
import polars as pl
import postgres
import pytest
import sinks
import sqlalchemy as sa
from pufferflow_connectors.sinks import sql_database, sql_table
from pufferflow_connectors.sinks.sql_table import SqlTable

import pufferflow as pf

LABEL = "2026-11-20"
KEYS = pl.DataFrame({"district": ["north", None]})
SECRET = "s3cr:t/p@ss word"  # noqa: S105 - what must not be told


@pytest.fixture
def release():
    return sinks.release_of(KEYS)


@pytest.fixture
def lite(tmp_path):
    """Open a sink in a file of SQLite."""
    return lambda: SqlTable("published.db", "meters").open(tmp_path, sinks.JOB)


@pytest.fixture
def server_sink(postgres_server, tmp_path):
    """Open a sink on a server, in a schema of its own."""
    return lambda: SqlTable(postgres_server, "meters").open(tmp_path, sinks.JOB)


def rows_of(address, query):
    with sa.create_engine(address, poolclass=sa.NullPool).begin() as connection:
        found = connection.exec_driver_sql(query)
        return found.fetchall() if found.returns_rows else []


def test_types_are_those_that_databases_share(server_sink, postgres_server):
    """Floats are doubles, NaN and infinities too, integers 64 bits wide; the key is the release and the row."""
    keys = pl.DataFrame(
        {
            "real": [math.nan, math.inf, -0.0, 5e-324],
            "small": pl.Series([1, 2, 3, None], dtype=pl.Int8),
        }
    )
    server_sink().send(LABEL, sinks.release_of(keys))
    query = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'meters' ORDER BY 1"
    found = dict(tuple(row) for row in rows_of(postgres_server, query))
    assert found["real"] == found["load"] == "double precision"
    assert found["n_most"] == found["row_number"] == found["small"] == "bigint"
    reals = [
        real
        for (real,) in rows_of(postgres_server, 'SELECT "real" FROM meters ORDER BY row_number')
    ]
    assert math.isnan(reals[0])
    assert reals[1:] == [math.inf, 0.0, 5e-324]
    with pytest.raises(sa.exc.IntegrityError):
        rows_of(postgres_server, "INSERT INTO meters SELECT * FROM meters")


def test_sqlite_has_null_for_nan(lite, tmp_path):
    """Which it cannot store; a release with it is the same one again all the same."""
    release = sinks.release_of(pl.DataFrame({"real": [math.nan, math.inf]}))
    assert lite().send(LABEL, release)
    assert not lite().send(LABEL, release)
    assert rows_of(f"sqlite:///{tmp_path}/published.db", "SELECT real FROM meters") == [
        (None,),
        (math.inf,),
    ]


def test_moments_with_a_zone_are_the_same_moments_in_utc(lite, tmp_path):
    """A clock that is put back shows one hour twice; the table tells them apart."""
    moments = [datetime(2026, 10, 25, hour, tzinfo=UTC) for hour in (0, 1)]
    keys = pl.DataFrame({"at": pl.Series(moments).dt.convert_time_zone("Europe/Berlin")})
    lite().send(LABEL, sinks.release_of(keys))
    assert rows_of(f"sqlite:///{tmp_path}/published.db", "SELECT at FROM meters") == [
        ("2026-10-25 00:00:00.000000",),
        ("2026-10-25 01:00:00.000000",),
    ]


def test_releases_that_changed_their_ids_are_told(tmp_path):
    """Rows and certificates of one release under the id of another are not what the ledger keeps."""
    job = job_of(tmp_path, "sqlite:///published.db")
    job.run("2024-01-01")
    job.run("2024-01-02")
    for table in ("meters", "meters_releases"):
        for old, new in (
            ("ons-2024-01-01", "away"),
            ("ons-2024-01-02", "ons-2024-01-01"),
            ("away", "ons-2024-01-02"),
        ):
            update = f"UPDATE {table} SET release_id = '{new}' WHERE release_id = '{old}'"
            rows_of(f"sqlite:///{tmp_path}/published.db", update)
    with job.ledger() as ledger:
        told = [one.differs for one in ledger.compare(job.published())]
    assert all("under the id of another" in lines[0] for lines in told)


@pytest.mark.slow
def test_what_was_taken_away_is_written_anew(lite, release, tmp_path):
    """All rows, the certificate, or both; a part of the rows, and rows that were edited, are another release's."""
    file = f"sqlite:///{tmp_path}/published.db"
    lite().send(LABEL, release)
    for gone in (["meters"], ["meters_releases"], ["meters", "meters_releases"]):
        for table in gone:
            rows_of(file, f"DELETE FROM {table}")
        assert lite().send(LABEL, release)
        assert not lite().send(LABEL, release)
        assert [one.differences(release) for one in lite().copies()] == [[]]
    rows_of(file, "UPDATE meters_releases SET certificate = '{'")
    assert [one.differences(release) for one in lite().copies()] == [
        ["the certificate cannot be read"]
    ]
    assert lite().send(LABEL, release)
    for edit in (
        "UPDATE meters SET load = 1.0",
        "UPDATE meters SET load = 'a'",
        "DELETE FROM meters WHERE row_number = 1",
    ):
        rows_of(file, edit)
        with pytest.raises(pf.UsageError, match="other numbers"):
            lite().send(LABEL, release)
        assert [one.differences(release) for one in lite().copies()] == [
            ["its rows have other numbers, or are not all there"]
        ]


def test_rows_that_nobody_certified_are_told(lite, release, tmp_path):
    """Rows with an id that no certificate has are a copy without one."""
    lite().send(LABEL, release)
    rows_of(f"sqlite:///{tmp_path}/published.db", "UPDATE meters SET release_id = 'another'")
    assert {one.label: one.certificate is None for one in lite().copies()} == {
        "another": True,
        f"{sinks.JOB}-{LABEL}": False,
    }


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE meters (release_id TEXT, row_number BIGINT, load DOUBLE)",
        "CREATE TABLE meters_releases (release_id TEXT PRIMARY KEY)",
        "CREATE TABLE meters_releases (release_id TEXT, entry TEXT, certificate TEXT, written_at TEXT)",
    ],
)
def test_another_table_of_that_name_is_refused_before_anything_is_drawn(tmp_path, made):
    """The job stops before its ledger is charged."""
    rows_of(f"sqlite:///{tmp_path}/published.db", made)
    job = job_of(tmp_path, "sqlite:///published.db")
    what = r"The table 'meters\w*' of .* (lacks the columns|has another key)|a table of that name is another one"
    with pytest.raises((pf.UsageError, pf.SinkError), match=what):
        job.run("2024-01-01")
    assert job.account() is None


def job_of(folder, address):
    keys = (
        'guarantee = { epsilon = 0.6 }\nledger = { account = "ons", limit = { epsilon = 6.0 } }\n'
    )
    return pf.Job.read(
        ons.write_job(
            folder, f'{keys}[sink]\nkind = "sql"\naddress = "{address}"\ntable = "meters"'
        )
    )


def test_other_questions_need_another_table(lite, release):
    """Columns are those of the first release; more of them, and others, are refused."""
    lite().send(LABEL, release)
    with pytest.raises(pf.UsageError, match="lacks the columns more"):
        lite().prepare(pl.Schema({"district": pl.String, "more": pl.Int64}))
    with pytest.raises(pf.UsageError, match="lacks the columns district"):
        lite().prepare(pl.Schema({"district": pl.Date, "load": pl.Float64}))
    lite().prepare(pl.Schema({"district": pl.Enum(["north"]), "load": pl.Float64}))


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        ({"a": pl.List(pl.Int64)}, "dtype List(Int64), which tables cannot hold"),
        ({"a": pl.UInt64}, "dtype UInt64"),
        ({"a": pl.Datetime("ns")}, "dtype Datetime"),
        ({"a": pl.Decimal(10, 2)}, "dtype Decimal"),
        ({"a": pl.Int64, "A": pl.Int64}, "databases do not distinguish it from 'a'"),
        ({"Release_ID": pl.Int64}, "a column of every release"),
        ({"": pl.Int64}, "it has no name"),
        ({"a\0": pl.Int64}, "its name has '\\x00' in it"),
        ({"%(a)s": pl.Int64}, "its name has '%(' in it"),
        ({"ö" * 32: pl.Int64}, "its name takes more than 63 bytes"),
    ],
)
def test_columns_without_a_form_are_refused(columns, part):
    """By types, and by names that a database cuts, or does not tell apart."""
    with pytest.raises(pf.UsageError) as caught:
        SqlTable("published.db", "meters").check_columns(pl.Schema(columns))
    assert part in caught.value.problem


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"key": ["a\0b"]}, "the character NUL"),
        ({"day": [date(1, 1, 1)]}, "years do not have four digits"),
    ],
)
def test_values_without_a_form_are_refused(lite, keys, part):
    """A value that a database has no form for is not told, nor cut, nor replaced."""
    frame = pl.DataFrame(keys)
    if "day" in keys:
        frame = frame.select(pl.col("day").dt.offset_by("-10y"))
    with pytest.raises(pf.UsageError, match=part):
        lite().send(LABEL, sinks.release_of(frame))
    assert not lite().has(LABEL)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://me:secret@host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "postgresql+asyncpg://host/db",
        "s3://bucket",
        "a://[",
    ],
)
def test_addresses_of_other_databases_are_refused(address):
    """Nothing of them is told, which may hold a password."""
    with pytest.raises(pf.UsageError, match="not a database that a job can write to") as caught:
        SqlTable(address, "meters").check_address()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("table", ["x" * 55, "a\0b"])
def test_names_that_a_database_would_cut_are_refused(table):
    with pytest.raises(pf.UsageError, match="not a name of a table"):
        SqlTable("published.db", table)


def test_no_password_is_told(tmp_path, monkeypatch):
    """Not by a place, not by an error, in whatever way it is written in the address; nothing was charged."""
    monkeypatch.setenv("SINK_PASSWORD", SECRET)
    for address in (
        "postgresql://me:${SINK_PASSWORD}@localhost:1/db",
        "postgresql+psycopg://me:x@localhost:1/db?password=${SINK_PASSWORD}&connect_timeout=2",
    ):
        job = job_of(tmp_path, address)
        with pytest.raises(pf.SinkError, match="the server cannot be reached") as caught:
            job.run("2024-01-01")
        told = f"{caught.value}{caught.value.__context__}{caught.value.__cause__}{job.place_of('2024-01-01')}"
        assert not any(part in told for part in (SECRET, "s3cr", "ss word"))
        assert caught.value.__context__ is None
        assert job.account() is None


@pytest.mark.slow
def test_a_lost_connection_leaves_nothing(server_sink, postgres_server, release):
    """The server ends the connection before a statement: nothing is seen, and the next run writes it."""

    def lose():
        rows_of(
            postgres_server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND state LIKE 'idle in%'",
        )

    server_sink().send("2026-11-19", release)
    for place in ("sql_database.py:insert_new", "sql_table.py:_stored"):
        losing = jobs.Tracer(lose, place, {sql_table.__file__, sql_database.__file__})
        with losing, pytest.raises(pf.SinkError, match="closed the connection") as caught:
            server_sink().send(LABEL, release)
        assert "terminating" not in str(caught.value)
        assert not server_sink().has(LABEL)
        assert len(list(server_sink().copies())) == 1
    assert server_sink().send(LABEL, release)


@pytest.mark.slow
def test_what_a_server_does_not_permit_is_said(server_sink, postgres_server, release):
    """A role that may look and not write; the server's own words are not passed on."""
    server_sink().send("2026-11-19", release)
    schema = postgres_server.partition("search_path%3D")[2]
    rows_of(postgres_server, f"CREATE ROLE reader_{schema} LOGIN")
    rows_of(postgres_server, f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema}")
    rows_of(postgres_server, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{schema}")
    sink = SqlTable(postgres_server.replace("ledger@", f"reader_{schema}@"), "meters").open(
        None, sinks.JOB
    )
    assert sink.has("2026-11-19")
    with pytest.raises(pf.SinkError, match="does not permit it"):
        sink.send(LABEL, release)


@pytest.mark.slow
def test_a_schema_of_postgresql_is_named(postgres_of_sinks, release, tmp_path):
    """Tables are in the schema that the job names, however it is called; one that is not there is told."""
    rows_of(postgres_of_sinks, 'CREATE SCHEMA "Odd ""one"""')
    table = SqlTable(postgres_of_sinks, "Meters; daily", 'Odd "one"')
    assert table.open(tmp_path, sinks.JOB).send(LABEL, release)
    assert not table.open(tmp_path, sinks.JOB).send(LABEL, release)
    assert len(rows_of(postgres_of_sinks, 'SELECT * FROM "Odd ""one"""."Meters; daily"')) == 2
    with pytest.raises(pf.SinkError, match="no such schema"):
        SqlTable(postgres_of_sinks, "meters", "nowhere").open(tmp_path, sinks.JOB).send(
            LABEL, release
        )


@pytest.mark.slow
def test_a_database_that_cannot_hold_all_texts_is_refused(postgres_of_sinks, tmp_path):
    """Before anything is drawn."""
    with sa.create_engine(postgres_of_sinks, poolclass=sa.NullPool).connect() as connection:
        creation = postgres.CREATE.format(name="latin_sink", encoding="LATIN1")
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(creation)
    address = postgres_of_sinks.replace("/postgres?", "/latin_sink?")
    with pytest.raises(pf.UsageError, match="does not keep its texts in UTF-8"):
        SqlTable(address, "meters").open(tmp_path, sinks.JOB).prepare(
            pl.Schema({"load": pl.Float64})
        )


@pytest.mark.slow
def test_a_ledger_may_be_in_the_same_database_of_a_server(tmp_path, postgres_server):
    """Each has tables of its own there. A file that is a ledger takes no other tables, and none is made in it."""
    job = job_of(tmp_path, postgres_server)
    job.path.write_text(
        job.path.read_text().replace(
            'account = "ons"', f'account = "ons", address = "{postgres_server}"'
        )
    )
    job = pf.Job.read(job.path)
    assert [job.run("2024-01-01").state for _ in range(2)] == ["released", "kept"]
    with job.ledger() as ledger:
        assert ledger.verify().entries == 3
    job = job_of(tmp_path, "sqlite:///ledger.db")
    with pytest.raises(pf.UsageError, match="is the file of a ledger"):
        job.run("2024-01-01")
    with job.ledger() as ledger:
        assert ledger.verify().entries == 0


def test_a_file_that_is_no_database_is_a_failed_sink(lite, release, tmp_path):
    """The error is one that may be mended, and says nothing of what the file holds."""
    (tmp_path / "published.db").write_text("no database " * 100)
    with pytest.raises(pf.SinkError, match="the file is no SQLite database"):
        lite().send(LABEL, release)
    with pytest.raises(pf.SinkError, match="the file is no SQLite database"):
        lite().has(LABEL)


def test_a_file_that_is_locked_is_waited_for_and_told(lite, release, tmp_path, monkeypatch):
    """Another program that keeps the file to itself is waited for; then the next run writes."""
    monkeypatch.setattr(sql_database, "_WAIT", 0.1)
    lite().send("2026-11-19", release)
    with sqlite3.connect(tmp_path / "published.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(pf.SinkError, match="others kept it locked"):
            lite().send(LABEL, release)
        other.execute("ROLLBACK")
    other.close()
    assert lite().send(LABEL, release)
