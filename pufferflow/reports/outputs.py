"""The columns of a release for figures and tables, and the size of the noise relative to each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats
from pufferflow.reports.evidence import Cell
from pufferflow.reports.numbers import UNKNOWN, beside, counted, percent, plain, span, upwards

MOST_ROWS = 200
MOST_PANELS = 12
_MOST_SIDE_BY_SIDE, _OUTPUTS = 3, "the outputs"
_ALL, _BAR = "all rows", "95 % interval"
_TIMES = 1.5
_CENTRED = 1e-6
"""The part of half an error bar by which a number may lie off its middle, through rounding."""
NUMBER, LARGEST = "the number", "the largest possible answer"


@final
@dataclass(frozen=True)
class Column:
    """A column of a table: its head, its cells as text, whether these are numbers, and remarks below cells, or none."""

    head: str
    cells: Sequence[str]
    number: bool = False
    remarks: Sequence[str] = ()


@final
@dataclass(frozen=True, eq=False)
class PublishedColumn:
    """The numbers of one output and the ends of their intervals, NaN if there is none."""

    name: str
    values: Floats
    low: Floats
    high: Floats

    @property
    def half(self) -> Floats:
        """Half the width of each interval; infinite where it is unbounded, NaN where there is none."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.high / 2 - self.low / 2

    def at(self, rows: Sequence[int]) -> "PublishedColumn":
        """Return the numbers of some of the rows."""
        places = list(rows)
        return PublishedColumn(self.name, self.values[places], self.low[places], self.high[places])

    def numbers(self) -> list[str]:
        """Return each number with the digits that are significant beside its interval."""
        pairs = zip(self.values.tolist(), self.half.tolist(), strict=True)
        return [beside(None if math.isnan(value) else value, half) for value, half in pairs]

    def with_bars(self) -> list[str]:
        """Return each number with its error bar: "6,043 ± 13", or both ends if they lie differently far away.

        >>> from numpy import array
        >>> PublishedColumn("n", array([6042.6, 5.0]), array([6030.0, 4.0]), array([6055.2, 9.0])).with_bars()
        ['6,043 ± 13', '5.0 (4.0 to 9.0)']
        """
        pairs = zip(self.values.tolist(), self.half.tolist(), strict=True)
        with np.errstate(invalid="ignore"):
            middle = (self.low / 2 + self.high / 2).tolist()
        words = zip(pairs, middle, self.numbers(), self.intervals(), strict=True)
        return [
            f"{number} ± {plain(upwards(half, 2), 2)}"
            if math.isfinite(half) and abs(value - centre) <= _CENTRED * half
            else (number if ends == UNKNOWN else f"{number} ({ends})")
            for (value, half), centre, number, ends in words
        ]

    def intervals(self) -> list[str]:
        """Return each interval in words."""
        return [
            span(low, high) for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True)
        ]

    def remarks(self, uncut: "PublishedColumn") -> list[str]:
        """Return a word for each number that is impossible, or that noise alone could have made; "" for all others.

        >>> column = PublishedColumn("n", np.array([-3.0, 5.0, 40.0]), np.zeros(3), np.array([7.0, 15.0, 50.0]))
        >>> column.remarks(PublishedColumn("n", column.values, column.values - 10, column.values + 10))
        ['impossible: below 0', 'may be 0', '']
        """
        return list(map(_remark, self.values, self.low, self.high, uncut.low, uncut.high))


def _remark(value: float, low: float, high: float, least: float, most: float) -> str:
    if not math.isfinite(value):
        return ""
    if value < low:
        return f"impossible: below {plain(float(low))}"
    if value > high:
        return f"impossible: above {plain(float(high))}"
    if least < low and high < most:
        return "may be anything"
    return "may be 0" if least <= 0 <= most and least < most else ""


@final
@dataclass(frozen=True, eq=False)
class Panel:
    """One panel of a figure: an output along a line (`at`, labelled by `marks`), or over names."""

    title: str
    axis: str
    output: PublishedColumn
    marks: tuple[Any, ...]
    at: Floats | None = None
    counts: bool = False
    """Whether the numbers are counts of rows."""


