"""The interface of a composition rule: upper bounds on the joint loss of several releases."""

import abc
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, final

from pufferflow.accounting.rules.autoregression import Movements, RepeatedRelease
from pufferflow.core.rounding import float_above
from pufferflow.models.priors.base import Prior
from pufferflow.models.scenario import Scenario
from pufferflow.privacy.guarantee import GuaranteeFamily, Pure
from pufferflow.privacy.tradeoff import Gdp
from pufferflow.published.cost import Cost, Shape, digest_of


@final
@dataclass(frozen=True, eq=False)
class UnitReleases:
    """The releases about one unit's rows, and one prior about these rows."""

    scenario: Scenario
    prior: Prior
    costs: Sequence[Cost]
    steps_seen: tuple[int, int] | None = None
    """The first and the last step of all rows that any release of the account has seen, not only of these."""
    movements: Movements | None = None
    """The movements of all costs except the last ones, `more`, after which a `schedule` may follow."""
    more: Sequence[Cost] = ()
    schedule: RepeatedRelease | None = None
    spare: float = 0.0
    """The probability of an event that need not be bounded, since δ covers it."""
    unseen_rows: bool = False
    """Whether a release that selected no row saw rows at unknown places."""
    first_request: Cost | None = None
    """The first release of the account that selects a row, about this unit or another."""

    @property
    def opening(self) -> Cost:
        """The release that fixed what no answer may change: the account's first one."""
        return self.costs[0] if self.first_request is None else self.first_request

    @property
    def wider(self) -> bool:
        """Whether there are rows that one of these releases did not see."""
        return any(cost.steps_seen != self.steps_seen for cost in self.costs)

    @property
    def beyond_promises(self) -> bool:
        """Whether a release's guarantee may be too small for some row that it did not see.

        The loss about such a row is at most that about the costliest two states of the rows that were seen. They are a
        pair of the secret if all states are.
        """
        hidden = getattr(self.scenario.secret, "pairs", "all")
        return (
            (self.wider or self.unseen_rows) and not self.prior.independent_rows and hidden != "all"
        )

    @property
    def key_delta(self) -> float:
        """The probability that a unit makes a key appear in one of these releases that only it has; rounded up."""
        return added([shape.key_delta or 0.0 for shape in self.shapes], self.times)

    def first(self, count: int) -> "UnitReleases":
        """Return the first `count` of the releases, with the steps that these have seen."""
        costs = self.costs[:count]
        return replace(
            self, costs=costs, steps_seen=steps_seen_by(costs), movements=None, unseen_rows=False
        )

    @cached_property
    def digest(self) -> str:
        """The digest of the prior."""
        return digest_of(self.prior)

    @cached_property
    def shapes(self) -> list[Shape]:
        """The different shapes of the costs, in order of appearance."""
        return list({id(cost.shape): cost.shape for cost in self.costs}.values())

    @cached_property
    def times(self) -> list[int]:
        """The number of costs of each shape."""
        counts = Counter(id(cost.shape) for cost in self.costs)
        return [counts[id(shape)] for shape in self.shapes]


class CompositionRule(abc.ABC):
    """Base of the rules; a total is ∞ if a rule does not apply.

    To add a rule, write a file with a subclass and list it in `RULES`. Show that it meets the condition under which an
    account may use it. *Fix any pair of data sets of one coupling. On every path the total is at least the sum of the
    losses of its releases.* Pure totals need less: a bound of the ratio of likelihoods at the end of each path (M20),
    since two paths never share an output.

    Two totals of one account may replace each other on different paths only if both bound the same sum. Otherwise each
    is an accounting method of its own, fixed before the first answer (M61).
    """

    name: ClassVar[str]
    """The theorem behind the total, in words."""
    adaptive: ClassVar[bool] = True
    """Whether totals hold although earlier answers choose later releases; accounts use no others."""
    why: ClassVar[str]
    """Why the rule meets the condition, in one sentence with its statement."""
    adds_up: ClassVar[bool] = False
    """Whether pure losses of single releases add, with those of other such rules too: all are along one coupling."""

    def pure(self, releases: UnitReleases) -> float:
        """Return the pure loss of all releases together.

        It bounds the ratio of likelihoods at every output, which involves only the queries on its path.
        """
        return math.inf

    def renyi(self, releases: UnitReleases, alpha: float) -> float:
        """Return the Rényi loss of one order, for one coupling that does not depend on the queries (M1).

        A bound of what each release loses given all earlier answers is a bound of it, too: such losses add (M1).
        """
        return math.inf

    def zcdp(self, releases: UnitReleases) -> float:
        """Return a ρ with Rényi losses ρα of all orders, for one coupling that does not depend on queries."""
        return math.inf

    def gaussian(self, releases: UnitReleases) -> float:
        """Return how many standard deviations of one Gaussian all answers move together, under one coupling."""
        return math.inf

    def by_own(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        """Return the loss of a guarantee by the accounting method that is this rule's own."""
        return math.inf

    def fixed(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        """Return the loss of a guarantee about releases none of which was chosen after seeing another."""
        return math.inf

    def endless(self, releases: UnitReleases) -> float | None:  # noqa: B027 - most rules bound no endless schedule
        """Return the pure loss of the releases with their endless `schedule`; ∞ if it is unbounded.

        None if the rule does not apply to endless schedules.
        """


def steps_seen_by(costs: Sequence[Cost]) -> tuple[int, int] | None:
    """Return the first and the last step of all rows that releases have seen.

    Steps of different clocks differ by less than one step: then a row may be a step before and after those counted.
    """
    known = [cost for cost in costs if cost.steps_seen is not None]
    if not known:
        return None
    spans = {cost.steps_seen for cost in known if cost.steps_seen is not None}
    first, last = min(first for first, _ in spans), max(last for _, last in spans)
    if len({cost.clock for cost in known}) == 1:
        return first, last
    starts = [math.floor(cost.start) for cost in known if cost.start is not None]
    return max(first - 1, min([first, *starts])) if starts else first - 1, last + 1


def added(losses: Iterable[float], times: Iterable[int] | None = None) -> float:
    """Return the sum of losses (each so many times), rounded up; exact if it is a float.

    >>> added([1.0, 0.5], times=[3, 2]), added([0.1] * 3)
    (4.0, 0.30000000000000004)
    """
    listed = list(losses)
    often = [1] * len(listed) if times is None else list(times)
    if any(math.isinf(loss) for loss in listed):
        return math.inf
    return float_above(
        sum((Fraction(loss) * many for loss, many in zip(listed, often, strict=True)), Fraction(0))
    )


def from_pure(epsilon: float, kind: GuaranteeFamily) -> float:
    """Return the loss of a guarantee that follows from a pure loss (M29)."""
    return kind.loss_from(Pure(epsilon)) if math.isfinite(epsilon) else math.inf


def from_gaussian(deviations: float, kind: GuaranteeFamily) -> float:
    """Return the loss of a guarantee where answers move so many standard deviations of a Gaussian (M10)."""
    return kind.loss_from(Gdp(deviations)) if math.isfinite(deviations) else math.inf
