"""Bar charts: noise under other bounds and other priors, noise against signal, expected error bars."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from msgspec.structs import replace

from pufferflow.core.arrays import Floats
from pufferflow.reports.evidence import GROUP_PRIVACY, ORDINARY, BoundRow, Cell, Distances
from pufferflow.reports.figures.canvas import (
    CALM,
    FIRST,
    INK,
    QUIET,
    RULE,
    WARN,
    Sheet,
    Words,
    bounded,
    figure,
    named_bar,
    number_axis,
    ratio_axis,
    room,
    spread,
)
from pufferflow.reports.numbers import percent, plain
from pufferflow.reports.outputs import Share

_MOST_BOUNDS, _MOST_OUTPUTS = 14, 12
_ROW, _OUTPUT_ROW = 44.0, 46.0
_CALL: Final = re.compile(r"(\w+)\(((?:\w+=[^=,()]+(?:, )?)*)\)")
_USUAL: Final = {"None", "False"}
_POWERS_OF_TEN: Final = " The axis grows in powers of ten."
_WHOLE, _COARSE = 1.0, 0.5
THIS_PLAN = "this plan"


@final
@dataclass(frozen=True)
class Bar:
    """A bar: its name, length and label, and whether it is the plan's own."""

    name: str
    length: float
    label: str
    own: bool = False


def _bar_rows(
    sheet: Sheet,
    rows: Sequence[tuple[str, str, str]],
    step: float,
    top: float,
    sides: tuple[float, float],
) -> Any:
    """Return axes with a bar for each row, below the row's name and its coloured label."""
    axes = sheet.panel(top, step * len(rows), left=sides[0], right=sides[1])
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    for place, (name, label, colour) in enumerate(rows):
        named_bar(sheet, top + (place + 0.5) * step - 4, name, label, colour)
    return axes


def _bars_figure(words: Words, bars: Sequence[Bar], line: float | None = None) -> str:
    """Return the figure of bars, with a dashed `line` for comparison, if given."""
    lengths = np.array([bar.length for bar in bars])

    def paint(sheet: Sheet) -> None:
        rows = [(bar.name, bar.label, INK if bar.own else QUIET) for bar in bars]
        axes = _bar_rows(sheet, rows, _ROW, top=16, sides=(0, 12))
        if spread(lengths):
            ratio_axis(axes, lengths)
        else:
            number_axis(
                axes, across=True, limits=(0.0, 1.06 * max(float(lengths.max()), line or 0.0))
            )
        axes.get_xticklabels()[0].set_ha("left")
        start = axes.get_xlim()[0]
        if line is not None:
            axes.axvline(line, color=CALM, linewidth=1.0, linestyle=(0, (2, 2)))
        for row, bar in enumerate(bars):
            colour = FIRST if bar.own else CALM
            axes.barh(
                row + 0.68, bar.length - start, left=start, height=0.26, color=colour, linewidth=0
            )

    return figure(words, _ROW * len(bars) + 44, paint)


def _axis_words(lengths: Sequence[float]) -> str:
    """Return the caption of a logarithmic axis, empty for a linear one."""
    return _POWERS_OF_TEN if spread(np.array(lengths)) else ""


def merge_bounds(rows: Sequence[BoundRow]) -> list[BoundRow]:
    """Return one row for each bound: the least noise first, then bounds that were not computed, then refusals.

    Noises of all outputs are proportional. Ordinary differential privacy does not bound this loss and is left out.
    """
    outputs = dict[str, list[BoundRow]]()
    for row in rows:
        if row.bound != ORDINARY:
            outputs.setdefault(row.bound, []).append(row)
    merged = [
        replace(
            same[0],
            times=max((row.times for row in same if row.times is not None), default=None),
            note="; ".join(dict.fromkeys(row.note for row in same if row.note)),
            chosen=any(row.chosen for row in same),
            worked_out=all(row.worked_out for row in same),
        )
        for same in outputs.values()
    ]
    return sorted(
        merged,
        key=lambda row: (row.times is None, not row.worked_out, row.times or 0.0, not row.chosen),
    )


def comparable(row: BoundRow) -> bool:
    """Return whether a bound can be compared with others: it was computed, and gives a noise."""
    return row.worked_out and row.times is not None and math.isfinite(row.times)


def bounds_figure(rows: Sequence[BoundRow]) -> str:
    """Return the figure of the comparable bounds, in multiples of the plan's own noise; empty for none."""
    bars = [
        Bar(bound_name(row.bound), row.times or 0.0, _times(row), own=row.chosen)
        for row in merge_bounds(rows)
        if comparable(row)
    ][:_MOST_BOUNDS]
    if not bars:
        return ""
    words = Words(
        "bounds",
        title="Noise of the same guarantee under each bound",
        description=" ".join(f"{bar.name}: {bar.label}." for bar in bars),
        caption=(
            "The noise that each bound needs for the same guarantee, in multiples of the noise of this plan. A longer "
            "bar means more noise for the same privacy."
            f"{_axis_words([bar.length for bar in bars])}"
        ),
    )
    return _bars_figure(words, bars, line=1.0)


