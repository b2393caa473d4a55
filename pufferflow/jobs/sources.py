"""Private rows for a period, as a lazy frame: from files, or from a function of the job.

The functions that a job file names are imported and called here. Their errors can quote rows, so a message has the
class and line, and its text only if PUFFERFLOW_TRACEBACK is set, by a person who may see the rows.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import polars as pl

from pufferflow.core.arrow import gives_arrow
from pufferflow.core.errors import PufferflowError, SourceError, UsageError
from pufferflow.engines.connect import has_engine
from pufferflow.jobs.period import Period
from pufferflow.jobs.source import SourceTable

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
        modules[place] = _from_file(folder / place) if place.endswith(".py") else _from_path(place, folder)
    module = modules[place]
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(
            f"{place!r} has no function {name!r}.",
            allowed=", ".join(_functions(module)) or "a function of the module",
            instead="the name after the colon",
        )
    return function


def call_safely(function: Callable[..., Any], arguments: tuple[Any, ...], failed: type[PufferflowError]) -> Any:
    """Return the result of a function of the job; what it raises becomes `failed`, without its words."""
    try:
        return function(*arguments)
    except (PufferflowError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        words, cause = _where_raised(error), error if tracebacks() else None
    name = getattr(function, "__name__", "function")
    raise failed(f"The job's {name}() failed: {words}.", allowed="a function that returns", instead=_SHOW) from cause


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
            f"{path.name!r} cannot be imported.", allowed="a Python file", instead='build = "job.py:build"'
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
    raise UsageError(f"{name!r} cannot be imported: {words}.", allowed="a module that loads", instead=_SHOW) from cause


def _import_failure(error: BaseException) -> str:
    """Return why a module does not load, in Python's own words only: a module may read rows while it loads."""
    match error:
        case ModuleNotFoundError(name=str(name)) if name.replace(".", "").isidentifier():
            return f"there is no module {name[:60]!r}"
        case SyntaxError(filename=str(file), lineno=int(line), msg=message) if Path(file).is_file():
            return f"{message} in {Path(file).name}, line {line}"
        case _:
            return _where_raised(error)


def _functions(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")][:20]


def frame_of(source: SourceTable, function: Callable[..., Any] | None, folder: Path, period: Period) -> Any:
    """Return the rows, of which none is read here: a lazy frame, or the table of another library."""
    rows = source.rows(folder, period) if function is None else call_safely(function, (period,), SourceError)
    if isinstance(rows, pl.DataFrame):
        return rows.lazy()
    if not isinstance(rows, pl.LazyFrame) and not has_engine(rows) and not gives_arrow(rows):
        raise UsageError(
            f"The source is of type {type(rows).__name__}.",
            allowed="a Polars frame, lazy or not, a table of an engine, or one with an Arrow stream, such as pandas",
            instead='return pl.scan_parquet("data/*.parquet")',
        )
    return rows
