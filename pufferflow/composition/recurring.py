"""Which schedule the releases of an account keep: those of one kind, and how far each asks after the one before.

Two releases are of one kind if the same is asked, whatever the noise, the promise and the rows: days of 23 and 25
hours, months, files that grow and plans of another machine differ in these. Of one kind every release lies somewhere,
by its steps and by what its filters say of times and numbers. The commonest distance of neighbours is the schedule's;
so it is seen although a period is missing, or an old one was released again.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple, final

from pufferflow.composition.cost import Cost
from pufferflow.composition.parts import columns_of
from pufferflow.composition.regions import Region
from pufferflow.composition.schedule import TIMES, Every
from pufferflow.composition.spent import Spent

_MOST_LOOKED_AT = 1_000
_STEPS = "\0steps"
Place = tuple[int, ...]
Kind = Callable[[Cost], Hashable]


@final
class Recurring(NamedTuple):
    """One release again and again: the one that lies farthest, and how much later the next is.

    `every` is None where all ask about the same rows, as far as filters tell. `distances` are all that were seen, as
    far as they are in one unit, the shortest and the longest; `others` is how many releases are of other kinds.
    """

    last: Cost
    every: Every | None
    distances: tuple[Every, Every] | None = None
    others: int = 0


def question(cost: Cost) -> Hashable:
    """Return what is asked, whatever the noise, the promise and the rows that there are."""
    shape = cost.shape
    return shape.setting, shape.column, shape.values, shape.slopes


def recurring(spent: Spent, cost: Cost | None = None) -> Recurring | None:
    """Return the schedule that the releases keep which are of a cost's kind, or of the newest one's; None if none is.

    Filters of one kind are equal but for times; if no two releases are of one kind then, but for numbers as well, or
    for texts by which no belief keeps rows apart.
    """
    newest = list(islice(reversed(spent.costs), _MOST_LOOKED_AT))[::-1]
    if cost is None and not newest:
        return None
    model = newest[-1] if cost is None else cost
    for kind in (_but_for(spent, ()), _but_for(spent, ("number",)), _but_for(spent, ("number", "text", "bool"))):
        alike = [one for one in newest if kind(one) == kind(model)]
        if len(alike) > 1 and (found := _schedule(spent, alike)) is not None:
            return found._replace(others=len(newest) - len(alike))
    return None


def alike(spent: Spent, cost: Cost | None = None) -> int:
    """Return how many releases ask what a cost asks, or what the newest does, wherever their rows are."""
    costs = spent.costs
    if not costs:
        return 0
    wanted = question(costs[-1] if cost is None else cost)
    return sum(question(one) == wanted for one in costs)


def _but_for(spent: Spent, kinds: Sequence[str]) -> Kind:
    """Return what tells releases of different kinds apart, if filters by times and by some kinds of values may move."""
    scenario = spent.scenario
    needed = {name for prior in spent.priors for name in columns_of(scenario, prior)}

    def fixed(column: str, region: Region) -> bool:
        if region.kind in TIMES or (region.kind == "number" and column == scenario.order_by):
            return False
        if region.kind == "number":
            return "number" not in kinds
        return region.kind not in kinds or column in needed

    def kind(cost: Cost) -> Hashable:
        filters = sorted(cost.apart.items())
        return question(cost), tuple((name, region if fixed(name, region) else region.kind) for name, region in filters)

    return kind


def _schedule(spent: Spent, alike: Sequence[Cost]) -> Recurring | None:
    """Return what some releases of one kind keep to; None if they lie in no order."""
    placed = [_anchors(cost) for cost in alike]
    names = sorted({name for one in placed for name in one})
    if any(set(one) != set(names) for one in placed):
        return None
    moving = [name for name in names if len({one[name] for one in placed}) > 1]
    if not moving:
        return Recurring(alike[-1], None)
    by_place = {tuple(one[name] for name in moving): cost for one, cost in zip(placed, alike, strict=True)}
    places = sorted(by_place)
    steps = [tuple(b - a for a, b in zip(*both, strict=True)) for both in pairwise(places)]
    if any(min(step) < 0 for step in steps):
        return None
    often = Counter(steps)
    chosen = min(often, key=lambda step: (-often[step], step))
    last = by_place[places[-1]]
    every = [_every(spent, last, dict(zip(moving, step, strict=True))) for step in (chosen, min(steps), max(steps))]
    return Recurring(last, every[0], (every[1], every[2]) if len(often) > 1 else None)


def _anchors(cost: Cost) -> dict[str, int]:
    """Return where a release lies: at which step, and where its filters by times and numbers begin."""
    found = {name: _anchor(region) for name, region in cost.apart.items()}
    return {_STEPS: cost.shift, **{name: place for name, place in found.items() if place is not None}}


def _anchor(region: Region) -> int | None:
    known: list[Any] = [region.low, region.high, *(region.labels or ())]
    return next((value for value in known if isinstance(value, int) and not isinstance(value, bool)), None)


def _every(spent: Spent, cost: Cost, moved: dict[str, int]) -> Every:
    """Return how far a release is from the next, by how far its steps and its filters have moved."""
    scenario, steps = spent.scenario, moved.pop(_STEPS, 0)
    times = [by for name, by in moved.items() if cost.apart[name].kind in TIMES]
    if not steps:
        steps = (max(times, default=0) if scenario.timed else moved.get(scenario.order_by or "", 0)) // scenario.step
    ticks = steps * scenario.step if scenario.timed and steps else max(times, default=None)
    return Every(steps, ticks, tuple(sorted(moved.items())))
