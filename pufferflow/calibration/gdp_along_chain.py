"""From a mechanism that is μ-Gaussian in each row of a chain, all others fixed, to an (ε, δ) of the chain (M37).

A mechanism whose trade-off for any one row is no worse than that of two normal laws μ standard deviations apart keeps
(ε₀, δ₀) in each row for every ε₀, with δ₀ their hockey stick. Along the chain it keeps ε(ε₀) with δ = growth(ε₀)·δ₀.
The ε₀ with the smallest ε for a δ is searched; the result is valid for any ε₀.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.errors import Refused
from pufferflow.core.roots import largest_without, smallest
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.row_mechanisms import RowLeak, leak_of_rows
from pufferflow.distributions.markov.state_loss import Secrets
from pufferflow.privacy.conversions import gaussian_deltas

_STEPS = 8
"""The number of steps per octave of ε₀ in the search for the best one."""
_LEAST, _MOST = -40 * _STEPS, 4 * _STEPS
_TOLERANCE = 1e-9
_TINY = 1e-300
_SURELY = 1 + 64 * UNIT
_LARGEST = 600.0
_EVERYTHING = RowLeak(math.inf, math.inf, endless=False)


@final
@dataclass(frozen=True, eq=False)
class RowBridge:
    """The bridge from single rows to a chain; with `endless` it holds for sequences of any number of turns.

    >>> chain = Chain(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.zeros(4000, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> bridge = RowBridge(chain, Secrets(np.array([[0, 1], [1, 0]])), endless=True)
    >>> round(1 / bridge.deviations(1.0, 1e-6), 5), round(bridge.epsilon(1 / 36.586640, 1e-6), 6)
    (36.58664, 1.0)
    """

    chain: Chain | Chains
    secrets: Secrets
    endless: bool = False
    _leaks: dict[float, RowLeak] = field(default_factory=dict[float, RowLeak], repr=False)

    def epsilon(self, deviations: float, delta: float) -> float:
        """Return an ε kept with a δ by mechanisms that are `deviations`-Gaussian in each row; ∞ if none is found."""
        if deviations == 0:
            return 0.0
        if not (math.isfinite(deviations) and 0 < delta < 1):
            return math.inf

        def excess(epsilon: float) -> float:
            return self._excess(deviations, delta, epsilon)

        high = self._enough(excess)
        return math.inf if high is None else self.leak(smallest(excess, high, _TOLERANCE)).loss

    def deviations(self, epsilon: float, delta: float) -> float:
        """Return the largest μ found that keeps an ε with a δ along the chain; 0 if none does."""
        if not (0 < epsilon < math.inf and 0 < delta < 1):
            return 0.0
        own = self.row_loss(epsilon)
        return largest_without(lambda one: self._excess(one, delta, own), 1.0, _TOLERANCE) if own else 0.0

    def row_loss(self, epsilon: float) -> float:
        """Return the largest pure loss found for each row that keeps an ε along the chain; 0 if none does."""
        if not 0 < epsilon < math.inf:
            return 0.0
        # no row loses more than the chain
        return largest_without(lambda one: self.leak(one).loss / epsilon - 1, epsilon, _TOLERANCE)

    def _excess(self, deviations: float, delta: float, epsilon: float) -> float:
        """Return the log of the factor by which the δ that follows from ε₀ exceeds the wanted one."""
        own = min(float(gaussian_deltas(np.array([deviations]), epsilon)[0]), 1.0)
        return math.log(max(self.leak(epsilon).growth * own * _SURELY, _TINY) / delta)

    def leak(self, epsilon: float) -> RowLeak:
        """Return the chain's loss for a loss ε₀ of each row, with the factor of its δ₀."""
        if epsilon not in self._leaks:
            self._leaks[epsilon] = self._leak(epsilon)
        return self._leaks[epsilon]

    def _leak(self, epsilon: float) -> RowLeak:
        if not epsilon <= _LARGEST:  # beyond it nothing is hidden, and exponentials overflow
            return _EVERYTHING
        found = self._leak_along(self.chain, epsilon)
        return self._leak_along(self._coarse, epsilon) if found is _EVERYTHING and self._coarse is not None else found

    @cached_property
    def _coarse(self) -> Chain | None:
        """The same endless chain with coarser messages, which converge sooner; None if there is none."""
        finer = self.endless and isinstance(self.chain, Chain) and self.chain.states > 2 and not self.chain.coarse
        return replace(self.chain, coarse=True) if finer and isinstance(self.chain, Chain) else None

    def _leak_along(self, chain: Chain | Chains, epsilon: float) -> RowLeak:
        try:
            found = leak_of_rows(chain, epsilon, self.secrets)
        except Refused:  # a state with a probability too small for a float
            return _EVERYTHING
        known = (found.endless or not self.endless) and math.isfinite(found.loss) and math.isfinite(found.growth)
        return found if known else _EVERYTHING

    def _enough(self, excess: Callable[[float], float]) -> float | None:
        """Return a step of ε₀ without excess that follows a step with excess; None if there is none."""
        low, high = _LEAST, _MOST
        while not excess(_at(high)) <= 0:
            high -= _STEPS // 2
            if high < -2 * _MOST:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if excess(_at(middle)) <= 0 else (middle, high)
        return _at(high)


def _at(place: int) -> float:
    return 2.0 ** (place / _STEPS)
