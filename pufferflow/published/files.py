"""A release as files of a folder: two tables, as text read back exactly or in another format, and the certificate.

CSV and NDJSON are read back exactly, with a description of their columns in a further file.

Numbers are the shortest that are read back as they were. Dates and times are as in ISO 8601. A time with a zone has its
distance to UTC; if that is not a whole number of minutes, the time is in UTC. Durations are whole numbers of their
unit. In CSV null is an empty field and an empty text is `""`. NaN, inf and -inf are written as these words, in NDJSON
as texts, since JSON has no numbers for them. Lists, structs and bytes have no common form in text.

A spreadsheet runs a text that begins as a formula does. In CSV an apostrophe goes before such a text or name, and
before one that begins with an apostrophe. The description lists these columns, so that they are read back exactly.

The table of error bars has columns of limits beside them, except in releases of older versions.

CSV and NDJSON have a file `schema.json` too, by which they are read back with the dtypes they had. The certificate is
written last and removed first, so no certificate is ever beside another release's numbers.
"""

import datetime as dt
import os
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple, final

import msgspec
import polars as pl
from msgspec import structs

from pufferflow.core.durable_files import exclusive_access, make, write_whole
from pufferflow.core.errors import InternalError, SourceError, UsageError
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.tables import type_name
from pufferflow.published.certificate import Certificate
from pufferflow.queries.expressions.tree import named
from pufferflow.reports.evidence import Evidence

_PLAIN = frozenset(
    {
        *(
            "Boolean",
            "String",
            "Date",
            "Time",
            "Categorical",
            "Null",
            "Float16",
            "Float32",
            "Float64",
        ),
        *(
            "Int8",
            "Int16",
            "Int32",
            "Int64",
            "Int128",
            "UInt8",
            "UInt16",
            "UInt32",
            "UInt64",
            "UInt128",
        ),
    }
)
_DATE, _TIME = "%Y-%m-%d", "%H:%M:%S%.f"
_WITH_ZONE = f"{_DATE}T{_TIME}%:z"
_FIRST_YEAR, _LAST_YEAR = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)  # noqa: DTZ001 - a day away from any zone's end
_FORMULA = r"^[\s\x00]*[=+\-@＝＋－＠]|^[\t\r\n']"
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of all zones
_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


@final
class TextColumn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The name and the dtype of a column, in Polars' words."""

    name: str
    dtype: str
    unit: Literal["ms", "us", "ns"] | None = None
    zone: str | None = None
    precision: int | None = None
    scale: int | None = None
    categories: tuple[str, ...] = ()
    escaped: bool = False
    """Whether an apostrophe stands before texts, and the name, that a spreadsheet would run."""

    @classmethod
    def of(cls, name: str, dtype: pl.DataType) -> "TextColumn":
        """Return the description of a column; dtypes without a form in text are refused."""
        match dtype:
            case pl.Datetime():
                return cls(name, "Datetime", unit=dtype.time_unit, zone=dtype.time_zone)
            case pl.Duration():
                return cls(name, "Duration", unit=dtype.time_unit)
            case pl.Decimal():
                return cls(name, "Decimal", precision=dtype.precision, scale=dtype.scale)
            case pl.Enum():
                return cls(name, "Enum", categories=tuple(dtype.categories))
            case _ if type(dtype).__name__ in _PLAIN:
                return cls(name, type(dtype).__name__)
            case _:
                raise _no_text(
                    f"The column '{name}' is of dtype {type_name(dtype)[:100]}, which has no text form."
                )

    @property
    def type(self) -> pl.DataType:
        """The dtype; a ValueError where there is none of that name."""
        match self:
            case TextColumn(dtype="Datetime", unit=str(unit)):
                return pl.Datetime(unit, self.zone)
            case TextColumn(dtype="Duration", unit=str(unit)):
                return pl.Duration(unit)
            case TextColumn(dtype="Decimal", precision=int(precision), scale=int(scale)):
                return pl.Decimal(precision, scale)
            case TextColumn(dtype="Enum"):
                return pl.Enum(self.categories)
            case _ if self.dtype in _PLAIN:
                return getattr(pl, self.dtype)()
            case _:
                raise ValueError(self.dtype)


