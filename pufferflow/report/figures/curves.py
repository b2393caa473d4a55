"""What an account has spent, release by release, and what it will have spent if releases go on as before.

How long a row is remembered: what is left of it, step by step, in what is believed of later rows.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pufferflow.report.evidence import Budget, Memory
from pufferflow.report.figures.canvas import (
    FIRST,
    INK,
    PAPER,
    QUIET,
    SECOND,
    SMALL,
    WARN,
    WIDTH,
    Sheet,
    Words,
    axis_name,
    figure,
    number_axis,
)
from pufferflow.report.numbers import counted, percent, total

_LEFT, _TOP, _HEIGHT = 46.0, 30.0, 190.0
_MOST_DOTS = 40


def budget_figure(budget: Budget, name: str = "") -> str:
    """Return the figure of one account; `name` tells figures of several accounts apart."""
    title = "What is spent of the limit, and what will be"
    words = Words("budget", title, budget_told(budget), _caption(budget), name)
    return figure(words, _TOP + _HEIGHT + 46, lambda sheet: _paint(sheet, budget))


def releases_of(budget: Budget) -> int:
    """Return how many releases there were; of very many, not all are among the charges."""
    return max(budget.releases, len(budget.charges))


def budget_told(budget: Budget) -> str:
    """Say in words how an account stands."""
    spent = f"has spent {total(budget.spent)} of its limit of {total(budget.limit_epsilon)}"
    parts = [f"After {counted(releases_of(budget), 'release')} the account {budget.account} {spent}."]
    if budget.ahead:
        further = f"{counted(len(budget.ahead), 'further release')}{_every(budget)}"
        parts.append(f"With {further} it would come to {total(budget.ahead[-1])}.")
    if budget.endless is not None:
        parts.append(f"If that never ended, it would come to {total(budget.endless)}.")
    if budget.fits is not None:
        parts.append(_fits(budget.fits))
    elif budget.endless is not None and budget.endless <= budget.limit_epsilon:
        parts.append("However many follow, the limit is not reached.")
    return " ".join(parts)


def _fits(fits: int) -> str:
    if not fits:
        return "There is no room for another release like the last."
    return f"There is room for {counted(fits, 'further release')} like the last."


def _every(budget: Budget) -> str:
    return f" (one every {budget.every})" if budget.every else ""


def _caption(budget: Budget) -> str:
    parts = ["Solid: what all releases so far told together, after each of them."]
    if budget.ahead:
        parts.append(f"Dashed: what it will be if releases go on as before{_every(budget)}.")
    if budget.endless is not None:
        parts.append(f"Dotted: what it never passes, however long that goes on, {total(budget.endless)}.")
    parts.append("Red: the limit, where the account refuses.")
    if any(charge.at_most for charge in budget.charges):
        parts.append("Where the table has a ≤ it is what was proven at the time, and less may be true.")
    if any(charge.state not in KEPT for charge in budget.charges):
        parts.append("Hollow: reserved, and counted, though no release was kept.")
    return " ".join(parts)


KEPT = {"committed"}
"""The states of a charge whose release is there."""


def _paint(sheet: Sheet, budget: Budget) -> None:
    axes = sheet.panel(_TOP, _HEIGHT, left=_LEFT, right=12)
    past, ahead, start = [charge.total for charge in budget.charges], list(budget.ahead), releases_of(budget)
    last = max(start + len(ahead), 1)
    highest = _highest([*past, *ahead, budget.limit_epsilon, budget.endless or 0.0])
    number_axis(axes, across=False, limits=(0.0, 1.1 * highest))
    number_axis(axes, across=True, limits=(0.0, last * 1.02), most=6)
    marks = [mark for mark in axes.get_xticks().tolist() if float(mark).is_integer()]
    axes.set_xticks(marks, labels=[f"{mark:,.0f}" for mark in marks])
    axes.grid(visible=False, axis="x")
    axes.axhline(budget.limit_epsilon, color=WARN, linewidth=1.6)
    if budget.endless is not None:
        axes.axhline(min(budget.endless, 1.1 * highest), color=SECOND, linewidth=1.4, linestyle=(0, (1, 2)))
    _steps(axes, past, budget)
    if ahead:
        axes.step(
            [start, *range(start + 1, start + 1 + len(ahead))],
            _upto([past[-1] if past else 0.0, *ahead], highest),
            where="pre",
            color=SECOND,
            linewidth=1.6,
            linestyle=(0, (3.5, 1.6)),
        )
    sheet.write(_LEFT, _TOP - 14, f"limit {total(budget.limit_epsilon)}", color=WARN, fontsize=SMALL + 0.5)
    if budget.endless is not None:
        words = f"for ever {total(budget.endless)}"
        sheet.write((_LEFT + WIDTH) / 2, _TOP - 14, words, color=SECOND, ha="center", fontsize=SMALL + 0.5)
    words = f"spent {total(budget.spent)}"
    sheet.write(WIDTH - 12, _TOP - 14, words, color=FIRST, ha="right", fontsize=SMALL + 0.5)
    axis_name(sheet, _TOP + _HEIGHT + 40, "releases", x=_LEFT)


def _steps(axes: Any, past: Sequence[float], budget: Budget) -> None:
    at = np.round(np.linspace(1, releases_of(budget), len(past))).tolist()  # of very many, those that were kept
    axes.step([0, *at], [0.0, *past], where="pre", color=FIRST, linewidth=2.0)
    if len(past) > _MOST_DOTS:
        return
    for place, charge in zip(at, budget.charges, strict=True):
        inside = FIRST if charge.state in KEPT else PAPER
        axes.plot([place], [charge.total], "o", color=FIRST, markerfacecolor=inside, markersize=5)


def _upto(values: Sequence[float], highest: float) -> list[float]:
    return np.clip(np.array(values, dtype=np.float64), 0.0, 1.1 * highest).tolist()


def _highest(values: Sequence[float]) -> float:
    found = [value for value in values if np.isfinite(value)]
    return max(found, default=0.0) or 1.0


_MEMORY_LEFT, _MEMORY_TOP, _MEMORY_HEIGHT = 46.0, 30.0, 150.0
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
    words = Words("memory", f"How long a {row_of(kept[0])} is remembered", memory_told(kept), _memory_caption(kept))
    return figure(words, _MEMORY_TOP + _MEMORY_HEIGHT + 46, lambda sheet: _paint_memory(sheet, kept))


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


def _memory_caption(memories: Sequence[Memory]) -> str:
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


def _paint_memory(sheet: Sheet, memories: Sequence[Memory]) -> None:
    axes = sheet.panel(_MEMORY_TOP, _MEMORY_HEIGHT, left=_MEMORY_LEFT, right=14)
    last = max(one.steps[-1] for one in memories)
    number_axis(axes, across=True, limits=(0.0, float(last)), most=6, whole=True)
    axes.set_ylim(0.0, 1.04)
    axes.set_yticks([0.0, 0.5, 1.0], labels=["0 %", "50 %", "100 %"])
    axes.grid(visible=True, axis="y")
    for one, (colour, style) in zip(memories, _LINES, strict=False):
        axes.plot(one.steps, np.array(one.left), color=colour, linewidth=2.0, linestyle=style)
    _mark(sheet, axes, [one for one in memories if one.forgotten is not None])
    sheet.write(0, _MEMORY_TOP - 14, "what is left of it", color=INK)
    name = duration(memories[0], 2).removeprefix("2 ")
    axis_name(sheet, _MEMORY_TOP + _MEMORY_HEIGHT + 40, sheet.outside(f"{name} later", 44), x=_MEMORY_LEFT)


def _mark(sheet: Sheet, axes: Any, memories: Sequence[Memory]) -> None:
    """Mark where a row is forgotten; the words stand above, of the slowest belief."""
    forgotten = [one.forgotten or 0 for one in memories]
    for place in forgotten:
        axes.axvline(place, color=WARN, linewidth=1.4)
    if forgotten:
        slowest = max(memories, key=lambda one: one.forgotten or 0)
        words = f"1 % after {duration(slowest, max(forgotten))}"
        sheet.write(
            WIDTH - 14, _MEMORY_TOP - 14, sheet.outside(words, 30), color=WARN, ha="right", fontsize=SMALL + 0.5
        )
