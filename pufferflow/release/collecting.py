"""The one function that reads rows, private or public, and what becomes of an engine that fails.

An engine's messages can quote data, and a traceback keeps the error it came from. So nothing of an engine's error is
passed on but the name of its class.
"""

from collections.abc import Callable
from typing import TypeVar

import polars as pl

from pufferflow.errors import PufferflowError, SourceFailed
from pufferflow.progress import working

T = TypeVar("T")


def collect(frame: pl.LazyFrame, what: str = "reading rows") -> pl.DataFrame:
    """Run one streaming query."""

    def run() -> pl.DataFrame:
        with working(what):
            return frame.collect(engine="streaming")

    return guarded(run)


def guarded(read: Callable[[], T]) -> T:
    """Return what a reading gives; of what goes wrong in the engine nothing is told but the name of the error's class.

    Errors of this library pass, and so does a person who stops the work.
    """
    kind = ""
    try:
        return read()
    except (PufferflowError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        kind = type(error).__name__
    raise SourceFailed(  # outside of the handler, so that the engine's error is not kept as the context of this one
        f"The data could not be read: the engine stopped with {kind}. Nothing was released.",
        allowed="a source that can be read to its end",
        instead="frame.head().collect() on a copy that may be looked at, to see what is wrong",
    )
