"""Tables: types of columns, versions that sources name, and tables of other libraries, read by their Arrow stream.

The plan of a frame carries the version of the table that it reads, as the table's own log names it. Every operation on
a lazy frame keeps its scans in the plan. So the version is stored there, as a text in a column that is dropped again
and that no query computes. A certificate has only the versions that were read: a digest of contents would reveal
information about rows.

A release reads rows several times, a stream can be read once, and a table of pandas may change. So rows are copied into
memory at `protect`, after types were checked. A column whose type has no meaning here, or would be guessed from rows,
is left out. It is refused if it is needed.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol, final, runtime_checkable
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo

import msgspec
import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.validate import quoted


def retyped(dtype: Any, change: Callable[[pl.DataType], pl.DataType]) -> pl.DataType:
    """Return a type with everything that it is made of changed, in lists, arrays and structs too."""
    whole: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    match whole:
        case pl.List():
            return pl.List(retyped(whole.inner, change))
        case pl.Array():
            return pl.Array(retyped(whole.inner, change), whole.size)
        case pl.Struct():
            return pl.Struct({field.name: retyped(field.dtype, change) for field in whole.fields})
        case _:
            return change(whole)


def with_texts(dtype: Any, *, enums: bool) -> pl.DataType:
    """Return a type with texts for categories, whose store is the process's, and with `enums` for enums too.

    >>> with_texts(pl.List(pl.Categorical()), enums=False), with_texts(pl.Enum(["a"]), enums=True)
    (List(String), String)
    """
    kinds = (pl.Categorical, pl.Enum) if enums else (pl.Categorical,)
    return retyped(dtype, lambda leaf: pl.String() if isinstance(leaf, kinds) else leaf)


def type_name(dtype: Any) -> str:
    """Return the name of a type, without the categories of an enum, which may have been made of the data.

    >>> type_name(pl.List(pl.Enum(["a", "b"]))), type_name(pl.Datetime("us", "UTC"))
    ('List(Enum)', "Datetime(time_unit='us', time_zone='UTC')")
    """
    empty = pl.Enum([])
    return str(retyped(dtype, lambda leaf: empty if isinstance(leaf, pl.Enum) else leaf)).replace(
        str(empty), "Enum"
    )


def exactly(values: pl.Series) -> list[Any]:
    """Return values as Python has them; if Python would lose nanoseconds, as numbers with their type.

    >>> exactly(pl.Series([1000, 1001]).cast(pl.Time))
    [{'number': 1000, 'of': 'Time'}, {'number': 1001, 'of': 'Time'}]
    """
    numbers = retyped(values.dtype, lambda leaf: pl.Int64() if _has_nanoseconds(leaf) else leaf)
    known = values.to_list()
    if numbers == values.dtype or pl.Series(known, dtype=values.dtype).equals(values):
        return known
    return [
        {"number": number, "of": type_name(values.dtype)}
        for number in values.cast(numbers).to_list()
    ]


def _has_nanoseconds(leaf: pl.DataType) -> bool:
    return isinstance(leaf, pl.Time) or (
        isinstance(leaf, pl.Datetime | pl.Duration) and leaf.time_unit == "ns"
    )


def moment_source(moment: datetime, *, is_date: bool) -> str:
    """Return a date or time as it is typed in Python.

    >>> moment_source(datetime(2026, 1, 1, 6, 30), is_date=False)
    'datetime(2026, 1, 1, 6, 30)'
    """
    if is_date:
        return f"date({moment.year}, {moment.month}, {moment.day})"
    clock = [moment.hour, moment.minute, moment.second, moment.microsecond]
    while clock and not clock[-1]:
        clock.pop()
    if len(clock) == 1:
        clock.append(0)
    zone = "" if moment.tzinfo is None else f', tzinfo=ZoneInfo("{moment.tzinfo}")'
    return f"datetime({', '.join(map(str, [moment.year, moment.month, moment.day, *clock]))}{zone})"


_MARK: Final = "pufferflow source"
_COLUMN: Final = "__pufferflow_source"
_MARKED: Final = re.compile(
    rf'"{_MARK} (?P<kind>\S+) (?P<version>\S+) (?P<place>\S+)"\.alias\("{_COLUMN}"\)'
)


@final
class SourceVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A version of a table of some kind, such as 7 of a Delta table, or the identifier of a snapshot.

    >>> print(SourceVersion("delta", "7"))
    delta table, version 7
    """

    kind: str
    version: str

    def __str__(self) -> str:
        """Return the version as certificates show it."""
        return f"{self.kind} table, version {self.version}"


