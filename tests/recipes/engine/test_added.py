"""Tables of SQLite are known by their address: read where they are, named in certificates, refused by type."""

import sqlite3
from contextlib import closing

import installed
import pytest

import pufferflow as pf

SCENARIO = pf.Scenario(
    pf.Secret("kw", domain=pf.Interval(0, 2)), pf.Independent(), public=["district"]
)


@pytest.fixture
def address(tmp_path):
    """The address of a file with a table of meters, where the project is installed with its engines."""
    with closing(sqlite3.connect(tmp_path / "power.db")) as database, database:
        database.execute("CREATE TABLE meters (district TEXT, kw REAL, odd BLOB)")
        database.executemany(
            "INSERT INTO meters VALUES (?, ?, NULL)", [("N", 1.0), ("N", None), ("S", 9.0)]
        )
    group = "pufferflow.engines"
    with installed.package(tmp_path / "installed", group, installed.of_this_tree(group)):
        yield f"sqlite:///{tmp_path}/power.db"


def test_a_table_is_released_where_it_is(address):
    """The answer is that of its rows, and the certificate names SQLite."""
    batch = pf.protect(pf.table(address, "meters"), SCENARIO).group_by("district").private_sum("kw")
    release = batch.release(epsilon=1e9)
    assert release.frame["kw_sum"].round(3).to_list() == [1.0, 2.0]
    assert release.certificate.engine.startswith("SQLite ")


def test_a_column_of_an_odd_type_is_refused(address):
    """The error names the column and its type."""
    scenario = pf.Scenario(
        pf.Secret("kw", domain=pf.Interval(0, 2)), pf.Independent(), public=["odd"]
    )
    with pytest.raises(pf.UsageError, match=r"'odd'.*BLOB"):
        pf.protect(pf.table(address, "meters"), scenario)
