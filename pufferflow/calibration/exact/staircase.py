"""The exact loss of two laws with staircase noise, and the least scale that keeps a guarantee (M6, M12)."""

from collections.abc import Callable
from typing import cast, final

import numpy as np

from pufferflow.calibration.bound import LossCurve, Worst
from pufferflow.calibration.dagwm import ball_of
from pufferflow.calibration.exact import piecewise_constant
from pufferflow.calibration.exact.piecewise_constant import PiecewiseConstant
from pufferflow.calibration.law_pairs import Pair, finite_laws
from pufferflow.calibration.turning_scales import Excess, Turns, least_scale_of, too_small
from pufferflow.distributions.coupling import Certainty, all_differences
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.guarantee import Guarantee

_BUDGET = 3e7
_PER_TABLE = 3e4
_MOST_TABLES = 1e7


@final
class OneOrder(LossCurve):
    """The losses of mu against nu, not of nu against mu; the table of the last scale is cached."""

    certainty = Certainty.EXACT
    sensitivity = 0.0

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._ball = ball_of(pair, Staircase(1.0, 1.0))
        self._last: tuple[Noise, PiecewiseConstant] | None = None

    def pure(self, noise: Noise) -> Worst:
        """Return the pure loss, at most the ball's, which rounding up must not exceed by a jump."""
        return Worst(min(self._table(noise).pure(), self._ball.pure(noise).value), self.pair)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        return Worst(self._table(noise).renyi(alpha), self.pair)

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        return Worst(self._table(noise).delta(epsilon), self.pair)

    def _table(self, noise: Noise) -> PiecewiseConstant:
        if self._last is None or self._last[0] != noise:
            self._last = noise, piecewise_constant.with_staircase(self.pair, cast(Staircase, noise))
        return self._last[1]


def worst_order(pair: Pair, loss: Callable[[OneOrder], Worst]) -> Worst:
    """Return the larger loss of both orders."""
    return max((loss(OneOrder(order)) for order in (pair, pair.swapped())), key=lambda worst: worst.value)


def least_scale(pair: Pair, family: Family, guarantee: Guarantee, above: float, high: float) -> float:
    """Return the least scale ≥ above that keeps a guarantee exactly, within the work limit; `high` keeps it."""
    stairs = cast(Staircase, family(1.0))
    orders = [OneOrder(pair), OneOrder(pair.swapped())]

    def excess(curve: LossCurve, one: Guarantee) -> Excess:
        return lambda scale: curve.excess(family(scale), one)

    excesses = [excess(curve, one) for curve in orders for one in guarantee.singles]
    mu, nu = finite_laws(pair)
    distances = np.concatenate([all_differences(*both).ravel() for both in ((mu, nu), (mu, mu), (nu, nu))])
    work = 2.0 * (len(mu) + len(nu)) ** 2
    farthest = float(np.abs(distances).max())
    low = max(above, too_small(pair, stairs, guarantee), farthest * work / _MOST_TABLES)
    return least_scale_of(excesses, Turns(stairs, distances, work + _PER_TABLE, _BUDGET), low, max(high, above))
