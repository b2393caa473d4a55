"""An engine in a hundred lines: rows stay in a file of SQLite. Run it as `python examples/sqlite_engine.py`.

A `Backend` runs queries, a `Dialect` says how SQLite writes them. All else is pufferflow's, also the self-test, which
an engine passes before it reads a row. An entry point of your package makes `pf.table("sqlite:///power.db", "meters")`
work: `sqlite = "your_package.sqlite_engine:connect"` in `[project.entry-points."pufferflow.engines"]`.

Columns of types that are not in TYPES are refused. SQLite keeps NaN as NULL: both are missing values. In tables that
are not STRICT it keeps a text in a column of numbers, too: as a private value that is missing or above all others, as a
public one an error.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl
from pufferflow_connectors.sql import PART, Dialect, frames_of, kinds_of, query_text

import pufferflow as pf
from pufferflow.plugins import Backend, Query, RemoteTable

DIALECT = Dialect(
    name="SQLite", float_type="REAL", text_type="TEXT", moment_type="TEXT", date_type="TEXT", decimal_type="",
    not_a_number="NULL", infinity="9e999", values_in_from=False, exact_floats=False, binary="{} COLLATE BINARY",
    floor="CAST(CAST({} AS INTEGER) AS REAL)",
)  # fmt: skip
TYPES = {"INTEGER": pl.Int64(), "REAL": pl.Float64(), "TEXT": pl.String(), "BOOLEAN": pl.Boolean()}
TYPES |= {"DATE": pl.Date(), "DATETIME": pl.Datetime("us")}  # texts as ISO 8601 has them


def connect(table: object) -> "Sqlite | None":
    """Return the engine of a table at an address."""
    return Sqlite(table) if isinstance(table, RemoteTable) else None


class Sqlite(Backend):
    """A table of a file, which is only read."""

    name, version, table = "SQLite", sqlite3.sqlite_version, None
    settings, has_nan, has_decimals = (name, version), False, False

    def __init__(self, table: RemoteTable, few: pl.DataFrame | None = None) -> None:
        self.table, self.few, self.open = table, few, None
        self.file = Path(table.address.removeprefix("sqlite:///")).absolute()

    def columns(self) -> dict[str, str]:
        with self.one_version():
            return dict(
                self.open.execute("SELECT name, type FROM pragma_table_info(?)", [self.table.name])
            )

    def schema(self) -> pl.Schema:
        known = {name: TYPES[kind] for name, kind in self.columns().items() if kind in TYPES}
        return pl.Schema(known) if self.few is None else self.few.schema

    def unreadable(self) -> dict[str, str]:
        return {name: kind for name, kind in self.columns().items() if kind not in TYPES}

    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        with self.one_version(), closing(self.open.execute(self.text(query))) as cursor:
            names, parts = (
                [column[0] for column in cursor.description],
                iter(lambda: cursor.fetchmany(PART), []),
            )
            yield from frames_of(query, self.schema(), names, parts, DIALECT)

    def text(self, query: Query) -> str:
        rows = (
            DIALECT.quoted(self.table.name)
            if self.few is None
            else f"({DIALECT.rows_of(self.few)}) AS few"
        )
        return query_text(query, rows, kinds_of(self.schema()), DIALECT)

    def with_rows(self, rows: pl.DataFrame) -> "Sqlite":
        return Sqlite(self.table, rows)

    @contextmanager
    def one_version(self) -> Iterator[bool]:
        """Keep a transaction open, in which all queries see the table as it is at the first one."""
        if self.open is not None:
            yield True
            return
        with closing(sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("BEGIN")
            self.open = connection
            try:
                yield True
            finally:
                self.open = None


if __name__ == "__main__":
    with closing(sqlite3.connect("power.db")) as database, database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS meters (meter INTEGER, district TEXT, hour INTEGER, kw REAL) STRICT"
        )
        rows = [
            (meter, "NS"[meter % 2], hour, (meter * 7 + hour) % 5 / 2)
            for meter in range(500)
            for hour in range(24)
        ]
        database.executemany("INSERT INTO meters VALUES (?, ?, ?, ?)", rows)
    secret = pf.Secret("kw", domain=pf.Interval(0, 2.5), missing="skip")
    scenario = pf.Scenario(
        secret, pf.AnyCorrelation(), public=["meter", "district", "hour"], within="meter"
    )
    batch = pf.protect(Sqlite(RemoteTable("sqlite:///power.db", "meters")), scenario).group_by(
        "district"
    )
    release = batch.private_mean("kw").release(epsilon=1.0)
    print(release.frame, "read by", release.certificate.engine)