def with_version(frame: pl.LazyFrame, version: SourceVersion, place: str) -> pl.LazyFrame:
    """Return a scan of one version of the table at a place, which is certain to have the same rows each time.

    >>> frame = with_version(pl.LazyFrame({"level": [0, 1]}), SourceVersion("delta", "7"), "s3://bucket/meters")
    >>> versions_in(frame.filter(pl.col("level") > 0).explain(optimized=False))
    [(SourceVersion(kind='delta', version='7'), 's3://bucket/meters')]
    """
    words = " ".join(quote(text, safe="") for text in (version.kind, version.version, place))
    return frame.with_columns(pl.lit(f"{_MARK} {words}").alias(_COLUMN)).drop(_COLUMN)


def versions_in(plan: str) -> list[tuple[SourceVersion, str]]:
    """Return the versions that a plan reads, each with its place, in the order of the plan.

    Several tables may have the same version, so each place is listed once.
    """
    found = (
        (SourceVersion(unquote(mark["kind"]), unquote(mark["version"])), unquote(mark["place"]))
        for mark in _MARKED.finditer(plan)
    )
    return list(dict.fromkeys(found))


@runtime_checkable
class ArrowStream(Protocol):
    """A table of any library that gives its rows as a stream of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object:
        """Return the stream in a capsule."""
        ...


Use = Literal["number", "label", "moment", "other"]
"""What a column is for, which says what to cast it to."""
_PANDAS: Final[Mapping[Use, str]] = {
    "number": "Float64",
    "label": "string",
    "moment": "datetime64[us]",
    "other": "string",
}
_SQL: Final[Mapping[Use, str]] = {
    "number": "DOUBLE PRECISION",
    "label": "TEXT",
    "moment": "TIMESTAMP",
    "other": "TEXT",
}
_OFFSET: Final = re.compile(r"[+-]\d\d:\d\d")


@final
@dataclass(frozen=True, eq=False)
class ArrowTable:
    """A table of another library, before its rows are read; `given` is the object of that library."""

    given: Any
    schema: pl.Schema
    """The columns that can be read."""
    left_out: Mapping[str, str]
    """The others, with their types as the other library calls them."""
    of_pandas: bool
    rows: Callable[[], Any]

    def check_types(self, uses: Iterable[tuple[str, Use]]) -> None:
        """Refuse columns that are needed and cannot be read."""
        for column, use in uses:
            if column in self.left_out:
                raise self._unreadable(column, use)

    def check_index(self, needed: Iterable[str]) -> None:
        """Refuse a missing column that an index without a name may have."""
        missing = next(
            (name for name in needed if name not in self.schema and name not in self.left_out), None
        )
        if (
            missing is not None
            and self.of_pandas
            and (problem := unnamed_index(self.given, missing))
        ):
            raise problem

    def _unreadable(self, column: str, use: Use) -> UsageError:
        kind = self.left_out[column]
        if self.of_pandas and kind == "object":
            why, allowed = (
                "object, whose type would be guessed from private rows",
                "a type of its own",
            )
        else:
            why = f"{kind[:60]}, which has no meaning here"
            allowed = "text, Boolean, dates, times, and numbers, decimals of up to 38 digits too"
        instead = f'frame.astype({{"{column}": "{_PANDAS[use]}"}})'
        if not self.of_pandas:
            instead = f'where the stream is made, CAST("{column}" AS {_SQL[use]})'
        return UsageError(
            f"The column {quoted(column)} is {why}.", allowed=allowed, instead=instead
        )

    def read(self) -> pl.DataFrame:
        """Return all rows; a stream that is read once is used up."""
        frame = sandboxed(lambda: pl.DataFrame(self.rows()))
        if frame.schema == self.schema:
            return frame
        raise UsageError(
            "The table's types changed while it was read.", allowed="a table that stays as it is"
        )


def arrow_table(given: Any) -> ArrowTable | None:
    """Return a table of another library with the types of its columns; None for anything else. No row is read.

    >>> import pyarrow as pa
    >>> table = arrow_table(pa.table({"level": [0, 1]}))
    >>> table.schema, table.read().height, arrow_table(pl.DataFrame()), arrow_table([1])
    (Schema([('level', Int64)]), 2, None, None)
    """
    if isinstance(given, ArrowTable):
        return given
    if not gives_arrow(given):
        return None
    return sandboxed(lambda: (_of_pandas if _is_pandas(given) else _of_stream)(given))


def gives_arrow(given: Any) -> bool:
    """Return whether a value of another library gives a stream of Arrow; no library is imported for that."""
    of_polars = isinstance(given, pl.DataFrame | pl.LazyFrame | pl.Series)
    return _is_pandas(given) or (isinstance(given, ArrowStream) and not of_polars)


def _is_pandas(given: Any) -> bool:
    kinds = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(given).__mro__)
    return ("pandas", "DataFrame") in kinds


def _of_stream(given: Any) -> ArrowTable | None:
    pa = _arrow()
    try:
        reader = pa.RecordBatchReader.from_stream(given)
    except pa.ArrowInvalid:  # a column is no table
        return None
    read = {field.name for field in reader.schema if _readable(field.type)}
    _check_names(reader.schema.names)
    others = [field for field in reader.schema if field.name not in read]
    # in the words of the database that a type comes from, where those are known
    left_out = {field.name: str(getattr(field.type, "type_name", field.type)) for field in others}

    def rows() -> Any:
        columns: Any = reader.read_all().drop_columns(list(left_out))
        return columns.cast(_in_utc(columns.schema))

    kept = pa.schema([field for field in reader.schema if field.name in read])
    return ArrowTable(given, _in_polars(kept), left_out, of_pandas=False, rows=rows)


def _of_pandas(frame: Any) -> ArrowTable:
    """Return a table of pandas; levels of its index that have a name are columns, unless a column has that name.

    Types are those of its columns without a row; a column without a type of its own is left out.
    """
    pa = _arrow()
    columns = _columns_of_pandas(frame)
    fields, left_out = dict[str, Any](), dict[str, str]()
    for name, column in columns.items():
        kind = None if str(column.dtype) == "object" else _type_of_none(column)
        if kind is not None and _readable(kind):
            fields[name] = kind
        else:
            left_out[name] = str(column.dtype)

    def rows() -> Any:
        # a copy, since Arrow would look at pandas' own memory, which may be written to
        table = pa.table(
            {name: pa.array(columns[name].copy(), from_pandas=True) for name in fields}
        )
        return table.cast(_in_utc(table.schema))

    schema = pa.schema(list(fields.items()))
    return ArrowTable(frame, _in_polars(schema), left_out, of_pandas=True, rows=rows)


def _columns_of_pandas(frame: Any) -> dict[str, Any]:
    named = [str(name) for name in frame.columns]
    _check_names(named)
    columns = {name: frame.iloc[:, place] for place, name in enumerate(named)}
    for place, name in enumerate(frame.index.names):
        if name is not None and str(name) not in columns:
            columns[str(name)] = frame.index.get_level_values(place).to_series()
    return columns


def unnamed_index(frame: Any, missing: str) -> UsageError | None:
    """Return the error for a column that a table of pandas lacks, if its index has no name; None if it has one."""
    if not _is_pandas(frame):
        return None
    kind, names = type(frame.index).__name__, list(frame.index.names)
    if None not in names or kind == "RangeIndex":
        return None
    ours = (
        repr(missing)
        if len(names) == 1
        else [str(name) if name else "…" for name in names[:-1]] + [missing]
    )
    return UsageError(
        f"The frame has no column {missing!r}, and its index, a {kind}, has no name: levels with a name are columns.",
        allowed=f"a column {missing!r}, or an index of this name",
        instead=f"frame.rename_axis({ours}), or frame.reset_index(names={ours})",
    )


def with_index(frame: Any) -> Any:
    """Return a table of pandas as a Polars frame, with the named levels of its index; other tables unchanged."""
    if not _is_pandas(frame):
        return frame
    return pl.DataFrame(
        {name: pl.Series(name, column) for name, column in _columns_of_pandas(frame).items()}
    )


def _type_of_none(column: Any) -> Any:
    pa = _arrow()
    try:
        return pa.array(column.iloc[:0], from_pandas=True).type
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        return None


def _check_names(names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"Two columns are called {quoted(twice)}.",
            allowed="a different name for each column",
            instead="renaming one of them",
        )


def _readable(kind: Any) -> bool:
    """Return whether a type has a meaning here; those of Arrow that Polars cannot hold have none."""
    types = _arrow().types
    if (
        types.is_dictionary(kind)
        or types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    ):
        return _readable(kind.value_type)
    if types.is_struct(kind):
        return all(_readable(field.type) for field in kind)
    if types.is_timestamp(kind):
        return kind.tz is None or _OFFSET.fullmatch(kind.tz) is not None or _is_zone(kind.tz)
    decimal = types.is_decimal(kind) and not types.is_decimal256(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or decimal
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    time = types.is_date(kind) or types.is_time(kind) or types.is_duration(kind)
    return number or text or binary or time or types.is_boolean(kind) or types.is_null(kind)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return False
    return True


def _in_utc(schema: Any) -> Any:
    """Return a schema with UTC for offsets, which Polars does not all know; the moments are the same."""
    pa = _arrow()

    def zoned(kind: Any) -> Any:
        offset = pa.types.is_timestamp(kind) and kind.tz is not None and _OFFSET.fullmatch(kind.tz)
        return pa.timestamp(kind.unit, "UTC") if offset else kind

    return pa.schema([field.with_type(zoned(field.type)) for field in schema])


def _in_polars(schema: Any) -> pl.Schema:
    return pl.DataFrame(_in_utc(schema).empty_table()).schema


def _arrow() -> Any:
    """Return pyarrow, which has no types, and is loaded for tables of others only."""
    import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

    return pa