def bound_name(bound: str) -> str:
    """Return the name of a bound, without arguments that have their defaults.

    >>> bound_name("GAWM(delta=5e-07, norm=None, as_printed=False)"), bound_name("Quilt(approximate=True)")
    ('GAWM (delta 5e-07)', 'Quilt (approximate)')
    """
    call = _CALL.fullmatch(bound)
    if call is None:
        return bound
    arguments = [argument.split("=", 1) for argument in filter(None, call[2].split(", "))]
    unusual = [
        name if value == "True" else f"{name} {value}"
        for name, value in arguments
        if value not in _USUAL
    ]
    return f"{call[1]} ({', '.join(unusual)})" if unusual else call[1]


def _times(row: BoundRow) -> str:
    if row.chosen:
        return THIS_PLAN
    times = plain(row.times, 3)
    return "as much" if times == "1" else f"{times} times"


@final
@dataclass(frozen=True)
class Model:
    """The noise that a guarantee needs on one output under a model, and a note on what that keeps here."""

    name: str
    output: str
    scale: float
    note: str = ""


def models_of(rows: Sequence[BoundRow]) -> list[Model]:
    """Return the noise of ordinary differential privacy, the plan and group privacy on the plan's first output."""
    own = next((row for row in rows if row.chosen and row.scale), None)
    if own is None:
        return []
    known = {row.bound: row for row in rows if row.query == own.query and row.worked_out}
    named = (
        (ORDINARY, known.get(ORDINARY)),
        (THIS_PLAN, own),
        (GROUP_PRIVACY, known.get(GROUP_PRIVACY)),
    )
    return [
        Model(name, row.query, row.scale, "" if row is own else row.note)
        for name, row in named
        if row is not None and row.scale is not None and np.isfinite(row.scale)
    ]


def distances_figure(rows: Sequence[Distances]) -> str:
    """Return the figure of distances between laws, the deciding pair first; empty where all are 0."""
    far = [row for row in rows if row.w_inf]
    if not far:
        return ""
    several = len({row.prior for row in far}) > 1
    bars = [
        Bar(
            f"{row.first} against {row.second}"
            + ("" if row.position is None else f", at {plain(row.position)}")
            + (f", {row.prior}" if several else ""),
            row.w_inf or 0.0,
            plain(row.w_inf) + (", decides" if row.decides else ""),
            own=row.decides,
        )
        for row in far
    ]
    words = Words(
        "distances",
        title="How far the laws of the answer lie apart under two secrets",
        description=" ".join(f"{bar.name}: {bar.label}." for bar in bars),
        caption=(
            "W_∞ between the laws of the answer under two secrets; the pair that needs most noise is marked."
            f"{_axis_words([bar.length for bar in bars])}"
        ),
    )
    return _bars_figure(words, bars)


def models_figure(models: Sequence[Model]) -> str:
    """Return the figure of one guarantee under several models; empty if there is only the plan itself."""
    if len(models) < 2:
        return ""
    words = Words(
        "models",
        title="Noise of the same guarantee, by what is assumed of the correlation of rows",
        description=" ".join(
            f"{model.name}: noise of scale {plain(model.scale)} on {model.output}."
            for model in models
        ),
        caption=(
            f"The scale of the noise on {models[0].output} for the same guarantee, in the unit of the answer; on "
            f"other outputs noise is proportional.{_axis_words([model.scale for model in models])}"
        ),
    )
    bars = [
        Bar(model.name, model.scale, plain(model.scale), own=model.name == THIS_PLAN)
        for model in models
    ]
    return _bars_figure(words, bars)


def beliefs_figure(output: str, priced: Sequence[tuple[str, float]]) -> str:
    """Return the figure of the error that one guarantee costs under several priors; empty for a single one."""
    if len(priced) < 2:
        return ""
    words = Words(
        "beliefs",
        title="Error that one guarantee costs under each prior",
        description=" ".join(
            f"{name}: an expected error of {plain(error)} in {output}." for name, error in priced
        ),
        caption=(
            f"The expected error of {output}, where it is largest, if the guarantee is made for this prior."
            f"{_axis_words([error for _, error in priced])}"
        ),
    )
    return _bars_figure(words, [Bar(name, error, plain(error)) for name, error in priced])


def shares_figure(shares: Sequence[Share]) -> str:
    """Return the figure of noise against signal: noise as a share of each number; empty if none is known."""
    known = [share for share in shares if share.middle is not None]
    shown = known[:_MOST_OUTPUTS]
    if not shown:
        return ""
    line = (
        " A thin line goes from the clearest to the least clear group."
        if any(map(_has_line, shown))
        else ""
    )
    words = Words(
        "signal",
        title=f"How large the noise is against {shown[0].of}",
        description=" ".join(share.sentence() for share in shown),
        caption=(
            f"Half the width of the 95 % noise interval as a share of {shown[0].of}, which is the whole bar: the "
            f"shorter the coloured part, the clearer the number.{line}{_first_of(len(known))}"
        ),
    )
    return figure(words, _OUTPUT_ROW * len(shown) + 46, lambda sheet: _paint_shares(sheet, shown))


