"""The chart of a release: published numbers with their error bars, by group or along time."""

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import quoted
from pufferflow.reports.bars_in_words import BARS
from pufferflow.reports.charts.base import (
    COLOURS,
    FIRST,
    ROW,
    WIDTH,
    Chart,
    Spec,
    chart,
    names,
    number,
    quantity,
    text,
    tooltip,
)
from pufferflow.reports.numbers import counted, plain
from pufferflow.reports.outputs import PublishedColumn, keys_of, line_of, outputs_of, row_names

MOST_OUTPUTS: Final = 12
MOST_LINES: Final = 8
MOST_NAMES: Final = 60
MOST_MARKS: Final = 1000
_MOST_BARS: Final = 45
"""Along a line, so many numbers have a bar each; more have a band."""
_ASIDE: Final = 5.0
"""The pixels between the bars of groups at one place."""


def release_chart(
    frame: pl.DataFrame,
    intervals: pl.DataFrame,
    guarantee: str,
    queries: Sequence[tuple[str, Sequence[str]]] = (),
    outputs: str | Sequence[str] | None = None,
) -> Chart:
    """Return a panel for each output; `guarantee` stands below the title.

    `queries` are words for queries, and their outputs: those of one query have one panel if there is one row of them.
    """
    every = outputs_of(frame, intervals)
    drawn = _chosen(every, outputs)
    keys = keys_of(frame, every)
    line = line_of(keys)
    rows, notes = _rows(keys, frame.height, line)
    if frame.height == 1:
        panels = [_side_by_side(words, own) for words, own in _of_queries(queries, drawn)]
    else:
        panels = [_panel(keys[rows], line, output.at(rows)) for output in drawn[:MOST_OUTPUTS]]
        if len(drawn) > MOST_OUTPUTS:
            first = f"The first {MOST_OUTPUTS} of {len(drawn):,} outputs"
            notes.append(f"{first}; outputs= chooses others.")
    notes += _gaps([output.at(rows) for output in drawn])
    title = f"Published: {', '.join(output.name for output in drawn[:3])}" + " …" * (len(drawn) > 3)
    description = " ".join(_describe(output.at(rows)) for output in drawn[:MOST_NAMES])
    body = panels[0] if len(panels) == 1 else {"vconcat": panels}
    return chart(title, [BARS, guarantee, *notes], description, body)


def _of_queries(
    queries: Sequence[tuple[str, Sequence[str]]], drawn: Sequence[PublishedColumn]
) -> list[tuple[str, list[PublishedColumn]]]:
    """Return the outputs of each query, with its words; what no query names is by itself."""
    of_query = {name: words for words, outputs in queries for name in outputs if len(outputs) > 1}
    together = dict[str, list[PublishedColumn]]()
    for output in drawn:
        together.setdefault(of_query.get(output.name, output.name), []).append(output)
    return list(together.items())


def _side_by_side(words: str, outputs: Sequence[PublishedColumn]) -> Spec:
    """Return the panel of outputs with one number each."""
    values = [
        _mark(output.name, None, row)
        for output in outputs[:MOST_NAMES]
        for row in zip(output.with_bars(), output.values, output.low, output.high, strict=True)
    ]
    return {"data": {"values": values}, "width": WIDTH, **_by_name("output", words)}


def _chosen(
    every: Sequence[PublishedColumn], outputs: str | Sequence[str] | None
) -> list[PublishedColumn]:
    wanted = [outputs] if isinstance(outputs, str) else outputs
    known = {output.name: output for output in every}
    if wanted is None:
        wanted = list(known)
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"No output is called {quoted(name)}.{did_you_mean(name, list(known))}",
                allowed=f"names of outputs: {', '.join(map(repr, list(known)[:6]))}",
                instead=f"release.plot(outputs={next(iter(known), 'load')!r})",
            )
    if not wanted:
        raise UsageError(
            "There is no output to draw.",
            allowed="one output or more",
            instead="release.plot()",
        )
    return [known[name] for name in wanted]


