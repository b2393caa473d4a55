"""Queries as sources: bound to the period, of one moment, copied in batches, and nothing of a server in an error."""

import datetime as dt
import gc
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import polars as pl
import postgres
import pytest
import sqlalchemy as sa
from pufferflow_connectors.sources import sql, sql_values
from pufferflow_connectors.sources.sql import SqlSource

import pufferflow as pf
from pufferflow.plugins import dtypes_of

DAY = pf.Period.read("2026-11-20", "day", "Europe/Berlin")
COLUMNS = {"house": "integer", "at": "datetime", "district": "text", "on": "integer"}
HIDDEN = "4711-top-secret"
QUERY = 'SELECT house, at, district, "on" FROM readings WHERE at >= {period.start} AND at < {period.end}'
ROWS = [
    (
        house,
        dt.datetime.fromisoformat(f"2026-11-{day}T0{hour}:00"),
        "north" if house < 3 else "south",
        (house + hour) % 2,
    )
    for house in range(5)
    for day in (20, 21)
    for hour in range(4)
]


def filled(address):
    """Make the table of readings."""
    engine = sa.create_engine(address)
    table = sa.Table(
        "readings",
        sa.MetaData(),
        sa.Column("house", sa.Integer),
        sa.Column("at", sa.DateTime),
        sa.Column("district", sa.String),
        sa.Column("on", sa.Integer),
    )
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [dict(zip(COLUMNS, row, strict=True)) for row in ROWS])
    engine.dispose()
    return address


@pytest.fixture(scope="module")
def server():
    with postgres.for_tests() as address:
        yield filled(address)


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    """A database with two days of readings."""
    if request.param == "sqlite":
        return filled(f"sqlite:///{tmp_path}/readings.db")
    return request.getfixturevalue("server")


def rows_of(address, query=QUERY, columns=None, period=DAY, folder=Path()):
    return SqlSource(address=address, query=query, columns=columns or COLUMNS).rows(folder, period)


def test_rows_of_a_period(address):
    """The answer has the declared columns and types, and the rows of the period alone."""
    found = rows_of(address)
    assert found.collect_schema() == dtypes_of(COLUMNS)
    assert sorted(found.collect().rows()) == sorted(row for row in ROWS if row[1].day == 20)
    fewer = rows_of(address, columns={"on": "integer", "district": "text"})
    assert fewer.collect_schema() == {"on": pl.Int64, "district": pl.String}


def test_a_release_reads_the_copy(address):
    """Plan and release read rows of one moment, though the table changes in between."""
    frame = rows_of(address)
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), within="house", public=["district"]
    )
    plan = pf.protect(frame, scenario).group_by("district").private_sum("on").plan(epsilon=1e6)
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        connection.execute(
            sa.text("""INSERT INTO readings VALUES (9, '2026-11-20 01:00:00', 'south', 1)""")
        )
    assert [plan.release().frame["on_sum"].round().to_list() for _ in range(2)] == [[6, 4]] * 2
    assert rows_of(address).collect().height == 21
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM readings WHERE house = 9"))
    engine.dispose()


def test_rows_come_in_batches(address, monkeypatch):
    """Never more than a batch of rows is in memory, of whichever database."""
    heights, copied = [], sql.copied

    def watched(batches, schema):
        return copied([heights.append(batch.height) or batch for batch in batches], schema)

    monkeypatch.setattr(sql, "_BATCH", 6)
    monkeypatch.setattr(sql, "copied", watched)
    assert rows_of(address).collect().height == 20
    assert heights == [6, 6, 6, 2]


def test_an_empty_answer_has_types(address):
    """A period without rows is a table without rows, not without columns."""
    found = rows_of(address, period=pf.Period.read("2020-01-01"))
    assert found.collect_schema() == dtypes_of(COLUMNS)
    assert found.collect().is_empty()


@pytest.mark.parametrize(
    ("place", "period", "value"),
    [
        ("{period}", DAY, "2026-11-20"),
        ("{period:%Y-%m}", DAY, "2026-11"),
        ("{period:%G%V}", pf.Period.read("2026-W47", "week"), "202647"),
    ],
)
def test_a_period_is_a_parameter(place, period, value, address):
    """Its name and its forms are values, whatever is in the query beside them."""
    query = (
        f"SELECT {place} || '' AS name, '12:30 :x %s 50%' AS words, CAST(1 AS INTEGER) AS \"on\""
    )
    found = rows_of(
        address, query, {"name": "text", "words": "text", "on": "integer"}, period
    ).collect()
    assert found.rows() == [(value, "12:30 :x %s 50%", 1)]


