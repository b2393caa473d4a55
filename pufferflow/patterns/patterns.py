"""What is found: the distinct patterns of all groups, or one that covers them where they are too many."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import polars as pl

from pufferflow.queries.pattern import Pattern

MOST = 64
"""More distinct patterns than that are covered by one: what it promises holds for all of them."""

Collect = Callable[[pl.LazyFrame], pl.DataFrame]


@final
@dataclass(frozen=True, eq=False)
class Patterns:
    """The patterns of the groups with a row that is asked about, and how many such groups there are."""

    distinct: tuple[Pattern, ...]
    groups: int
    reach: tuple[float, float] | None = None
    """The positions of the first and the last row of all, if positions were looked at."""
    clock: str = ""
    """How positions are counted: on whose clock, and how late in a step. Only equal clocks have positions in common."""
