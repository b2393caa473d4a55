"""What a composition rule owes: totals of several releases that are never below what they tell together."""

import abc
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, final

from pufferflow.composition.autoregression import Movements, RepeatedRelease
from pufferflow.composition.cost import Cost, Shape, digest_of
from pufferflow.guarantees import Kind, Pure
from pufferflow.rounding import float_above
from pufferflow.scenario import Scenario
from pufferflow.scenario.priors import Prior


@final
@dataclass(frozen=True, eq=False)
class UnitReleases:
    """Several releases about one unit's rows, and one belief about these."""

    scenario: Scenario
    prior: Prior
    costs: Sequence[Cost]
    steps_seen: tuple[int, int] | None = None
    """The first and the last step of all rows that any release of the account has seen, not only of these."""
    movements: Movements | None = None
    """What is known of the movements of all but the last of the costs, `more`, which a `schedule` may go on with."""
    more: Sequence[Cost] = ()
    schedule: RepeatedRelease | None = None
    spare: float = 0.0
    """The probability of what need not be bounded, since it is counted apart."""
    left_out: bool = False
    """Whether a release that asked about no row was shown rows whose places nobody knows."""

    @property
    def wider(self) -> bool:
        """Whether there are rows that one of these releases did not see."""
        return any(cost.steps_seen != self.steps_seen for cost in self.costs)

    @cached_property
    def digest(self) -> str:
        """The digest of the prior."""
        return digest_of(self.prior)

    @cached_property
    def shapes(self) -> list[Shape]:
        """The different shapes of the costs, in the order in which they first come up."""
        return list({id(cost.shape): cost.shape for cost in self.costs}.values())

    @cached_property
    def times(self) -> list[int]:
        """How often each of the shapes comes up."""
        found = Counter(id(cost.shape) for cost in self.costs)
        return [found[id(shape)] for shape in self.shapes]


class CompositionRule(abc.ABC):
    """Base of the rules; each total is ∞ where a rule says nothing.

    To add one, write a file with a subclass and give it a place in `RULES`. Totals hold whatever made somebody ask the
    later queries, except those of `fixed`, which are for releases that were all chosen beforehand.
    """

    name: ClassVar[str]
    """What carries the total, in words."""

    def pure(self, asked: UnitReleases) -> float:
        """Return the pure loss of all releases together.

        It bounds the ratio of likelihoods at every output, which involves the queries asked on the way there only.
        """
        del asked
        return math.inf

    def renyi(self, asked: UnitReleases, alpha: float) -> float:
        """Return the Rényi loss of one order, for one coupling that does not depend on the queries (M1)."""
        del asked, alpha
        return math.inf

    def gaussian(self, asked: UnitReleases) -> float:
        """Return how many standard deviations of one Gaussian all answers move together, under one coupling."""
        del asked
        return math.inf

    def fixed(self, asked: UnitReleases, kind: Kind) -> float:
        """Return the ε of a promise about releases none of which was chosen after seeing another."""
        del asked, kind
        return math.inf


def added(losses: Iterable[float], times: Iterable[int] | None = None) -> float:
    """Return the sum of losses (each so many times), rounded up; exact if it is a float.

    >>> added([1.0, 0.5], times=[3, 2]), added([0.1] * 3)
    (4.0, 0.30000000000000004)
    """
    listed = list(losses)
    often = [1] * len(listed) if times is None else list(times)
    if any(math.isinf(loss) for loss in listed):
        return math.inf
    return float_above(sum((Fraction(loss) * many for loss, many in zip(listed, often, strict=True)), Fraction(0)))


def from_pure(epsilon: float, kind: Kind) -> float:
    """Return the ε of a promise that follows from a pure loss (M29)."""
    return kind.epsilon_from(Pure(epsilon)) if math.isfinite(epsilon) else math.inf
