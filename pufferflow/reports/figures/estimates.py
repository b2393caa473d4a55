"""Published numbers with their error bars: a panel for each output, over time, numbers or names."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.reports.figures.canvas import (
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
from pufferflow.reports.numbers import counted, days, plain
from pufferflow.reports.outputs import MOST_PANELS, Panel, is_date, shown

_MOST_BARS, _MOST_NAMES, _MOST_STEPS = 45, 32, 200
_LEFT, _HEIGHT, _ROW, _ROW_WITH_NAME, _GUTTER = 66.0, 132.0, 26.0, 40.0, 15
_SHEET = 450.0


def estimates_figure(panels: Sequence[Panel], rough: Sequence[str] = ()) -> str:
    """Return the figures of a release's numbers, each at most a sheet of paper high; `rough` names outputs.

    The error bars of these hold with 95 % or more.
    """
    shown_panels = list(panels[:MOST_PANELS])
    figures, height = [list[Panel]()], 0.0
    for panel in shown_panels:
        if figures[-1] and height + _height(panel) > _SHEET:  # on paper a figure does not break
            figures.append([])
            height = 0.0
        figures[-1].append(panel)
        height += _height(panel)
    captions = [*[""] * (len(figures) - 1), _caption(shown_panels, len(panels), rough)]
    names = ["", *[f"numbers-{place}" for place in range(2, len(figures) + 1)]]
    made = zip(figures, names, captions, strict=True)
    return reduce(add, (_figure(own, shown_panels, name, caption) for own, name, caption in made))


def _figure(own: Sequence[Panel], panels: Sequence[Panel], name: str, caption: str) -> str:
    """Return the figure of its `own` panels, one below the other, with the axes of all `panels`."""

    def paint(sheet: Sheet) -> None:
        top = 0.0
        for panel in own:
            _paint(sheet, panel, top, _limits(panel, panels))
            top += _height(panel)

    description = " ".join(map(_describe, own))
    words = Words("numbers", "Published numbers with their error bars", description, caption, name)
    return figure(words, sum(map(_height, own)), paint)


def _height(panel: Panel) -> float:
    if _lined(panel):
        return _HEIGHT + 82
    return (
        46
        + len(panel.marks) * (_ROW if _names_aside(panel) else _ROW_WITH_NAME)
        + 22 * bool(panel.title)
    )


def _names_aside(panel: Panel) -> bool:
    """Return whether names are short enough for the left margin."""
    return max(len(shown(mark)) for mark in panel.marks) <= _GUTTER


def _lined(panel: Panel) -> bool:
    return panel.at is not None or len(panel.marks) > _MOST_NAMES


def _limits(panel: Panel, panels: Sequence[Panel]) -> tuple[float, float]:
    """Return the limits of an axis, the same for all panels of an output."""
    same = [other.output for other in panels if other.output.name == panel.output.name]
    return room(
        np.concatenate(
            [part for output in same for part in (output.values, output.low, output.high)]
        )
    )


def _paint(sheet: Sheet, panel: Panel, top: float, limits: tuple[float, float]) -> None:
    if panel.title:
        sheet.write(0, top + 14, sheet.outside(panel.title, 44), fontweight="bold", color=INK)
        top += 22
    if _lined(panel):
        _paint_line(sheet, panel, top, limits)
    else:
        _paint_rows(sheet, panel, top, limits)


def _paint_line(sheet: Sheet, panel: Panel, top: float, limits: tuple[float, float]) -> None:
    right, dated = 10.0, panel.at is not None and is_date(panel.marks[0])
    if dated:  # the label of the last mark is centred below it
        right = max(right, LETTER / 2 * len(days([panel.marks[0], panel.marks[-1]])[-1]) - 10)
    axes = sheet.panel(top + 6, _HEIGHT, left=_LEFT, right=right)
    number_axis(axes, across=False, limits=limits, most=5, whole=panel.counts)
    at, output, name = panel.at, panel.output, panel.axis
    if at is None:
        order = np.argsort(-np.nan_to_num(output.values, nan=-np.inf), kind="stable").tolist()
        at, output = np.arange(1, len(order) + 1, dtype=np.float64), output.at(order)
        name = f"{len(panel.marks):,} groups, the largest number first"
    values, low, high = output.values, np.clip(output.low, *limits), np.clip(output.high, *limits)
    if len(at) <= _MOST_BARS:
        axes.vlines(at, low, high, color=FIRST, linewidth=1.6)
        axes.plot(at, values, "o", color=FIRST, markersize=4.2)
    else:
        _band(axes, at, values, low, high)
    edge = (float(at[-1]) - float(at[0])) * 0.04 or 1.0
    axes.set_xlim(float(at[0]) - edge, float(at[-1]) + edge)
    axes.tick_params(axis="x", pad=9)
    if dated:
        widest = max(map(len, days([panel.marks[0], panel.marks[-1]])))
        places = _spaced(at, LETTER * widest + 8)
        axes.set_xticks(
            [float(at[k]) for k in places], labels=days([panel.marks[k] for k in places])
        )
    else:
        whole = panel.at is None or all(isinstance(mark, int) for mark in panel.marks)
        number_axis(axes, across=True, limits=axes.get_xlim(), most=6, zero=False, whole=whole)
        axes.grid(visible=False, axis="x")
    axis_name(sheet, top + _HEIGHT + 46, sheet.outside(name, 50), x=_LEFT)


def _band(axes: Any, *line: Floats) -> None:
    """Draw a line with a band; of very many marks each step shows its extremes."""
    at, values, low, high = line
    if len(at) <= 2 * _MOST_STEPS:
        axes.fill_between(at, low, high, color=FIRST, alpha=0.22, linewidth=0)
        axes.plot(at, values, color=FIRST, linewidth=1.3)
        return
    starts = np.linspace(0, len(at), _MOST_STEPS, endpoint=False).astype(int)
    steps = at[starts]
    axes.fill_between(
        steps,
        np.fmin.reduceat(low, starts),
        np.fmax.reduceat(high, starts),
        color=FIRST,
        alpha=0.22,
        lw=0,
    )
    least, largest = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    axes.fill_between(steps, least, largest, color=FIRST, alpha=0.85, linewidth=0.8)


def _spaced(at: Floats, width: float) -> list[int]:
    """Return the marks that get a label of this width: the first, the last, and what fits evenly between."""
    across = WIDTH - _LEFT - 24
    most = max(int(across / width), 1)
    parts = next(
        (parts for parts in range(most, most // 2, -1) if (len(at) - 1) % parts == 0), most
    )
    wanted = np.linspace(float(at[0]), float(at[-1]), parts + 1)
    nearest: list[int] = np.unique(np.abs(at[None, :] - wanted[:, None]).argmin(axis=1)).tolist()
    pixel = (float(at[-1]) - float(at[0])) / across
    places = nearest[-1:]
    for place in reversed(nearest[:-1]):
        if at[places[0]] - at[place] >= 0.9 * width * pixel:
            places.insert(0, place)
    return places


def _paint_rows(sheet: Sheet, panel: Panel, top: float, limits: tuple[float, float]) -> None:
    names, aside = list(map(shown, panel.marks)), _names_aside(panel)
    left, step, centre = (
        (LETTER * max(map(len, names)) + 14, _ROW, 0.5) if aside else (8.0, _ROW_WITH_NAME, 0.7)
    )
    axes = sheet.panel(top + 4, len(names) * step, left=left, right=10)
    number_axis(axes, across=True, limits=limits, whole=panel.counts)
    axes.set_ylim(len(names), 0)
    axes.set_yticks([])
    rows = np.arange(len(names)) + centre
    low, high = (np.clip(end, *limits) for end in (panel.output.low, panel.output.high))
    axes.hlines(rows, low, high, color=FIRST, linewidth=1.8)
    axes.plot(panel.output.values, rows, "o", color=FIRST, markersize=5)
    for place, name in enumerate(names):
        down = top + 4 + place * step + (step / 2 + 4 if aside else 13)
        sheet.write(0, down, sheet.outside(name, _GUTTER if aside else 44))


def _caption(panels: Sequence[Panel], all_panels: int, rough: Sequence[str]) -> str:
    lines = [panel for panel in panels if _lined(panel)]
    mark = "A dot is what was published, the line through it its error bar"
    if any(len(panel.marks) > _MOST_BARS for panel in lines):
        mark = "The line is what was published, the band around it its error bar"
    parts = [
        f"{mark}: in 95 of 100 cases it holds the number without noise{_roughly(panels, rough)}."
    ]
    thin = max((len(panel.marks) for panel in lines), default=0) // _MOST_STEPS
    if thin > 2:
        rows = counted(thin, "row")
        parts.append(
            f"One step of the line stands for about {rows}, and goes from the least to the largest of them."
        )
    if any(_limits(panel, panels)[0] > 0 for panel in panels):
        parts.append("Axes do not all begin at 0.")
    endless = sum(int(np.isinf(panel.output.half).sum()) for panel in panels)
    if endless:
        parts.append(
            f"{counted(endless, 'error bar has', 'error bars have')} no end: drawn to the edge."
        )
    missing = sum(int(np.isnan(panel.output.values).sum()) for panel in panels)
    if missing:
        parts.append(f"{counted(missing, 'number is', 'numbers are')} missing.")
    if all_panels > len(panels):
        parts.append(
            f"The first {len(panels)} of {all_panels:,} panels; all numbers are in the table."
        )
    return " ".join(parts)


def _roughly(panels: Sequence[Panel], rough: Sequence[str]) -> str:
    """Name the outputs whose error bars hold with 95 % or more."""
    drawn = {panel.output.name for panel in panels} | {
        mark for panel in panels for mark in map(shown, panel.marks)
    }
    names = [name for name in rough if name in drawn]
    return f" (in 95 or more for {', '.join(names)})" if names else ""


def _describe(panel: Panel) -> str:
    output, name = panel.output, panel.title or panel.output.name
    values, halves = bounded(output.values), bounded(output.half)
    if not len(values):
        return f"{name}: no number that could be drawn."
    if len(values) == 1:
        ends = output.at([int(np.isfinite(output.values).argmax())]).intervals()[0]
        return f"{name}: {plain(float(values[0]))}, with an error bar from {ends}."
    many = f"{name}: {counted(len(values), 'number')} from {plain(float(values.min()))} to {plain(float(values.max()))}"
    bars = (
        f", error bars of about {plain(float(np.median(halves)), 2)} either way"
        if len(halves)
        else ""
    )
    return f"{many}{bars}."
