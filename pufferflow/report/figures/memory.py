"""How long a row is remembered: what is left of it, step by step, in what is believed of later rows."""

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pufferflow.report.evidence import Memory
from pufferflow.report.figures.canvas import FIRST, INK, QUIET, SECOND, SMALL, WARN, WIDTH, Sheet, Words, figure
from pufferflow.report.figures.scales import axis_name, number_axis
from pufferflow.report.numbers import counted, percent

_LEFT, _TOP, _HEIGHT = 46.0, 30.0, 150.0
_MOST: Final = 3
_LINES: Final = ((FIRST, "-"), (SECOND, (0, (3.5, 1.6))), (QUIET, (0, (1, 1.6))))
_UNITS: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day"}
_STEP: Final = re.compile(r"(\d+)([smhd])")
_FORGOTTEN: Final = 0.01


def memory_figure(memories: Sequence[Memory]) -> str:
    """Return the figure of the first priors; nothing if there is none."""
    kept = list(memories[:_MOST])
    if not kept:
        return ""
    words = Words("memory", f"How long a {row_of(kept[0])} is remembered", memory_told(kept), _caption(kept))
    return figure(words, _TOP + _HEIGHT + 46, lambda sheet: _paint(sheet, kept))


def memory_told(memories: Sequence[Memory]) -> str:
    """Say in words how long rows are remembered, belief by belief."""
    return " ".join(_told(one, several=len(memories) > 1) for one in memories)


def row_of(memory: Memory) -> str:
    """Return what a row is called: a unit of time if there is one at each step.

    >>> [row_of(Memory("", "", step, (), ())) for step in ("1h", "90m", "1")]
    ['hour', 'row', 'row']
    """
    found = _STEP.fullmatch(memory.step)
    return _UNITS[found[2]] if found and found[1] == "1" else "row"


def duration(memory: Memory, steps: int) -> str:
    """Return so many steps in words.

    >>> duration(Memory("", "", "1h", (), ()), 12), duration(Memory("", "", "90m", (), ()), 2)
    ('12 hours', '2 steps of 90m')
    """
    if row_of(memory) != "row":
        return counted(steps, row_of(memory))
    return counted(steps, "step") + ("" if memory.step == "1" else f" of {memory.step}")


def _told(memory: Memory, *, several: bool) -> str:
    believed = f" if {memory.prior}" if several else ""
    first = f"{_share(memory.left[1])} after {duration(memory, memory.steps[1])}"
    if memory.forgotten is None:
        end = f"still {_share(memory.left[-1])} after {duration(memory, memory.steps[-1])}"
    else:
        end = f"no more than {_share(_FORGOTTEN)} after {duration(memory, memory.forgotten)}"
    what = "What" if several else "If rows are as believed, what"
    return f"{what} one {row_of(memory)} tells of a later one is {first}, and {end}{believed}."


def _share(left: float) -> str:
    return percent(left)


def _caption(memories: Sequence[Memory]) -> str:
    row = row_of(memories[0])
    if memories[0].measure == "correlation":
        what = f"How strongly a {row} is correlated with a later one"
    else:
        what = (
            f"By how much knowing one {row} changes, at most, what is believed of a later one (total variation: 100 % "
            "is everything, 0 % nothing)"
        )
    parts = [f"{what}.", "The sooner that is little, the less noise rows need for each other."]
    if any(one.forgotten is not None for one in memories):
        parts.append(f"Red: where {_share(_FORGOTTEN)} is left, which is as good as forgotten.")
    if len(memories) > 1:
        parts.append(
            "Solid: the first belief; dashed: the second" + ("; dotted: the third." * (len(memories) > 2) or ".")
        )
    return " ".join(parts)


def _paint(sheet: Sheet, memories: Sequence[Memory]) -> None:
    axes = sheet.panel(_TOP, _HEIGHT, left=_LEFT, right=14)
    last = max(one.steps[-1] for one in memories)
    number_axis(axes, across=True, limits=(0.0, float(last)), most=6, whole=True)
    axes.set_ylim(0.0, 1.04)
    axes.set_yticks([0.0, 0.5, 1.0], labels=["0 %", "50 %", "100 %"])
    axes.grid(visible=True, axis="y")
    for one, (colour, style) in zip(memories, _LINES, strict=False):
        axes.plot(one.steps, np.array(one.left), color=colour, linewidth=2.0, linestyle=style)
    _mark(sheet, axes, [one for one in memories if one.forgotten is not None])
    sheet.write(0, _TOP - 14, "what is left of it", color=INK)
    name = duration(memories[0], 2).removeprefix("2 ")
    axis_name(sheet, _TOP + _HEIGHT + 40, sheet.outside(f"{name} later", 44), x=_LEFT)


def _mark(sheet: Sheet, axes: Any, memories: Sequence[Memory]) -> None:
    """Mark where a row is forgotten; the words stand above, of the slowest belief."""
    forgotten = [one.forgotten or 0 for one in memories]
    for place in forgotten:
        axes.axvline(place, color=WARN, linewidth=1.4)
    if forgotten:
        slowest = max(memories, key=lambda one: one.forgotten or 0)
        words = f"1 % after {duration(slowest, max(forgotten))}"
        sheet.write(WIDTH - 14, _TOP - 14, sheet.outside(words, 30), color=WARN, ha="right", fontsize=SMALL + 0.5)
