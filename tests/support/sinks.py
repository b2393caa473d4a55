"""Every kind of sink, opened in a folder; releases with any keys; and what a reader of a sink sees of a release."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import installed
import msgspec
import ons
import polars as pl
import sqlalchemy as sa

import pufferflow as pf

JOB = "meters"
GROUP = "pufferflow.sinks"


@dataclass(frozen=True)
class SinkKind:
    """A kind of sink, what `[sink]` says of it beside `kind`, and how a reader reads the column `load` of a release.

    A reader of None sees what the sink says of itself. `needs` names the fixture of a server, whose address stands for
    {server}, and {folder} for a folder of the test.
    """

    name: str
    keys: str
    reader: Callable | None = None
    kind: str = ""
    needs: str = ""
    quick: bool = False
    refuses: tuple[str, ...] = ()
    """The names of hostile keys that it refuses before anything is drawn."""

    def table(self, server="", folder=""):
        """Return the keys as a job file has them."""
        kind = installed.loaded(installed.of_this_tree(GROUP)[self.kind or self.name])
        return msgspec.convert(tomllib.loads(self.written(server, folder)), kind)

    def written(self, server="", folder=""):
        """Return the keys as they are written in `[sink]`."""
        return self.keys.replace("{server}", server).replace("{folder}", str(folder))


def _from_folder(sink, label):
    place = f"{sink.root}/{label}"
    return pf.Release.read(place).frame["load"].to_list() if sink.has(label) else None


def _from_sql(sink, label):
    """Join the rows with their certificate, on a connection of its own."""
    with sa.create_engine(sink._database.engine.url, poolclass=sa.NullPool).connect() as connection:
        if not sa.inspect(connection).has_table("meters_releases"):
            return None
        one = {"id": f"{JOB}-{label}"}
        known = connection.execute(
            sa.text("SELECT entry FROM meters_releases WHERE release_id = :id"), one
        ).scalar()
        query = sa.text("SELECT load FROM meters WHERE release_id = :id ORDER BY row_number")
        rows = list(connection.execute(query, one).scalars())
    assert known is not None or not rows, "rows without a certificate"
    return None if known is None else rows


def _from_store(sink, label):
    """Read the certificate first, and the file that it names."""
    import io

    import obstore

    if (
        sink._address.startswith("file:")
        and not Path(sink._address.removeprefix("file://")).exists()
    ):
        return None
    names = {one["path"].rpartition("/")[2] for one in obstore.list(sink._store, label).collect()}
    if "certificate.json" not in names:
        return None
    certificate = bytes(obstore.get(sink._store, f"{label}/certificate.json").bytes())
    digest = pf.Certificate.from_json(certificate).entry.partition(":")[2][:16]
    numbers = bytes(obstore.get(sink._store, f"{label}/release.{digest}.parquet").bytes())
    assert f"intervals.{digest}.parquet" in names
    return pl.read_parquet(io.BytesIO(numbers))["load"].to_list()


def _from_delta(sink, label):
    """Read the whole table with another reader than the sink's."""
    import deltalake

    if not deltalake.DeltaTable.is_deltatable(sink.root):
        return None
    table = deltalake.DeltaTable(sink.root).to_pyarrow_table()
    return _certified(pl.from_arrow(table), label)


def _from_iceberg(sink, label):
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("default", **sink._options)
    if not catalog.table_exists("stats.meters"):
        return None
    return _certified(pl.from_arrow(catalog.load_table("stats.meters").scan().to_arrow()), label)


def _certified(table, label):
    """Return the numbers of a release, which has one certificate if it has any row."""
    rows = table.filter(pl.col("release_id") == f"{JOB}-{label}")
    if rows.is_empty():
        return None
    assert rows["certificate"].count() == 1
    return rows.drop_nulls("row_number").sort("row_number")["load"].to_list()


_ICEBERG = (
    'type = "sql", uri = "sqlite:///{folder}/catalog.db", warehouse = "file://{folder}/warehouse"'
)
KINDS = [
    SinkKind("folder", 'path = "published"\nreport = false', _from_folder, quick=True),
    SinkKind(
        "sqlite",
        'address = "sqlite:///published.db"\ntable = "meters"',
        _from_sql,
        "sql",
        quick=True,
    ),
    SinkKind(
        "files",
        'address = "file://{folder}/published"\nreport = false',
        _from_store,
        "object",
        quick=True,
    ),
    SinkKind("delta", 'path = "published"', _from_delta, refuses=("hostile names",)),
    SinkKind(
        "iceberg",
        f'table = "stats.meters"\noptions = {{ {_ICEBERG} }}',
        _from_iceberg,
        refuses=("hostile names",),
    ),
    SinkKind("s3", "{server}", _from_store, "object", "s3_server"),
    SinkKind(
        "postgresql", 'address = "{server}"\ntable = "meters"', _from_sql, "sql", "postgres_server"
    ),
]


def seen(kind, sink, label):
    """Return what a reader sees of a release: its numbers, or None."""
    if kind.reader is not None:
        return kind.reader(sink, label)
    return sink.has(label) or None


# Releases


@cache
def _certificate():
    plan = pf.protect(ons.ROWS, ons.SCENARIO).private_sum("on", "load").plan(pf.Pure(1.0))
    return plan.release().certificate


def release_of(keys, *, entry="2:" + "ab" * 32, first=0.5):
    """Return a release with these keys, whose numbers are all different; another entry makes it another release."""
    rows = keys.height
    load = pl.Series("load", [first + number / 7 for number in range(rows)], dtype=pl.Float64)
    count = pl.Series("n", [float(number) for number in range(rows)], dtype=pl.Float64)
    bars = [
        pl.Series(f"{one.name}_{end}", one + step)
        for one in (load, count)
        for end, step in (("low", -3.25), ("high", 1e300))
    ]
    limits = [
        pl.Series("load_least", [float("-inf")] * rows, dtype=pl.Float64),
        pl.Series("load_most", [None] * rows, dtype=pl.Float64),
        pl.Series("n_least", [0] * rows, dtype=pl.Int64),
        pl.Series("n_most", [2**32 - 1] * rows, dtype=pl.Int64),
    ]
    frame, intervals, ends = (keys.hstack(columns) for columns in ([load, count], bars, limits))
    return pf.Release(frame, intervals, msgspec.structs.replace(_certificate(), entry=entry), ends)


def other(release):
    """Return another release with the same keys."""
    keys = release.frame.drop("load", "n")
    return release_of(keys, entry="3:" + "cd" * 32, first=99.0)


def edited(release):
    """Return the release with another number, as nobody published it."""
    return replace(release, frame=release.frame.with_columns(pl.col("load") + 1.0))
