"""Releases about rows that share a hidden class: what all of them tell of the class, and of one row (M20, M21).

Which rows of a group a release asks about is not kept, so two releases may be about the same rows, about some, or about
none in common. Rows are independent given the class, hence what they tell of it adds up, and a row that j releases
touch tells at most g(j·ℓ), ℓ being the largest exposure of a release. However N touches are spread over rows, all
together tell at most N·max_j g(j·ℓ)/j: the same rows again and again, or others each time, whichever is more.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from pufferflow.composition.cost import Cost, Floats, Rows
from pufferflow.composition.rule import Asked, Rule
from pufferflow.errors import Misuse, Refused
from pufferflow.inference import implied
from pufferflow.inference.star import Star, StarWalk
from pufferflow.messages.star import of_class
from pufferflow.priors import LatentClass, Table
from pufferflow.queries import Statistic
from pufferflow.rounding import UNIT
from pufferflow.secrets import Derived, Secret

_MOST_TOUCHES = 16
_GROWTH = 1.1


@final
class Stars(Rule):
    """Rows of a group that share a class, touched by any number of releases."""

    name = "messages between rows and the class they share (M20)"

    def pure(self, asked: Asked) -> float:
        """Return the largest of what is told of a row itself, and of the class by all other rows."""
        touches = Touches.of(asked.costs)
        star = _star(asked)
        if touches is None or star is None or touches.most.shape != (star.rows.shape[1],) * 2:
            return math.inf
        try:
            return _largest(star, touches)
        except Refused:  # too many combinations of classes and values
            return math.inf


@final
@dataclass(frozen=True, eq=False)
class Touches:
    """How often releases touch rows of a group at most, and what each touch, or all of a row together, can tell of it.

    `every` says that no row of the group is left out by all releases.
    """

    releases: int
    rows: int
    most: Floats
    whole: Floats
    every: bool

    @classmethod
    def of(cls, costs: Sequence[Cost]) -> "Touches | None":
        """Return the touches of all releases; None if they are not known, or tell too much."""
        rows: list[Rows] = [cost.shape.rows for cost in costs if cost.shape.rows is not None]
        if not costs or len(rows) < len(costs) or any(cost.shape.values is None for cost in costs):
            return None
        shapes = {cost.shape.digest: cost.shape for cost in costs}
        times = Counter(cost.shape.digest for cost in costs)
        if len({shape.exposure.shape for shape in shapes.values()}) > 1:
            return None
        exposures = [shape.exposure for shape in shapes.values()]
        with np.errstate(over="ignore"):
            whole = np.sum([times[at] * one for at, one in zip(shapes, exposures, strict=True)], axis=0)
        if not np.isfinite(whole).all():
            return None
        whole = whole if len(costs) == 1 else whole * (1 + (len(shapes) + 1) * UNIT)
        every = all(one.others == 0 for one in rows)
        return cls(len(costs), sum(one.asked for one in rows), np.max(exposures, axis=0), whole, every)

    def of_row(self, times: int) -> Floats:
        """Return what a row tells of its value that so many releases touch: ℓ, rounded up."""
        return np.minimum(self.most * times * (1 + UNIT), self.whole) if times < self.releases else self.whole

    def of_class(self, rows: Floats) -> Floats:
        """Return max_j g(j·ℓ)/j, what a touch tells of the class at most; of many j for a few at once, the largest."""
        most = of_class(rows, self.whole[None])[0]
        found = np.zeros_like(most)
        for low, high in pairwise(_ladder(self.releases)):
            found = np.maximum(found, of_class(rows, self.of_row(high)[None])[0] / (low + 1))
            if (most / (high + 1) <= found).all():
                break
        return found * (1 + 2 * UNIT)


def _ladder(last: int) -> Iterator[int]:
    """Yield 0, 1, 2, … and then ever larger steps up to the last number."""
    at = 0
    while at < last:
        yield at
        at = at + 1 if at < _MOST_TOUCHES else min(math.ceil(at * _GROWTH), last)
    yield last


def _largest(star: Star, touches: Touches) -> float:
    """Return what is told of the class, or of a row that some releases touch and by the rows that others do."""
    each = touches.of_class(star.rows)
    if star.of_group:
        return float(star.told_of_class(each * touches.rows * (1 + UNIT)).max())
    few = touches.releases <= _MOST_TOUCHES
    ways = [(own, own) for own in range(1 if touches.every else 0, touches.releases + 1)] if few else []
    found = [
        star.told_of_row(touches.of_row(own), each * max(touches.rows - less, 0) * (1 + UNIT))
        for own, less in ways or [(touches.releases, 0)]  # of many, all touches twice over, which is no less
    ]
    return float(np.max(found))


def _star(asked: Asked) -> Star | None:
    """Return the class with its rows; None if there is none, or releases read several columns."""
    prior, secret = asked.prior, asked.scenario.secret
    columns = {cost.shape.column for cost in asked.costs}
    shared = isinstance(prior, LatentClass) or (isinstance(prior, Table) and not prior.alone)
    if not shared or not isinstance(secret, Secret | Derived) or len(columns) != 1:
        return None
    try:
        (walk,) = implied(prior, Statistic.total(1, column=columns.pop()), secret).walks()
    except Misuse:  # a column that the prior does not speak of
        return None
    return walk.star if isinstance(walk, StarWalk) else None
