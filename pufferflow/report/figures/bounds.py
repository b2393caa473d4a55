"""The same promise under other bounds: how much more noise each would ask for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.report.evidence import BoundRow
from pufferflow.report.figures.canvas import CALM, FIRST, INK, QUIET, Sheet, Words, figure
from pufferflow.report.figures.scales import bar_row, number_axis, ratio_axis, spread
from pufferflow.report.numbers import plain

_ROW, _MOST = 44.0, 14
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


def compared(rows: Sequence[BoundRow]) -> list[Compared]:
    """Return each bound once, the least noise first; noise of all outputs grows together."""
    found = dict[str, list[BoundRow]]()
    for row in rows:
        found.setdefault(row.bound, []).append(row)
    each = [_one(bound, same) for bound, same in found.items()]
    return sorted(each, key=lambda one: (one.times is None, one.times or 0.0, not one.chosen))


def _one(bound: str, rows: Sequence[BoundRow]) -> Compared:
    times = max((row.times for row in rows if row.times is not None), default=None)
    notes = dict.fromkeys(row.note for row in rows if row.note)
    return Compared(bound, times, any(row.chosen for row in rows), "; ".join(notes))


def bounds_figure(rows: Sequence[BoundRow]) -> str:
    """Return the figure of the bounds that give a noise; nothing if none is comparable."""
    kept = [one for one in compared(rows) if one.times is not None and np.isfinite(one.times)][:_MOST]
    if not kept:
        return ""
    ratios = " The axis grows in powers of ten." if spread(np.array([one.times or 0.0 for one in kept])) else ""
    words = Words(
        "bounds",
        title="Noise that the same promise asks for under each bound",
        told=" ".join(f"{bound_name(one.bound)}: {_times(one)}." for one in kept),
        caption=(
            "How much noise the same promise would take if it were worked out in another way, in multiples of the "
            f"noise of this plan. A longer bar means more noise for no more privacy.{ratios}"
        ),
    )
    return figure(words, _ROW * len(kept) + 44, lambda sheet: _paint(sheet, kept))


def _paint(sheet: Sheet, rows: Sequence[Compared]) -> None:
    top = 16.0
    axes = sheet.panel(top, _ROW * len(rows), right=12)
    times = np.array([one.times or 0.0 for one in rows])
    if spread(times):
        ratio_axis(axes, times)
    else:
        number_axis(axes, across=True, limits=(0.0, 1.06 * max(float(times.max()), 1.0)))
    axes.get_xticklabels()[0].set_ha("left")
    start = axes.get_xlim()[0]
    axes.axvline(1.0, color=CALM, linewidth=1.0, linestyle=(0, (2, 2)))
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    for row, one in enumerate(rows):
        colour = FIRST if one.chosen else CALM
        axes.barh(row + 0.68, (one.times or 0.0) - start, left=start, height=0.26, color=colour, linewidth=0)
        bar_row(sheet, top + row * _ROW + 18, bound_name(one.bound), _times(one), colour=INK if one.chosen else QUIET)


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
