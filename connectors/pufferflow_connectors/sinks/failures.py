"""Errors of sinks when a database, store or table fails: the kind of failure, in our own words.

Messages of servers and drivers quote statements, rows, addresses and passwords. So none of them is passed on, and the
raised error has no reference to them.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import pufferflow as pf

T = TypeVar("T")
_NAMED: Final = {
    "builtins",
    "sqlalchemy",
    "polars",
    "pyo3_runtime",
    "internal",
    "psycopg",
    "sqlite3",
    "obstore",
    "deltalake",
    "pyiceberg",
    "pyarrow",
}
"""The packages whose classes of errors are named; another's may be called anything."""


def attempt(
    work: Callable[[], T], place: str, reason_of: Callable[[Exception], str] = lambda _: ""
) -> T:
    """Return the result of work on a sink, or raise that the sink failed; errors of pufferflow pass.

    `reason_of` may give the reason in plain words; otherwise it is the class of the error.
    """
    try:
        return work()
    except (pf.PufferflowError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except Exception as error:  # noqa: BLE001 - drivers raise all sorts, and each may quote a row
        reason = reason_of(error) or kind_of(error)
    except BaseException as error:  # noqa: BLE001 - a panic of an engine is no Exception
        reason = kind_of(error)
    raise failed(place, reason)


def kind_of(error: BaseException) -> str:
    """Return the class of an error, as it may be shown."""
    kind = type(error)
    return (
        kind.__name__
        if kind.__module__.partition(".")[0].lstrip("_") in _NAMED
        else "an error of its own"
    )


def failed(place: str, reason: str) -> pf.SinkError:
    """Return the error of a sink that could not be read or written."""
    return pf.SinkError(
        f"The sink {place[-200:]!r} could not be read or written: {reason}.",
        allowed="a sink that can be reached, and written to",
        instead="repairing that and running again: the release is kept in the ledger, and the next run sends it",
    )


def check_installed(package: str, extra: str) -> None:
    """Refuse a sink whose package is not installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise pf.UsageError(
            f"The sink needs {package!r}, which is not installed.",
            allowed="the packages of its extra",
            instead=f'pip install ".[{extra}]"',
        )
