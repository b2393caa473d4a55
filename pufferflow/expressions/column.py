"""One column, by its very name."""

import polars as pl
import polars.selectors as cs


def named(column: str) -> pl.Expr:
    """Return the column of this very name, even if it looks like a pattern, as '^x.*$' does."""
    return cs.by_name(column).as_expr()
