"""A release as one flat table, in the types that databases share, and read back from there.

Each row begins with the id of its release and its number in it, which together name it: keys may be null, and databases
differ in how they compare texts. Numbers are followed by the ends of their error bars and by their limits, so that the
table has all that the release has. Integers become 64 bits wide, floats too, Categorical and Enum text, and moments
with a zone the same moments in UTC.
"""

from dataclasses import dataclass
from datetime import date
from typing import Final, final

import polars as pl

import pufferflow as pf

RELEASE, ROW = "release_id", "row_number"
OWN: Final = (RELEASE, ROW)
_EPOCH = date(1970, 1, 1)
_MICROSECONDS = 86_400_000_000


@final
@dataclass(frozen=True)
class Names:
    """The rules for names of columns at a place: names that are not taken, without some signs, and not too long."""

    reserved: tuple[str, ...] = OWN
    never: tuple[str, ...] = ("\0",)
    longest: int | None = None

    def problem(self, name: str) -> str:
        """Return what is wrong with a name; an empty text if nothing is."""
        signs = [sign for sign in self.never if sign in name]
        if not name.strip():
            return "it has no name"
        if signs:
            return f"its name has {signs[0]!r} in it"
        if self.longest is not None and len(name.encode()) > self.longest:
            return f"its name takes more than {self.longest} bytes"
        return ""


def plain_columns(columns: pl.Schema, names: Names) -> pl.Schema:
    """Return columns with the types that they have in a table; refuse those that it cannot hold.

    >>> plain_columns(pl.Schema({"day": pl.Date, "n": pl.UInt8, "load": pl.Float32}), Names())
    Schema({'day': Date, 'n': Int64, 'load': Float64})
    """
    seen = {name.casefold(): "a column of every release there" for name in names.reserved}
    for name in columns:
        problem = names.problem(name)
        if name.casefold() in seen:
            problem = f"databases do not distinguish it from {seen[name.casefold()]}"
        if problem:
            raise pf.UsageError(
                f"The column {name[:100]!r} cannot be a column of a table: {problem}.",
                allowed="plain names, which differ in more than their case",
                instead='another name: group_by(place="…"), private_sum("level", name="load")',
            )
        seen[name.casefold()] = repr(name[:100])
    return pl.Schema({name: _plain(name, dtype) for name, dtype in columns.items()})


def flat(release: pf.Release, release_id: str) -> pl.DataFrame:
    """Return a release as one table, its rows named by its id and their numbers."""
    ends, frame = release.ends, release.frame
    keys = 2 * frame.width - release.intervals.width
    table = frame.hstack(ends.get_columns()[keys:])
    columns = [
        _converted(table[name], dtype)
        for name, dtype in plain_columns(table.schema, Names(reserved=(), never=())).items()
    ]
    names = pl.Series(RELEASE, [release_id] * table.height, dtype=pl.String)
    return pl.DataFrame(
        [names, pl.int_range(table.height, dtype=pl.Int64, eager=True).alias(ROW), *columns]
    )


def same(stored: pl.DataFrame | None, rows: pl.DataFrame) -> bool:
    """Return whether what was read back is a release, row for row and bit for bit."""
    return stored is not None and stored.schema == rows.schema and stored.equals(rows)


def check_values(rows: pl.DataFrame) -> None:
    """Refuse values that databases cannot hold; errors name the column, which is public, and no value."""
    for name, dtype in rows.schema.items():
        column = rows[name]
        if dtype == pl.String and column.str.contains("\0", literal=True).any():
            raise _no_form(name, "texts with the character NUL", "texts without it")
        if isinstance(dtype, pl.Date | pl.Datetime) and not _years_fit(column):
            raise _no_form(
                name, "dates whose years do not have four digits", "dates of the years 1 to 9999"
            )


def _years_fit(column: pl.Series) -> bool:
    per_day = 1 if column.dtype == pl.Date else _MICROSECONDS
    low, high = ((end - _EPOCH).days * per_day for end in (date.min, date.max))
    whole = column.to_physical().cast(pl.Int64)
    return bool(whole.is_between(low, high + per_day - 1).all())


def _no_form(name: str, what: str, allowed: str) -> pf.UsageError:
    return pf.UsageError(
        f"The column {name[:100]!r} has {what}, which databases cannot hold. The release is kept in the ledger.",
        allowed=allowed,
        instead='a [sink] of kind "folder" or "object" with format = "parquet", to which the next run sends it',
    )


def _plain(name: str, dtype: pl.DataType) -> pl.DataType:
    match dtype:
        case (
            pl.Int8()
            | pl.Int16()
            | pl.Int32()
            | pl.Int64()
            | pl.UInt8()
            | pl.UInt16()
            | pl.UInt32()
        ):
            return pl.Int64()
        case pl.Float32() | pl.Float64():
            return pl.Float64()
        case pl.String() | pl.Categorical() | pl.Enum():
            return pl.String()
        case pl.Boolean() | pl.Date():
            return dtype
        case pl.Datetime(time_unit="ms" | "us"):
            return pl.Datetime("us", None if dtype.time_zone is None else "UTC")
        case _:
            raise pf.UsageError(
                f"The column {name[:100]!r} is of dtype {str(dtype)[:100]}, which tables cannot hold.",
                allowed="keys that are integers of up to 64 bits, floats, texts, booleans, dates, or moments in "
                "milliseconds or microseconds",
                instead="a key of another type, such as pl.col(…).cast(pl.Int64); "
                'or a [sink] of kind "folder" or "object" with format = "parquet"',
            )


def _converted(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return column.dt.cast_time_unit("us").dt.convert_time_zone("UTC")
    return column.cast(dtype)