@final
class TextTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The description of a table in text form, by which it is read back and checked to be complete."""

    rows: int
    columns: tuple[TextColumn, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame, format: str = "csv") -> "TextTable":  # noqa: A002 - what it is called everywhere
        """Return the description of a table in a format."""
        columns = [TextColumn.of(name, dtype) for name, dtype in frame.schema.items()]
        running = [format == "csv" and _runs(frame[column.name]) for column in columns]
        escaped = [
            structs.replace(column, escaped=True) if runs else column
            for column, runs in zip(columns, running, strict=True)
        ]
        return cls(frame.height, tuple(escaped))

    @property
    def schema(self) -> pl.Schema:
        """The names and dtypes."""
        return pl.Schema({column.name: column.type for column in self.columns})


def to_csv(frame: pl.DataFrame) -> bytes:
    r"""Return a table as CSV, with a line of names first.

    >>> to_csv(pl.DataFrame({"day": [dt.date(2026, 11, 20), None], "load": [0.1, float("inf")]}))
    b'day,load\n2026-11-20,0.1\n,inf\n'
    """
    carried = _as_carriers(frame)
    escaped = carried.select(
        _escape(named(name)) if kind == pl.String else named(name)
        for name, kind in carried.schema.items()
    )
    return escaped.rename(_escaped_name).write_csv().encode()


def to_ndjson(frame: pl.DataFrame) -> bytes:
    r"""Return a table as JSON, an object on a line for each row.

    >>> to_ndjson(pl.DataFrame({"day": [dt.date(2026, 11, 20), None], "load": [0.1, float("inf")]}))
    b'{"day":"2026-11-20","load":0.1}\n{"day":null,"load":"inf"}\n'
    """
    if not frame.height:
        return b""
    carried = _as_carriers(frame)
    fields = [_field(name, dtype) for name, dtype in carried.schema.items()]
    lines = carried.select(pl.concat_str(*fields, separator=",")).to_series()
    return "".join(["{", lines.str.join("}\n{").item(), "}\n"]).encode()


def from_csv(body: bytes, table: TextTable) -> pl.DataFrame:
    """Return the table that `to_csv` wrote."""
    schema = table.schema
    carriers = {name: _carrier(dtype) for name, dtype in schema.items()}
    escaped = [column.name for column in table.columns if column.escaped]
    header = (
        pl.DataFrame(schema=carriers)
        .rename({name: _escaped_name(name) for name in escaped})
        .write_csv()
        .encode()
    )
    if not body.startswith(header):
        raise ValueError
    rows = body.removeprefix(
        header
    )  # names are compared here: the engine would take some for marks of an encoding
    if not rows:
        return pl.DataFrame(schema=schema)
    carried = pl.read_csv(rows, has_header=False, schema=carriers)
    texts = [name for name in escaped if carriers[name] == pl.String]
    carried = carried.with_columns(named(name).str.strip_prefix("'") for name in texts)
    return carried.select(_read(name, dtype) for name, dtype in schema.items())


def from_ndjson(body: bytes, table: TextTable) -> pl.DataFrame:
    """Return the table that `to_ndjson` wrote: its values are the texts of the same table as CSV."""
    texts = pl.read_ndjson(body, schema={column.name: pl.String() for column in table.columns})
    plain = tuple(structs.replace(column, escaped=False) for column in table.columns)
    return from_csv(texts.write_csv().encode(), TextTable(table.rows, plain))


WRITERS: dict[str, Callable[[pl.DataFrame], bytes]] = {"csv": to_csv, "ndjson": to_ndjson}
READERS: dict[str, Callable[[bytes, TextTable], pl.DataFrame]] = {
    "csv": from_csv,
    "ndjson": from_ndjson,
}


def _runs(values: pl.Series) -> bool:
    """Return whether a spreadsheet would run the name of a column, or a text in it."""
    if _escaped_name(values.name) != values.name:
        return True
    if not isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum):
        return False
    return bool(values.cast(pl.String).str.contains(_FORMULA).any())


def _escape(column: pl.Expr) -> pl.Expr:
    return (
        pl.when(column.str.contains(_FORMULA))
        .then(pl.lit("'") + column)
        .otherwise(column)
        .name.keep()
    )


def _escaped_name(name: str) -> str:
    return f"'{name}" if re.match(_FORMULA, name) else name


def _no_text(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="in CSV and NDJSON: numbers, texts, booleans, durations, times, and dates of the years 1 to 9999",
        instead='write_parquet(folder), or the format "parquet"',
    )


def _carrier(dtype: pl.DataType) -> pl.DataType:
    """Return the dtype of the values in the text."""
    if isinstance(dtype, pl.Duration):
        return pl.Int64()
    return dtype if dtype.is_numeric() or isinstance(dtype, pl.Boolean) else pl.String()


def _as_carriers(frame: pl.DataFrame) -> pl.DataFrame:
    for name, dtype in frame.schema.items():
        _check_years(frame[name], dtype)
    return frame.select(_text_of(name, dtype) for name, dtype in frame.schema.items())


def _text_of(name: str, dtype: pl.DataType) -> pl.Expr:
    column = named(name)
    match dtype:
        case pl.Date():
            return column.dt.to_string(_DATE)
        case pl.Time():
            return column.dt.to_string(_TIME)
        case pl.Datetime() if dtype.time_zone is None:
            return column.dt.to_string(f"{_DATE}T{_TIME}")
        case pl.Datetime():
            distance = (column.dt.base_utc_offset() + column.dt.dst_offset()).dt.total_seconds()
            in_utc = column.dt.convert_time_zone("UTC").dt.to_string(_WITH_ZONE)
            return (
                pl.when(distance % 60 == 0)
                .then(column.dt.to_string(_WITH_ZONE))
                .otherwise(in_utc)
                .alias(name)
            )
        case _:
            return column.cast(_carrier(dtype))


def _read(name: str, dtype: pl.DataType) -> pl.Expr:
    column = named(name)
    match dtype:
        case pl.Date():
            return column.str.to_date(_DATE)
        case pl.Time():
            return column.str.to_time(_TIME)
        case pl.Datetime():
            form = f"{_DATE}T{_TIME}" if dtype.time_zone is None else _WITH_ZONE
            return column.str.to_datetime(
                form, time_unit=dtype.time_unit, time_zone=dtype.time_zone
            )
        case _:
            return column.cast(dtype)


def _check_years(values: pl.Series, dtype: pl.DataType) -> None:
    """Refuse dates of years that do not have four digits, which the engine cannot show."""
    match dtype:
        case pl.Date():
            a_day = 1
        case pl.Datetime():
            a_day = 86400 * _A_SECOND[dtype.time_unit]
        case _:
            return
    low, high = ((end - _EPOCH).days * a_day for end in (_FIRST_YEAR, _LAST_YEAR))
    whole = values.to_physical().cast(pl.Int128)
    if not whole.is_between(low, high).all():
        raise _no_text(f"The column '{values.name}' has dates whose years do not have four digits.")


def _field(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a column's part of each line: its name and value."""
    column = named(name)
    if isinstance(dtype, pl.Decimal | pl.Int128 | pl.UInt128):
        column = column.cast(pl.String)
    field = pl.struct(column).struct.json_encode().str.strip_prefix("{").str.strip_suffix("}")
    if not dtype.is_float():
        return field
    word = pl.lit(f'{msgspec.json.encode(name).decode()}:"') + column.cast(pl.String) + pl.lit('"')
    return pl.when(column.is_finite() | column.is_null()).then(field).otherwise(word)


