"""A square of distances: how far apart the laws of the answer lie under every two values of the secret."""

from typing import Any, Final

from pufferflow.reports.evidence import ValueDistances
from pufferflow.reports.figures.canvas import (
    FIRST,
    INK,
    QUIET,
    RULE,
    SMALL,
    WIDTH,
    Sheet,
    Words,
    figure,
)
from pufferflow.reports.numbers import plain

_LEFT, _TOP, _LOW = 92.0, 34.0, 14.0
_MOST_SIDE: Final = 34.0
_LETTERS: Final = 11
_SHORT: Final = 5
_PALE, _STRONG = 0.06, 0.5
"""How much colour the shortest and the longest distance have; numbers stay legible on both."""


def square_figure(distances: ValueDistances | None) -> str:
    """Return the square, darkest where noise has most to hide; empty if there is none, or all are equal to 0."""
    if distances is None or not _longest(distances):
        return ""
    words = Words(
        "square",
        title="How far the laws of the answer lie apart, by value of the secret",
        description=_describe(distances),
        caption=_caption(distances),
    )
    height = _TOP + _side(distances) * len(distances.values) + _LOW
    return figure(words, height, lambda sheet: _paint(sheet, distances))


def _longest(distances: ValueDistances) -> float:
    return max((length or 0.0 for row in distances.w_inf for length in row), default=0.0)


def _side(distances: ValueDistances) -> float:
    """Return the side of a cell in pixels."""
    return min((WIDTH - _LEFT) / len(distances.values), _MOST_SIDE)


def _describe(distances: ValueDistances) -> str:
    lengths = [
        f"{first} against {second}: {plain(length)}."
        for place, (first, row) in enumerate(zip(distances.values, distances.w_inf, strict=True))
        for second, length in zip(distances.values[:place], row[:place], strict=True)
        if length is not None
    ]
    return " ".join(lengths)


def _caption(distances: ValueDistances) -> str:
    where = "" if distances.position is None else f", at position {plain(distances.position)}"
    known = f"W_∞ between the laws of the answer under two values of the secret{where}."
    left_out = any(length is None for row in _below(distances) for length in row)
    return (
        f"{known} A dash: the two are not paired, or one is impossible there."
        if left_out
        else known
    )


def _below(distances: ValueDistances) -> list[tuple[float | None, ...]]:
    """Return the rows of the square below its diagonal."""
    return [row[:place] for place, row in enumerate(distances.w_inf)]


def _paint(sheet: Sheet, distances: ValueDistances) -> None:
    side, longest = _side(distances), _longest(distances)
    count = len(distances.values)
    axes = sheet.panel(_TOP, side * count, left=_LEFT, right=WIDTH - _LEFT - side * count)
    axes.set(xlim=(0, count), ylim=(count, 0), xticks=[], yticks=[])
    for place, name in enumerate(distances.values):
        middle = (place + 0.5) * side
        sheet.write(
            _LEFT - 8, _TOP + middle + 4, sheet.outside(name, _LETTERS), fontsize=SMALL, ha="right"
        )
        short = sheet.outside(name, _SHORT)
        sheet.write(_LEFT + middle, _TOP - 8, short, fontsize=SMALL, ha="center")
    for down, row in enumerate(distances.w_inf):
        for across, length in enumerate(row):
            if across != down:
                _paint_cell(axes, (across, down), length, longest)


def _paint_cell(axes: Any, place: tuple[int, int], length: float | None, longest: float) -> None:
    """Paint one cell: its colour is the share of the longest distance, its number the distance."""
    from matplotlib.patches import Rectangle

    across, down = place
    share = (length or 0.0) / longest
    axes.add_patch(Rectangle(place, 1, 1, facecolor="none", edgecolor=RULE, linewidth=0.8))
    if length is not None:
        strength = _PALE + (_STRONG - _PALE) * share
        axes.add_patch(Rectangle(place, 1, 1, facecolor=FIRST, alpha=strength, linewidth=0))
    colour = QUIET if length is None else INK
    number = "–" if length is None else f"{length:.3g}"
    axes.text(
        across + 0.5, down + 0.5, number, color=colour, fontsize=SMALL - 1, ha="center", va="center"
    )
