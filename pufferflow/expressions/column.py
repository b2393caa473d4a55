"""One column, by its very name."""

import polars as pl
import polars.selectors as cs


def named(column: str) -> pl.Expr:
    """Return the column of this very name, even if it looks like a pattern, as '^x.*$' does."""
    return cs.by_name(column).as_expr()


def unsorted(column: str) -> pl.Expr:
    """Return the column of this very name as if nobody had said that it is sorted; no value is copied.

    Frames and files can say so, and the engine takes their word: it compares by binary search, sorts not at all, and
    takes runs for groups. Where that word is false, one row decides how others are read, and no bound speaks of such
    sums. A struct keeps the values of its fields and not what was said of them.

    >>> frame = pl.DataFrame({"x": pl.Series([2, 1]).set_sorted()})
    >>> frame.select(unsorted("x")).to_series().flags["SORTED_ASC"]
    False
    """
    return pl.struct(named(column).alias("it")).struct.field("it").alias(column)
