"""A release's frames as figures and tables need them: which columns are outputs, what stands on the other axis.

Noise against signal: how far noise may take a number, as a share of the number itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import starmap
from typing import Any, final

import numpy as np
import polars as pl

from pufferflow.arrays import Floats
from pufferflow.report.evidence import Cell
from pufferflow.report.html import Column
from pufferflow.report.numbers import beside, counted, percent, plain, span

MOST_ROWS = 200
MOST_PANELS = 12
_TOGETHER, _TOGETHER_NAME = 3, "the outputs"
_ALL, _BAR = "all rows", "95 % interval"


@final
@dataclass(frozen=True, eq=False)
class Output:
    """One published column: its numbers and the ends of their intervals, NaN where there is none."""

    name: str
    values: Floats
    low: Floats
    high: Floats

    @property
    def half(self) -> Floats:
        """Half the width of each interval; infinite where it has no end, NaN where there is none."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.high / 2 - self.low / 2

    def at(self, rows: Sequence[int]) -> "Output":
        """Return the output at some of the rows."""
        places = list(rows)
        return Output(self.name, self.values[places], self.low[places], self.high[places])


@final
@dataclass(frozen=True, eq=False)
class Panel:
    """One small picture: an output over marks on a line (`at`, with `marks` as they are called), or over names."""

    title: str
    axis: str
    output: Output
    marks: tuple[Any, ...]
    at: Floats | None = None
    counts: bool = False
    """Whether the numbers are counts of rows."""


def outputs_of(frame: pl.DataFrame, intervals: pl.DataFrame) -> list[Output]:
    """Return the columns that have an interval."""
    return [
        Output(name, _floats(frame[name]), _floats(intervals[f"{name}_low"]), _floats(intervals[f"{name}_high"]))
        for name in frame.columns
        if {f"{name}_low", f"{name}_high"} <= set(intervals.columns) and _is_number(frame[name])
    ]


def keys_of(frame: pl.DataFrame, found: Sequence[Output]) -> pl.DataFrame:
    """Return the columns that say what a row is about."""
    return frame.drop([output.name for output in found])


def panels_of(frame: pl.DataFrame, intervals: pl.DataFrame, counts: Sequence[str] = ()) -> list[Panel]:
    """Return small pictures for a release: over time or numbers if a key has these, else over names.

    `counts` names the outputs that count rows.
    """
    found = outputs_of(frame, intervals)
    return [replace(panel, counts=_counts(panel, counts)) for panel in _panels(frame, found)]


def _counts(panel: Panel, counts: Sequence[str]) -> bool:
    names = panel.marks if panel.output.name == _TOGETHER_NAME else (panel.output.name,)
    return set(names) <= set(counts)


def _panels(frame: pl.DataFrame, found: Sequence[Output]) -> list[Panel]:
    keys = keys_of(frame, found)
    if frame.height == 1 and len(found) > _TOGETHER:
        return [_side_by_side(found)]
    line = _line_of(keys)
    others = keys if line is None else keys.drop(line)
    groups = _places(names_of(others))
    if line is None or len(groups) * len(found) > MOST_PANELS:
        names = tuple(names_of(keys))
        return [Panel(output.name, ", ".join(keys.columns), output, names) for output in found]
    return [_along(keys[line], output, group, rows) for output in found for group, rows in groups.items()]


def names_of(keys: pl.DataFrame) -> list[str]:
    """Return what each row is called."""
    if not keys.width:
        return [_ALL] * max(keys.height, 1)
    return [" · ".join(map(shown, row)) for row in keys.iter_rows()]


def table_of(frame: pl.DataFrame, intervals: pl.DataFrame) -> tuple[list[Column], str]:
    """Return the columns of a table with error bars, and what is left out of it."""
    found = outputs_of(frame, intervals)
    keys = keys_of(frame, found)
    if frame.height == 1 and len(found) > _TOGETHER:
        return _beneath(keys, _side_by_side(found)), ""
    head = keys.head(MOST_ROWS)
    rows = min(frame.height, MOST_ROWS)
    columns = [Column(name, list(map(shown, head[name]))) for name in keys.columns]
    columns = columns or [Column("rows", [_ALL] * rows)]
    for output in found:
        halves, values = output.half.tolist()[:rows], output.values.tolist()[:rows]
        columns.append(Column(output.name, list(map(beside, map(_known, values), halves)), number=True))
        ends = zip(output.low.tolist()[:rows], output.high.tolist()[:rows], strict=True)
        columns.append(Column(f"{_BAR} of {output.name}", list(starmap(span, ends)), number=True))
    more = f"; the first {MOST_ROWS:,} of {frame.height:,} rows" if frame.height > MOST_ROWS else ""
    return columns, more


def _beneath(keys: pl.DataFrame, panel: Panel) -> list[Column]:
    """Return one row with many outputs as many rows."""
    output = panel.output
    values = list(map(beside, map(_known, output.values.tolist()), output.half.tolist()))
    ends = list(starmap(span, zip(output.low.tolist(), output.high.tolist(), strict=True)))
    of = [Column(name, [shown(keys[name][0])] * len(values)) for name in keys.columns]
    return [Column("output", panel.marks), *of, Column("number", values, number=True), Column(_BAR, ends, number=True)]


