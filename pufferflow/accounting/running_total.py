"""The running total of an account's releases for one prior, which grows with each: never below the tightest total.

Losses along one coupling add up to a running sum, movements along a sequence step by step. Along a chain that starts
stationary, the largest exposure of any step so far is taken for every step. The loss of endlessly many such steps is
computed once.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple, final

import numpy as np

from pufferflow.accounting.rules.additive import CouplingRule, TranslationRule
from pufferflow.accounting.rules.autoregression import Movements
from pufferflow.accounting.rules.base import UnitReleases
from pufferflow.accounting.rules.choice import RULES
from pufferflow.accounting.rules.markov import (
    MessagesRule,
    along_one_chain,
    chain_of,
    exposed,
)
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import float_above
from pufferflow.distributions.markov.state_loss import Exposures, endless_leak
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.markov import SequencePrior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Secret
from pufferflow.published.cost import Cost, Shape
from pufferflow.sensitivity.hidden_markov import secrets_of

_ELSEWHERE = 0, -1
"""Steps that no release has: there may always be rows that one did not see."""


class _Sums(NamedTuple):
    """The sums of some releases: of their losses, and of the most exposed step entry by entry."""

    losses: float | Fraction = Fraction(0)
    most: Floats = np.zeros((1, 1))


def added_alone(
    scenario: Scenario, prior: Prior, cost: Cost, seen: tuple[int, int] | None
) -> float:
    """Return the loss that a release adds, whatever else is released; ∞ if no rule adds losses, or keys take δ."""
    if cost.shape.key_delta:
        return math.inf
    releases = UnitReleases(scenario, prior, [cost], seen)
    return min(rule.pure(releases) for rule in RULES if rule.adds_up)


@final
class RunningTotal:
    """The sums of all releases so far under one prior; added releases wait until a total is requested."""

    def __init__(self, scenario: Scenario, prior: Prior) -> None:
        self.scenario, self.prior = scenario, prior
        self._sums = _Sums()
        self._costs, self._waiting = list[Cost](), list[Cost]()
        self._reach = list[float]()
        """For each cost, the end of the last window of all costs up to it."""
        self._foreseen = list[Cost](), _Sums()
        """The releases of the last total, and the sums with them: these are usually the next to be added."""
        self._single = dict[int, tuple[Shape, float | Fraction]]()
        self._for_ever = dict[bytes, float]()

    @cached_property
    def movements(self) -> Movements | None:
        """The movements of all releases so far, if rows are of an autoregressive sequence."""
        return (
            Movements(self.scenario, self.prior)
            if Movements.fit(self.scenario, self.prior)
            else None
        )

    def restarted(self) -> "RunningTotal":
        """Return a running total without releases, which shares the results for shapes."""
        fresh = RunningTotal(self.scenario, self.prior)
        fresh._single, fresh._for_ever = self._single, self._for_ever
        return fresh

    def add(self, cost: Cost) -> None:
        """Count one more release."""
        if not cost.selects_nothing:
            self._waiting.append(cost)
        if self.movements is not None:
            self.movements.add(cost)

    def total_with(self, more: Sequence[Cost]) -> tuple[float, str]:
        """Return a total with some more releases, and the rule that carries it."""
        if self._waiting:
            self._absorb(self._waiting)
        selecting = [cost for cost in more if not cost.selects_nothing]
        sums = self._after(selecting)
        self._foreseen = selecting, sums
        added = sums.losses if isinstance(sums.losses, float) else float_above(sums.losses)
        moved = math.inf
        if self.movements is not None:
            releases = UnitReleases(
                self.scenario, self.prior, selecting, movements=self.movements, more=selecting
            )
            moved = TranslationRule().pure(releases)
        return min(
            (added, CouplingRule.name),
            (self._endless(sums.most), MessagesRule.name),
            (moved, TranslationRule.name),
        )

    def _absorb(self, waiting: list[Cost]) -> None:
        """Add the waiting costs to the sums, all or none."""
        foreseen, sums = self._foreseen
        sums = sums if foreseen == waiting else self._after(waiting)
        reach = list(
            islice(
                accumulate((cost.window[1] for cost in waiting), max, initial=self._last), 1, None
            )
        )
        self._sums, self._waiting = sums, []
        self._reach += reach
        self._costs += waiting

    def _after(self, more: Sequence[Cost]) -> _Sums:
        """Return the sums with some more releases."""
        shapes, times = [cost.shape for cost in more], [1]
        if len(more) != 1:  # mostly it is one
            releases = UnitReleases(self.scenario, self.prior, more)
            shapes, times = releases.shapes, releases.times
        total = self._sums.losses
        for shape, often in zip(shapes, times, strict=True):
            total += self._loss_of(shape) * often
        if not self._along(more) or not np.isfinite(self._sums.most).all():
            return _Sums(total, np.full((1, 1), math.inf))
        return _Sums(total, np.maximum(self._sums.most, self._exposed(more, shapes)))

    def _exposed(self, more: Sequence[Cost], shapes: Sequence[Shape]) -> Floats:
        """Return the most exposed step, entry by entry, of the steps that some windows touch."""
        lows, highs = zip(*(cost.window for cost in more), strict=True) if more else ((), ())
        reach = accumulate(highs, max, initial=self._last)
        if all(low >= end for low, end in zip(lows, reach, strict=False)):
            return np.max([shape.exposure for shape in shapes], axis=0, initial=0.0)
        first = bisect_right(self._reach, min(lows))  # all before end before any of these begins
        return np.max(
            [_densest(some) for some in _connected([*self._costs[first:], *more])], axis=0
        )

    @property
    def _last(self) -> float:
        """The end of the last window so far."""
        return self._reach[-1] if self._reach else -math.inf

    def _loss_of(self, shape: Shape) -> float | Fraction:
        """Return the exact contribution of a release along one coupling; ∞ is a float, and so are sums with it."""
        known = self._single.get(id(shape))
        if known is None:
            loss = added_alone(self.scenario, self.prior, Cost(shape), _ELSEWHERE)
            known = self._single[id(shape)] = shape, loss if math.isinf(loss) else Fraction(loss)
        return known[1]

    def _along(self, costs: Sequence[Cost]) -> bool:
        """Return whether releases lie along a chain that starts stationary, where windows may have any position."""
        rest = isinstance(self.prior, SequencePrior) and self.prior.repeats is not None
        if not rest or not isinstance(self.scenario.secret, Secret | Derived):
            return False
        return not costs or along_one_chain(self.scenario, self.prior, [*self._costs[:1], *costs])

    def _endless(self, most: Floats) -> float:
        """Return the loss of endlessly many steps that are all exposed as much as the most exposed one."""
        if not np.isfinite(most).all() or not isinstance(self.prior, SequencePrior):
            return math.inf
        if not most.any():
            return 0.0
        key = most.tobytes()
        if key not in self._for_ever:
            chain, _ = chain_of(self.prior, np.arange((self.prior.period or 1) + 1.0), 0)
            step = Exposures(most[None], np.zeros(1, dtype=np.intp))
            self._for_ever[key] = endless_leak(
                chain, step, secrets_of(self.prior, self.scenario.secret)
            ).value
        return self._for_ever[key]


def _connected(costs: Sequence[Cost]) -> Iterator[list[Cost]]:
    """Yield the costs in sets whose windows depend on each other; between two sets there may be very many steps."""
    some, reach = list[Cost](), -math.inf
    for cost in sorted(costs, key=lambda one: one.window[0]):
        low, high = cost.window
        if some and low >= reach:
            yield some
            some = []
        some.append(cost)
        reach = max(reach, high)
    yield some


def _densest(costs: Sequence[Cost]) -> Floats:
    """Return the most exposed step of some windows, entry by entry; ∞ if there are too many steps to examine."""
    if len(costs) == 1:
        return costs[0].shape.exposure
    try:
        return np.asarray(exposed(costs).losses.max(axis=0))
    except Refused:
        return np.full_like(costs[0].shape.exposure, math.inf)
