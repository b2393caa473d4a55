"""Private rows for a period: from files, from a function of the job, or from a table of an engine.

The functions that a job file names are imported and called here. Their errors can quote rows, so a message has only the
class and line. It has the text too if PUFFERFLOW_TRACEBACK is set, by a person who may see the rows.

Types of columns are those of the files, or declared ones. They are never guessed from rows, nor from the names of
folders, which are values too.

To add a source, write a `TomlTable` that is a `SourceTable`. Name it by an entry point in the group
`pufferflow.sources`: `kind = "…"` in `[source]` is then that name.
"""

import glob
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Annotated, Any, Final, Literal, Protocol, final

import polars as pl
from msgspec import Meta

from pufferflow.core.entry_points import names_in
from pufferflow.core.errors import PufferflowError, SourceError, UsageError
from pufferflow.core.paths import scheme_of
from pufferflow.core.sandbox import sandboxed, source_failed
from pufferflow.core.suggestions import nearest
from pufferflow.core.tables import gives_arrow
from pufferflow.core.validate import quoted
from pufferflow.engines.connect import RemoteTable, has_engine, table
from pufferflow.jobs.period import Period
from pufferflow.jobs.toml import TomlTable, resolved, with_variables
from pufferflow.queries.expressions.tree import named

Options = Annotated[
    dict[str, str | int | float | bool],
    Meta(description="region, endpoint and credentials of an object store; ${NAME} is looked up"),
]
ColumnType = Literal["integer", "float", "text", "boolean", "date", "datetime"]
COLUMNS: Final = '[source.columns] with hour = "datetime", level = "integer"'
FUNCTION: Final = '[source] function = "job.py:rows", which can read anything'
_PLACE: Final = re.compile(r"(?<!\$)\{(?P<name>[^}]*)\}")
_FORM: Final = re.compile(r"period(:(?P<form>(%[YmdHGVjy]|[^%{}])+))?")


class SourceTable(Protocol):
    """The keys that `[source]` of a job file has for one kind of source."""

    def check_address(self) -> None:
        """Refuse an unusable address; variables that the environment lacks are not checked."""
        ...

    def rows(self, folder: Path, period: Period) -> Any:
        """Return the rows for a period, as `pf.protect` takes them; paths are relative to the job file's folder.

        If a source has versions, or can be read once only, its rows are the same each time they are read. Errors have
        no words of a server, which may quote rows and passwords. A failure that may pass is a `SourceError`.
        """
        ...


def check_address(address: str, schemes: Collection[str], reader: str) -> None:
    """Refuse an address with a scheme that a reader does not know; the error shows only the scheme."""
    scheme = scheme_of(address)
    if scheme is not None and not (scheme in schemes and "://" in address):
        raise UsageError(
            f"The source is an address with '{scheme}:', which {reader} does not read.",
            allowed=f"files, or addresses with {', '.join(f'{name}://' for name in schemes)}",
            instead=FUNCTION,
        )


def dtypes_of(columns: Mapping[str, ColumnType]) -> dict[str, pl.DataType]:
    """Return the types of declared columns.

    >>> dtypes_of({"day": "date", "level": "integer"})
    {'day': Date, 'level': Int64}
    """
    return {name: _DTYPES[kind] for name, kind in columns.items()}


