"""The source that is files, or a function of the job; types of columns are those of the files, or declared ones.

They are never guessed from rows, nor from the names of folders, which are values too.
"""

import glob
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, final

import polars as pl
from msgspec import Meta

from pufferflow.core.addresses import scheme_of
from pufferflow.core.errors import PufferflowError, SourceError, UsageError
from pufferflow.core.sandbox import sandboxed, source_failed
from pufferflow.core.validate import quoted
from pufferflow.jobs.period import Period
from pufferflow.jobs.source import (
    COLUMNS,
    FUNCTION,
    ColumnType,
    Options,
    check_address,
    check_places,
    dtypes_of,
    looked_up,
    placed,
)
from pufferflow.jobs.toml import TomlTable, resolved
from pufferflow.queries.expressions.tree import named

Call = Annotated[
    str, Meta(pattern=r"^[^:]+:[A-Za-z_][A-Za-z0-9_]*$(?!\n)", description="file.py:function or module:function")
]
Scan = Callable[[str], pl.LazyFrame]
_READ: Final = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "hf", "file")


@final
class FileSource(TomlTable, frozen=True):
    """Where the private rows are: files, or a function that gives a lazy frame for a period."""

    path: (
        Annotated[str, Meta(description="files; * matches several, {period} is the period's name, / ends a folder")]
        | None
    ) = None
    function: Call | None = None
    hive: Annotated[bool, Meta(description="whether folders such as day=2026-11-20 are columns")] = False
    columns: (
        Annotated[
            dict[str, ColumnType], Meta(description="types of the columns of CSV and NDJSON files, and of folders")
        ]
        | None
    ) = None
    options: Options | None = None

    def __post_init__(self) -> None:
        """Refuse none and both, addresses without a reader, and keys that do not apply to a function."""
        if (self.path is None) == (self.function is None):
            raise UsageError(
                "The source has a path and a function, or neither.",
                allowed="one of them",
                instead='path = "data/*.parquet"',
            )
        if self.function is not None and (self.hive or self.options):
            raise UsageError("The source is a function, which has no folders or options.", allowed="a path with these")
        check_address(self.path or "", _READ, "Polars")
        check_places(self.path or "", "path")
        if self.hive and not self.columns:
            raise _undeclared("The types of columns that are folders are not declared")

    def __repr__(self) -> str:
        """Show where the rows are, without options, which may be credentials."""
        return f"FileSource({self.path or self.function!r})"

    def check_address(self) -> None:
        check_address(resolved(self.path or ""), _READ, "Polars")

    def rows(self, folder: Path, period: Period) -> pl.LazyFrame:
        """Return the rows of files, of which none is read here."""
        pattern = placed(self.path or "", period)
        check_address(pattern, _READ, "Polars")
        here = scheme_of(pattern) is None
        where = str(folder / Path(pattern).expanduser()) if here else pattern
        if pattern.endswith("/"):
            where = f"{where.rstrip('/')}/**/*.parquet"
        scan = self._scanner(Path(where).suffix.lower(), self._options(here=here))
        if here:
            self._check_files(where)
        return sandboxed(lambda: self._checked(scan(where)), _failed)

    def _check_files(self, where: str) -> None:
        """Refuse files that are not there, and folders whose columns are not declared."""
        found = glob.glob(where, recursive=True)  # noqa: PTH207 - the pattern may be absolute
        if not found:
            raise SourceError(
                f"No file matches {where[-200:]!r}. Nothing was released.",
                allowed="files that are there",
                instead="another period, or running the job again when they have come",
            )
        if self.hive:
            _check_partitions(found, self.columns or {})

    def _checked(self, scan: pl.LazyFrame) -> pl.LazyFrame:
        """Return a scan; the names of folders in an object store are checked first."""
        if self.hive:
            scan.collect_schema()
        return scan

    def _options(self, *, here: bool) -> dict[str, Any] | None:
        if here and self.options:
            raise UsageError(
                "The source has options, and its path is on this machine.",
                allowed="options for addresses such as s3://bucket/data/*.parquet",
                instead="leaving [source.options] out",
            )
        return looked_up(self.options) or None

    def _scanner(self, suffix: str, options: dict[str, Any] | None) -> Scan:
        if self.hive and suffix != ".parquet":
            raise UsageError(
                f"The path ends in {suffix!r}, and its folders are columns.",
                allowed="Parquet files in such folders",
                instead=FUNCTION,
            )
        match suffix:
            case ".parquet":
                folders = self._types if self.hive else None
                return lambda where: pl.scan_parquet(
                    where, hive_partitioning=self.hive, hive_schema=folders, storage_options=options
                )
            case ".arrow" | ".ipc" | ".feather":
                return lambda where: pl.scan_ipc(where, hive_partitioning=False, storage_options=options)
            case ".csv":
                return _csv_of(self._types, options)
            case ".ndjson" | ".jsonl":
                types = self._types
                return lambda where: pl.scan_ndjson(where, schema=types, ignore_errors=True, storage_options=options)
            case _:
                raise UsageError(
                    f"The path ends in {suffix!r}.",
                    allowed=".parquet, .arrow, .ipc, .feather, .csv, .ndjson, .jsonl, or / for a folder of Parquet",
                    instead=FUNCTION,
                )

    @property
    def _types(self) -> dict[str, pl.DataType]:
        """The declared types; left out, an engine would guess them from private rows."""
        if not self.columns:
            raise _undeclared("The types of the columns are not declared")
        return dtypes_of(self.columns)


