"""The same promise under other bounds: how much more noise each would ask for."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.report.evidence import ORDINARY, BoundRow
from pufferflow.report.figures.bars import Bar, bars_figure, uneven
from pufferflow.report.figures.canvas import Words
from pufferflow.report.numbers import plain

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
