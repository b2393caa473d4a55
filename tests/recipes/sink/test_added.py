"""A job whose sink is a SQLite file: chosen in its job.toml, written once, found again, read back, and kept apart."""

import sqlite3

import installed
import polars as pl
import pytest
from ons import write_job

import pufferflow as pf

KEYS = """
guarantee = { epsilon = 0.6 }
ledger = { account = "ons", limit = { epsilon = 6.0 } }
sink = { kind = "database", file = "published.db" }
"""
DAY = "2024-01-01"


@pytest.fixture
def job(tmp_path):
    """A job with its functions, where the project is installed with its sinks."""
    group = "pufferflow.sinks"
    with installed.package(tmp_path / "installed", group, installed.of_this_tree(group)):
        yield pf.Job.read(write_job(tmp_path, KEYS))


def test_a_release_is_a_row_once(job, tmp_path):
    """A second run finds the row, and a row that went away is sent again as it was."""
    first, again = job.run(DAY), job.run(DAY)
    assert (first.state, again.state) == ("released", "kept")
    with sqlite3.connect(tmp_path / "published.db") as database:
        ((label, numbers, certificate),) = database.execute(
            "SELECT label, numbers, certificate FROM releases"
        )
        database.execute("DELETE FROM releases")
    assert label == DAY
    assert pl.read_csv(numbers.encode()).equals(first.release.frame)
    assert pf.Certificate.from_json(certificate) == first.release.certificate
    assert job.run(DAY).state == "sent again"


def test_another_ledgers_release_is_not_replaced(job, tmp_path):
    """Where the ledger went away, nothing is drawn, and the row stays."""
    job.run(DAY)
    (tmp_path / "ledger.db").rename(tmp_path / "away.db")
    with pytest.raises(pf.UsageError, match=r"published\.db"):
        job.run(DAY)


def test_a_file_that_is_no_database_fails_as_a_sink_does(job, tmp_path):
    """The error is one that may go well later, and says nothing of what the file holds."""
    (tmp_path / "published.db").write_text("no database " * 100)
    with pytest.raises(pf.SinkError, match=r"published\.db") as caught:
        job.run(DAY)
    assert "no database" not in str(caught.value)
