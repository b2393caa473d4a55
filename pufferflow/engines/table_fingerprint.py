"""A keyed fingerprint of the public columns of all rows, which shows that a table has the rows that it had before.

For each row its columns are hashed, each with a key of its own, and their sum is hashed again; the sum over all rows
depends neither on their order nor on threads. Two such sums of 64 bits with other keys are equal by chance, where some
row differs, with a probability of about 2⁻¹²⁸. The keys are unknown to anyone who writes rows.
"""

import hashlib
from collections.abc import Collection
from typing import Final

import polars as pl

from pufferflow.engines.pattern_columns import Collect, Columns, PublicRows
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import PositionMode

_HALVES: Final = range(2)


def row_fingerprint(
    public: PublicRows, scenario: Scenario, orders: Collection[PositionMode], key: bytes, collect: Collect
) -> str | None:
    """Return the fingerprint of what patterns in these orders, and keys, follow from; of the types of columns too.

    None where a column has a type that has no sure hash.
    """
    ordered = any(order.ordered for order in orders)
    if ordered and scenario.order_by is None:
        return None
    columns = Columns.of(public, scenario.within, scenario.order_by if ordered else None)
    schema = columns.rows.select([*columns.chosen]).collect_schema()
    if not all(_has_hash(kind) for kind in schema.values()):
        return None
    values = [_value(name, kind) for name, kind in schema.items()]
    sums = {f"{half}": _hash(values, key, half).sum() for half in _HALVES} if values else {}
    (totals,) = collect(columns.rows.select(pl.len().alias("rows"), **sums)).rows()
    return repr((totals, [(name, repr(kind)) for name, kind in schema.items()]))


def _has_hash(kind: pl.DataType) -> bool:
    """Return whether values are equal where their hashes are, whenever these are taken."""
    return kind.is_numeric() or kind.is_temporal() or isinstance(kind, pl.Boolean | pl.String | pl.Binary | pl.Enum)


def _value(name: str, kind: pl.DataType) -> pl.Expr:
    return pl.col(name).cast(pl.String) if isinstance(kind, pl.Enum) else pl.col(name)


def _hash(values: list[pl.Expr], key: bytes, half: int) -> pl.Expr:
    """Return a hash of the values of a row."""
    hashes = [value.hash(_seed(key, half, place)) for place, value in enumerate(values)]
    return sum(hashes[1:], hashes[0]).hash(_seed(key, half, -1))


def _seed(key: bytes, half: int, place: int) -> int:
    return int.from_bytes(hashlib.sha256(key + repr((half, place)).encode()).digest()[:8], "big")
