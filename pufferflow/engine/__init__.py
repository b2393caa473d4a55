"""The only room that reads rows: the interface of engines, and the engine for Polars."""

from pufferflow.engine.classes import WIDE, check_column, clean_dtype, labelled
from pufferflow.engine.columns import MOST_ROWS
from pufferflow.engine.engine import (
    PLACED,
    UNORDERED,
    Engine,
    Measure,
    Order,
    Pattern,
    Patterns,
    Selection,
    Tally,
    UnitLimit,
)
from pufferflow.engine.one_pass import comparable
from pufferflow.engine.polars_engine import engine_of
from pufferflow.engine.snapshot import NO_FILES, Snapshot

__all__ = [
    "MOST_ROWS",
    "NO_FILES",
    "PLACED",
    "UNORDERED",
    "WIDE",
    "Engine",
    "Measure",
    "Order",
    "Pattern",
    "Patterns",
    "Selection",
    "Snapshot",
    "Tally",
    "UnitLimit",
    "check_column",
    "clean_dtype",
    "comparable",
    "engine_of",
    "labelled",
]
