"""Curves over time: what an account has spent, its forecast, and how long a row is remembered."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from pufferflow.reports.evidence import Budget, Memory
from pufferflow.reports.figures.canvas import (
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
from pufferflow.reports.html import said
from pufferflow.reports.numbers import counted, percent, total

_LEFT, _TOP, _HEIGHT, _MEMORY_HEIGHT = 46.0, 30.0, 190.0, 150.0
_DASHED, _DOTTED = (0, (3.5, 1.6)), (0, (1, 2))
_MOST_DOTS = 40
_COMMITTED = "committed"
_MOST_PRIORS: Final = 3
_LINES: Final = ((FIRST, "-"), (SECOND, _DASHED), (QUIET, (0, (1, 1.6))))
_UNITS: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day"}
_STEP: Final = re.compile(r"(\d+)([smhd])")
_FORGOTTEN: Final = percent(0.01)


def budget_figure(budget: Budget, name: str = "") -> str:
    """Return the figure of one account; `name` distinguishes figures of several accounts."""
    title = "Spent of the limit, and the forecast"
    words = Words(
        "budget",
        title,
        describe_budget(budget),
        said("caption_of_budget", budget, _every(budget)),
        name,
    )
    return figure(words, _TOP + _HEIGHT + 46, lambda sheet: _paint_budget(sheet, budget))


def releases_of(budget: Budget) -> int:
    """Return the number of releases; of very many, not all are among the charges."""
    return max(budget.releases, len(budget.charges))


def describe_budget(budget: Budget) -> str:
    """Describe the state of an account, as markup."""
    return said("account", budget, releases_of(budget), _every(budget))


def _every(budget: Budget) -> str:
    return f" (one every {budget.every})" if budget.every else ""


def _paint_budget(sheet: Sheet, budget: Budget) -> None:
    axes = sheet.panel(_TOP, _HEIGHT, left=_LEFT, right=12)
    past, ahead, releases = (
        [charge.total for charge in budget.charges],
        list(budget.ahead),
        releases_of(budget),
    )
    totals = np.array([*past, *ahead, budget.limit_epsilon, budget.endless or 0.0])
    top = 1.1 * (float(totals[np.isfinite(totals)].max(initial=0.0)) or 1.0)
    number_axis(axes, across=False, limits=(0.0, top))
    number_axis(axes, across=True, limits=(0.0, max(releases + len(ahead), 1) * 1.02), most=6)
    marks = [mark for mark in axes.get_xticks().tolist() if float(mark).is_integer()]
    axes.set_xticks(marks, labels=[f"{mark:,.0f}" for mark in marks])
    axes.grid(visible=False, axis="x")
    axes.axhline(budget.limit_epsilon, color=WARN, linewidth=1.6)
    if budget.endless is not None:
        axes.axhline(min(budget.endless, top), color=SECOND, linewidth=1.4, linestyle=_DOTTED)
    at = np.round(
        np.linspace(1, releases, len(past))
    ).tolist()  # of very many, those that were stored
    axes.step([0, *at], [0.0, *past], where="pre", color=FIRST, linewidth=2.0)
    if len(past) <= _MOST_DOTS:
        for place, charge in zip(at, budget.charges, strict=True):
            inside = FIRST if charge.state == _COMMITTED else PAPER
            axes.plot(
                [place], [charge.total], "o", color=FIRST, markerfacecolor=inside, markersize=5
            )
    if ahead:
        heights = np.clip(np.array([past[-1] if past else 0.0, *ahead]), 0.0, top).tolist()
        places = range(releases, releases + 1 + len(ahead))
        axes.step(places, heights, where="pre", color=SECOND, linewidth=1.6, linestyle=_DASHED)
    above, look = _TOP - 14, {"fontsize": SMALL + 0.5}
    sheet.write(_LEFT, above, f"limit {total(budget.limit_epsilon)}", color=WARN, **look)
    if budget.endless is not None:
        middle, words = (_LEFT + WIDTH) / 2, f"endless {total(budget.endless)}"
        sheet.write(middle, above, words, color=SECOND, ha="center", **look)
    sheet.write(WIDTH - 12, above, f"spent {total(budget.spent)}", color=FIRST, ha="right", **look)
    axis_name(sheet, _TOP + _HEIGHT + 40, "releases", x=_LEFT)


def memory_figure(memories: Sequence[Memory]) -> str:
    """Return the figure of what is left of a row after each step, under the first priors; empty for none."""
    shown = memories[:_MOST_PRIORS]
    if not shown:
        return ""
    title = f"How long a {row_of(shown[0])} is remembered"
    words = Words(
        "memory", title, describe_memory(shown), said("caption_of_memory", shown, row_of(shown[0]))
    )
    return figure(words, _TOP + _MEMORY_HEIGHT + 46, lambda sheet: _paint_memory(sheet, shown))


def row_of(memory: Memory) -> str:
    """Return the name of a row: a unit of time if there is one row for each unit.

    >>> [row_of(Memory("", "", step, (), ())) for step in ("1h", "90m", "1")]
    ['hour', 'row', 'row']
    """
    step = _STEP.fullmatch(memory.step)
    return _UNITS[step[2]] if step and step[1] == "1" else "row"


def duration(memory: Memory, steps: int) -> str:
    """Describe a number of steps.

    >>> duration(Memory("", "", "1h", (), ()), 12), duration(Memory("", "", "90m", (), ()), 2)
    ('12 hours', '2 steps of 90m')
    """
    if row_of(memory) != "row":
        return counted(steps, row_of(memory))
    return counted(steps, "step") + ("" if memory.step == "1" else f" of {memory.step}")


def describe_memory(memories: Sequence[Memory]) -> str:
    """Describe how long rows are remembered, prior by prior."""
    sentences = list[str]()
    for memory in memories:
        what, believed = "Under the prior, what", ""
        if len(memories) > 1:
            what, believed = "What", f" if {memory.prior}"
        first = f"{percent(memory.left[1])} after {duration(memory, memory.steps[1])}"
        if memory.forgotten is None:
            last = f"still {percent(memory.left[-1])} after {duration(memory, memory.steps[-1])}"
        else:
            last = f"no more than {_FORGOTTEN} after {duration(memory, memory.forgotten)}"
        sentences.append(
            f"{what} one {row_of(memory)} reveals about a later one is {first}, and {last}{believed}."
        )
    return " ".join(sentences)


def _paint_memory(sheet: Sheet, memories: Sequence[Memory]) -> None:
    axes = sheet.panel(_TOP, _MEMORY_HEIGHT, left=_LEFT, right=14)
    last = max(memory.steps[-1] for memory in memories)
    number_axis(axes, across=True, limits=(0.0, float(last)), most=6, whole=True)
    axes.set_ylim(0.0, 1.04)
    axes.set_yticks([0.0, 0.5, 1.0], labels=["0 %", "50 %", "100 %"])
    axes.grid(visible=True, axis="y")
    for memory, (colour, style) in zip(memories, _LINES, strict=False):
        axes.plot(memory.steps, np.array(memory.left), color=colour, linewidth=2.0, linestyle=style)
    forgotten = [(memory.forgotten, memory) for memory in memories if memory.forgotten is not None]
    for steps, _ in forgotten:
        axes.axvline(steps, color=WARN, linewidth=1.4)
    if forgotten:
        steps, slowest = max(forgotten, key=lambda pair: pair[0])
        words = sheet.outside(f"1 % after {duration(slowest, steps)}", 30)
        sheet.write(WIDTH - 14, _TOP - 14, words, color=WARN, ha="right", fontsize=SMALL + 0.5)
    sheet.write(0, _TOP - 14, "what is left of it", color=INK)
    later = f"{duration(memories[0], 2).removeprefix('2 ')} later"
    axis_name(sheet, _TOP + _MEMORY_HEIGHT + 40, sheet.outside(later, 44), x=_LEFT)
