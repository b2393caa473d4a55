"""Engines to test: each puts rows on its machine and returns what `pf.protect` takes."""

import itertools
import warnings

import duckdb
import postgres
import pytest
import sqlite_rows
from machines import PolarsMachine
from pufferflow_connectors.warehouses import Warehouse

import pufferflow as pf
from pufferflow.engines.connect import remote_engine
from pufferflow.engines.remote import RemoteEngine

_numbers = itertools.count()
WIDEST = {"sqlite", "sqlalchemy"}
"""Machines without types of fewer than 64 bits, decimals and NaN."""
SLOW = ("postgresql", "sqlalchemy", "spark")
MACHINES = [
    "polars",
    "duckdb",
    "sqlite",
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
]


@pytest.fixture(scope="session")
def server():
    """The address of a PostgreSQL server."""
    with postgres.for_tests() as address:
        yield address


@pytest.fixture(scope="session")
def schema(server):
    """The address of a schema for the rows of all tests, so that PostgreSQL is tested once for its settings."""
    return postgres.database(server, "rows_of_tests")


@pytest.fixture(scope="session")
def session():
    """A session of Spark on two cores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark warns of versions of other packages
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        yield spark
        spark.stop()


@pytest.fixture(scope="session")
def database_file(tmp_path_factory):
    """A file of SQLite for all tests, so that its engines are tested once."""
    return tmp_path_factory.mktemp("sqlite") / "rows.db"


@pytest.fixture(params=MACHINES)
def machine(request):
    """The name of a machine."""
    return request.param


@pytest.fixture
def widest(machine):
    """Whether a machine has the widest types only."""
    return machine in WIDEST


@pytest.fixture
def put(machine, request):
    """A function that puts a frame on a machine, and returns the table there."""
    if machine == "duckdb":
        connection = duckdb.connect()
        yield lambda frame: connection.from_arrow(frame.to_arrow())
        connection.close()
    elif machine == "postgresql":
        address = request.getfixturevalue("schema")
        yield lambda frame: pf.table(address, _ingested(address, frame))
    elif machine == "sqlite":
        file = request.getfixturevalue("database_file")
        yield lambda frame: sqlite_rows.ENGINE.Sqlite(sqlite_rows.written(file, frame))
    elif machine == "sqlalchemy":
        file = request.getfixturevalue("database_file")
        yield lambda frame: Warehouse(sqlite_rows.written(file, frame), sqlite_rows.FACTS)
    elif machine == "spark":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spark = request.getfixturevalue("session")
            yield lambda frame: _without_zones(
                spark.createDataFrame(frame.to_arrow(compat_level=pf_oldest())), frame
            )
    else:
        yield PolarsMachine


def _without_zones(table, frame):
    """Return a dataframe whose moments have a zone only where those of the frame have one; Spark gives one to all."""
    import polars as pl

    local = [name for name, dtype in frame.schema.items() if dtype == pl.Datetime("us")]
    return (
        table.withColumns({name: table[name].cast("timestamp_ntz") for name in local})
        if local
        else table
    )


def pf_oldest():
    """Return the plainest types of Arrow: no views of texts, which Spark does not read."""
    import polars as pl

    return pl.CompatLevel.oldest()


def _ingested(address, frame):
    from adbc_driver_postgresql import dbapi

    name = f"rows {next(_numbers)}"
    with (
        dbapi.connect(f"postgresql:{address.partition(':')[2]}") as connection,
        connection.cursor() as cursor,
    ):
        columns = ", ".join(f'"{column}" {_kind(dtype)}' for column, dtype in frame.schema.items())
        cursor.execute(f'CREATE TABLE "{name}" ({columns})')
        connection.commit()
        plain = frame.cast(
            {column: str for column, dtype in frame.schema.items() if dtype.is_decimal()}
        )
        texts = ", ".join(
            f'"{column}"::{_kind(dtype)}' if dtype.is_decimal() else f'"{column}"'
            for column, dtype in frame.schema.items()
        )
        cursor.adbc_ingest("plain", plain.to_arrow(compat_level=pf_oldest()), mode="create")
        cursor.execute(f'INSERT INTO "{name}" SELECT {texts} FROM plain')
        cursor.execute("DROP TABLE plain")
        connection.commit()
    return name


def _kind(dtype):
    kinds = {
        "Float64": "float8",
        "Float32": "float4",
        "String": "text",
        "Boolean": "bool",
        "Date": "date",
    }
    kinds |= {"Int8": "int2", "Int16": "int2", "Int32": "int4", "Int64": "int8"}
    if dtype.is_decimal():
        return f"numeric({dtype.precision}, {dtype.scale})"
    return kinds.get(str(dtype), "timestamp")


@pytest.fixture
def engine(put):
    """A function that puts a frame on a machine, and returns the engine of the table there."""

    def made(frame):
        table = put(frame)
        return RemoteEngine(table) if isinstance(table, PolarsMachine) else remote_engine(table)

    return made