def _check_partitions(files: Iterable[str], types: Mapping[str, ColumnType]) -> None:
    """Refuse folders that are columns of no declared type, and files in folders of other columns than the rest."""
    layouts = {tuple(part.partition("=")[0] for part in Path(file).parts[:-1] if "=" in part) for file in files}
    for column in sorted({name for layout in layouts for name in layout}):
        if column not in types:
            raise _undeclared(f"The folders {quoted(f'{column}=…')} are a column whose type is not declared")
    if len(layouts) > 1:
        raise UsageError(
            "Some files lie in folders of other columns than the rest.",
            allowed="folders of the same columns for all files, such as day=…/region=…/",
            instead='path = "data/day=*/region=*/*.parquet", which matches those of one kind',
        )


def _undeclared(problem: str) -> UsageError:
    return UsageError(
        f"{problem}, and would be guessed from private rows.", allowed="a type for each column", instead=COLUMNS
    )


def _failed(kind: str) -> PufferflowError:
    if kind == "SchemaFieldNotFoundError":
        return _undeclared("The types of some columns that are folders are not declared")
    return source_failed(kind)


def _csv_of(types: Mapping[str, pl.DataType], options: dict[str, Any] | None) -> Scan:
    """Return a reader of CSV files in which each value is read by itself.

    Polars reads dates in the form of the first, so that one row would decide how all others are read.
    """
    texts = {name: pl.String() if kind.is_temporal() else kind for name, kind in types.items()}
    times = [_time_of(name, kind) for name, kind in types.items() if kind.is_temporal()]

    def scan(where: str) -> pl.LazyFrame:
        rows = pl.scan_csv(
            where, schema_overrides=texts, infer_schema=False, ignore_errors=True, storage_options=options
        )
        return rows.with_columns(times)

    return scan


def _time_of(name: str, kind: pl.DataType) -> pl.Expr:
    text = named(name)
    if kind == pl.Date():
        return text.str.to_date("%Y-%m-%d", strict=False)
    forms = [f"%Y-%m-%d{between}%H:%M{seconds}" for between in ("T", " ") for seconds in (":%S%.f", "")]
    return pl.coalesce(text.str.to_datetime(form, time_unit="us", strict=False) for form in forms)
