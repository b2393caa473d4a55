"""Noise against signal as bars: the part of a number that noise may make up."""

from collections.abc import Sequence

import numpy as np

from pufferflow.report.figures.canvas import FIRST, INK, QUIET, RULE, WARN, Sheet, Words, figure
from pufferflow.report.figures.scales import bar_row, number_axis
from pufferflow.report.numbers import percent
from pufferflow.report.signal import Share

_ROW, _MOST = 46.0, 12
_WHOLE, _COARSE = 1.0, 0.5


def shares_figure(shares: Sequence[Share]) -> str:
    """Return the figure of all outputs whose share is known; nothing if there is none."""
    known = [share for share in shares if share.middle is not None]
    if not known:
        return ""
    kept = known[:_MOST]

    def paint(sheet: Sheet) -> None:
        _paint(sheet, kept)

    line = any(map(_has_line, kept))
    thin = " A thin line goes from the clearest to the least clear group." if line else ""
    more = f" The first {_MOST} of {len(known):,} outputs." if len(known) > _MOST else ""
    words = Words(
        "signal",
        title=f"How large the noise is against {kept[0].of}",
        told=" ".join(share.told() for share in kept),
        caption=(
            f"Half the width of the 95 % noise interval as a share of {kept[0].of}, which is the whole bar: the "
            f"shorter the coloured part, the clearer the number.{thin}{more}"
        ),
    )
    return figure(words, _ROW * len(kept) + 46, paint)


def _paint(sheet: Sheet, shares: Sequence[Share]) -> None:
    top = 20.0
    axes = sheet.panel(top, _ROW * len(shares), right=14)
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
        bar_row(sheet, top + row * _ROW + 19, share.name, _short(middle), colour=QUIET if colour == FIRST else WARN)


def _has_line(share: Share) -> bool:
    return share.cells > 1 and min(share.least, _WHOLE) < min(share.largest, _WHOLE)


def _short(share: float) -> str:
    return percent(share) if share < 1.5 or not np.isfinite(share) else f"{percent(share)} as large"
