"""Ways to prove a promise: what one bound makes of some laws, and the least scale and ε that it proves."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import final

from pufferflow.bounds import Bound, Group, Laws, Part, Witness
from pufferflow.errors import Refused
from pufferflow.guarantees import Approx, Guarantee, Kind
from pufferflow.noise import Family, Noise
from pufferflow.roots import smallest
from pufferflow.transport import Certainty

EPSILON_TOLERANCE = 1e-9
LOWER = 1e-6
"""How much smaller a scale has to be for a later bound to be preferred: the first ones are exact more often."""


@final
@dataclass(frozen=True, eq=False)
class Way:
    """What one bound makes of some laws: parts, all of which have to keep the promise."""

    bound: Bound
    laws: Laws
    parts: Sequence[Part]

    @property
    def sensitivity(self) -> float:
        """The largest movement of a part."""
        return max(part.sensitivity for part in self.parts)

    @property
    def own_delta(self) -> float:
        """The largest share that a part leaves out."""
        return max(part.own_delta for part in self.parts)

    @property
    def certainty(self) -> Certainty:
        """Whether all that was used is exact."""
        return least_certain([self.laws.certainty, *(part.certainty for part in self.parts)])

    def worst(self, noise: Noise, guarantee: Guarantee) -> tuple[float, Part]:
        """Return the largest log ratio of loss to promise, and the part that has it."""
        excesses = [part.excess(noise, guarantee) for part in self.parts]
        place = max(range(len(excesses)), key=excesses.__getitem__)
        return excesses[place], self.parts[place]

    def least_scale(self, family: Family, guarantee: Guarantee) -> float:
        """Calibrate to the part that moves farthest, then as often as another part still costs too much."""
        scale = max(self.parts, key=lambda part: part.sensitivity).least_scale(family, guarantee)
        while True:
            excess, part = self.worst(family(scale), guarantee)
            if excess <= 0:
                return scale
            scale = max(part.least_scale(family, guarantee), scale * (1 + EPSILON_TOLERANCE))


def proven(part: Part, noise: Noise, guarantee: Guarantee) -> tuple[float, Witness]:
    """Return the ε that a part proves of a promise that is kept, and its witness."""
    rows = part.losses(noise, guarantee)
    cost, _, witness = max(rows, key=lambda row: row[0] / row[1] if row[1] else math.inf)
    if isinstance(guarantee, Approx):
        cost = least_epsilon_of(part, noise, Approx.of(guarantee.delta), at_most=guarantee.epsilon)
    return cost, witness


def accepted(laws: Laws, bounds: Sequence[Bound], guarantee: Guarantee, noise: Noise) -> Way | None:
    """Return a way that proves a promise of these laws with this noise, the quickest first; None if none does."""
    for bound in sorted(bounds, key=lambda bound: bound.work(laws.work, guarantee)):
        with suppress(Refused):
            way = Way(bound, laws, bound.parts(laws, noise))
            if way.worst(noise, guarantee)[0] <= 0:
                return way
    return None


def least_certain(found: Sequence[Certainty]) -> Certainty:
    """Return the weakest of several certainties."""
    order = (Certainty.ESTIMATE, Certainty.UPPER_BOUND, Certainty.EXACT)
    return min(found, key=order.index)


def most_telling(refusals: Sequence[tuple[Bound, Refused]]) -> Refused:
    """Return the refusal to show where every bound refused: the last, since quick bounds with few uses come first.

    Group privacy comes after all of them; what it lacks is of use only where nothing else was tried.
    """
    others = [refusal for bound, refusal in refusals if not isinstance(bound, Group)]
    return (others or [refusal for _, refusal in refusals])[-1]


def least_epsilon_of(part: Part, noise: Noise, kind: Kind, at_most: float | None = None) -> float:
    """Return the least ε with which a part keeps the promise."""
    example = kind(0.0)
    if not isinstance(example, Approx):
        ((value, _, _),) = part.losses(noise, example)
        return value
    delta = example.delta
    if part.delta(noise, 0.0).value <= delta:
        return 0.0
    high = at_most
    if high is None:
        high = part.pure(noise).value
        if high == math.inf:
            high = 1.0
            while part.delta(noise, high).value > delta:
                high *= 4
                if high > 1e15:
                    return math.inf
    if part.delta(noise, high).value > delta:
        return high  # by rounding alone: it is the pure loss, or was checked
    return smallest(lambda epsilon: _excess(part.delta(noise, epsilon).value, delta), high, EPSILON_TOLERANCE)


def _excess(value: float, allowed: float) -> float:
    if value <= allowed:
        return -math.inf if value == 0 or allowed == 0 else math.log(value) - math.log(allowed)
    return math.inf if allowed == 0 else max(math.log(value) - math.log(allowed), 5e-324)
