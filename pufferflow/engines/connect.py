"""Which engine reads a table: Polars its frames, and an installed package the tables and frames of its machine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, final

import polars as pl

from pufferflow.core.entry_points import load, names_in
from pufferflow.core.errors import UsageError
from pufferflow.core.paths import scheme_of
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.tables import arrow_table
from pufferflow.engines.backend import Backend
from pufferflow.engines.polars_engine import PolarsEngine
from pufferflow.engines.remote import RemoteEngine
from pufferflow.engines.self_test import check
from pufferflow.models.reference import weakly
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import ROW
from pufferflow.queries.engine_interface import Engine


@final
@dataclass(frozen=True, repr=False)
class RemoteTable:
    """The name of a table at an address; its text shows neither user nor password."""

    address: str
    name: str
    folder: str = ""
    """The folder that paths are relative to; empty for the one that the process is in."""

    @property
    def scheme(self) -> str:
        """The scheme of the address, by which its engine is found."""
        return (scheme_of(self.address) or self.address.partition(":")[0]).partition("+")[0].lower()

    def __repr__(self) -> str:
        return f"<table {self.name!r} at {self.scheme}:…>"


def table(address: str, name: str) -> RemoteTable:
    """Return a table of a database or a cluster, to be protected like a frame; nothing is opened yet.

    Names may have parts, such as "schema.meters". In DuckDB a name may also be that of files. The path of a database is
    relative after three slashes, and absolute after four, as in addresses of SQLite.

    >>> table("duckdb:///power.db", "meters")
    <table 'meters' at duckdb:…>
    """
    for value, what, example in (
        (address, "The address", "duckdb:///power.db"),
        (name, "The table", "meters"),
    ):
        if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"{what} is not a text.",
                allowed="texts",
                instead=f'pf.table("…", "…"), such as "{example}"',
            )
    found = RemoteTable(address, name)
    engines = names_in("pufferflow.engines")
    if found.scheme not in engines:
        load("pufferflow.engines", found.scheme)  # its error lists what there is
    return found


def engine_of(frame: pl.LazyFrame | pl.DataFrame, given: Any = None) -> Engine:
    """Return the engine that reads a Polars frame; `given` is the table from which the frame was made, if another."""
    return PolarsEngine(frame.lazy(), weakly(frame if given is None else given))


def check_engine(address: str) -> tuple[str, str]:
    """Return the machine at an address, with its version, and the digest of its self-test, which it has passed."""
    found = RemoteTable(address, "")
    connect = cast(Callable[[Any], Backend | None], load("pufferflow.engines", found.scheme))
    backend = sandboxed(lambda: connect(found))
    if backend is None:
        raise UsageError(
            "The address names no engine that can be tested.",
            allowed="an address",
            instead='"duckdb:"',
        )
    return f"{backend.name} {backend.version}", check(backend)


def has_engine(frame: object) -> bool:
    """Return whether a table is read by an engine of an installed package."""
    return isinstance(frame, RemoteTable | Backend) or _package(frame) in names_in(
        "pufferflow.engines"
    )


def _package(frame: object) -> str:
    return type(frame).__module__.partition(".")[0].lstrip("_")


def remote_engine(frame: object) -> Engine | None:
    """Return the engine of a table on another machine; None for anything else."""
    if isinstance(frame, Backend):
        return RemoteEngine(frame, check(frame))
    if isinstance(frame, RemoteTable):
        name = frame.scheme
    elif has_engine(frame):
        name = _package(frame)
    else:
        return None
    connect = cast(Callable[[Any], Backend | None], load("pufferflow.engines", name))
    backend = sandboxed(lambda: connect(frame))
    if backend is None:
        return None
    return RemoteEngine(backend, sandboxed(lambda: check(backend)))


def checked_engine(frame: Any, scenario: Scenario) -> Engine:
    """Return the engine that reads a table, after its columns and types were checked against the scenario."""
    engine = remote_engine(frame)
    if engine is not None:
        scenario.check_schema(engine.schema(), engine.unreadable())
        if scenario.numbers_rows:
            raise UsageError(
                "The rows of a table in another engine have no numbers, so they cannot be units.",
                allowed="a column that says whose row each row is",
                instead='a view with ROW_NUMBER() OVER () AS "person", and pf.Presence("person", …, rows=1)',
            )
        return engine
    table = arrow_table(frame)
    sandboxed(lambda: scenario.check_frame(frame if table is None else table))
    given, rows = (frame, frame) if table is None else (table.given, table.read())
    return engine_of(rows.with_row_index(ROW) if scenario.numbers_rows else rows, given)
