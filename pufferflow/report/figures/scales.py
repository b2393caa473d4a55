"""Axes: where marks stand, and how a row of marks with names above them is laid out."""

import math
from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferflow.report.figures.canvas import CALM, INK, LETTER, QUIET, RULE, SMALL, WIDTH, Sheet
from pufferflow.report.markup import ELLIPSIS
from pufferflow.report.numbers import power, ticks

Floats = npt.NDArray[np.float64]
LARGEST = 1e290
"""Beyond this, differences of floats are not safe: drawn as if without end."""


def bounded(values: Floats) -> Floats:
    """Return the numbers that can be drawn, without the others."""
    return values[np.isfinite(values) & (np.abs(values) < LARGEST)]


def room(values: Floats, share: float = 0.06) -> tuple[float, float]:
    """Return the ends of an axis with room for all values, from 0 if that is not far away."""
    values = bounded(values)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if 0 < low < 0.6 * high:
        low = 0.0
    if 0.6 * low < high < 0:
        high = 0.0
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        size = abs(high) or 1.0
        return low - size / 2, high + size / 2
    edge = (high - low) * share
    return low - edge * (low != 0), high + edge * (high != 0)


def number_axis(  # noqa: PLR0913 - an axis, in parts
    axes: Any,
    *,
    across: bool,
    limits: tuple[float, float],
    most: int = 5,
    zero: bool = True,
    whole: bool = False,
) -> None:
    """Set limits, few round marks (of what is counted `whole` ones), and thin lines at these; a stronger one at 0."""
    from matplotlib.ticker import MaxNLocator

    low, high = limits
    places = MaxNLocator(nbins=most, steps=[1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10], integer=whole)
    found: list[float] = [mark for mark in map(float, places.tick_values(low, high)) if not whole or mark.is_integer()]
    slack = (high - low) * 1e-9
    marks = [mark for mark in found if low - slack <= mark <= high + slack]
    (axes.set_xlim if across else axes.set_ylim)(low, high)
    (axes.set_xticks if across else axes.set_yticks)(marks, labels=ticks(marks))
    axes.grid(visible=True, axis="x" if across else "y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    if zero and low < 0 < high:
        (axes.axvline if across else axes.axhline)(0, color=CALM, linewidth=0.8)


def ratio_axis(axes: Any, values: Floats) -> None:
    """Make an axis for positive numbers of very different sizes, marked at powers of ten; it ends below the least."""
    positive = bounded(values)
    positive = positive[positive > 0]
    low = math.floor(math.log10(float(positive.min())) - 0.3)
    high = math.log10(float(positive.max())) + 0.1
    axes.set_xscale("log")
    axes.set_xlim(10.0**low, 10.0**high)
    step = max(round((high - low) / 5), 1)
    exponents = range(low, math.floor(high) + 1, step)
    axes.set_xticks([10.0**exponent for exponent in exponents], labels=list(map(power, exponents)))
    axes.minorticks_off()
    axes.grid(visible=True, axis="x", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)


def bar_row(sheet: Sheet, top: float, name: str, value: str, colour: str = INK) -> None:
    """Write a name at the left and a number at the right, for a bar below; long names are cut."""
    most = max(int((WIDTH - LETTER * len(value) - 24) / LETTER), 8)
    sheet.write(0, top, sheet.outside(name, most), color=INK)
    sheet.write(WIDTH, top, value, color=colour, ha="right")


def axis_name(sheet: Sheet, top: float, words: str, x: float = 0.0, **look: Any) -> None:
    """Write what an axis shows, small."""
    sheet.write(x, top, words, **({"fontsize": SMALL, "color": QUIET} | look))


def axis_lines(words: str, most: int) -> list[str]:
    """Return what an axis shows on one line, or on two if it is long.

    >>> axis_lines("what the rows of one meter add to load", 24)
    ['what the rows of one', 'meter add to load']
    """
    return wrap(words, most, max_lines=2, placeholder=ELLIPSIS) or [""]


def spread(values: Floats) -> bool:
    """Say whether positive numbers are so different that only ratios can be shown."""
    found = values[(values > 0) & np.isfinite(values)]
    return bool(len(found)) and math.log10(float(found.max())) - math.log10(float(found.min())) > 1.5