def outputs_of(frame: pl.DataFrame, intervals: pl.DataFrame) -> list[PublishedColumn]:
    """Return the columns that have an interval."""
    return [
        PublishedColumn(
            name,
            *(
                _floats(column)
                for column in (frame[name], intervals[f"{name}_low"], intervals[f"{name}_high"])
            ),
        )
        for name in frame.columns
        if {f"{name}_low", f"{name}_high"} <= set(intervals.columns) and _is_number(frame[name])
    ]


def keys_of(frame: pl.DataFrame, outputs: Sequence[PublishedColumn]) -> pl.DataFrame:
    """Return the key columns."""
    return frame.drop([output.name for output in outputs])


def panels_of(
    frame: pl.DataFrame, intervals: pl.DataFrame, counts: Sequence[str] = ()
) -> list[Panel]:
    """Return the panels of a release: over time or numbers if a key has these, else over names.

    `counts` names the outputs that count rows.
    """
    outputs = outputs_of(frame, intervals)
    keys = keys_of(frame, outputs)
    if frame.height == 1 and len(outputs) > _MOST_SIDE_BY_SIDE:
        together, names = _side_by_side(outputs)
        return [Panel("", "output", together, names, counts=set(names) <= set(counts))]
    line = line_of(keys)
    groups = dict[str, list[int]]()
    for row, name in enumerate(row_names(keys if line is None else keys.drop(line))):
        groups.setdefault(name, []).append(row)
    if line is None or len(groups) * len(outputs) > MOST_PANELS:
        names = tuple(row_names(keys))
        axis = ", ".join(keys.columns)
        return [
            Panel(output.name, axis, output, names, counts=output.name in counts)
            for output in outputs
        ]
    return [
        _along(keys[line], output, group, rows, counts=output.name in counts)
        for output in outputs
        for group, rows in groups.items()
    ]


def _side_by_side(outputs: Sequence[PublishedColumn]) -> tuple[PublishedColumn, tuple[str, ...]]:
    """Return one row of many outputs as many rows of one output, and their names."""
    values, low, high = (
        np.concatenate([getattr(output, part) for output in outputs])
        for part in ("values", "low", "high")
    )
    return PublishedColumn(_OUTPUTS, values, low, high), tuple(output.name for output in outputs)


def line_of(keys: pl.DataFrame) -> str | None:
    """Return the key for the horizontal axis: that of time or numbers with the most distinct values."""
    lines = [
        (keys[name].drop_nulls().n_unique(), name)
        for name in keys.columns
        if keys[name].dtype.base_type() in {pl.Date, pl.Datetime} or _is_number(keys[name])
    ]
    values, name = max(lines, default=(0, ""))
    return name if values > 1 else None


def row_names(keys: pl.DataFrame) -> list[str]:
    """Return a name for each row, from all of its keys; without keys one for all rows."""
    if not keys.width:
        return [_ALL] * max(keys.height, 1)
    return [" · ".join(map(shown, row)) for row in keys.iter_rows()]


def _along(
    line: pl.Series, output: PublishedColumn, group: str, rows: Sequence[int], *, counts: bool
) -> Panel:
    """Return the panel of one group along a line: in order, without the rows that have no place on it."""
    marks = line.gather(list(rows))
    placed = marks.is_not_null() & (marks.is_finite() if marks.dtype.is_float() else True)
    order = (
        marks.to_frame("mark")
        .with_row_index("row")
        .filter(placed)
        .sort("mark", maintain_order=True)
    )
    places: list[int] = [rows[place] for place in order["row"].to_list()]
    sorted_marks = order["mark"]
    at = (
        (sorted_marks.to_physical() if sorted_marks.dtype.is_temporal() else sorted_marks)
        .cast(pl.Float64)
        .to_numpy()
    )
    title = output.name if group == _ALL else f"{output.name}, {group}"
    return Panel(title, line.name, output.at(places), tuple(sorted_marks), at, counts)


