"""Addresses of DuckDB are as those of SQLite: relative after three slashes, absolute after four."""

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.engines.connect import RemoteTable

duckdb = pytest.importorskip("duckdb")
SCENARIO = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())


@pytest.fixture
def database(tmp_path, monkeypatch):
    """A database of three rows in the current folder, and files beside it."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("power.db") as connection:
        connection.execute("CREATE TABLE meters AS SELECT unnest([0, 1, 1]) AS on")
    (tmp_path / "data").mkdir()
    pl.DataFrame({"on": [0, 1, 1]}).write_parquet("data/rows.parquet")
    return tmp_path / "power.db"


def rows(table):
    return pf.protect(table, SCENARIO).private_sum("on").plan(pf.Pure(1.0)).rows


@pytest.mark.slow
def test_three_slashes_are_relative_and_four_absolute(database):
    """The current folder counts, as it does for sqlite:///."""
    assert rows(pf.table("duckdb:///power.db", "meters")) == 3
    assert rows(pf.table("duckdb:///./power.db", "meters")) == 3
    assert rows(pf.table(f"duckdb:///{database}", "meters")) == 3
    assert database.is_absolute()


def test_what_is_not_there_is_said_with_its_whole_path(database):
    """So a relative path shows where it was looked for, and how an absolute one is written."""
    with pytest.raises(pf.SourceError) as caught:
        rows(pf.table("duckdb:///other.db", "meters"))
    assert str(database.with_name("other.db")) in caught.value.problem
    assert '"duckdb:////data/power.db" for an absolute one' in caught.value.instead


@pytest.mark.slow
def test_absolute_paths_of_older_files_are_still_read(database, monkeypatch):
    """Three slashes were absolute once: they are, where there is such a file and none that is relative."""
    monkeypatch.chdir("/")
    (folder := database.parent / "elsewhere").mkdir()
    monkeypatch.chdir(folder)
    assert rows(pf.table(f"duckdb://{database}", "meters")) == 3


@pytest.mark.usefixtures("database")
def test_two_slashes_name_a_host():
    """They were read as a database in memory, which has no tables."""
    with pytest.raises(pf.UsageError) as caught:
        rows(pf.table("duckdb://power.db", "meters"))
    assert caught.value.instead == '"duckdb:///power.db"'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "name"), [("duckdb:///power.db", "meters"), ("duckdb:", "data/*.parquet")]
)
def test_paths_of_a_job_are_relative_to_its_file(
    database, tmp_path_factory, monkeypatch, address, name
):
    """Wherever it is run from: databases, and files that are named as tables."""
    from pufferflow.jobs.period import Period
    from pufferflow.jobs.sources import TableSource

    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    source = TableSource(engine="duckdb", table=name, address=address)
    assert rows(source.rows(database.parent, Period.read("2026-11-20"))) == 3
    assert repr(RemoteTable(address, name, "/secret")) == f"<table {name!r} at duckdb:…>"
