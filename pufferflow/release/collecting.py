"""The one function that reads rows, private or public."""

import polars as pl

from pufferflow.guarded import guarded
from pufferflow.progress import working


def collect(frame: pl.LazyFrame, what: str = "reading rows") -> pl.DataFrame:
    """Run one streaming query."""

    def run() -> pl.DataFrame:
        with working(what):
            return frame.collect(engine="streaming")

    return guarded(run)