def table_of(
    frame: pl.DataFrame, intervals: pl.DataFrame, raw: pl.DataFrame | None = None
) -> tuple[list[Column], str]:
    """Return the columns of a table with error bars, and a note on rows left out.

    Numbers that are impossible, or that noise alone could have made, have a remark. `raw` are the error bars before
    they were cut to the possible range.
    """
    outputs = outputs_of(frame, intervals)
    keys = keys_of(frame, outputs)
    if frame.height == 1 and len(outputs) > _MOST_SIDE_BY_SIDE:
        together, names = _side_by_side(outputs)
        before = _side_by_side(outputs_of(frame, intervals if raw is None else raw))[0]
        of_row = [Column(name, [shown(keys[name][0])] * len(names)) for name in keys.columns]
        return [
            *(Column("output", names), *of_row),
            Column("number", together.numbers(), number=True, remarks=together.remarks(before)),
            Column(_BAR, together.intervals(), number=True),
        ], ""
    rows = min(frame.height, MOST_ROWS)
    columns = [Column(name, list(map(shown, keys[name].head(rows)))) for name in keys.columns]
    columns = columns or [Column("rows", [_ALL] * rows)]
    uncut = outputs_of(frame, intervals if raw is None else raw)
    for output, before in zip(outputs, uncut, strict=True):
        first = output.at(range(rows))
        remarks = first.remarks(before.at(range(rows)))
        columns.append(Column(output.name, first.numbers(), number=True, remarks=remarks))
        columns.append(Column(f"{_BAR} of {output.name}", first.intervals(), number=True))
    more = f"; the first {MOST_ROWS:,} of {frame.height:,} rows" if frame.height > MOST_ROWS else ""
    return columns, more


def shown(value: Any) -> str:
    """Return a key as text."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return plain(value, 6)
    return str(value)


def is_date(mark: Any) -> bool:
    """Return whether a mark is a day or a time."""
    return isinstance(mark, date)


def _is_number(column: pl.Series) -> bool:
    return column.dtype.is_numeric() and not column.dtype.is_nested()


def _floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64, strict=False).fill_null(math.nan).to_numpy().astype(np.float64)


@final
@dataclass(frozen=True)
class Share:
    """The noise of one output as a share of its size: the middle, least and largest of the `known` of `cells` cells.

    The share is half the 95 % interval divided by the size; `middle` is None if either is unknown everywhere, or 0.
    """

    name: str
    of: str
    middle: float | None
    least: float
    largest: float
    cells: int
    known: int

    def sentence(self) -> str:
        """Describe the size of the noise."""
        if self.middle is None:
            return f"{self.name}: how large the noise is against {self.of} is not known."
        if self.middle == math.inf:
            return (
                f"{self.name}: the error bar has no end, so it cannot be compared with {self.of}."
            )
        share = percent(self.middle)
        about = share if share.startswith("less") else f"about {share}"
        reached = f"{about} of {self.of}" if self.middle < _TIMES else f"{about} {self.of}"
        text = f"{self.name}: the error bar reaches {reached} to either side"
        if self.known > 1 and percent(self.least) != percent(self.largest):
            text += f" in the middle of {counted(self.known, 'group')}"
            text += f", from {percent(self.least)} to {percent(self.largest)}"
        if self.known < self.cells:
            text += (
                f"; {self.cells - self.known} of {counted(self.cells, 'group')} have no known share"
            )
        return f"{text}."


def published_shares(outputs: Sequence[PublishedColumn]) -> list[Share]:
    """Return the shares of a release: the interval before clipping, relative to each published number."""
    return [_share(output.name, NUMBER, output.half, np.abs(output.values)) for output in outputs]


def planned_shares(cells: Sequence[Cell]) -> list[Share]:
    """Return the shares of a plan: the interval relative to the largest absolute answer."""
    shares = list[Share]()
    for name in dict.fromkeys(cell.query for cell in cells):
        own = [cell for cell in cells if cell.query == name]
        halves = np.array(
            [cell.interval_95 for cell in own], dtype=np.float64
        )  # NaN where there is none
        sizes = np.abs(np.array([cell.largest for cell in own], dtype=np.float64))
        shares.append(_share(name, LARGEST, halves, sizes))
    return shares


def _share(name: str, of: str, halves: Floats, sizes: Floats) -> Share:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.where((sizes > 0) & np.isfinite(sizes), halves / sizes, np.nan)
    known = np.sort(shares[~np.isnan(shares)])
    if not len(known):
        return Share(name, of, None, 0.0, 0.0, len(shares), 0)
    return Share(
        name,
        of,
        float(known[len(known) // 2]),
        float(known[0]),
        float(known[-1]),
        len(shares),
        len(known),
    )
