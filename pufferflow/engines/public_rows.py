"""Public columns of rows with what a request makes of them: derived columns, and the rows that it selects."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.validate import quoted
from pufferflow.queries.engine_interface import Selection
from pufferflow.queries.expressions.tree import named, unsorted
from pufferflow.queries.keys import unsigned_zero, unused

MOST_DISTINCT: Final = 2**25
"""The most distinct rows of public columns that another machine may return: they are worked on here."""


def with_derived(
    frame: pl.LazyFrame, selection: Selection, public: Collection[str] | None = None
) -> pl.LazyFrame:
    """Return a frame with the derived columns.

    Columns lose the mark of being sorted, which sources may set wrongly and expressions, filters and joins trust. −0.0
    becomes 0.0, as where rows are grouped before. `public` are those that the frame has, by default all.
    """
    if selection.derived or selection.filters or selection.keys is not None:
        schema, names = (
            sandboxed(frame.collect_schema),
            selection.public if public is None else public,
        )
        frame = frame.with_columns(
            unsigned_zero(unsorted(name), schema[name]).alias(name) for name in names
        )
    for _, expression in selection.derived:
        frame = frame.with_columns(expression)
    return frame


def with_flag(frame: pl.LazyFrame, selection: Selection) -> tuple[pl.LazyFrame, str | None]:
    """Return a frame with a flag of the rows that are selected, and its name; None if all are."""
    if not selection.filters and selection.keys is None:
        return frame, None
    names = frame.collect_schema()
    flag, known = unused("selected", names), unused("known", names)
    passed = pl.lit(value=True)
    for predicate in selection.filters:
        passed &= predicate.fill_null(value=False)
    frame = frame.with_columns(passed.alias(flag))
    if selection.keys is not None:
        keys = selection.keys.lazy().with_columns(pl.lit(value=True).alias(known))
        frame = frame.join(
            keys, on=[named(name) for name in selection.by], how="left", nulls_equal=True
        )
        frame = frame.with_columns(
            (pl.col(flag) & pl.col(known).fill_null(value=False)).alias(flag)
        ).drop(known)
    return frame, flag


def timed(selection: Selection, order_by: str | None, schema: pl.Schema) -> set[str]:
    """Return the columns that follow from the one by which rows are in order.

    None do if that is a float: 0.0 and −0.0 are one position, and an expression may divide by them.
    """
    if order_by is None or schema[order_by].is_float():
        return set()
    names = {order_by}
    for name, expression in selection.derived:
        follows = names.issuperset(expression.meta.root_names())
        if name == order_by:
            names = {order_by}
        elif follows:
            names.add(name)
        else:
            names.discard(name)
    return names


def needed(selection: Selection, also: Sequence[str] = ()) -> tuple[Selection, tuple[str, ...]]:
    """Return a selection without the derived columns that nothing needs, and the stored columns that it needs.

    `also` are columns that are needed beside those of filters and keys.
    """
    names, derived = {*selection.by, *also}, list[tuple[str, pl.Expr]]()
    for predicate in selection.filters:
        names.update(predicate.meta.root_names())
    for name, expression in reversed(selection.derived):
        if name in names:
            derived.append((name, expression))
            names.discard(name)
            names.update(expression.meta.root_names())
    stored = tuple(name for name in selection.public if name in names)
    chosen = replace(selection, public=stored, derived=tuple(derived[::-1]))
    return chosen, stored


def few_enough(parts: Iterable[pl.DataFrame], names: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Yield the parts of a result, until it has too many rows; then refuse, and say which column makes so many.

    `names` are the columns of the table behind those of the result.
    """
    rows = 0
    for part in parts:
        rows += part.height
        if rows > MOST_DISTINCT:
            raise _nearly_unique(
                max(names, key=lambda name: part[name].n_unique(), default=""), names
            )
        yield part


def _nearly_unique(column: str, names: Mapping[str, str]) -> UsageError:
    what = f"the column {quoted(names[column])} has most" if names else "groups have most"
    return UsageError(
        f"Public columns of the table have more than {MOST_DISTINCT:,} distinct rows, and {what} of them.",
        allowed="fewer distinct rows of public columns in a table on another machine: they are read here",
        instead="a view of the table with a coarser column, such as date_trunc('hour', moment), or the rows as a frame",
    )
