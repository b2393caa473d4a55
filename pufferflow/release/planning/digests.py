"""Digests of public facts: texts that are the same for the same facts, whatever the order in which they were read."""

import hashlib
from typing import Any

import numpy as np
import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.engines.value_classes import WIDE
from pufferflow.queries.engine_interface import CellGroups, Pattern, Patterns
from pufferflow.release.planning.public_weights import PublicWeights


def digest_of_patterns(patterns: Patterns | UsageError) -> str:
    """Return a text that depends on the distinct patterns only, not on their order or the number of groups of each."""
    if isinstance(patterns, UsageError):
        return "none"
    kinds = sorted(_digest_of_pattern(pattern) for pattern in patterns.distinct)
    return repr((patterns.reach, patterns.clock, kinds))


def _digest_of_pattern(pattern: Pattern) -> str:
    positions, shares = (np.zeros(0) if one is None else one + 0.0 for one in (pattern.positions, pattern.shares))
    digest = hashlib.sha256(repr((len(pattern.cells), len(positions), pattern.start + 0.0, pattern.covers)).encode())
    for values, dtype in ((shares, "<f8"), (pattern.cells, "<i8"), (pattern.counts, "<i8"), (positions, "<f8")):
        digest.update(np.ascontiguousarray(values, dtype=dtype).data)
    return digest.hexdigest()


def digest_of_groups(groups: CellGroups | None) -> str:
    """Return a text that depends on the sizes of the groups in each cell; on their number it does not."""
    if groups is None:
        return "none"
    kinds = [[tuple(size) for size in sizes] for sizes in groups.kinds]
    digest = hashlib.sha256(repr((len(groups.kind_of_cell), kinds)).encode())
    digest.update(np.ascontiguousarray(groups.kind_of_cell, dtype="<i8").data)
    return digest.hexdigest()


def digest_of_weights(weights: PublicWeights, *, of_groups: bool) -> str:
    """Return a text that depends on the largest weights and, where rows depend on each other, on those of groups."""
    largest = weights.largest()
    known = largest and of_groups
    groups = f"{digest_of_patterns(weights.patterns)}{weights.of_rows_in_words()}" if known else ""
    return f"weights {largest} {groups}" if largest else ""


def digest_of_keys(keys: pl.DataFrame) -> str:
    """Return a text that depends on the keys, their order, their names and their types."""
    digest = hashlib.sha256(repr(keys.shape).encode())
    for column in keys:
        digest.update(f"\n{column.name!r} {column.dtype!r}\n".encode())
        for part in _canonical_bytes(column):
            digest.update(part)
    return digest.hexdigest()


def _canonical_bytes(column: pl.Series) -> list[Any]:
    """Return bytes that columns of one dtype share only if they are equal; for most dtypes without Python values."""
    if isinstance(column.dtype, pl.Enum):
        column = column.cast(pl.String)
    missing = column.is_null().to_numpy()
    if column.dtype == pl.String:
        text = column.fill_null("")
        lengths = text.str.len_bytes().to_numpy()
        return [missing.data, np.ascontiguousarray(lengths).data, "".join(text.to_list()).encode()]
    numbers = column.cast(pl.UInt8) if column.dtype == pl.Boolean else column.to_physical()
    if numbers.dtype.is_integer() and type(numbers.dtype) not in WIDE:
        return [missing.data, np.ascontiguousarray(numbers.fill_null(0).to_numpy()).data]
    return [repr(column.to_list()).encode()]
