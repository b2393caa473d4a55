"""Finding the patterns of a public frame: rows that share `within` are one group, and groups are independent (M2)."""

from collections.abc import Sequence

import polars as pl

from pufferflow.patterns.ordered import in_order
from pufferflow.patterns.patterns import Collect, Patterns
from pufferflow.patterns.unordered import without_order
from pufferflow.scenario import Scenario


def found(  # noqa: PLR0913 - a frame, three kinds of columns, what the prior minds, and the way to run a query
    public: pl.LazyFrame,
    scenario: Scenario,
    by: Sequence[str],
    asked: str | None,
    *,
    ordered: bool,
    period: int | None,
    collect: Collect,
) -> Patterns:
    """Return the distinct patterns of the groups in a frame of public columns.

    Rows with equal values of `by` are a cell; `asked` names a Boolean column that tells which rows are asked about,
    None if all are. If order matters (`ordered`), rows have positions, which may be shifted by multiples of `period`;
    None: they are counted from where all sequences began. Nulls are equal to each other, so are NaN.

    >>> import pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> scenario = pf.Scenario(secret=secret, prior=pf.AnyCorrelation(), within="house")
    >>> houses = pl.LazyFrame({"house": [1, 1, 2, 3, 3]})
    >>> kinds = found(houses, scenario, (), None, ordered=False, period=1, collect=lambda lazy: lazy.collect())
    >>> sorted((pattern.rows, pattern.groups) for pattern in kinds.distinct)
    [(1, 1), (2, 2)]
    """
    if ordered:
        return in_order(public, scenario, by, asked, period, collect)
    return without_order(public, scenario.within, by, asked, collect)
