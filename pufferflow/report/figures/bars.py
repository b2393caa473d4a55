"""Bars below each other, each with its name at the left and what it stands for at the right.

The same promise under other bounds: how much more noise each would ask for.

The same promise under three models of how rows hang together: not at all, as the plan believes, in any way.

Noise against signal as bars: the part of a number that noise may make up.

Expected error bars of a plan: how far noise may move each output, before anything is read.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from pufferflow.report.evidence import GROUP_PRIVACY, ORDINARY, BoundRow, Cell
from pufferflow.report.figures.canvas import (
    CALM,
    FIRST,
    INK,
    QUIET,
    RULE,
    WARN,
    Sheet,
    Words,
    bar_row,
    bounded,
    figure,
    number_axis,
    ratio_axis,
    room,
    spread,
)
from pufferflow.report.numbers import percent, plain
from pufferflow.report.outputs import Share

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


_MOST = 14
_CALLED = re.compile(r"(\w+)\(((?:\w+=[^=,()]+(?:, )?)*)\)")
_USUAL = {"None", "False"}


@final
@dataclass(frozen=True)
class Compared:
    """One bound: its noise in multiples of the plan's own, None where it gives none."""

    bound: str
    times: float | None
    chosen: bool
    note: str
    worked_out: bool = True

    @property
    def drawn(self) -> bool:
        """Whether the bound can be compared with others: it was worked out, and gives a noise."""
        return self.worked_out and self.times is not None and math.isfinite(self.times)


def compared(rows: Sequence[BoundRow]) -> list[Compared]:
    """Return each bound once, the least noise first, then those that were not worked out or refuse.

    Noise of all outputs grows together. Ordinary differential privacy is no bound of the loss here, and is left out.
    """
    found = dict[str, list[BoundRow]]()
    for row in rows:
        if row.bound == ORDINARY:
            continue
        found.setdefault(row.bound, []).append(row)
    each = [_one(bound, same) for bound, same in found.items()]
    return sorted(each, key=lambda one: (one.times is None, not one.worked_out, one.times or 0.0, not one.chosen))


def _one(bound: str, rows: Sequence[BoundRow]) -> Compared:
    times = max((row.times for row in rows if row.times is not None), default=None)
    notes = dict.fromkeys(row.note for row in rows if row.note)
    return Compared(
        bound, times, any(row.chosen for row in rows), "; ".join(notes), all(row.worked_out for row in rows)
    )


def bounds_figure(rows: Sequence[BoundRow]) -> str:
    """Return the figure of the bounds that were worked out and give a noise; nothing if none is comparable."""
    kept = [one for one in compared(rows) if one.drawn][:_MOST]
    if not kept:
        return ""
    times = [one.times or 0.0 for one in kept]
    words = Words(
        "bounds",
        title="Noise that the same promise asks for under each bound",
        told=" ".join(f"{bound_name(one.bound)}: {_times(one)}." for one in kept),
        caption=(
            "How much noise the same promise would take if it were worked out in another way, in multiples of the "
            f"noise of this plan. A longer bar means more noise for no more privacy.{uneven(times)}"
        ),
    )
    bars = [Bar(bound_name(one.bound), one.times or 0.0, _times(one), own=one.chosen) for one in kept]
    return bars_figure(words, bars, line=1.0)


def bound_name(bound: str) -> str:
    """Return a bound as it is called, without the arguments that are as usual.

    >>> bound_name("GAWM(delta=5e-07, norm=None, as_printed=False)"), bound_name("Quilt(approximate=True)")
    ('GAWM (delta 5e-07)', 'Quilt (approximate)')
    """
    found = _CALLED.fullmatch(bound)
    if found is None:
        return bound
    told = [one.split("=", 1) for one in filter(None, found[2].split(", "))]
    kept = [name if value == "True" else f"{name} {value}" for name, value in told if value not in _USUAL]
    return f"{found[1]} ({', '.join(kept)})" if kept else found[1]


def _times(one: Compared) -> str:
    if one.chosen:
        return "this plan"
    times = plain(one.times, 3)
    return "as much" if times == "1" else f"{times} times"


THIS_PLAN = "this plan"


@final
@dataclass(frozen=True)
class Model:
    """The noise that a promise asks for on one output under a model, and a note on what that keeps here."""

    name: str
    output: str
    scale: float
    note: str = ""


def models_of(rows: Sequence[BoundRow]) -> list[Model]:
    """Return what ordinary differential privacy, the plan and group privacy ask of the plan's first output."""
    own = next((row for row in rows if row.chosen and row.scale), None)
    if own is None:
        return []
    known = {row.bound: row for row in rows if row.query == own.query and row.worked_out}
    named = ((ORDINARY, known.get(ORDINARY)), (THIS_PLAN, own), (GROUP_PRIVACY, known.get(GROUP_PRIVACY)))
    return [
        Model(name, row.query, row.scale, "" if row is own else row.note)
        for name, row in named
        if row is not None and row.scale is not None and np.isfinite(row.scale)
    ]


