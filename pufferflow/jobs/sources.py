"""Private rows for a period, as a lazy frame: from files, or from a function of the job."""

import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from pufferflow.addresses import scheme_of
from pufferflow.errors import Misuse, SourceFailed
from pufferflow.expressions import named
from pufferflow.guarded import guarded
from pufferflow.jobs.file import Source, check_source
from pufferflow.jobs.functions import called
from pufferflow.jobs.period import Period
from pufferflow.jobs.reading import with_variables

_TYPES: dict[str, pl.DataType] = {
    "integer": pl.Int64(),
    "float": pl.Float64(),
    "text": pl.String(),
    "boolean": pl.Boolean(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}
_COLUMNS = '[source.columns] with hour = "datetime", level = "integer"'


def frame_of(source: Source, function: Callable[..., Any] | None, folder: Path, period: Period) -> pl.LazyFrame:
    """Return the rows, of which none is read here."""
    found = scanned(source, folder, period) if function is None else called(function, (period,), SourceFailed)
    if isinstance(found, pl.DataFrame):
        return found.lazy()
    if not isinstance(found, pl.LazyFrame):
        raise Misuse(
            f"The source is of type {type(found).__name__}.",
            allowed="a polars LazyFrame or DataFrame",
            instead='return pl.scan_parquet("data/*.parquet")',
        )
    return found


def scanned(source: Source, folder: Path, period: Period) -> pl.LazyFrame:
    """Return the rows of files, whose types are those that they have or are said to have, never guessed from rows."""
    pattern = with_variables(source.path or "").replace("{period}", str(period))
    check_source(pattern)
    where = str(folder / Path(pattern).expanduser()) if scheme_of(pattern) is None else pattern
    scan = _scanner(source, Path(where).suffix.lower())
    if scheme_of(where) is None and not glob.glob(where, recursive=True):  # noqa: PTH207 - the pattern may be absolute
        raise SourceFailed(
            f"No file matches {where[-200:]!r}. Nothing was released.",
            allowed="files that are there",
            instead="another period, or running the job again when they have come",
        )
    return guarded(lambda: scan(where))


def _scanner(source: Source, suffix: str) -> Callable[[str], pl.LazyFrame]:
    match suffix:
        case ".parquet":
            return pl.scan_parquet
        case ".arrow" | ".ipc" | ".feather":
            return pl.scan_ipc
        case ".csv":
            return _csv_of(_types(source))
        case ".ndjson" | ".jsonl":
            types = _types(source)
            return lambda where: pl.scan_ndjson(where, schema=types, ignore_errors=True)
        case _:
            raise Misuse(
                f"The path ends in {suffix!r}.",
                allowed=".parquet, .arrow, .ipc, .feather, .csv, .ndjson, .jsonl",
                instead='[source] function = "job.py:rows", which can read anything',
            )


def _csv_of(types: dict[str, pl.DataType]) -> Callable[[str], pl.LazyFrame]:
    """Return a reader of CSV files in which each value is read by itself.

    Polars reads dates in the form of the first, so that one row would decide what becomes of all others.
    """
    texts = {name: pl.String() if kind.is_temporal() else kind for name, kind in types.items()}
    times = [_time_of(name, kind) for name, kind in types.items() if kind.is_temporal()]

    def scan(where: str) -> pl.LazyFrame:
        rows = pl.scan_csv(where, schema_overrides=texts, infer_schema=False, ignore_errors=True)
        return rows.with_columns(times)

    return scan


def _time_of(name: str, kind: pl.DataType) -> pl.Expr:
    text = named(name)
    if kind == pl.Date():
        return text.str.to_date("%Y-%m-%d", strict=False)
    forms = [f"%Y-%m-%d{between}%H:%M{seconds}" for between in ("T", " ") for seconds in (":%S%.f", "")]
    return pl.coalesce(text.str.to_datetime(form, time_unit="us", strict=False) for form in forms)


def _types(source: Source) -> dict[str, pl.DataType]:
    """Return the declared types; left out, an engine would guess them from private rows."""
    if not source.columns:
        raise Misuse(
            "The types of the columns are not declared, and would be guessed from private rows.",
            allowed="a type for each column",
            instead=_COLUMNS,
        )
    return {name: _TYPES[kind] for name, kind in source.columns.items()}
