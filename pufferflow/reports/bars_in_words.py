"""Published numbers with their error bars as a table of texts, which notebooks and styled tables show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Flags, Floats
from pufferflow.reports.outputs import PublishedColumn, keys_of, outputs_of, shown

BARS: Final = (
    "An error bar (±) holds what the number would be without noise, with probability 95 % or more."
)
BEYOND: Final = (
    "* The number lies outside the range of possible answers, for noise can push it there. "
    "release.clipped() cuts it to that range, at no cost."
)
_MOST_ASIDE: Final = 3


@final
@dataclass(frozen=True)
class Bars:
    """A table of texts: its head, its rows, the number of columns that are keys, and notes for below."""

    head: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    keys: int
    notes: Sequence[str]


def bars_of(frame: pl.DataFrame, intervals: pl.DataFrame, limits: pl.DataFrame | None) -> Bars:
    """Return a row for each row of a release, or for each output if one row has many.

    A number outside its `limits`, the range of possible answers, is marked, and a note says why.
    """
    outputs = outputs_of(frame, intervals)
    keys = keys_of(frame, outputs)
    beyond = [_beyond(output, limits) for output in outputs]
    numbers = [
        [text + " *" * bool(mark) for text, mark in zip(output.with_bars(), marks, strict=True)]
        for output, marks in zip(outputs, beyond, strict=True)
    ]
    notes = [BARS, *[BEYOND] * any(marks.any() for marks in beyond)]
    if frame.height == 1 and len(outputs) > _MOST_ASIDE:
        own = [shown(key) for key in keys.row(0)] if keys.width else []
        rows = [
            (output.name, *own, column[0]) for output, column in zip(outputs, numbers, strict=True)
        ]
        return Bars(("output", *keys.columns, "number"), rows, 1 + keys.width, notes)
    texts = [[shown(key) for key in column] for column in keys.get_columns()]
    names = (*keys.columns, *(output.name for output in outputs))
    return Bars(names, list(zip(*texts, *numbers, strict=True)), keys.width, notes)


def _beyond(output: PublishedColumn, limits: pl.DataFrame | None) -> Flags:
    """Return which numbers of an output are outside the range of possible answers, as far as that is known."""
    if limits is None or f"{output.name}_least" not in limits.columns:
        return np.zeros(len(output.values), dtype=bool)
    least, most = (_floats(limits[f"{output.name}_{end}"]) for end in ("least", "most"))
    return (output.values < least) | (output.values > most)


def _floats(column: pl.Series) -> Floats:
    return (
        column.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy().astype(np.float64)
    )