@pytest.mark.parametrize(
    "place", ["{perod}", "'{period}'", '"{period}"', "{period.beginning}", "{period:%Q}", "{}"]
)
def test_places_that_no_period_fills(place):
    """A misspelt place, and one in quotes, are refused when the file is read."""
    with pytest.raises(pf.UsageError, match=r"The query has ['\"]?\{"):
        SqlSource(
            address="sqlite:///a.db", query=f"SELECT * FROM a WHERE day = {place}", columns=COLUMNS
        )


def test_a_query_only_reads(address):
    """What would change the database is refused by it, or not kept."""
    for query in (
        "DELETE FROM readings",
        "DROP TABLE readings",
        "INSERT INTO readings DEFAULT VALUES",
    ):
        with pytest.raises(pf.PufferflowError):
            rows_of(address, query)
    assert rows_of(address).collect().height == 20


def test_a_function_that_writes_is_refused(server):
    """A sequence would go on although the transaction is given up; a query is read only for that."""
    engine = sa.create_engine(server)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SEQUENCE counted"))
    with pytest.raises(pf.SourceError, match="the query would write"):
        rows_of(server, "SELECT nextval('counted') AS house", {"house": "integer"})
    with engine.begin() as connection:
        assert connection.execute(sa.text("SELECT nextval('counted')")).scalar() == 1
    engine.dispose()


