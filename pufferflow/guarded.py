"""What becomes of an engine that fails: nothing it says is passed on, since its messages can quote data.

A traceback keeps the error it came from, and frames their variables. So the error that is raised instead comes from
outside of the handler, and names no more than a class of Polars or of Python itself.
"""

from collections.abc import Callable
from typing import TypeVar

from pufferflow.errors import PufferflowError, SourceFailed

T = TypeVar("T")
_KNOWN = ("builtins", "polars", "pyo3_runtime", "pyarrow")


def source_failed(kind: str) -> PufferflowError:
    """Return the error for a source that could not be read."""
    return SourceFailed(
        f"The data could not be read: the engine stopped with {kind}. Nothing was released.",
        allowed="a source that can be read to its end",
        instead="frame.head().collect() on a copy that may be looked at, to see what is wrong",
    )


def guarded(work: Callable[[], T], failed: Callable[[str], PufferflowError] = source_failed) -> T:
    """Return what work gives, or say that it failed; errors of this library pass, and so does a person who stops.

    >>> guarded(lambda: 3)
    3
    """
    kind = ""
    try:
        return work()
    except (PufferflowError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        whose = type(error)
        kind = whose.__name__ if whose.__module__.partition(".")[0] in _KNOWN else "an error of its own"
    raise failed(kind)
