"""What was published, with its error bars: a small picture for each output, over time, numbers or names."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.report.figures.canvas import (
    FIRST,
    INK,
    LETTER,
    WIDTH,
    Sheet,
    Words,
    axis_name,
    bounded,
    figure,
    number_axis,
    room,
)
from pufferflow.report.numbers import counted, days, plain, span
from pufferflow.report.outputs import MOST_PANELS, Panel, shown, when

_MOST_BARS, _MOST_NAMES, _MOST_STEPS = 45, 32, 200
_LEFT, _HEIGHT, _ROW, _GUTTER = 66.0, 132.0, 26.0, 15
_SHEET = 450.0


def estimates_figure(panels: Sequence[Panel], rough: Sequence[str] = ()) -> str:
    """Return the figures of a release's numbers, none higher than a sheet of paper; error bars may be `rough`."""
    kept = list(panels[:MOST_PANELS])
    sheets = _sheets(kept)
    caption = _caption(kept, len(panels), rough)
    last = len(sheets)
    return "".join(_one(some, kept, place, caption * (place == last)) for place, some in enumerate(sheets, 1))


def _sheets(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Return the pictures that stand below each other in one figure: on paper a figure does not break."""
    found, height = [list[Panel]()], 0.0
    for panel in panels:
        if found[-1] and height + _height(panel) > _SHEET:
            found.append([])
            height = 0.0
        found[-1].append(panel)
        height += _height(panel)
    return found


def _one(some: Sequence[Panel], panels: Sequence[Panel], place: int, caption: str) -> str:
    heights = [_height(panel) for panel in some]

    def paint(sheet: Sheet) -> None:
        top = 0.0
        for panel, height in zip(some, heights, strict=True):
            _paint(sheet, panel, top, _limits(panel, panels))
            top += height

    told = " ".join(_told(panel) for panel in some)
    name = "" if place == 1 else f"numbers-{place}"
    return figure(Words("numbers", "Published numbers with their error bars", told, caption, name), sum(heights), paint)


def _height(panel: Panel) -> float:
    if _lined(panel):
        return _HEIGHT + 82
    return 46 + len(panel.marks) * _row_height(panel) + 22 * bool(panel.title)


def _row_height(panel: Panel) -> float:
    return _ROW if _gutter(panel) else _ROW + 14


def _gutter(panel: Panel) -> bool:
    return max(len(shown(mark)) for mark in panel.marks) <= _GUTTER


def _lined(panel: Panel) -> bool:
    return panel.at is not None or len(panel.marks) > _MOST_NAMES


def _limits(panel: Panel, panels: Sequence[Panel]) -> tuple[float, float]:
    """Give panels of the same output the same axis, so that they can be compared."""
    same = [one.output for one in panels if one.output.name == panel.output.name]
    return room(np.concatenate([part for output in same for part in (output.values, output.low, output.high)]))


def _paint(sheet: Sheet, panel: Panel, top: float, limits: tuple[float, float]) -> None:
    if panel.title:
        sheet.write(0, top + 14, sheet.outside(panel.title, 44), fontweight="bold", color=INK)
        top += 22
    if _lined(panel):
        _paint_line(sheet, panel, top, limits)
    else:
        _paint_rows(sheet, panel, top, limits)


def _paint_line(sheet: Sheet, panel: Panel, top: float, limits: tuple[float, float]) -> None:
    axes = sheet.panel(top + 6, _HEIGHT, left=_LEFT, right=_beyond(panel))
    number_axis(axes, across=False, limits=limits, most=5, whole=panel.counts)
    at, values, low, high = _line(panel)
    low, high = np.clip(low, *limits), np.clip(high, *limits)
    if len(at) <= _MOST_BARS:
        axes.vlines(at, low, high, color=FIRST, linewidth=1.6)
        axes.plot(at, values, "o", color=FIRST, markersize=4.2)
    else:
        _band(axes, at, values, low, high)
    edge = (float(at[-1]) - float(at[0])) * 0.04 or 1.0
    axes.set_xlim(float(at[0]) - edge, float(at[-1]) + edge)
    _mark(axes, panel)
    name = panel.axis if panel.at is not None else f"{len(panel.marks):,} groups, the largest number first"
    axis_name(sheet, top + _HEIGHT + 46, sheet.outside(name, 50), x=_LEFT)


def _band(axes: Any, *line: Floats) -> None:
    """Draw a line with a band; of very many marks each step shows the extremes of its own."""
    at, values, low, high = line
    if len(at) <= 2 * _MOST_STEPS:
        axes.fill_between(at, low, high, color=FIRST, alpha=0.22, linewidth=0)
        axes.plot(at, values, color=FIRST, linewidth=1.3)
        return
    starts = np.linspace(0, len(at), _MOST_STEPS, endpoint=False).astype(int)
    steps = at[starts]
    axes.fill_between(
        steps, np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts), color=FIRST, alpha=0.22, lw=0
    )
    least, largest = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    axes.fill_between(steps, least, largest, color=FIRST, alpha=0.85, linewidth=0.8)


def _line(panel: Panel) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the numbers along the axis: as they lie there, or the largest first."""
    output, at = panel.output, panel.at
    values, low, high = output.values, output.low, output.high
    if at is not None:
        return at, values, low, high
    order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")
    return np.arange(1, len(values) + 1, dtype=np.float64), values[order], low[order], high[order]


def _beyond(panel: Panel) -> float:
    """Return how much room the name of the last mark takes at the right."""
    if panel.at is None or not when(panel.marks[0]):
        return 10.0
    return max(10.0, LETTER / 2 * len(days([panel.marks[0], panel.marks[-1]])[-1]) - 10)


def _mark(axes: Any, panel: Panel) -> None:
    """Name a few marks below the axis."""
    axes.tick_params(axis="x", pad=9)
    if panel.at is None or not when(panel.marks[0]):
        low, high = axes.get_xlim()
        number_axis(axes, across=True, limits=(low, high), most=6, zero=False, whole=_whole_marks(panel))
        axes.grid(visible=False, axis="x")
        return
    marks: list[date] = list(panel.marks)
    widest = max(map(len, days([marks[0], marks[-1]])))
    places = _spaced(panel.at, LETTER * widest + 8)
    names = days([marks[place] for place in places])
    axes.set_xticks([float(panel.at[place]) for place in places], labels=names)


def _whole_marks(panel: Panel) -> bool:
    """Say whether places along the line are whole: those of whole numbers, and ranks."""
    return panel.at is None or all(isinstance(mark, int) for mark in panel.marks)


def _spaced(at: Floats, width: float) -> list[int]:
    """Return the marks that get a name of this width: the first, the last, and what fits evenly between."""
    across = WIDTH - _LEFT - 24
    most = max(int(across / width), 1)
    parts = next((parts for parts in range(most, most // 2, -1) if (len(at) - 1) % parts == 0), most)
    wanted = np.linspace(float(at[0]), float(at[-1]), parts + 1)
    found: list[int] = np.unique(np.abs(at[None, :] - wanted[:, None]).argmin(axis=1)).tolist()
    pixel = (float(at[-1]) - float(at[0])) / across
    kept = found[-1:]
    for place in reversed(found[:-1]):
        if at[kept[0]] - at[place] >= 0.9 * width * pixel:
            kept.insert(0, place)
    return kept


def _paint_rows(sheet: Sheet, panel: Panel, top: float, limits: tuple[float, float]) -> None:
    count, step, aside = len(panel.marks), _row_height(panel), _gutter(panel)
    left = LETTER * max(len(shown(mark)) for mark in panel.marks) + 14 if aside else 8.0
    axes = sheet.panel(top + 4, count * step, left=left, right=10)
    number_axis(axes, across=True, limits=limits, whole=panel.counts)
    axes.set_ylim(count, 0)
    axes.set_yticks([])
    rows = np.arange(count) + (0.5 if aside else 0.7)
    low, high = (np.clip(end, *limits) for end in (panel.output.low, panel.output.high))
    axes.hlines(rows, low, high, color=FIRST, linewidth=1.8)
    axes.plot(panel.output.values, rows, "o", color=FIRST, markersize=5)
    for place, mark in enumerate(panel.marks):
        down = top + 4 + place * step + (step / 2 + 4 if aside else 13)
        sheet.write(0, down, sheet.outside(shown(mark), _GUTTER if aside else 44))


def _caption(panels: Sequence[Panel], all_panels: int, rough: Sequence[str]) -> str:
    crowded = any(_lined(panel) and len(panel.marks) > _MOST_BARS for panel in panels)
    mark = (
        "The line is what was published, the band around it its error bar"
        if crowded
        else "A dot is what was published, the line through it its error bar"
    )
    parts = [f"{mark}: in 95 of 100 cases it holds the number without noise{_roughly(panels, rough)}."]
    thin = max((len(panel.marks) for panel in panels if _lined(panel)), default=0) // _MOST_STEPS
    if thin > 2:
        rows = counted(thin, "row")
        parts.append(f"One step of the line stands for about {rows}, and goes from the least to the largest of them.")
    if any(_limits(panel, panels)[0] > 0 for panel in panels):
        parts.append("Axes do not all begin at 0.")
    endless = sum(int(np.isinf(panel.output.half).sum()) for panel in panels)
    if endless:
        parts.append(f"{counted(endless, 'error bar has', 'error bars have')} no end: drawn to the edge.")
    missing = sum(int(np.isnan(panel.output.values).sum()) for panel in panels)
    if missing:
        parts.append(f"{counted(missing, 'number is', 'numbers are')} missing.")
    if all_panels > len(panels):
        parts.append(f"The first {len(panels)} of {all_panels:,} pictures; all numbers are in the table.")
    return " ".join(parts)


def _roughly(panels: Sequence[Panel], rough: Sequence[str]) -> str:
    """Name the outputs, drawn as panels or as marks, for which error bars hold the number more often."""
    drawn = {panel.output.name for panel in panels} | {mark for panel in panels for mark in map(shown, panel.marks)}
    names = [name for name in rough if name in drawn]
    return f" (in 95 or more for {', '.join(names)})" if names else ""


def _told(panel: Panel) -> str:
    values, halves = bounded(panel.output.values), bounded(panel.output.half)
    name = panel.title or panel.output.name
    if not len(values):
        return f"{name}: no number that could be drawn."
    if len(values) == 1:
        place = int(np.flatnonzero(np.isfinite(panel.output.values))[0])
        ends = span(float(panel.output.low[place]), float(panel.output.high[place]))
        return f"{name}: {plain(float(values[0]))}, with an error bar from {ends}."
    many = f"{name}: {counted(len(values), 'number')} from {plain(float(values.min()))} to {plain(float(values.max()))}"
    return (
        f"{many}, error bars of about {plain(float(np.median(halves)), 2)} either way." if len(halves) else f"{many}."
    )
