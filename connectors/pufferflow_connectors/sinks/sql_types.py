"""The tables of a SQL sink: the names and types of their columns, which are made once and then checked.

Names are quoted by SQLAlchemy, whatever is in them; parameters have names of their own.
"""

from typing import TYPE_CHECKING, Any, Final

import polars as pl

import pufferflow as pf
from pufferflow_connectors.sinks.flat import RELEASE, ROW

if TYPE_CHECKING:
    import sqlalchemy as sa

SUFFIX: Final = "_releases"
"""What the name of the table of certificates ends with."""


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
    return _table(table + SUFFIX, schema, columns)


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
    wrong = [column.name for column in table.columns if found.get(column.name) != column.type.compile(dialect)]
    keys = inspector.get_pk_constraint(table.name, schema=table.schema)["constrained_columns"]
    if wrong or keys != [column.name for column in table.primary_key]:
        what = f"lacks the columns {', '.join(wrong)[:300]}, or has them of other types" if wrong else "has another key"
        raise pf.UsageError(
            f"The table {table.name[:100]!r} of {place[-200:]!r} {what}.",
            allowed="a table that the job made itself, and one for each set of queries",
            instead='another name for it in [sink], such as table = "meters_daily_2"',
        )


def _table(name: str, schema: str | None, columns: "list[sa.Column[Any]]") -> "sa.Table":
    import sqlalchemy as sa

    return sa.Table(_quoted(name), sa.MetaData(), *columns, schema=None if schema is None else _quoted(schema))


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