WRONG = {
    "a table that is gone": "SELECT * FROM nowhere",
    "a column that is gone": "SELECT nothing FROM readings",
    "no SQL": f"SELEKT '{HIDDEN}'",
    "an error at a value": f"SELECT CAST('{HIDDEN}' AS INTEGER) / 0 AS house FROM readings",
    "two statements": "SELECT 1; SELECT 2",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_database_says_is_not_told(name, address):
    """Its words quote the query, and may quote rows; the error has the kind of the failure at most."""
    query = WRONG[name]
    if name == "an error at a value" and address.startswith(
        "sqlite"
    ):  # which reads any text as a number
        query = f"SELECT abs(-9223372036854775807 - 1) AS house, '{HIDDEN}' FROM readings"
    with pytest.raises(pf.PufferflowError) as caught:
        rows_of(address, query, {"house": "integer"})
    for words in (HIDDEN, "readings", "nowhere", "SELECT 1", str(address)):
        assert words not in caught.value.problem
    assert caught.value.__context__ is None


def test_answers_that_lack_a_column(address):
    """A declared column that the answer lacks, or has twice, is named with what to write."""
    with pytest.raises(pf.UsageError, match="gives no column 'district'"):
        rows_of(address, 'SELECT house, at, "on" FROM readings')
    with pytest.raises(pf.UsageError, match="more than one column 'house'"):
        rows_of(address, "SELECT house, house FROM readings", {"house": "integer"})


def test_databases_that_cannot_be_reached(tmp_path, server):
    """Nobody listening, a stranger, no such database, no such file or kind: no word of theirs, and no password."""
    socket = sa.make_url(server).query["host"]
    for address, error, told in (
        (f"postgresql://me:{HIDDEN}@127.0.0.1:9/meters", pf.SourceError, "cannot be reached"),
        (
            f"postgresql://nobody:{HIDDEN}@/postgres?host={socket}",
            pf.SourceError,
            "cannot be reached, or refuses",
        ),
        (
            f"postgresql://ledger:{HIDDEN}@/nowhere?host={socket}",
            pf.SourceError,
            "cannot be reached, or refuses",
        ),
        (f"sqlite:///{tmp_path}/{HIDDEN}.db", pf.SourceError, "SQLite is not there"),
        (f"oracel://me:{HIDDEN}@host/meters", pf.UsageError, "not a database whose driver"),
        (f"://{HIDDEN}", pf.UsageError, "not a database whose driver"),
    ):
        with pytest.raises(error, match=told) as caught:
            rows_of(address)
        assert HIDDEN not in str(caught.value)
        assert HIDDEN not in repr(SqlSource(address=address, query=QUERY, columns=COLUMNS))
    assert not list(tmp_path.iterdir())


def test_a_table_that_may_not_be_read(server):
    """Missing rights are told as such."""
    engine = sa.create_engine(server)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE ROLE stranger LOGIN"))
    engine.dispose()
    with pytest.raises(pf.SourceError, match="does not permit it"):
        rows_of(server.replace("ledger@", "stranger@"))


TYPES = {
    "money": ("1.50::money", "float", "is money"),
    "interval": ("interval '1 day'", "text", "is interval"),
    "array": ("ARRAY[1, 2]", "text", r"is int4\[\]"),
    "CHAR(n)": ("'a'::char(5)", "text", "filled up with blanks"),
    "with time zone": ("now()", "datetime", "WITH TIME ZONE"),
    "json": ("'null'::json", "text", "is json"),
    "text as a number": ("'1'::text", "integer", "is text"),
    "a date as a moment": ("DATE '2026-11-20'", "datetime", "is date"),
    "bytes": ("'\\x00'::bytea", "text", "is bytea"),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_without_a_meaning(name, server):
    """A type of which no value can be read as declared is refused before a row is, with a cast that works."""
    value, kind, told = TYPES[name]
    with pytest.raises(pf.UsageError, match=told) as caught:
        rows_of(server, f"SELECT {value} AS load", {"load": kind})
    if name in {"CHAR(n)", "with time zone", "text as a number", "a date as a moment"}:
        cast = caught.value.instead.replace("load", f"({value})", 1)
        if name == "a date as a moment":
            cast = cast.replace("AT TIME ZONE 'Europe/Berlin'", "+ TIME '00:00'")
        assert rows_of(server, cast, {"load": kind}).collect()["load"].null_count() == 0


def test_types_with_a_meaning(server):
    """Numerics of any precision are floats, identifiers and enumerations are texts; NULL is null in each type."""
    engine = sa.create_engine(server)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TYPE colour AS ENUM ('red', 'green')"))
    engine.dispose()
    query = (
        "SELECT 0.1::numeric AS a, 'NaN'::numeric AS b, '00000000-0000-0000-0000-000000000001'::uuid AS c, "
        "'red'::colour AS d, NULL::int AS e, 7::numeric AS f, 1e300::float8 AS g, true AS h, DATE '2026-11-20' AS i"
    )
    kinds = dict(
        zip(
            "abcdefghi",
            ["float", "float", "text", "text", "integer", "integer", "float", "boolean", "date"],
            strict=True,
        )
    )
    found = rows_of(server, query, kinds).collect().row(0)
    assert found[0] == 0.1
    assert found[1] != found[1]
    assert found[2:] == (
        "00000000-0000-0000-0000-000000000001",
        "red",
        None,
        7,
        1e300,
        True,
        dt.date(2026, 11, 20),
    )


def test_each_value_is_read_by_itself(tmp_path):
    """SQLite has values of any type in a column: what cannot be read as declared is null, and changes no other."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/any.db")
    values = [3, "4", "x", 2.5, None, b"5", 2**62, 1e300]
    with engine.begin() as connection:
        connection.execute(sa.text('CREATE TABLE any ("on")'))
        for value in values:
            connection.execute(sa.text("INSERT INTO any VALUES (:value)"), {"value": value})
    engine.dispose()
    query = 'SELECT "on" FROM any ORDER BY rowid'
    read = {
        kind: rows_of("sqlite:///any.db", query, {"on": kind}, folder=tmp_path)
        .collect()["on"]
        .to_list()
        for kind in sql_values._READ
    }
    assert read["integer"] == [3, 4, None, None, None, None, 2**62, None]
    assert read["float"] == [3.0, 4.0, None, 2.5, None, None, 2.0**62, 1e300]
    assert read["text"] == ["3", "4", "x", "2.5", None, None, str(2**62), "1e+300"]
    assert read["boolean"] == [None] * 8
    assert read["date"] == read["datetime"] == [None] * 8


def test_values_of_every_kind():
    """Dates, moments with zones and truth values have one reading each."""
    utc = dt.datetime(2026, 11, 20, 5, tzinfo=dt.UTC)
    berlin = dt.datetime(2026, 11, 20, 6, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert [sql_values.moment(value) for value in (utc, berlin, "2026-11-20T05:00")] == [
        utc.replace(tzinfo=None)
    ] * 3
    assert [
        sql_values.moment(value)
        for value in ("x", 3, dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-1))))
    ] == [None] * 3
    assert [sql_values.date(value) for value in ("2026-11-20", utc, dt.date(2026, 11, 20), "20.11.2026")] == [
        dt.date(2026, 11, 20), None, dt.date(2026, 11, 20), None,
    ]  # fmt: skip
    assert [sql_values.boolean(value) for value in (True, 0, 1, 2, "true")] == [
        True,
        False,
        True,
        None,
        None,
    ]
    assert [sql_values.text(value) for value in (Decimal("1.50"), UUID(int=1), b"x")] == [
        "1.50",
        str(UUID(int=1)),
        None,
    ]
    assert [sql_values.integer(value) for value in (Decimal("Infinity"), 2**63, -(2**63))] == [
        None,
        None,
        -(2**63),
    ]


# The copy


@pytest.mark.slow
def test_a_copy_goes_with_the_last_frame_that_reads_it():
    """Its file is open while some frame made of it lives, and is another file for the next copy."""
    files = Path("/proc/self/fd")
    if not files.is_dir():
        pytest.skip("open files are not seen here")

    def unnamed():
        return {
            path
            for path in files.iterdir()
            if path.is_symlink() and "(deleted)" in str(path.readlink())
        }

    gc.collect()
    before = unnamed()
    schema = pl.Schema({"on": pl.Int64})
    first = sql.copied([pl.DataFrame({"on": [1, 2]}), pl.DataFrame({"on": [3]})], schema)
    derived = first.with_columns(pl.col("on") * 2)
    (path,) = unnamed() - before
    assert path.stat().st_mode & 0o777 == 0o600
    del first
    gc.collect()
    assert derived.collect()["on"].to_list() == [2, 4, 6]
    del derived
    gc.collect()
    assert unnamed() == before
    again = sql.copied([pl.DataFrame({"on": [7]})], schema)
    assert again.filter(pl.col("on") > 5).select("on").head(1).collect().rows() == [(7,)]


@pytest.mark.slow
def test_a_killed_process_leaves_no_rows(tmp_path):
    """Whatever ends a process, nothing of a copy stays in the folder for temporary files."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("files have names here until they are closed")
    address = filled(f"sqlite:///{tmp_path}/readings.db")
    folder = tmp_path / "temporary"
    folder.mkdir()
    code = (
        "import pufferflow as pf, time\nfrom pathlib import Path\n"
        "from pufferflow_connectors.sources.sql import SqlSource\n"
        f"source = SqlSource(address={address!r}, query={QUERY!r}, columns={COLUMNS!r})\n"
        "rows = source.rows(Path(), pf.Period.read('2026-11-20'))\n"
        "print(rows.collect().height, flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdout.readline() == b"20\n"
    assert list(folder.iterdir()) == []
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_job_of_a_query(tmp_path, monkeypatch):
    """`[source] kind = "sql"` releases a period; no file of the job has the password."""
    filled(f"sqlite:///{tmp_path}/{HIDDEN}.db")
    (tmp_path / "own.py").write_text(
        "import pufferflow as pf\n"
        "scenario = pf.Scenario(pf.Secret('on', domain=[0, 1]), pf.Independent(), public=['district'])\n"
        "def build(frame, period):\n"
        "    return pf.protect(frame, scenario).group_by('district').private_sum('on')\n"
    )
    (tmp_path / "job.toml").write_text(
        'name = "houses"\nbuild = "own.py:build"\n[guarantee]\nepsilon = 1.0\n[ledger]\naccount = "a"\n'
        'limit = { epsilon = 2.0 }\n[sink]\nreport = false\n[source]\nkind = "sql"\n'
        'address = "sqlite:///${READINGS}.db"\n'
        f"query = '''{QUERY}'''\n"
        '[source.columns]\nat = "datetime"\ndistrict = "text"\non = "integer"\n'
    )
    monkeypatch.setenv("READINGS", HIDDEN)
    job = pf.Job.read(tmp_path / "job.toml")
    began = time.time()
    ran = job.run("2026-11-20")
    assert ran.release.frame["district"].to_list() == ["north", "south"]
    assert job.run("2026-11-20").state == "kept"
    with pytest.raises(pf.SourceError, match="no rows for the period"):
        job.run("2020-01-01", wait=lambda _: None)
    written = [
        path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_mtime > began
    ]
    assert not any(HIDDEN.encode() in path.read_bytes() for path in written)
    assert HIDDEN not in repr(job.file)