def shown(value: Any) -> str:
    """Return a key as text."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return plain(value, 6)
    return str(value)


def _side_by_side(found: Sequence[Output]) -> Panel:
    parts = [np.concatenate([getattr(output, part) for output in found]) for part in ("values", "low", "high")]
    return Panel("", "output", Output(_TOGETHER_NAME, *parts), tuple(output.name for output in found))


def _along(line: pl.Series, output: Output, group: str, rows: Sequence[int]) -> Panel:
    marks = line.gather(list(rows))
    kept = marks.is_not_null() & (marks.is_finite() if marks.dtype.is_float() else True)
    order = marks.to_frame("mark").with_row_index("row").filter(kept).sort("mark", maintain_order=True)
    places: list[int] = [rows[place] for place in order["row"].to_list()]
    title = output.name if group == _ALL else f"{output.name}, {group}"
    return Panel(title, line.name, output.at(places), tuple(order["mark"]), _positions(order["mark"]))


def _positions(marks: pl.Series) -> Floats:
    numbers = marks.to_physical() if marks.dtype.is_temporal() else marks
    return numbers.cast(pl.Float64).to_numpy()


def _line_of(keys: pl.DataFrame) -> str | None:
    """Return the key that is a line: the one of time, or of numbers, with the most different values."""
    lines = [
        name
        for name in keys.columns
        if keys[name].dtype.base_type() in {pl.Date, pl.Datetime} or _is_number(keys[name])
    ]
    found = [(keys[name].drop_nulls().n_unique(), name) for name in lines]
    return max(found)[1] if found and max(found)[0] > 1 else None


def _places(names: Sequence[str]) -> dict[str, list[int]]:
    found = dict[str, list[int]]()
    for row, name in enumerate(names):
        found.setdefault(name, []).append(row)
    return found


def _is_number(column: pl.Series) -> bool:
    return column.dtype.is_numeric() and not column.dtype.is_nested()


def _floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64, strict=False).fill_null(math.nan).to_numpy().astype(np.float64)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def when(mark: Any) -> bool:
    """Say whether a mark is a day or a time."""
    return isinstance(mark, date)


_TIMES = 1.5
NUMBER, LARGEST = "the number", "the largest possible answer"


@final
@dataclass(frozen=True)
class Share:
    """The noise of one output as a share of its size: the middle, least and largest of the `known` of `cells` cells.

    Half the 95 % interval is what is divided; `middle` is None if that, or the size, is not known anywhere, or is 0.
    """

    name: str
    of: str
    middle: float | None
    least: float
    largest: float
    cells: int
    known: int

    def told(self) -> str:
        """Say it in words."""
        if self.middle is None:
            return f"{self.name}: nobody can tell how large the noise is against {self.of}."
        if self.middle == math.inf:
            return f"{self.name}: the noise has no limit that could be compared with {self.of}."
        share = percent(self.middle)
        about = share if share.startswith("less") else f"about {share}"
        reached = f"{about} of {self.of}" if self.middle < _TIMES else f"{about} {self.of}"
        text = f"{self.name}: the error bar reaches {reached} to either side"
        if self.known > 1 and percent(self.least) != percent(self.largest):
            text += f" in the middle of {counted(self.known, 'group')}"
            text += f", from {percent(self.least)} to {percent(self.largest)}"
        if self.known < self.cells:
            text += f"; {self.cells - self.known} of {counted(self.cells, 'group')} have no such share"
        return f"{text}."


def published_shares(outputs: Sequence[Output]) -> list[Share]:
    """Return the shares of a release: the interval, as wide as noise makes it, against each published number."""
    return [_share(output.name, NUMBER, output.half, np.abs(output.values)) for output in outputs]


def planned_shares(cells: Sequence[Cell]) -> list[Share]:
    """Return the shares of a plan: the interval against the largest size that the answer can have."""
    names = list(dict.fromkeys(cell.query for cell in cells))
    return [_planned(name, [cell for cell in cells if cell.query == name]) for name in names]


def _planned(name: str, cells: Sequence[Cell]) -> Share:
    halves = np.array([np.nan if cell.interval_95 is None else cell.interval_95 for cell in cells])
    sizes = np.array([np.nan if cell.largest is None else abs(cell.largest) for cell in cells])
    return _share(name, LARGEST, halves, sizes)


def _share(name: str, of: str, halves: Floats, sizes: Floats) -> Share:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.where((sizes > 0) & np.isfinite(sizes), halves / sizes, np.nan)
    found = np.sort(shares[~np.isnan(shares)])
    if not len(found):
        return Share(name, of, None, 0.0, 0.0, len(shares), 0)
    middle = float(found[len(found) // 2])
    return Share(name, of, middle, float(found[0]), float(found[-1]), len(shares), len(found))