def _first_of(outputs: int) -> str:
    return f" The first {_MOST_OUTPUTS} of {outputs:,} outputs." if outputs > _MOST_OUTPUTS else ""


def _has_line(share: Share) -> bool:
    return share.cells > 1 and min(share.least, _WHOLE) < min(share.largest, _WHOLE)


def _paint_shares(sheet: Sheet, shares: Sequence[Share]) -> None:
    middles = [share.middle or 0.0 for share in shares]
    rows = list[tuple[str, str, str]]()
    for share, middle in zip(shares, middles, strict=True):
        larger = "" if middle < 1.5 or not np.isfinite(middle) else " as large"
        rows.append((share.name, percent(middle) + larger, WARN if middle >= _COARSE else QUIET))
    axes = _bar_rows(sheet, rows, _OUTPUT_ROW, top=20, sides=(0, 14))
    number_axis(axes, across=True, limits=(0.0, 100.0), most=4)
    axes.set_xticks([0, 25, 50, 75, 100], labels=["0 %", "25 %", "50 %", "75 %", "100 %"])
    for label, side in zip(
        axes.get_xticklabels(), ("left", "center", "center", "center", "right"), strict=True
    ):
        label.set_ha(side)
    for row, (share, middle) in enumerate(zip(shares, middles, strict=True)):
        colour = WARN if middle >= _COARSE else FIRST
        axes.barh(row + 0.68, 100, height=0.28, color=RULE, linewidth=0)
        axes.barh(row + 0.68, 100 * min(middle, _WHOLE), height=0.28, color=colour, linewidth=0)
        if _has_line(share):
            ends = 100 * np.minimum([share.least, share.largest], _WHOLE)
            axes.hlines(row + 0.68, *ends, color=INK, linewidth=1.2)


def widths_figure(cells: Sequence[Cell]) -> str:
    """Return the figure of the widths of error bars that are known before the release; empty for none."""
    halves = dict[str, list[float]]()
    for cell in cells:
        if cell.interval_95 is not None:
            halves.setdefault(cell.query, []).append(cell.interval_95)
    widths = [
        (name, min(known), max(known)) for name, known in list(halves.items())[:_MOST_OUTPUTS]
    ]
    if not widths:
        return ""
    rows = [(name, f"± {_from_to(low, high)}", QUIET) for name, low, high in widths]
    words = Words(
        "numbers",
        title="How wide the error bars will be",
        description=" ".join(
            f"{name}: plus or minus {_from_to(low, high)}." for name, low, high in widths
        ),
        caption=(
            "How far noise may move each number up or down, in 95 of 100 cases, in the unit of the number. "
            "This is known before any private value is read."
            f"{_axis_words([high for _, _, high in widths])}{_first_of(len(halves))}"
        ),
    )

    def paint(sheet: Sheet) -> None:
        axes = _bar_rows(sheet, rows, _OUTPUT_ROW, top=18, sides=(10, 10))
        _paint_widths(axes, np.array([ends for _, *ends in widths]))

    return figure(words, _OUTPUT_ROW * len(widths) + 46, paint)


def _from_to(low: float, high: float) -> str:
    ends = plain(low, 3), plain(high, 3)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _paint_widths(axes: Any, widths: Floats) -> None:
    """Draw error bars around 0; where sizes differ much, one-sided bars on a logarithmic axis."""
    highest = widths[:, 1]
    if spread(highest):
        ratio_axis(axes, widths.ravel())
        start, edge = axes.get_xlim()
        for row, (low, high) in enumerate(widths.tolist()):
            for width, colour in ((high, CALM), (low, FIRST)):
                axes.barh(
                    row + 0.7,
                    min(width, edge) - start,
                    left=start,
                    height=0.24,
                    color=colour,
                    linewidth=0,
                )
        return
    largest = bounded(highest)
    edge = room(np.append(largest, -largest), 0.04)[1]
    number_axis(axes, across=True, limits=(-edge, edge))
    for row, (low, high) in enumerate(widths.tolist()):
        for width, colour, line in ((high, CALM if low < high else FIRST, 1.8), (low, FIRST, 2.4)):
            shown = min(width, edge)
            axes.hlines(row + 0.7, -shown, shown, color=colour, linewidth=line)
            axes.plot(
                [-shown, shown],
                [row + 0.7] * 2,
                "|",
                color=colour,
                markersize=9,
                markeredgewidth=line,
            )
        axes.plot([0], [row + 0.7], "o", color=FIRST, markersize=4.5)
