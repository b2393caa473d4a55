"""Private rows for a period, as a lazy frame: from files, or from a function of the job."""

import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from pufferflow.errors import Misuse, SourceFailed
from pufferflow.guarded import guarded
from pufferflow.jobs.file import Source
from pufferflow.jobs.functions import called
from pufferflow.jobs.period import Period
from pufferflow.jobs.reading import with_variables

_TYPES = {
    "integer": pl.Int64,
    "float": pl.Float64,
    "text": pl.String,
    "boolean": pl.Boolean,
    "date": pl.Date,
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
    where = pattern if "://" in pattern else str(folder / pattern)
    if "://" not in where and not glob.glob(where, recursive=True):  # noqa: PTH207 - the pattern may be absolute
        raise SourceFailed(
            f"No file matches {where[-200:]!r}. Nothing was released.",
            allowed="files that are there",
            instead="another period, or running the job again when they have come",
        )
    suffix = Path(where).suffix.lower()
    match suffix:
        case ".parquet":
            return guarded(lambda: pl.scan_parquet(where))
        case ".arrow" | ".ipc" | ".feather":
            return guarded(lambda: pl.scan_ipc(where))
        case ".csv":
            types = _types(source)
            return guarded(lambda: pl.scan_csv(where, schema_overrides=types, infer_schema=False, ignore_errors=True))
        case ".ndjson" | ".jsonl":
            types = _types(source)
            return guarded(lambda: pl.scan_ndjson(where, schema=types, ignore_errors=True))
        case _:
            raise Misuse(
                f"The path ends in {suffix!r}.",
                allowed=".parquet, .arrow, .ipc, .feather, .csv, .ndjson, .jsonl",
                instead='[source] function = "job.py:rows", which can read anything',
            )


def _types(source: Source) -> dict[str, Any]:
    """Return the declared types; left out, an engine would guess them from private rows."""
    if not source.columns:
        raise Misuse(
            "The types of the columns are not declared, and would be guessed from private rows.",
            allowed="a type for each column",
            instead=_COLUMNS,
        )
    return {name: _TYPES[kind] for name, kind in source.columns.items()}
