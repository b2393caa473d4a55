"""A job whose rows stay in an engine, and whose releases go to a table, is killed at random moments: one a period."""

import random
import re
import signal

import duckdb
import jobs
import polars as pl
import postgres
import pytest
import sqlalchemy as sa

from pufferflow.jobs.job import Job

SINK = 'kind = "sql"\naddress = "sqlite:///published.db"\ntable = "meters"\n\n[schedule]'


@pytest.fixture(scope="module")
def farm():
    with jobs.Farm() as found:
        yield found


def made(place, source, ledger="ledger.db"):
    """Write a job with a source of an engine, and a table of SQLite for its releases."""
    job = jobs.made(
        place,
        (r'function = "job.py:rows"', source),
        (r'address = "ledger.db"', f'address = "{ledger}"'),
    )
    text = job.path.read_text()
    job.path.write_text(
        re.sub(r"\[sink\].*?\[schedule\]", lambda _: f"[sink]\n{SINK}", text, flags=re.DOTALL)
    )
    return Job.read(job.path)


def rows_of(job, labels):
    """Return the rows of some days together."""
    make = jobs.functions_of(["job.py:rows"], job.folder)[0]
    return pl.concat(make(job.period(label)).collect() for label in labels)


def published(job):
    """Return the numbers of every release in the table, each with its certificate's entry."""
    path = job.folder / "published.db"
    if not path.exists():
        return {}
    with sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool).connect() as connection:
        if not sa.inspect(connection).has_table("meters_releases"):
            return {}
        entries = dict(
            connection.execute(sa.text("SELECT release_id, entry FROM meters_releases")).all()
        )
        rows = connection.execute(
            sa.text('SELECT release_id, district, "load", peaks FROM meters ORDER BY 1, row_number')
        )
        numbers = {}
        for name, *row in rows.all():
            numbers.setdefault(name, []).append(tuple(row))
    assert numbers.keys() == entries.keys(), "rows without a certificate, or one without rows"
    return {name: (entries[name], numbers[name]) for name in entries}


def killed(farm, job, label, moments, seen):
    """Kill runs of a period at some moments after they begin, and let one end; return how many were killed."""
    crashes = 0
    for moment in [*moments, None]:
        options = {} if moment is None else {"after": moment}
        (found,) = farm.wait(farm.start(job, period=label, **options), seconds=600)
        assert found.code in {0, -signal.SIGALRM}, found
        crashes += found.code != 0
        for name, release in published(job).items():
            assert seen.setdefault(name, release) == release, "published twice"
    assert found.code == 0
    return crashes


def check(job, farm, labels, longest, times, seed=1):
    """Kill runs of every period at random, and check that each has one release, everywhere the same."""
    draw, crashes, seen = random.Random(seed), 0, {}  # noqa: S311 - of tests
    for number, label in enumerate(labels, 1):
        moments = [draw.uniform(0.1, longest) for _ in range(times)]
        crashes += killed(farm, job, label, moments, seen)
        assert list(seen) == [f"{job.name}-{one}" for one in labels[:number]]
        assert jobs.states(job) == dict.fromkeys(labels[:number], "committed")
    assert crashes > 0
    account = job.account()
    for label in labels:
        release = account.release(job.id_of(label))
        ours = [tuple(row) for row in release.frame.select("district", "load", "peaks").iter_rows()]
        assert published(job)[f"{job.name}-{label}"] == (release.certificate.entry, ours)


@pytest.mark.slow
def test_rows_in_duckdb(farm, tmp_path):
    """The ledger and the table of releases are files of SQLite."""
    labels = jobs.days(1)
    job = on_duckdb(tmp_path, labels)
    check(job, farm, labels, longest=2.0, times=1)


@pytest.mark.nightly
def test_rows_in_duckdb_many_times(farm, tmp_path):
    labels = jobs.days(4)
    check(on_duckdb(tmp_path, labels), farm, labels, longest=4.0, times=3, seed=2)


def on_duckdb(place, labels):
    address = f"duckdb:///{place / 'rows.db'}"
    job = made(place, f'engine = "duckdb"\naddress = "{address}"\ntable = "main.meters"')
    with duckdb.connect(place / "rows.db") as connection:
        connection.register("rows", rows_of(job, labels).to_arrow())
        connection.execute("CREATE TABLE meters AS FROM rows")
    return job


SPARK = """

def spark_rows(period):
    import warnings
    from pathlib import Path

    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    return spark.read.parquet(str(Path(__file__).parent / "rows.parquet"))
"""


@pytest.mark.nightly
def test_rows_in_spark_and_a_ledger_in_postgresql(farm, tmp_path):
    """A run takes most of its time until Spark is there, so some are killed late."""
    labels = jobs.days(2)
    with postgres.for_tests() as server:
        job = made(tmp_path, 'function = "job.py:spark_rows"', postgres.database(server, "crashes"))
        (tmp_path / "job.py").write_text((tmp_path / "job.py").read_text() + SPARK)
        rows_of(job, labels).write_parquet(tmp_path / "rows.parquet")
        check(Job.read(job.path), farm, labels, longest=30.0, times=1)