_DTYPES: Final[Mapping[ColumnType, pl.DataType]] = {
    "integer": pl.Int64(),
    "float": pl.Float64(),
    "text": pl.String(),
    "boolean": pl.Boolean(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}


def looked_up(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options with their variables."""
    return {
        name: with_variables(value) if isinstance(value, str) else value
        for name, value in (options or {}).items()
    }


def check_places(text: str, what: str) -> None:
    """Refuse a text with other places than {period}, such as a misspelt one."""
    for place in _PLACE.finditer(text):
        if not names_period(place["name"]):
            raise UsageError(
                f"The {what} has {{{place['name'][:60]}}}.",
                allowed="{period}, {period:%Y-%m} of its first moment, and ${NAME} of the environment",
                instead='path = "data/{period}.parquet"',
            )


def placed(text: str, period: Period) -> str:
    """Return a text with its variables and its period.

    >>> placed("year={period:%Y}/month={period:%m}/{period}.parquet", Period.read("2026-11-20"))
    'year=2026/month=11/2026-11-20.parquet'
    """
    return with_variables(_PLACE.sub(lambda place: word_of(place["name"], period), text))


def word_of(place: str, period: Period) -> str:
    """Return the replacement of a place that names the period: its name, or its first moment in a form.

    >>> word_of("period:%Y-%m", Period.read("2026-11-20"))
    '2026-11'
    """
    found = _FORM.fullmatch(place)
    form = None if found is None else found["form"]
    return str(period) if form is None else period.start.strftime(form)


def names_period(place: str) -> bool:
    """Return whether a place names the period, by itself or with a form.

    >>> names_period("period"), names_period("period:%Y"), names_period("perod")
    (True, True, False)
    """
    return _FORM.fullmatch(place) is not None


TRACEBACK = "PUFFERFLOW_TRACEBACK"
_SHOW = f"{TRACEBACK}=1, which shows what it said; that may quote rows"


def tracebacks() -> bool:
    """Return whether the environment allows words and tracebacks, which may quote rows."""
    return os.environ.get(TRACEBACK, "").lower() not in {"", "0", "false", "no"}


def functions_of(calls: Sequence[str], folder: Path) -> list[Callable[..., Any]]:
    """Return the functions of "file.py:name", relative to a folder, or of "package.module:name".

    Each file is loaded once, so that its functions share what they keep.
    """
    modules = dict[str, ModuleType]()
    return [_function_of(call, folder, modules) for call in calls]


def _function_of(call: str, folder: Path, modules: dict[str, ModuleType]) -> Callable[..., Any]:
    place, _, name = call.rpartition(":")
    if place not in modules:
        modules[place] = (
            _from_file(folder / place) if place.endswith(".py") else _from_path(place, folder)
        )
    module = modules[place]
    function = getattr(module, name, None)
    if not callable(function):
        own = [
            other
            for other, value in vars(module).items()
            if callable(value) and not other.startswith("_")
        ]
        raise UsageError(
            f"{place!r} has no function {name!r}.",
            allowed=", ".join(own[:20]) or "a function of the module",
            instead="the name after the colon",
        )
    return function


def call_safely(
    function: Callable[..., Any], arguments: tuple[Any, ...], failed: type[PufferflowError]
) -> Any:
    """Return the result of a function of the job; an error in it becomes `failed`, without its words."""
    try:
        return function(*arguments)
    except (PufferflowError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        words, cause = _where_raised(error), error if tracebacks() else None
    name = getattr(function, "__name__", "function")
    raise failed(
        f"The job's {name}() failed: {words}.", allowed="a function that returns", instead=_SHOW
    ) from cause


def _where_raised(error: BaseException) -> str:
    """Return the class of an error, and the last line of the job's own files in its traceback."""
    place, not_own = "", (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<")
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(not_own) and "site-packages" not in file:
            place = f" in {Path(file).name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}"


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(
            f"There is no file {str(path)[-200:]!r}.",
            allowed="a Python file, relative to the job file",
            instead='build = "job.py:build"',
        )
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as for a script: files beside it can be imported
    name = f"pufferflow_job_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(
            f"{path.name!r} cannot be imported.",
            allowed="a Python file",
            instead='build = "job.py:build"',
        )
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module
    return _import(lambda: (loader.exec_module(module), module)[1], path.name)


def _from_path(name: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return _import(lambda: importlib.import_module(name), name)


def _import(load: Callable[[], ModuleType], name: str) -> ModuleType:
    try:
        return load()
    except (PufferflowError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a module may do anything when it is imported
        words, cause = _import_failure(error), error if tracebacks() else None
    raise UsageError(
        f"{name!r} cannot be imported: {words}.", allowed="a module that loads", instead=_SHOW
    ) from cause


def _import_failure(error: BaseException) -> str:
    """Return why a module does not load, in Python's own words only: a module may read rows while it loads."""
    match error:
        case ModuleNotFoundError(name=str(name)) if name.replace(".", "").isidentifier():
            return f"there is no module {name[:60]!r}"
        case SyntaxError(filename=str(file), lineno=int(line), msg=message) if Path(file).is_file():
            return f"{message} in {Path(file).name}, line {line}"
        case _:
            return _where_raised(error)


def frame_of(
    source: SourceTable, function: Callable[..., Any] | None, folder: Path, period: Period
) -> Any:
    """Return the rows, of which none is read here: a lazy frame, or the table of another library."""
    rows = (
        source.rows(folder, period)
        if function is None
        else call_safely(function, (period,), SourceError)
    )
    if isinstance(rows, pl.DataFrame):
        return rows.lazy()
    if not isinstance(rows, pl.LazyFrame) and not has_engine(rows) and not gives_arrow(rows):
        raise UsageError(
            f"The source is of type {type(rows).__name__}.",
            allowed="a Polars frame, lazy or not, a table of an engine, or one with an Arrow stream, such as pandas",
            instead='return pl.scan_parquet("data/*.parquet")',
        )
    return rows


Call = Annotated[
    str,
    Meta(
        pattern=r"^[^:]+:[A-Za-z_][A-Za-z0-9_]*$(?!\n)",
        description="file.py:function or module:function",
    ),
]
Scan = Callable[[str], pl.LazyFrame]
_READ: Final = (
    "s3",
    "s3a",
    "gs",
    "az",
    "azure",
    "adl",
    "abfs",
    "abfss",
    "http",
    "https",
    "hf",
    "file",
)


@final
class FileSource(TomlTable, frozen=True):
    """Where the private rows are: files, or a function that gives a lazy frame for a period."""

    path: (
        Annotated[
            str,
            Meta(
                description="files; * matches several, {period} is the period's name, / ends a folder"
            ),
        ]
        | None
    ) = None
    function: Call | None = None
    hive: Annotated[
        bool, Meta(description="whether folders such as day=2026-11-20 are columns")
    ] = False
    columns: (
        Annotated[
            dict[str, ColumnType],
            Meta(description="types of the columns of CSV and NDJSON files, and of folders"),
        ]
        | None
    ) = None
    options: Options | None = None

    def __post_init__(self) -> None:
        """Refuse neither or both, addresses without a reader, and keys that do not apply to a function."""
        if (self.path is None) == (self.function is None):
            raise UsageError(
                "The source has a path and a function, or neither.",
                allowed="one of them",
                instead='path = "data/*.parquet"',
            )
        if self.function is not None and (self.hive or self.options):
            raise UsageError(
                "The source is a function, which has no folders or options.",
                allowed="a path with these",
            )
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
                f"The path ends in {suffix!r}, and only Parquet files can have folders as columns.",
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
                return lambda where: pl.scan_ipc(
                    where, hive_partitioning=False, storage_options=options
                )
            case ".csv":
                return _csv_of(self._types, options)
            case ".ndjson" | ".jsonl":
                types = self._types
                return lambda where: pl.scan_ndjson(
                    where, schema=types, ignore_errors=True, storage_options=options
                )
            case _:
                raise UsageError(
                    f"The path ends in {suffix!r}.",
                    allowed=".parquet, .arrow, .ipc, .feather, .csv, .ndjson, .jsonl, or / for a folder of Parquet",
                    instead=FUNCTION,
                )

    @property
    def _types(self) -> dict[str, pl.DataType]:
        """The declared types; without them, an engine would guess types from private rows."""
        if not self.columns:
            raise _undeclared("The types of the columns are not declared")
        return dtypes_of(self.columns)


def _check_partitions(files: Iterable[str], types: Mapping[str, ColumnType]) -> None:
    """Refuse folders that are columns of no declared type, and files in folders of other columns than the rest."""
    layouts = {
        tuple(part.partition("=")[0] for part in Path(file).parts[:-1] if "=" in part)
        for file in files
    }
    for column in sorted({name for layout in layouts for name in layout}):
        if column not in types:
            raise _undeclared(
                f"The folders {quoted(f'{column}=…')} are a column whose type is not declared"
            )
    if len(layouts) > 1:
        raise UsageError(
            "Some files lie in folders with other columns than the rest.",
            allowed="folders of the same columns for all files, such as day=…/region=…/",
            instead='path = "data/day=*/region=*/*.parquet", which matches those of one kind',
        )


def _undeclared(problem: str) -> UsageError:
    return UsageError(
        f"{problem}. Types would be guessed from private rows.",
        allowed="a type for each column",
        instead=COLUMNS,
    )


def _failed(kind: str) -> PufferflowError:
    if kind == "SchemaFieldNotFoundError":
        return _undeclared("The types of some columns that are folders are not declared")
    return source_failed(kind)


def _csv_of(types: Mapping[str, pl.DataType], options: dict[str, Any] | None) -> Scan:
    """Return a reader of CSV files in which each value is read by itself.

    Polars would read dates in the form of the first, so that one row would decide how all others are read.
    """
    texts = {name: pl.String() if kind.is_temporal() else kind for name, kind in types.items()}
    times = [_time_of(name, kind) for name, kind in types.items() if kind.is_temporal()]

    def scan(where: str) -> pl.LazyFrame:
        rows = pl.scan_csv(
            where,
            schema_overrides=texts,
            infer_schema=False,
            ignore_errors=True,
            storage_options=options,
        )
        return rows.with_columns(times)

    return scan


def _time_of(name: str, kind: pl.DataType) -> pl.Expr:
    text = named(name)
    if kind == pl.Date():
        return text.str.to_date("%Y-%m-%d", strict=False)
    forms = [
        f"%Y-%m-%d{between}%H:%M{seconds}" for between in ("T", " ") for seconds in (":%S%.f", "")
    ]
    return pl.coalesce(text.str.to_datetime(form, time_unit="us", strict=False) for form in forms)


_ENGINES = "pufferflow.engines"


@final
class TableSource(TomlTable, frozen=True):
    """A table of a database or a cluster, left where it is."""

    engine: Annotated[
        str,
        Meta(min_length=1, description="duckdb, postgresql, spark, or another that is installed"),
    ]
    table: Annotated[str, Meta(min_length=1, description="its name; {period} is the period's name")]
    address: Annotated[
        str | None,
        Meta(description="where it is, such as duckdb:///power.db; ${NAME} is looked up"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse engines that are not installed, addresses of others, and misspelt places."""
        known = names_in(_ENGINES)
        if self.engine not in known:
            close = nearest(self.engine, known)
            raise UsageError(
                f"There is no engine {self.engine[:60]!r}.",
                allowed=f"an installed one: {', '.join(known)}",
                instead=f'engine = "{close[0] if close else "duckdb"}"',
            )
        check_places(self.table, "table")

    def check_address(self) -> None:
        if self.address is not None and not self.address.lower().startswith(
            (self.engine, "sc:", "${")
        ):
            raise UsageError(
                f"The address is of another engine than {self.engine!r}.",
                allowed=f"an address that begins with {self.engine}:",
                instead=f'address = "{self.engine}://…"',
            )

    def rows(self, folder: Path, period: Period) -> RemoteTable:
        found = table(with_variables(self.address or f"{self.engine}:"), placed(self.table, period))
        return replace(found, folder=str(folder))
