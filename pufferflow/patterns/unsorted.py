"""A column as if nobody had said that it is sorted.

Frames and files can say of a column that it is sorted, and the engine takes their word: it compares by binary search,
sorts not at all, and takes runs for groups. Where that word is false, one row decides how others are read, and no bound
speaks of such sums. So every column that a pattern or a release reads is read like this.
"""

import polars as pl

from pufferflow.expressions import named


def unsorted(column: str) -> pl.Expr:
    """Return the column of this very name, of any type, without what is said of its order; no value is copied.

    A struct keeps the values of its fields and not what was said of them.

    >>> frame = pl.DataFrame({"x": pl.Series([2, 1]).set_sorted()})
    >>> frame.select(unsorted("x")).to_series().flags["SORTED_ASC"]
    False
    """
    return pl.struct(named(column).alias("it")).struct.field("it").alias(column)
