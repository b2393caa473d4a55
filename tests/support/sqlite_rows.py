"""Rows in SQLite: read by the example of an engine, and by the engine for warehouses with the facts of SQLite."""

import importlib.util
import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
from pufferflow_connectors.warehouses import Facts

from pufferflow.plugins import RemoteTable

_SPEC = importlib.util.spec_from_file_location(
    "sqlite_engine", Path(__file__).parents[2] / "examples" / "sqlite_engine.py"
)
ENGINE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(ENGINE)
FACTS = Facts(
    dialect=ENGINE.DIALECT,
    columns="SELECT name, type, NULL, NULL FROM pragma_table_info({table})",
    version="SELECT sqlite_version()",
)
_numbers = itertools.count()
_KINDS = {dtype: kind for kind, dtype in ENGINE.TYPES.items()}


def written(file, frame):
    """Write a frame into a table of a file; return its address and name."""
    name = f'rows "{next(_numbers)}"'
    quoted = ENGINE.DIALECT.quoted
    columns = ", ".join(
        f"{quoted(column)} {_KINDS[dtype]}" for column, dtype in frame.schema.items()
    )
    texts = frame.with_columns(pl.col(pl.Date, pl.Datetime).cast(pl.String))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        places = ", ".join("?" * frame.width)
        database.executemany(f"INSERT INTO {quoted(name)} VALUES ({places})", texts.iter_rows())
    return RemoteTable(f"sqlite:///{file}", name)
