"""A quick total that grows with every release: enough to say yes, whatever the number of releases so far.

It is never below the tightest total. Losses along one coupling add up to a running sum, movements along a sequence step
by step; along a chain that starts at rest no step tells more than the most exposed one so far, and what steps like that
tell for ever is worked out once.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, islice
from typing import final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.chains import Exposures, endless
from pufferflow.composition.additive import CouplingRule, GranularityRule, TranslationRule
from pufferflow.composition.autoregression import Movements
from pufferflow.composition.chain import MessagesRule
from pufferflow.composition.cost import Cost, Shape
from pufferflow.composition.rule import UnitReleases
from pufferflow.composition.timeline import ChainPrior, Timeline, exposed, secrets_of, window_of
from pufferflow.errors import Refused
from pufferflow.rounding import float_above
from pufferflow.scenario import Scenario, Secret
from pufferflow.scenario.priors import MarkovChain, Prior

_SUMS = CouplingRule(), GranularityRule()
_ELSEWHERE = 0, -1
"""Steps that no release has: there may always be rows that one did not see."""


@final
@dataclass(eq=False)
class RunningTotal:
    """What is known of all releases so far under one belief; what is added is looked at when somebody asks."""

    scenario: Scenario
    prior: Prior
    _sum: float | Fraction = Fraction(0)
    _most: Floats = field(default_factory=lambda: np.zeros((1, 1)))
    _costs: list[Cost] = field(default_factory=list[Cost])
    _reach: list[float] = field(default_factory=list[float])
    """Where the last window ends of all costs up to each."""
    _waiting: list[Cost] = field(default_factory=list[Cost])
    _foreseen: tuple[list[Cost], tuple[float | Fraction, Floats]] = field(
        default_factory=lambda: (list[Cost](), (Fraction(0), np.zeros((1, 1))))
    )
    """What was asked last and what came of it: mostly, it is then added."""
    _single: dict[int, tuple[Shape, float | Fraction]] = field(
        default_factory=dict[int, tuple[Shape, float | Fraction]]
    )
    _for_ever: dict[bytes, float] = field(default_factory=dict[bytes, float])

    @cached_property
    def movements(self) -> Movements | None:
        """The movements of all releases so far, if rows are of an autoregressive sequence."""
        return Movements(self.scenario, self.prior) if Movements.fit(self.scenario, self.prior) else None

    def anew(self) -> "RunningTotal":
        """Return one without releases, which need not work out again what this one has."""
        return RunningTotal(self.scenario, self.prior, _single=self._single, _for_ever=self._for_ever)

    def add(self, cost: Cost) -> None:
        """Count one more release."""
        if not cost.silent:
            self._waiting.append(cost)
        if self.movements is not None:
            self.movements.add(cost)

    def total_with(self, more: Sequence[Cost]) -> tuple[float, str]:
        """Return a total with some more releases, and the rule that carries it."""
        if self._waiting:
            self._absorb(self._waiting)
        asked = [cost for cost in more if not cost.silent]
        total, most = found = self._after(asked)
        self._foreseen = asked, found
        added = total if isinstance(total, float) else float_above(total)
        moved = math.inf
        if self.movements is not None:
            moved = TranslationRule().pure(
                UnitReleases(self.scenario, self.prior, asked, movements=self.movements, more=asked)
            )
        return min((added, CouplingRule.name), (self._endless(most), MessagesRule.name), (moved, TranslationRule.name))

    def _absorb(self, waiting: list[Cost]) -> None:
        """Take what waits into account: all of it or, if something stops that, none."""
        foreseen, found = self._foreseen
        total, most = found if foreseen == waiting else self._after(waiting)
        reach = list(islice(accumulate((window_of(cost)[1] for cost in waiting), max, initial=self._last), 1, None))
        self._sum, self._most, self._waiting = total, most, []
        self._reach += reach
        self._costs += waiting

    def _after(self, more: Sequence[Cost]) -> tuple[float | Fraction, Floats]:
        """Return the sum of losses, and the most exposed step entry by entry."""
        shapes, times = [cost.shape for cost in more], [1]
        if len(more) != 1:  # one is what is asked for most of the time
            asked = UnitReleases(self.scenario, self.prior, more)
            shapes, times = asked.shapes, asked.times
        total = self._sum
        for shape, many in zip(shapes, times, strict=True):
            total += self._of_one(shape) * many
        if not self._along(more) or not np.isfinite(self._most).all():
            return total, np.full((1, 1), math.inf)
        return total, np.maximum(self._most, self._exposed(more, shapes))

    def _exposed(self, more: Sequence[Cost], shapes: Sequence[Shape]) -> Floats:
        """Return the most exposed step, entry by entry, of those that some windows touch."""
        lows, highs = zip(*map(window_of, more), strict=True) if more else ((), ())
        reach = accumulate(highs, max, initial=self._last)
        if all(low >= end for low, end in zip(lows, reach, strict=False)):
            return np.max([shape.exposure for shape in shapes], axis=0, initial=0.0)
        first = bisect_right(self._reach, min(lows))  # all before end before any of these begins
        return np.max([_densest(some) for some in _overlapping([*self._costs[first:], *more])], axis=0)

    @property
    def _last(self) -> float:
        """Where the last window ends so far."""
        return self._reach[-1] if self._reach else -math.inf

    def _of_one(self, shape: Shape) -> float | Fraction:
        """Return what a release adds to a sum along one coupling, exactly; ∞ is a float, and so are sums with it."""
        known = self._single.get(id(shape))
        if known is None:
            asked = UnitReleases(self.scenario, self.prior, [Cost(shape)], _ELSEWHERE)
            loss = min(rule.pure(asked) for rule in _SUMS)
            known = self._single[id(shape)] = shape, loss if math.isinf(loss) else Fraction(loss)
        return known[1]

    def _along(self, costs: Sequence[Cost]) -> bool:
        """Say whether releases lie along a chain that starts at rest, where the place of a window does not matter."""
        rest = isinstance(self.prior, ChainPrior) and self.prior.repeats is not None
        if not rest or not isinstance(self.scenario.secret, Secret):
            return False
        return not costs or Timeline.fits(self.scenario, self.prior, [*self._costs[:1], *costs])

    def _endless(self, most: Floats) -> float:
        """Return what steps tell for ever that are all exposed as much as the most exposed one."""
        if not np.isfinite(most).all() or not isinstance(self.prior, ChainPrior):
            return math.inf
        if not most.any():
            return 0.0
        key = most.tobytes()
        if key not in self._for_ever:
            turn = np.arange((self.prior.period or 1) + 1.0)
            chain = self.prior.chain(turn) if isinstance(self.prior, MarkovChain) else self.prior.chains(turn)[0]
            one = Exposures(most[None], np.zeros(1, dtype=np.intp))
            self._for_ever[key] = endless(chain, one, secrets_of(self.scenario.secret)).value
        return self._for_ever[key]


def _overlapping(costs: Sequence[Cost]) -> Iterator[list[Cost]]:
    """Yield the costs in sets whose windows hang together; between two sets there may be very many steps."""
    some, reach = list[Cost](), -math.inf
    for cost in sorted(costs, key=lambda one: window_of(one)[0]):
        low, high = window_of(cost)
        if some and low >= reach:
            yield some
            some = []
        some.append(cost)
        reach = max(reach, high)
    yield some


def _densest(costs: Sequence[Cost]) -> Floats:
    """Return the most exposed step of some windows, entry by entry; ∞ if there are too many steps to look at."""
    if len(costs) == 1:
        return costs[0].shape.exposure
    try:
        return np.asarray(exposed(costs)[1].losses.max(axis=0))
    except Refused:
        return np.full_like(costs[0].shape.exposure, math.inf)
