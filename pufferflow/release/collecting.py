"""The one function that reads rows, private or public, and what becomes of an engine that fails.

An engine's messages can quote data, and a traceback keeps the error it came from. So nothing of an engine's error is
passed on but the name of its class.
"""

import polars as pl

from pufferflow.errors import SourceFailed
from pufferflow.progress import working


def collect(frame: pl.LazyFrame, what: str = "reading rows") -> pl.DataFrame:
    """Run one streaming query."""
    kind = ""
    try:
        with working(what):
            return frame.collect(engine="streaming")
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        kind = type(error).__name__
    raise SourceFailed(  # outside of the handler, so that the engine's error is not kept as the context of this one
        f"The data could not be read: the engine stopped with {kind}. Nothing was released.",
        allowed="a source that can be read to its end",
        instead="frame.head().collect() on a copy that may be looked at, to see what is wrong",
    )
