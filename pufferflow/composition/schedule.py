"""A schedule: one release again and again, each time some steps later."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any, NamedTuple, final

import msgspec

from pufferflow.composition.cost import Cost
from pufferflow.composition.regions import Region
from pufferflow.errors import Misuse
from pufferflow.priors.steps import read_step
from pufferflow.reading import shown
from pufferflow.scenario import Scenario

TIMES = ("date", "moment", "local")


@final
class Every(NamedTuple):
    """How far one release is from the next: in steps of the sequence, and in nanoseconds if steps are durations.

    `columns` says by how much filters on some columns move from one release to the next, where past releases show it.
    """

    steps: int
    ticks: int | None
    columns: tuple[tuple[str, int], ...] = ()


def read_every(given: object, scenario: Scenario, name: str = "every") -> Every:
    """Return a distance of whole steps, given as such or as a duration; one that was read already is as it was.

    >>> import pufferflow as pf
    >>> hours = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), order_by="hour", step="1h")
    >>> read_every("1d", hours)
    Every(steps=24, ticks=86400000000000, columns=())
    """
    if isinstance(given, Every):
        return given
    allowed = "a whole number of steps above 0" + (", or a duration of whole steps" if scenario.timed else "")
    instead = f'{name}="1d"' if scenario.timed else f"{name}=24"
    steps: Any = given
    if isinstance(given, str | timedelta):
        if not scenario.timed:
            raise Misuse(f"{name} is a duration, and steps are numbers.", allowed=allowed, instead=instead)
        steps = Fraction(read_step(given)[0], scenario.step)
        steps = int(steps) if steps.denominator == 1 else None
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise Misuse(f"{name} is {shown(given)}.", allowed=allowed, instead=instead)
    return Every(steps, steps * scenario.step if scenario.timed else None)


def later(cost: Cost, every: Every, times: int, scenario: Scenario) -> Cost:
    """Return the cost of the release that comes so many turns later; rows are added, none goes away."""
    by = every.steps * times
    hull = None if cost.hull is None else (cost.hull[0], cost.hull[1] + by)
    apart = _moved(cost.apart, every, times, scenario)
    return msgspec.structs.replace(cost, shift=cost.shift + by, hull=hull, apart=apart)


def step_of(column: str, region: Region, every: Every, scenario: Scenario) -> int:
    """Return how far a filter moves from one release to the next: one by time does, of others each asks the same."""
    known = dict(every.columns)
    if column in known:
        return known[column]
    if region.kind in TIMES and every.ticks is not None:
        return every.ticks
    if region.kind == "number" and column == scenario.order_by and not scenario.timed:
        return every.steps * scenario.step
    return 0


def turns_until_steady(
    cost: Cost, columns: Sequence[str], every: Every, scenario: Scenario, others: Sequence[Cost]
) -> float:
    """Return after how many releases of a schedule no later one meets more of it, or of the others; ∞ if never.

    So it is where a filter leaves a bounded part of a column and moves along it: a release meets the few around it, and
    from where all other releases begin or end on, every one meets as many.
    """
    passed, around = 0, math.inf
    for column, region in cost.apart.items():
        by, own = step_of(column, region, every, scenario), _ends(region, region.kind)
        if column not in columns or not by or not own:
            continue
        ends = [end for one in others for end in _ends(one.apart.get(column), region.kind)]
        passed = max([passed, *((end - own[0]) // by for end in ends)])
        around = min(around, (own[1] - own[0]) // by if len(own) == 2 else math.inf)
    return passed + around + 3


def _ends(region: Region | None, kind: str) -> list[Any]:
    """Return the ends of a region that are known: both, one or none."""
    if region is None or region.kind != kind:
        return []
    known = [label for label in region.labels if label is not None] if region.labels is not None else []
    if region.labels is not None:
        return [min(known), max(known)] if known else []
    return [end for end in (region.low, region.high) if end is not None]


def _moved(apart: Mapping[str, Region], every: Every, times: int, scenario: Scenario) -> dict[str, Region]:
    """Return which rows are asked about then: those of later times, where a filter names times; else the same ones."""
    moves = {column: step_of(column, region, every, scenario) * times for column, region in apart.items()}
    return {column: _by(region, moves[column]) if moves[column] else region for column, region in apart.items()}


def _by(region: Region, by: int) -> Region:
    labels = None if region.labels is None else tuple(_plus(label, by) for label in region.labels)
    return msgspec.structs.replace(region, labels=labels, low=_plus(region.low, by), high=_plus(region.high, by))


def _plus(value: Any, by: int) -> Any:
    return None if value is None else value + by
