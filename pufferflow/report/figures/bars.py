"""Bars below each other, each with its name at the left and what it stands for at the right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pufferflow.report.figures.canvas import CALM, FIRST, INK, QUIET, Sheet, Words, figure
from pufferflow.report.figures.scales import bar_row, number_axis, ratio_axis, spread

_ROW: Final = 44.0
_TOP: Final = 16.0


@final
@dataclass(frozen=True)
class Bar:
    """A bar: its name, its length, what is written beside it, and whether it is the plan's own."""

    name: str
    length: float
    label: str
    own: bool = False


def bars_figure(words: Words, bars: Sequence[Bar], line: float | None = None) -> str:
    """Return the figure of some bars; a dashed `line` to compare them with, if there is one."""
    return figure(words, _ROW * len(bars) + 44, lambda sheet: _paint(sheet, bars, line))


def uneven(lengths: Sequence[float]) -> str:
    """Return what a caption says of an axis for lengths that are very different, else nothing."""
    return " The axis grows in powers of ten." if spread(np.array(lengths)) else ""


def _paint(sheet: Sheet, bars: Sequence[Bar], line: float | None) -> None:
    axes = sheet.panel(_TOP, _ROW * len(bars), right=12)
    lengths = np.array([bar.length for bar in bars])
    if spread(lengths):
        ratio_axis(axes, lengths)
    else:
        number_axis(axes, across=True, limits=(0.0, 1.06 * max(float(lengths.max()), line or 0.0)))
    axes.get_xticklabels()[0].set_ha("left")
    start = axes.get_xlim()[0]
    if line is not None:
        axes.axvline(line, color=CALM, linewidth=1.0, linestyle=(0, (2, 2)))
    axes.set_ylim(len(bars), 0)
    axes.set_yticks([])
    for row, bar in enumerate(bars):
        colour = FIRST if bar.own else CALM
        axes.barh(row + 0.68, bar.length - start, left=start, height=0.26, color=colour, linewidth=0)
        bar_row(sheet, _TOP + row * _ROW + 18, bar.name, bar.label, colour=INK if bar.own else QUIET)