def _rows(keys: pl.DataFrame, height: int, line: str | None) -> tuple[list[int], list[str]]:
    """Return the places of the rows that are drawn, and notes on those that are not."""
    rows, notes = list(range(height)), list[str]()
    if line is None:
        if len(rows) > MOST_NAMES:
            notes.append(
                f"The first {MOST_NAMES} of {len(rows):,} groups; filter the frame for others."
            )
        return rows[:MOST_NAMES], notes
    marks, lines = keys[line].to_list(), row_names(keys.drop(line))
    rows = [row for row, at in enumerate(marks) if at is not None and _finite(at)]
    kinds = list(dict.fromkeys(lines[row] for row in rows))
    if len(kinds) > MOST_LINES:
        notes.append(f"The first {MOST_LINES} of {len(kinds):,} groups along {line}.")
        rows = [row for row in rows if lines[row] in kinds[:MOST_LINES]]
    places = sorted({marks[row] for row in rows})
    every = -(-len(places) * min(len(kinds), MOST_LINES) // MOST_MARKS)
    if every > 1:
        notes.append(f"One of {every} values of {line} is drawn, evenly spaced.")
        kept = set(places[::every])
        rows = [row for row in rows if marks[row] in kept]
    return sorted(rows, key=lambda row: marks[row]), notes


def _finite(at: Any) -> bool:
    return not isinstance(at, float) or math.isfinite(at)


def _panel(keys: pl.DataFrame, line: str | None, output: PublishedColumn) -> Spec:
    lines = row_names(keys if line is None else keys.drop(line))
    marks = [None] * len(lines) if line is None else keys[line].to_list()
    numbers = zip(output.with_bars(), output.values, output.low, output.high, strict=True)
    values = [_mark(group, at, row) for group, at, row in zip(lines, marks, numbers, strict=True)]
    panel: Spec = {"data": {"values": values}, "width": WIDTH}
    if line is None:
        return panel | _by_name(", ".join(keys.columns), output.name)
    groups = [text(group) for group in dict.fromkeys(lines)]
    return panel | _along(line, keys[line], output.name, groups, len(values))


def _mark(group: str, at: Any, row: tuple[str, float, float, float]) -> dict[str, Any]:
    words, value, low, high = row
    ends = {"number": value, "low": low, "high": high}
    numbers = {name: number(float(end)) for name, end in ends.items()}
    return {"group": text(group), "at": _placed(at), "words": words, **numbers}


def _by_name(keys: str, name: str) -> Spec:
    group = names("group", text(keys) if keys else None)
    shown = tooltip(group=text(keys) or "rows", words=text(name))
    at = quantity("number", text(name), scale={"zero": False})
    bar: Spec = {"y": group, "x": at | {"field": "low"}, "x2": {"field": "high"}, "tooltip": shown}
    dot: Spec = {"y": group, "x": at, "tooltip": shown}
    return {"height": {"step": ROW}, "layer": _bar_and_dot(bar, dot)}


def _bar_and_dot(bar: Spec, dot: Spec, aside: float = 0.0, group: str = "") -> list[Spec]:
    """Return bars with dots, moved aside by that many pixels; those of one group if it is named."""
    only = {"transform": [{"filter": {"field": "group", "equal": group}}]} if group else {}
    rule = {"type": "rule", "strokeWidth": 2, "color": FIRST, "xOffset": aside}
    point = {"type": "point", "filled": True, "opacity": 1, "color": FIRST, "xOffset": aside}
    return [{"mark": rule, "encoding": bar, **only}, {"mark": point, "encoding": dot, **only}]


def _along(line: str, marks: pl.Series, name: str, groups: Sequence[str], rows: int) -> Spec:
    shown = tooltip(at=text(line), group="group", words=text(name))
    value = quantity("number", text(name), scale={"zero": False})
    own: Spec = {"x": _axis_of(line, marks), "tooltip": shown}
    if len(groups) > 1:
        kind = {"field": "group", "type": "nominal", "title": None, "sort": None}
        scale = {"domain": list(groups), "range": list(COLOURS[: len(groups)])}
        own["color"] = {**kind, "scale": scale, "legend": {"labelLimit": 240}}
    bar = own | {"y": value | {"field": "low"}, "y2": {"field": "high"}}
    dot = own | {"y": value}
    if rows > _MOST_BARS * len(groups):
        band = {"mark": {"type": "area", "opacity": 0.25, "color": FIRST}, "encoding": bar}
        curve = {"mark": {"type": "line", "strokeWidth": 1.5, "color": FIRST}, "encoding": dot}
        return {"height": 180, "layer": [band, curve]}
    if len(groups) == 1:
        return {"height": 180, "layer": _bar_and_dot(bar, dot)}
    layers = [
        _bar_and_dot(bar, dot, _ASIDE * (place - (len(groups) - 1) / 2), group)
        for place, group in enumerate(groups)
    ]
    return {"height": 180, "layer": [mark for own in layers for mark in own]}


def _axis_of(line: str, marks: pl.Series) -> Spec:
    """Return the horizontal axis; moments with a zone are shown by its clock, and the title names it."""
    zone = getattr(marks.dtype, "time_zone", None)
    title = text(f"{line} ({zone})" if zone else line)
    if marks.dtype.is_temporal():
        most = {"tickCount": min(marks.n_unique(), 10)}
        own = {"field": "at", "type": "temporal", "title": title}
        return {**own, "axis": most, "scale": {"padding": 12}}
    whole = {"axis": {"tickMinStep": 1, "format": "d"}} if marks.dtype.is_integer() else {}
    return quantity("at", title, scale={"zero": False, "padding": 12}, **whole)


def _placed(at: Any) -> Any:
    """Return a place on the axis as JSON has it: a moment by its clock, which a browser shows unchanged."""
    if isinstance(at, datetime):
        return at.replace(tzinfo=None).isoformat()
    if isinstance(at, date):
        return f"{at.isoformat()}T00:00:00"
    return float(at) if isinstance(at, Decimal) else at


def _gaps(outputs: Sequence[PublishedColumn]) -> list[str]:
    """Return notes on what cannot be drawn: error bars without an end, and numbers that are missing."""
    endless = sum(int(np.isinf(output.half).sum()) for output in outputs)
    absent = sum(int(np.isnan(output.values).sum()) for output in outputs)
    said = list[str]()
    if endless:
        said.append(
            f"{counted(endless, 'error bar has', 'error bars have')} no end and are not drawn."
        )
    if absent:
        said.append(f"{counted(absent, 'number is', 'numbers are')} missing.")
    return said


def _describe(output: PublishedColumn) -> str:
    values = output.values[np.isfinite(output.values)]
    if not len(values):
        return f"{output.name}: no number."
    if len(values) == 1:
        return f"{output.name}: {output.with_bars()[int(np.isfinite(output.values).argmax())]}."
    ends = f"from {plain(float(values.min()))} to {plain(float(values.max()))}"
    halves = output.half[np.isfinite(output.half)]
    bars = f", error bars of about ± {plain(float(np.median(halves)), 2)}" if len(halves) else ""
    return f"{output.name}: {counted(len(values), 'number')} {ends}{bars}."