def models_figure(models: Sequence[Model]) -> str:
    """Return the figure; nothing if there is only the plan itself."""
    if len(models) < 2:
        return ""
    words = Words(
        "models",
        title="Noise that the same promise takes, by how much is believed of how rows hang together",
        told=" ".join(f"{model.name}: noise of scale {plain(model.scale)} on {model.output}." for model in models),
        caption=(
            f"The scale of the noise on {models[0].output} that the same promise takes, in the unit of the answer; on "
            f"other outputs noise grows alike.{uneven([model.scale for model in models])}"
        ),
    )
    bars = [Bar(model.name, model.scale, plain(model.scale), own=model.name == THIS_PLAN) for model in models]
    return bars_figure(words, bars)


_SHARE_ROW, _MOST_SHARES = 46.0, 12
_WHOLE, _COARSE = 1.0, 0.5


def shares_figure(shares: Sequence[Share]) -> str:
    """Return the figure of all outputs whose share is known; nothing if there is none."""
    known = [share for share in shares if share.middle is not None]
    if not known:
        return ""
    kept = known[:_MOST_SHARES]

    def paint(sheet: Sheet) -> None:
        _paint_shares(sheet, kept)

    line = any(map(_has_line, kept))
    thin = " A thin line goes from the clearest to the least clear group." if line else ""
    more = f" The first {_MOST_SHARES} of {len(known):,} outputs." if len(known) > _MOST_SHARES else ""
    words = Words(
        "signal",
        title=f"How large the noise is against {kept[0].of}",
        told=" ".join(share.told() for share in kept),
        caption=(
            f"Half the width of the 95 % noise interval as a share of {kept[0].of}, which is the whole bar: the "
            f"shorter the coloured part, the clearer the number.{thin}{more}"
        ),
    )
    return figure(words, _SHARE_ROW * len(kept) + 46, paint)


def _paint_shares(sheet: Sheet, shares: Sequence[Share]) -> None:
    top = 20.0
    axes = sheet.panel(top, _SHARE_ROW * len(shares), right=14)
    number_axis(axes, across=True, limits=(0.0, 100.0), most=4)
    axes.set_xticks([0, 25, 50, 75, 100], labels=["0 %", "25 %", "50 %", "75 %", "100 %"])
    for label, side in zip(axes.get_xticklabels(), ("left", "center", "center", "center", "right"), strict=True):
        label.set_ha(side)
    axes.set_ylim(len(shares), 0)
    axes.set_yticks([])
    for row, share in enumerate(shares):
        middle = share.middle or 0.0
        colour = WARN if middle >= _COARSE else FIRST
        axes.barh(row + 0.68, 100, height=0.28, color=RULE, linewidth=0)
        axes.barh(row + 0.68, 100 * min(middle, _WHOLE), height=0.28, color=colour, linewidth=0)
        ends = 100 * np.minimum([share.least, share.largest], _WHOLE)
        if _has_line(share):
            axes.hlines(row + 0.68, *ends, color=INK, linewidth=1.2)
        bar_row(
            sheet, top + row * _SHARE_ROW + 19, share.name, _short(middle), colour=QUIET if colour == FIRST else WARN
        )


def _has_line(share: Share) -> bool:
    return share.cells > 1 and min(share.least, _WHOLE) < min(share.largest, _WHOLE)


def _short(share: float) -> str:
    return percent(share) if share < 1.5 or not np.isfinite(share) else f"{percent(share)} as large"


_WIDTH_ROW, _MOST_WIDTHS = 46.0, 12


def widths_figure(cells: Sequence[Cell]) -> str:
    """Return the figure of half widths, one row for each output; nothing if no width is known beforehand."""
    found = dict[str, list[float]]()
    for cell in cells:
        if cell.interval_95 is not None:
            found.setdefault(cell.query, []).append(cell.interval_95)
    rows = [(name, min(halves), max(halves)) for name, halves in list(found.items())[:_MOST_WIDTHS]]
    if not rows:
        return ""
    more = f" The first {_MOST_WIDTHS} of {len(found):,} outputs." if len(found) > _MOST_WIDTHS else ""
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
    return figure(words, _WIDTH_ROW * len(rows) + 46, lambda sheet: _paint_widths(sheet, rows))


def _paint_widths(sheet: Sheet, rows: Sequence[tuple[str, float, float]]) -> None:
    top = 18.0
    axes = sheet.panel(top, _WIDTH_ROW * len(rows), left=10, right=10)
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
        bar_row(sheet, top + row * _WIDTH_ROW + 19, name, f"± {_width(low, high)}", colour=QUIET)


def _paint_ratios(sheet: Sheet, axes: Any, rows: Sequence[tuple[str, float, float]], top: float) -> None:
    """Draw widths of very different sizes as bars to one side."""
    ratio_axis(axes, np.array([end for _, *ends in rows for end in ends]))
    start, edge = axes.get_xlim()
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    for row, (name, low, high) in enumerate(rows):
        for width, colour in ((high, CALM), (low, FIRST)):
            axes.barh(row + 0.7, min(width, edge) - start, left=start, height=0.24, color=colour, linewidth=0)
        bar_row(sheet, top + row * _WIDTH_ROW + 19, name, f"± {_width(low, high)}", colour=QUIET)


def _width(low: float, high: float) -> str:
    ends = plain(low, 3), plain(high, 3)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
