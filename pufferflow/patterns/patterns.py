"""What is found: the distinct patterns of all groups, or one that covers them where they are too many."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import polars as pl

from pufferflow.queries.pattern import Pattern

MOST = 64
"""More distinct patterns than that are covered by one: what it promises holds for all of them."""

Collect = Callable[[pl.LazyFrame], pl.DataFrame]


@final
class Order(NamedTuple):
    """What the order of rows means to a prior.

    Nothing; or positions do, up to shifts by multiples of `period`; None: counted from where all sequences began.
    """

    ordered: bool
    period: int | None = None


PLACED: Final = Order(ordered=True)
"""Where the rows stand in time."""


@final
@dataclass(frozen=True, eq=False)
class Patterns:
    """The patterns of the groups with a row that is asked about, and how many such groups there are."""

    distinct: tuple[Pattern, ...]
    groups: int
    selected: int = 0
    """How many rows are asked about, in all groups together."""
    reach: tuple[float, float] | None = None
    """The positions of the first and the last row of all, if positions were looked at."""
    clock: str = ""
    """How positions are counted: on whose clock, and how late in a step. Only equal clocks have positions in common."""
