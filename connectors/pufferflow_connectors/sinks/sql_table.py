"""The sink that is a table of a SQL database: the rows of all releases, and beside it a table of their certificates.

A release is one transaction. Its certificate is inserted first, under its id, which is the primary key: of several
that send the same release at once, one inserts, the others wait for it, and then compare. So a release is there once
and whole, or not at all, whenever a process is killed or a connection lost. Both tables are made once and then
checked; names are quoted by SQLAlchemy, whatever is in them, and parameters have names of their own.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar, final

import polars as pl
from msgspec import Meta

import pufferflow as pf
from pufferflow.plugins import (
    MOST_NEW,
    Copy,
    Sink,
    TomlTable,
    other_release,
    place_taken,
    release_id,
    resolved,
    with_variables,
)
from pufferflow_connectors.sinks.failures import attempt
from pufferflow_connectors.sinks.flat import (
    OWN,
    RELEASE,
    ROW,
    Names,
    check_values,
    flat,
    plain_columns,
    same,
)
from pufferflow_connectors.sinks.sql_database import Database, engine_of, reason_of, url_of

if TYPE_CHECKING:
    import sqlalchemy as sa


T = TypeVar("T")
_MOST_BYTES: Final = 63
"""The longest name that PostgreSQL does not cut."""
_NAMES: Final = Names(never=("\0", "%("), longest=_MOST_BYTES)
"""Names have no sign that drivers take for a parameter."""
_BATCH: Final = 10_000
_SUFFIX: Final = "_releases"
"""What the name of the table of certificates ends with."""


@final
class SqlTable(TomlTable, frozen=True):
    """Where releases go: a table of a SQL database, and one of certificates beside it."""

    address: Annotated[
        str,
        Meta(
            min_length=1,
            description="sqlite:///file, or postgresql+psycopg://…; ${NAME} is looked up",
        ),
    ]
    table: Annotated[
        str,
        Meta(min_length=1, description="its name; that of the certificates ends with _releases"),
    ]
    schema: (
        Annotated[str, Meta(min_length=1, description="the schema of PostgreSQL that it is in")]
        | None
    ) = None

    def __post_init__(self) -> None:
        """Refuse names that a database would cut, and then confuse with others."""
        for name in (self.table + _SUFFIX, self.schema or ""):
            if len(name.encode()) > _MOST_BYTES or "\0" in name:
                raise pf.UsageError(
                    f"The name {name[:100]!r} is not a name of a table or schema.",
                    allowed=f"up to {_MOST_BYTES - len(_SUFFIX)} bytes, since certificates are in a table …{_SUFFIX}",
                    instead='table = "meters_daily"',
                )

    def check_address(self) -> None:
        if address := resolved(self.address):
            url_of(address, Path())

    def check_columns(self, columns: pl.Schema) -> None:
        plain_columns(columns, _NAMES)

    def open(self, folder: Path, job: str) -> "SqlSink":
        return SqlSink(engine_of(url_of(with_variables(self.address), folder)), self, job)


@final
class SqlSink(Sink):
    """Releases of a job in a table: rows are inserted once, whole or not at all, by the transaction they are in."""

    noun: ClassVar = "table"

    def __init__(self, database: Database, table: SqlTable, job: str) -> None:
        self._database, self._table, self._job = database, table, job

    @property
    def root(self) -> str:
        within = f"{self._table.schema}." if self._table.schema else ""
        return f"{self._database.name}#{within}{self._table.table}"

    def place(self, label: str) -> str:
        return self._place_of(release_id(self._job, label))

    def has(self, label: str) -> bool:
        name = release_id(self._job, label)
        return bool(self._read(lambda connection: self._certificate(connection, name) is not None))

    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield the releases with the last ids, and those that were written last."""
        for name, entry in dict(self._read(self._newest) or ()).items():
            yield self._place_of(name), entry

    def copies(self) -> Iterable[Copy]:
        return [
            Copy(
                name,
                self._place_of(name),
                None if text is None else text.encode(),
                partial(self._differences, name),
                release_id=name,
            )
            for name, text in self._read(self._all) or ()
        ]

    def rows(self, *, insert: bool = False) -> pl.DataFrame | None:
        """Return all rows of the table: a release is one transaction, so it is there whole, or not at all."""
        return self._read(self._every_row)

    def prepare(self, columns: pl.Schema) -> None:
        """Make the tables unless they are there; refuse other tables of that name."""
        plain = plain_columns(columns, _NAMES)
        self._attempt(
            lambda: self._database.write(
                lambda connection: self._make(connection, plain), alone=True
            )
        )

    def send(self, label: str, release: pf.Release) -> bool:
        name = release_id(self._job, label)
        rows = self._database.kept(flat(release, name))
        check_values(rows)
        self.prepare(rows.drop(OWN).schema)
        return self._attempt(
            lambda: self._database.write(
                lambda connection: self._insert(connection, name, rows, release)
            )
        )

    # Statements

    def _make(self, connection: "sa.Connection", columns: pl.Schema) -> None:
        for table in (self._certificates, numbers_of(self._names, columns)):
            table.create(connection, checkfirst=True)
            check_table(connection, table, self.root)

    def _insert(
        self, connection: "sa.Connection", name: str, rows: pl.DataFrame, release: pf.Release
    ) -> bool:
        """Insert a release, or compare what is there with it."""
        certificate = release.certificate.to_json()
        values = {RELEASE: name, "entry": release.certificate.entry, "certificate": certificate}
        written = self._database.insert_new(
            connection, self._certificates, {**values, "written_at": datetime.now(UTC).isoformat()}
        )
        if not written:
            written = self._mend(connection, name, values, release)
        table = numbers_of(self._names, rows.drop(OWN).schema)
        stored = self._stored(connection, table, rows.schema, name)
        if stored is not None and stored.is_empty() and rows.height:
            for batch in rows.iter_slices(_BATCH):
                connection.execute(table.insert(), batch.rename(_keys_of(table)).to_dicts())
            return True
        if not same(stored, rows):
            raise place_taken(self.noun, self._place_of(name), "other numbers", release)
        return written

    def _mend(
        self, connection: "sa.Connection", name: str, values: dict[str, Any], release: pf.Release
    ) -> bool:
        """Refuse the certificate of another release; write one that is damaged anew, and return whether it was."""
        stored = self._certificate(connection, name, lock=True)
        if theirs := other_release((stored or "").encode(), release):
            raise place_taken(self.noun, self._place_of(name), theirs, release)
        if stored == values["certificate"]:
            return False
        table = self._certificates
        connection.execute(table.update().where(table.c[RELEASE] == name).values(values))
        return True

    def _certificate(
        self, connection: "sa.Connection", name: str, *, lock: bool = False
    ) -> str | None:
        import sqlalchemy as sa

        table = self._certificates
        query = sa.select(table.c.certificate).where(table.c[RELEASE] == name)
        return connection.execute(query.with_for_update() if lock else query).scalar()

    def _newest(self, connection: "sa.Connection") -> list[tuple[str, str]]:
        import sqlalchemy as sa

        table, found = self._certificates, list[tuple[str, str]]()
        for order in (table.c[RELEASE], table.c.written_at):
            rows = connection.execute(
                sa.select(table.c[RELEASE], table.c.entry).order_by(order.desc()).limit(MOST_NEW)
            )
            found += [(name, entry or "") for name, entry in rows]
        return found

    def _all(self, connection: "sa.Connection") -> list[tuple[str, str | None]]:
        """Return all ids with their certificates, those of rows without a certificate too."""
        import sqlalchemy as sa

        table, numbers = self._certificates, numbers_of(self._names, pl.Schema())
        rows = connection.execute(sa.select(table.c[RELEASE], table.c.certificate))
        known = {row[0]: row[1] for row in rows}
        alone = connection.execute(sa.select(numbers.c[RELEASE]).distinct()).scalars()
        return sorted({**dict.fromkeys(alone), **known}.items())

    def _stored(
        self, connection: "sa.Connection", table: "sa.Table", schema: pl.Schema, name: str
    ) -> pl.DataFrame | None:
        """Return the rows of a release as they are in the database; None if they are of other types there."""
        import sqlalchemy as sa

        query = sa.select(*table.c).where(table.c[RELEASE] == name).order_by(table.c["row_number"])
        try:
            rows = [tuple(row) for row in connection.execute(query)]
            return pl.DataFrame(rows, schema=schema, orient="row", strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            return None

    def _every_row(self, connection: "sa.Connection") -> pl.DataFrame:
        """Return the rows whose release has a certificate, in the types that the table has."""
        import sqlalchemy as sa

        name, schema = self._names
        table = sa.Table(
            _quoted(name),
            sa.MetaData(),
            schema=None if schema is None else _quoted(schema),
            autoload_with=connection,
        )
        known = self._certificates.c[RELEASE]
        query = sa.select(table).where(table.c[RELEASE].in_(sa.select(known)))
        columns = {column.name: _dtype_of(column.type) for column in table.columns}
        rows = [tuple(row) for row in connection.execute(query)]
        return pl.DataFrame(rows, schema=columns, orient="row", strict=True)

    def _differences(self, name: str, release: pf.Release) -> list[str]:
        rows = self._database.kept(flat(release, name))
        table = numbers_of(self._names, rows.drop(OWN).schema)
        stored = self._read(lambda connection: self._stored(connection, table, rows.schema, name))
        return [] if same(stored, rows) else ["its rows have other numbers, or are not all there"]

    # Access

    @cached_property
    def _names(self) -> tuple[str, str | None]:
        return self._table.table, self._table.schema

    @cached_property
    def _certificates(self) -> "sa.Table":
        return certificates_of(self._names)

    def _place_of(self, name: str) -> str:
        return f"{self.root}#{name}"

    def _read(self, work: "Callable[[sa.Connection], T]") -> T | None:
        """Return what work reads; None if there is no table yet, since reading makes none."""
        return self._attempt(lambda: self._database.read(work, self._certificates))

    def _attempt(self, work: Callable[[], T]) -> T:
        return attempt(work, self.root, reason_of)


def _keys_of(table: "sa.Table") -> dict[str, str]:
    return {column.name: column.key for column in table.columns}


def certificates_of(names: tuple[str, str | None]) -> "sa.Table":
    """Return the table of certificates."""
    import sqlalchemy as sa

    table, schema = names
    columns = [
        sa.Column(RELEASE, sa.Text(), primary_key=True, nullable=False),
        sa.Column("entry", sa.Text()),
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("written_at", sa.Text(), nullable=False),
    ]
    return _table(table + _SUFFIX, schema, columns)


def numbers_of(names: tuple[str, str | None], columns: pl.Schema) -> "sa.Table":
    """Return the table of numbers with such columns, in this order."""
    import sqlalchemy as sa

    table, schema = names
    own = [
        sa.Column(RELEASE, sa.Text(), primary_key=True, nullable=False),
        sa.Column(ROW, sa.BigInteger(), primary_key=True, nullable=False, autoincrement=False),
    ]
    given = [
        sa.Column(_quoted(name), _type_of(dtype), key=f"c{place}")
        for place, (name, dtype) in enumerate(columns.items())
    ]
    return _table(table, schema, [*own, *given])


def check_table(connection: "sa.Connection", table: "sa.Table", place: str) -> None:
    """Refuse a table that is there with other columns, types or keys; further columns are allowed."""
    import sqlalchemy as sa

    inspector, dialect = sa.inspect(connection), connection.dialect
    found = {
        column["name"]: column["type"].compile(dialect)
        for column in inspector.get_columns(table.name, schema=table.schema)
    }
    wrong = [
        column.name
        for column in table.columns
        if found.get(column.name) != column.type.compile(dialect)
    ]
    keys = inspector.get_pk_constraint(table.name, schema=table.schema)["constrained_columns"]
    if wrong or keys != [column.name for column in table.primary_key]:
        what = (
            f"lacks the columns {', '.join(wrong)[:300]}, or has them of other types"
            if wrong
            else "has another key"
        )
        raise pf.UsageError(
            f"The table {table.name[:100]!r} of {place[-200:]!r} {what}.",
            allowed="a table that the job made itself, and one for each set of queries",
            instead='another name for it in [sink], such as table = "meters_daily_2"',
        )


def _table(name: str, schema: str | None, columns: "list[sa.Column[Any]]") -> "sa.Table":
    import sqlalchemy as sa

    return sa.Table(
        _quoted(name), sa.MetaData(), *columns, schema=None if schema is None else _quoted(schema)
    )


def _quoted(name: str) -> str:
    from sqlalchemy.sql import quoted_name

    return quoted_name(name, quote=True)


def _type_of(dtype: pl.DataType) -> "sa.types.TypeEngine[Any]":
    import sqlalchemy as sa

    match dtype:
        case pl.Int64():
            return sa.BigInteger()
        case pl.Float64():
            return sa.Double()
        case pl.Boolean():
            return sa.Boolean()
        case pl.Date():
            return sa.Date()
        case pl.Datetime():
            return sa.DateTime(timezone=dtype.time_zone is not None)
        case _:
            return sa.Text()


def _dtype_of(kind: "sa.types.TypeEngine[Any]") -> pl.DataType:
    """Return the type of a column as it is read back: the other way round than `_type_of`."""
    import sqlalchemy as sa

    match kind:
        case sa.Boolean():
            return pl.Boolean()
        case sa.Integer():
            return pl.Int64()
        case sa.Float() | sa.Numeric():
            return pl.Float64()
        case sa.Date():
            return pl.Date()
        case sa.DateTime():
            return pl.Datetime("us", "UTC" if kind.timezone else None)
        case _:
            return pl.String()
