"""The distinct patterns of the groups of a public frame, or one that covers them where they are too many.

Rows that share `within` are one group, and groups are independent (M2).
"""

from collections.abc import Collection
from dataclasses import replace

from pufferflow.core.errors import UsageError
from pufferflow.engines.groups import Groups
from pufferflow.engines.ordered_patterns import ManyKinds, columns_in_order, in_order, read_groups
from pufferflow.engines.pattern_columns import Collect, PublicRows
from pufferflow.engines.unordered_patterns import without_order, without_places
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import Pattern, Patterns, PositionMode


def find_patterns(
    public: PublicRows, scenario: Scenario, orders: Collection[PositionMode], collect: Collect
) -> dict[PositionMode, Patterns | UsageError]:
    """Return the distinct patterns of the groups of public rows, for each order; or the error that says why not.

    Nulls are equal to each other, so are NaN. Where order matters, patterns in all orders follow from the same groups.
    Equal patterns come in equal order, wherever their groups stand in the table.

    >>> import polars as pl, pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> scenario = pf.Scenario(secret=secret, prior=pf.AnyCorrelation(), within="house")
    >>> houses, none = PublicRows(pl.LazyFrame({"house": [1, 1, 2, 3, 3]})), PositionMode(ordered=False)
    >>> kinds = find_patterns(houses, scenario, [none], collect=lambda lazy: lazy.collect())[none]
    >>> sorted((pattern.rows, pattern.groups) for pattern in kinds.distinct)
    [(1, 1), (2, 2)]
    """
    within = scenario.within if public.within is None else public.within
    if not any(order.ordered for order in orders):
        return {order: _sorted(without_order(public, within, collect)) for order in orders}
    try:
        groups = read_groups(columns_in_order(public, scenario), scenario, collect)
    except UsageError as refusal:
        return dict.fromkeys(orders, refusal.with_traceback(None))
    if groups is None:
        return dict.fromkeys(orders, Patterns((), 0))
    patterns = dict[PositionMode, Patterns | UsageError]()
    for order in orders:
        try:
            if not order.ordered and isinstance(groups, Groups):
                own = without_places(groups)
            elif not order.ordered:
                own = without_order(public, within, collect)
            elif isinstance(groups, ManyKinds):
                own = groups.in_order(order.period)
            else:
                own = in_order(groups, scenario, order.period)
            patterns[order] = _sorted(own)
        except UsageError as refusal:
            patterns[order] = refusal.with_traceback(None)
    return patterns


def _sorted(patterns: Patterns) -> Patterns:
    return replace(patterns, distinct=tuple(sorted(patterns.distinct, key=_contents)))


def _contents(pattern: Pattern) -> tuple[int, bytes, bytes, bytes]:
    """Return a sort key by the contents of a pattern, the longest first; bytes are in the order of numbers."""
    positions = b"" if pattern.positions is None else pattern.positions.astype(">f8").tobytes()
    return -pattern.rows, positions, pattern.cells.astype(">i8").tobytes(), pattern.counts.astype(">i8").tobytes()
