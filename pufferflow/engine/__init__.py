"""The only room that reads rows: types, distinct public patterns, and exact sums in one pass."""

from pufferflow.engine.classes import WIDE, check_column, clean_dtype, labelled
from pufferflow.engine.columns import MOST_ROWS
from pufferflow.engine.one_pass import Tally, at_most, tally
from pufferflow.engine.patterns import PLACED, Order, Patterns, find_patterns
from pufferflow.engine.snapshot import NO_FILES, Snapshot, collect

__all__ = [
    "MOST_ROWS",
    "NO_FILES",
    "PLACED",
    "WIDE",
    "Order",
    "Patterns",
    "Snapshot",
    "Tally",
    "at_most",
    "check_column",
    "clean_dtype",
    "collect",
    "find_patterns",
    "labelled",
    "tally",
]
