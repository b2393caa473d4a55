"""The distribution-aware mechanism: weight every movement by its probability (M5)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from pufferflow.calibration.bound import BallLoss, Bound, LossCurve, Worst
from pufferflow.calibration.distance_bounds import GWM
from pufferflow.calibration.law_pairs import Pair, finite_laws
from pufferflow.calibration.laws import WorkEstimate, as_laws, only_if_small
from pufferflow.calibration.turning_scales import Turns, least_scale_of, too_small
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions import common_units as masses
from pufferflow.distributions import wasserstein_1d as line
from pufferflow.distributions.coupling import Certainty, all_differences
from pufferflow.distributions.distances import MOST_PAIRS
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.guarantee import Divergence, Guarantee

_MOST_TRIED = 2_000_000
"""The most pairs of atoms, of all laws, for which a transport problem is solved where the quantile coupling is good."""
_MOST_TRIED_EACH = 250_000
_PER_CELL = 8e4
"""The number of operations per pair of atoms of all transport problems in a search for a scale."""
_PER_LOSS = 2e4
_STAIRS_BUDGET = 1e7


@final
@suggests_arguments
@dataclass(frozen=True)
class DAGWM(Bound):
    """RPP Theorem 4.5 with q = 1 (M5): loss = log inf_π E exp((α−1)·D_α(ζ_{x−y} ‖ ζ))/(α−1) over couplings π.

    On R the quantile coupling is optimal if the cost is convex in |x − y|: for Laplace and Gaussian noise, and for
    generalized Cauchy noise with k(α−1) ≥ 1; with generalized Cauchy noise this is the mechanism of RPP Cor. 4.1.
    Elsewhere POT searches for a better one; its result is a coupling, so the loss is valid. For (ε, δ) the cost is the
    hockey stick; a pure guarantee gains nothing over `pf.GWM`. The loss is never above that of `pf.GWM`.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> c = pf.calibrate([pair], pf.Renyi(4, 1.0), noise=pf.Laplace, bound=DAGWM())
    >>> round(c.noise.scale, 3)
    15.776
    """

    name = "dagwm"
    rank = 1

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> Sequence[Bound]:
        """Return none for pure guarantees, nor for those of all orders, where nothing is gained over `pf.GWM`."""
        gains = guarantee.divergence in (Divergence.RENYI, Divergence.HOCKEY_STICK)
        return [cls()] if gains else []

    def work(self, sizes: WorkEstimate, guarantee: Guarantee) -> float:
        """Return the work of all transport plans; problems for (ε, δ) take most of it."""
        cells = sizes.atoms * sizes.atoms
        solved = guarantee.divergence is Divergence.HOCKEY_STICK and cells <= min(
            _MOST_TRIED_EACH, _MOST_TRIED / sizes.number
        )
        return super().work(sizes, guarantee) + (sizes.number * cells * _PER_CELL if solved else 0.0)

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        """Return one curve per pair; the ball's where the laws are translates, or only a movement is known."""
        if as_laws(pairs).movement_only:
            return [*GWM().parts(pairs, noise)]
        only_if_small(pairs)
        gaussian = [pair for pair in pairs if isinstance(pair.mu, GaussianLaw)]
        finite = [pair for pair in pairs if not isinstance(pair.mu, GaussianLaw)]
        parts: list[LossCurve] = [*GWM().parts(gaussian, noise)] if gaussian else []
        tried = min(_MOST_TRIED_EACH, _MOST_TRIED // max(len(finite), 1))
        return parts + [TransportLoss(pair, noise, tried) for pair in finite]


@final
class TransportLoss(LossCurve):
    """One pair of finite laws, with its quantile coupling on R, and POT's where that may not be optimal."""

    def __init__(self, pair: Pair, noise: Noise, tried: int = _MOST_TRIED_EACH) -> None:
        self.pair = pair
        self._tried = tried
        self.ball = ball_of(pair, noise)
        self.plan = line.plan(*finite_laws(pair)) if pair.dimension == 1 else None
        self.sensitivity = self.ball.radius
        exact = self.plan is not None and self.plan.settled and self.ball.certainty == Certainty.EXACT
        self.certainty = Certainty.EXACT if exact else Certainty.UPPER_BOUND

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        """Return log E exp((α−1)·D_α(x−y))/(α−1), no more than the ball's."""

        def exponents(differences: Floats) -> Floats:
            losses = noise.renyi(differences, alpha)  # for vectors the losses of independent coordinates add
            summed = losses if self.pair.dimension == 1 else np.asarray(np.sum(losses, axis=-1))
            return (alpha - 1) * summed * (1 + 2 * UNIT)

        def loss(pair: Pair) -> float:
            return self._log_expected(pair, exponents, optimal=noise.convex(alpha)) / (alpha - 1) * (1 + UNIT)

        return self._worst(noise, loss, lambda: self.ball.renyi(noise, alpha))

    def zcdp(self, noise: Noise) -> Worst:
        """Return the ball's loss, the only one known for all orders at once."""
        return self.ball.zcdp(noise)

    def gdp(self, noise: Noise) -> Worst:
        """Return the ball's loss, the only one known for the trade-off curve."""
        return self.ball.gdp(noise)

    def pure(self, noise: Noise) -> Worst:
        """Return the ball's loss: the Rényi losses tend to that of the farthest movement."""
        return self.ball.pure(noise)

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        """Return E δ_{x−y}(ε), no more than the ball's; by Rényi orders where a vector's hockey stick is not known."""
        if self.pair.dimension > 1 and noise.delta_within(1.0, epsilon, self.pair.dimension) is None:
            return super().delta(noise, epsilon)

        def hockey(differences: Floats) -> Floats:
            if self.pair.dimension == 1:
                return noise.delta(differences, epsilon)
            lengths = masses.norms(np.moveaxis(differences, -1, 0), 2)
            return noise.delta(lengths * (1 + 8 * UNIT), epsilon)

        def loss(pair: Pair) -> float:
            return self._expected(pair, hockey, optimal=False)

        return self._worst(noise, loss, lambda: self.ball.delta(noise, epsilon))

    def scale_above(self, family: Family, guarantee: Guarantee, above: float) -> float:
        """Return the least scale found; losses of staircase noise need not fall as the scale grows."""
        stairs = family(1.0)
        if not isinstance(stairs, Staircase):
            return super().scale_above(family, guarantee, above)
        if above == 0 and self.excess(family(0.0), guarantee) <= 0:
            return 0.0
        singles = [partial(self._excess, family, one) for one in guarantee.singles]
        distances = all_differences(*finite_laws(self.pair)).ravel()
        turns = Turns(stairs, distances, _PER_LOSS * len(np.unique(np.abs(distances))), _STAIRS_BUDGET)
        low = max(above, too_small(self.pair, stairs, guarantee))
        return least_scale_of(singles, turns, low, max(self.ball.least_scale(family, guarantee), above))

    def least_scale(self, family: Family, guarantee: Guarantee) -> float:
        if isinstance(family(1.0), Staircase):
            self.check(guarantee)
            return self.scale_above(family, guarantee, 0.0)
        return super().least_scale(family, guarantee)

    def _excess(self, family: Family, promise: Guarantee, scale: float) -> float:
        return self.excess(family(scale), promise)

    def enough(self, family: Family, guarantee: Guarantee) -> float:
        try:
            return self.ball.least_scale(family, guarantee)
        except Refused:
            return super().enough(family, guarantee)

    def _worst(self, noise: Noise, loss: Callable[[Pair], float], ceiling: Callable[[], Worst]) -> Worst:
        """Return the larger loss of both orders (one will do if the noise is symmetric), at most the ball's."""
        if noise.scale == 0:
            return Worst(0.0 if self.sensitivity == 0 else ceiling().value, self.pair)
        orders = [self.pair] if noise.symmetric else [self.pair, self.pair.swapped()]
        worst = max((Worst(loss(pair), pair) for pair in orders), key=lambda worst: worst.value)
        try:
            return min(worst, Worst(ceiling().value, worst.witness), key=lambda worst: worst.value)
        except Refused:  # the noise has losses of single coordinates, but of no ball of vectors
            return worst

    def _log_expected(self, pair: Pair, exponents: Callable[[Floats], Floats], *, optimal: bool) -> float:
        """Return log E e^exponent, rounded up, where e^exponent itself would over- or underflow too."""
        moves = self.plan.differences if self.plan is not None else all_differences(*finite_laws(pair))
        top = float(np.max(exponents(self._sign(pair) * moves)))
        if top == math.inf:
            return math.inf
        if top <= 1:
            grown = self._expected(pair, lambda steps: np.expm1(exponents(steps)) * (1 + 4 * UNIT), optimal=optimal)
            return math.log1p(grown) * (1 + 4 * UNIT)

        def relative(steps: Floats) -> Floats:
            with np.errstate(under="ignore", over="ignore"):
                return np.exp(np.minimum(exponents(steps) - top, 0.0)) * (1 + 8 * UNIT + 2 * UNIT * top)

        return max(top + math.log(self._expected(pair, relative, optimal=optimal)) + 4 * UNIT * (top + 1), 0.0)

    def _expected(self, pair: Pair, cost: Callable[[Floats], Floats], *, optimal: bool) -> float:
        """Return E cost under the best coupling found, rounded up; the quantile coupling may be known to be optimal."""
        mu, nu = finite_laws(pair)
        price, count = math.inf, len(mu) * len(nu)
        if self.plan is not None:
            price = self.plan.price(cost(self._sign(pair) * self.plan.differences))
        if (self.plan is not None and (optimal or count > self._tried)) or count > MOST_PAIRS:
            return price
        from pufferflow.distributions import emd  # POT takes longer to import than everything else here together

        costs = cost(all_differences(mu, nu))
        most = float(costs.max())
        if most in (0.0, math.inf):
            return min(price, most)
        plan = emd.cheapest(mu, nu, costs / most)
        return min(price, plan.price(costs[plan.rows, plan.columns]))

    def _sign(self, pair: Pair) -> float:
        """Return 1 for the pair in the order of the transport plan, −1 for the other."""
        return 1.0 if pair is self.pair else -1.0


def ball_of(pair: Pair, noise: Noise) -> BallLoss:
    """Return the loss curve of `pf.GWM` for one pair, which finer bounds never exceed."""
    (ball,) = GWM().parts([pair], noise)
    return ball
