"""Finding the patterns of a public frame: rows that share `within` are one group, and groups are independent (M2)."""

from collections.abc import Collection, Sequence

import polars as pl

from pufferflow.errors import Misuse
from pufferflow.patterns.ordered import in_order, rows_in_order
from pufferflow.patterns.patterns import Collect, Order, Patterns
from pufferflow.patterns.unordered import without_order
from pufferflow.scenario import Scenario


def found(  # noqa: PLR0913, PLR0917 - a frame, three kinds of columns, what the priors mind, and the way to run a query
    public: pl.LazyFrame,
    scenario: Scenario,
    by: Sequence[str],
    asked: str | None,
    orders: Collection[Order],
    collect: Collect,
) -> dict[Order, Patterns | Misuse]:
    """Return the distinct patterns of the groups in a frame of public columns, for each order; or why there are none.

    Rows with equal values of `by` are a cell; `asked` names a Boolean column that tells which rows are asked about,
    None if all are. Nulls are equal to each other, so are NaN. Rows whose order matters are read once for all orders.

    >>> import pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> scenario = pf.Scenario(secret=secret, prior=pf.AnyCorrelation(), within="house")
    >>> houses, none = pl.LazyFrame({"house": [1, 1, 2, 3, 3]}), Order(ordered=False)
    >>> kinds = found(houses, scenario, (), None, [none], collect=lambda lazy: lazy.collect())[none]
    >>> sorted((pattern.rows, pattern.groups) for pattern in kinds.distinct)
    [(1, 1), (2, 2)]
    """
    patterns = dict[Order, Patterns | Misuse]()
    for order in orders:
        if not order.ordered:
            patterns[order] = without_order(public, scenario.within, by, asked, collect)
    ordered = [order for order in orders if order.ordered]
    try:
        groups = rows_in_order(public, scenario, by, asked, collect) if ordered else None
    except Misuse as refusal:
        return patterns | dict.fromkeys(ordered, refusal.with_traceback(None))
    for order in ordered:
        try:
            patterns[order] = in_order(groups, scenario, order.period)
        except Misuse as refusal:
            patterns[order] = refusal.with_traceback(None)
    return patterns