FORMATS = ("parquet", *WRITERS)
CERTIFICATE, SCHEMA, EVIDENCE = "certificate.json", "schema.json", "evidence.json"
TABLES = ("release", "intervals")
OURS = frozenset({SCHEMA, CERTIFICATE, *(f"{name}.{form}" for name in TABLES for form in FORMATS)})


@final
class Parts(NamedTuple):
    """A release as it is written: the numbers, their error bars with limits, and the certificate."""

    frame: pl.DataFrame
    ends: pl.DataFrame
    certificate: Certificate


@final
class StoredSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file `schema.json`."""

    release: TextTable
    intervals: TextTable
    version: Literal[1] = 1


def check_format(schema: pl.Schema, format: str) -> None:  # noqa: A002 - what it is called everywhere
    """Refuse a format that is unknown, or has no form for a column: before a release is drawn.

    >>> check_format(pl.Schema({"day": pl.Date, "load": pl.Float64}), "csv")
    """
    if format not in FORMATS:
        raise UsageError(
            f"The format is {format[:100]!r}.",
            allowed=", ".join(f'"{known}"' for known in FORMATS),
            instead=f'"{FORMATS[0]}"',
        )
    if format in WRITERS:
        for name, dtype in schema.items():
            TextColumn.of(name, dtype)


def bodies(parts: Parts, format: str) -> dict[str, bytes]:  # noqa: A002 - as above
    """Return the files in the order they are written, by name."""
    tables = dict(zip(TABLES, (parts.frame, parts.ends), strict=True))
    for frame in tables.values():
        check_format(frame.schema, format)
    write = WRITERS.get(format, _to_parquet)
    files = dict[str, bytes]()
    if format in WRITERS:
        schema = StoredSchema(
            release=TextTable.of(parts.frame, format), intervals=TextTable.of(parts.ends, format)
        )
        files[SCHEMA] = msgspec.json.format(msgspec.json.encode(schema), indent=2)
    for name, frame in tables.items():
        files[f"{name}.{format}"] = sandboxed(partial(write, frame), _not_written)
    return {**files, CERTIFICATE: parts.certificate.to_json().encode()}


def write(parts: Parts, folder: Path, format: str) -> None:  # noqa: A002 - as above
    """Write a release into a folder, whatever was there; an OSError says why not.

    A folder that is not there appears whole. In one that is there, each file is replaced whole; files that are not a
    release's stay as they are.
    """
    files, place = bodies(parts, format), true_place(folder)
    if place.exists() or not make(place, files):
        with exclusive_access(place):
            replace(place, files)


def true_place(folder: Path) -> Path:
    """Return where the folder is, or will be: a link stays a link."""
    return Path(os.path.realpath(folder))


def replace(place: Path, files: dict[str, bytes]) -> None:
    """Replace the files of a release in a folder; those of other formats go, first if they may be another release's."""
    certificate, others = place / CERTIFICATE, sorted(OURS - files.keys())
    if not (certificate.exists() and certificate.read_bytes() == files[CERTIFICATE]):
        _remove(place, [CERTIFICATE, *others])
    for name, body in files.items():
        write_whole(place / name, [body])
    _remove(place, others)


