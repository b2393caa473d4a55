"""Expected error bars of a plan: how far noise may move each output, before anything is read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pufferflow.report.evidence import Cell
from pufferflow.report.figures.canvas import CALM, FIRST, QUIET, Sheet, Words, figure
from pufferflow.report.figures.scales import bar_row, bounded, number_axis, ratio_axis, room, spread
from pufferflow.report.numbers import plain

_ROW, _MOST = 46.0, 12


def widths_figure(cells: Sequence[Cell]) -> str:
    """Return the figure of half widths, one row for each output; nothing if no width is known beforehand."""
    found = dict[str, list[float]]()
    for cell in cells:
        if cell.interval_95 is not None:
            found.setdefault(cell.query, []).append(cell.interval_95)
    rows = [(name, min(halves), max(halves)) for name, halves in list(found.items())[:_MOST]]
    if not rows:
        return ""
    more = f" The first {_MOST} of {len(found):,} outputs." if len(found) > _MOST else ""
    uneven = spread(np.array([high for _, _, high in rows]))
    ratios = " The axis grows in powers of ten." if uneven else ""
    words = Words(
        "numbers",
        title="How wide the error bars will be",
        told=" ".join(f"{name}: plus or minus {_width(low, high)}." for name, low, high in rows),
        caption=(
            "How far noise may move each number up or down, in 95 of 100 cases, in the unit of the number. "
            f"This is known before anything is read.{ratios}{more}"
        ),
    )
    return figure(words, _ROW * len(rows) + 46, lambda sheet: _paint(sheet, rows))


def _paint(sheet: Sheet, rows: Sequence[tuple[str, float, float]]) -> None:
    top = 18.0
    axes = sheet.panel(top, _ROW * len(rows), left=10, right=10)
    highest = np.array([high for _, _, high in rows])
    if spread(highest):
        _paint_ratios(sheet, axes, rows, top)
        return
    largest = bounded(highest)
    edge = room(np.append(largest, -largest), 0.04)[1]
    number_axis(axes, across=True, limits=(-edge, edge))
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    for row, (name, low, high) in enumerate(rows):
        for width, colour, line in ((high, CALM if low < high else FIRST, 1.8), (low, FIRST, 2.4)):
            shown = min(width, edge)
            axes.hlines(row + 0.7, -shown, shown, color=colour, linewidth=line)
            axes.plot([-shown, shown], [row + 0.7] * 2, "|", color=colour, markersize=9, markeredgewidth=line)
        axes.plot([0], [row + 0.7], "o", color=FIRST, markersize=4.5)
        bar_row(sheet, top + row * _ROW + 19, name, f"± {_width(low, high)}", colour=QUIET)


def _paint_ratios(sheet: Sheet, axes: Any, rows: Sequence[tuple[str, float, float]], top: float) -> None:
    """Draw widths of very different sizes as bars to one side."""
    ratio_axis(axes, np.array([end for _, *ends in rows for end in ends]))
    start, edge = axes.get_xlim()
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    for row, (name, low, high) in enumerate(rows):
        for width, colour in ((high, CALM), (low, FIRST)):
            axes.barh(row + 0.7, min(width, edge) - start, left=start, height=0.24, color=colour, linewidth=0)
        bar_row(sheet, top + row * _ROW + 19, name, f"± {_width(low, high)}", colour=QUIET)


def _width(low: float, high: float) -> str:
    ends = plain(low, 3), plain(high, 3)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
