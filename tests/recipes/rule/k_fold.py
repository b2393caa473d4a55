"""As many times the costliest release: the crudest total that holds whatever rows have to do with each other (M7)."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import final

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.noise.gaussian import Gaussian
from pufferflow.published.cost import Shape


@final
class KFoldRule(CompositionRule):
    """k times the largest loss of a release over the movement of a whole group.

    All rows of a group may change together, which is one coupling of the data sets: losses along it add (M1, M7), so
    those of k releases are at most k times the largest.
    """

    name = "as many times the costliest release, over the movement of a group (M7)"
    why = "no release loses more than the costliest between any two data sets of a group, so no path does (M1, M7)"

    def pure(self, releases: UnitReleases) -> float:
        return _times_the_largest(releases, _pure_loss)

    def renyi(self, releases: UnitReleases, alpha: float) -> float:
        def loss(shape: Shape, moved: float) -> float:
            return shape.noise.renyi_within(moved, alpha, shape.dimension)

        return _times_the_largest(releases, loss)

    def gaussian(self, releases: UnitReleases) -> float:
        """Return √k times the largest movement in standard deviations: squares of movements add (M1)."""
        if not all(
            isinstance(shape.noise, Gaussian) and shape.noise.scale > 0 for shape in releases.shapes
        ):
            return math.inf
        squares = _times_the_largest(
            releases, lambda shape, moved: (moved / shape.noise.scale) ** 2 * (1 + 4 * UNIT)
        )
        return math.sqrt(squares) * (1 + UNIT)


def _pure_loss(shape: Shape, moved: float) -> float:
    return shape.noise.pure_within(moved, shape.dimension)


def _times_the_largest(releases: UnitReleases, loss: Callable[[Shape, float], float]) -> float:
    """Return the total of a loss, rounded up; ∞ where the movement of some release is not known."""
    losses = list[float]()
    for shape in releases.shapes:
        if shape.group_movement is None:
            return math.inf
        losses.append(loss(shape, shape.group_movement))
    largest = max(losses, default=0.0)
    if math.isinf(largest):
        return math.inf
    return float_above(Fraction(largest) * sum(releases.times))