def _remove(place: Path, names: Sequence[str]) -> None:
    for name in names:
        (place / name).unlink(missing_ok=True)


def read(folder: Path) -> Parts:
    """Return the release of a folder, whichever format it is in."""
    files = folder.iterdir() if folder.is_dir() else ()
    names = {file.name for file in files if file.is_file()}
    return read_parts(names, lambda name: (folder / name).read_bytes())


def read_parts(names: Collection[str], read: Callable[[str], bytes]) -> Parts:
    """Return the release among files of these names, given how they are read."""
    formats = [form for form in FORMATS if all(f"{name}.{form}" in names for name in TABLES)]
    if not formats or CERTIFICATE not in names:
        raise _failed(f"The folder has no {CERTIFICATE if formats else 'release'}.")
    try:
        frames = [table(read, name, formats[0]) for name in TABLES]
        certificate = read(CERTIFICATE)
    except OSError as error:
        kind = type(error).__name__
    else:
        return Parts(frames[0], frames[1], Certificate.from_json(certificate))
    raise _failed(f"The folder cannot be read: {kind}.")


def read_evidence(folder: Path) -> Evidence | None:
    """Return the evidence that lies beside a release; None if there is none."""
    file = folder / EVIDENCE
    return Evidence.from_json(file.read_bytes()) if file.is_file() else None


def table(read: Callable[[str], bytes], name: str, format: str) -> pl.DataFrame:  # noqa: A002 - as above
    """Return a table, given how files are read by their names; SourceError if it is not all there."""
    body = read(f"{name}.{format}")
    if format not in READERS:
        return sandboxed(lambda: pl.read_parquet(BytesIO(body)), _damaged)
    stored = read(SCHEMA)
    described = getattr(
        sandboxed(lambda: msgspec.json.decode(stored, type=StoredSchema), _damaged), name
    )
    frame = sandboxed(lambda: READERS[format](body, described), _damaged)
    if frame.height != described.rows or (body and not body.endswith(b"\n")):
        raise _damaged("missing lines")
    return frame


def _to_parquet(frame: pl.DataFrame) -> bytes:
    place = BytesIO()
    frame.write_parquet(place)
    return place.getvalue()


def _not_written(kind: str) -> InternalError:
    return InternalError(
        f"The table could not be written: {kind}.", instead="reporting it to the maintainers"
    )


def _damaged(kind: str) -> SourceError:
    return _failed(f"A table of the folder is damaged: {kind}.")


def _failed(problem: str) -> SourceError:
    return SourceError(
        problem,
        allowed="a folder that write_parquet, write_csv or write_ndjson wrote",
        instead="release.write_parquet(folder)",
    )
