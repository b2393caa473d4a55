"""Bounds from couplings: DAGWM (M5), Kantorovich's (Ding 2022), and Gaussian noise with a random shift (M1).

The exact losses of staircase noise may rise with its scale, but are linear between turns (M6, M12). Jumps lie γ + j
steps beside each atom. Pieces of both densities appear or vanish only at scales where jumps of two atoms meet. Between
two such scales the densities' values stay, and lengths in steps are linear in 1/scale. So E e^((α−1)·loss) and the
hockey stick of the two laws in one order are linear in 1/scale there. The pure loss is constant. (Under the best
coupling they are minima of linear functions, so concave.) Whether some scale of a piece keeps a guarantee is decided at
its ends, and the least one is found by bisection. The search starts at the least scale; the loss at the scale that it
returns was computed.

With Gaussian noise a pair of data sets moves an answer by some standard deviations: a random shift under a coupling
(M1). For one Rényi order, or at one δ, the loss is at most the mean over the pairs of a coupling. That may be far below
the loss of the worst pair.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

import numpy as np

from pufferflow.calibration.bound import BallLoss, Bound, LossCurve, Worst
from pufferflow.calibration.distance_bounds import GWM
from pufferflow.calibration.laws import Laws, Pair, as_laws, finite_laws, only_if_small
from pufferflow.core.arrays import Floats, Indices, log_sum
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, smallest, upwards
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions import common_units, wasserstein_1d
from pufferflow.distributions.coupling import (
    Certainty,
    TransportPlan,
    all_differences,
    plan_of_coupling,
)
from pufferflow.distributions.distances import MOST_PAIRS, winf
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.conversions import DEFAULT_ORDERS, gaussian_deltas, gdp_to_approx
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, GuaranteeFamily, Pure
from pufferflow.privacy.renyi import RenyiCurve

HAIR: Final = 2.0**-40
"""The most by which the drawn scale exceeds the proven one; both lie in one piece, and keep the guarantee."""
_ULPS: Final = 2.0**-50
_CLOSE: Final = 1e-10
_MOST_TURNS: Final = 1e6
_SHARES: Final = tuple(2.0**-power for power in range(1, 41))

Excess = Callable[[float], float]
"""The excess of a scale over a guarantee: at most 0 exactly if the scale keeps it."""


@final
@dataclass(frozen=True, eq=False)
class Turns:
    """What determines the turns of losses: the staircase, the distances of atoms, and the work of a loss."""

    stairs: Staircase
    distances: Floats
    work: float
    """The operations for the losses at a scale, divided by 1 + (farthest distance)/scale."""
    budget: float

    def between(self, low: float, high: float) -> list[float]:
        """Return `low` and the turns up to `high`; only the largest turns where all of them take too much work."""
        total = float(np.abs(self.distances).sum())
        least = max(low, 3 * total / _MOST_TURNS)
        turns = self.stairs.bends_of(self.distances, least, high)
        work = np.cumsum(
            1.0 + self.work * (1 + np.abs(self.distances).max(initial=0.0) / turns[::-1])
        )
        left_out = len(turns) - int(np.searchsorted(work, self.budget))
        return turns[left_out:].tolist() if left_out else [least, *turns.tolist()]


def least_scale_of(excesses: Sequence[Excess], turns: Turns, low: float, high: float) -> float:
    """Return the least scale ≥ low that keeps every guarantee, within the work limit; `high` is known to keep them.

    All scales slightly above it, up to the one drawn, keep the guarantees too.
    """
    for start, end in itertools.pairwise([*turns.between(low, high), high]):
        found = _least_in_piece(excesses, start * (1 + _ULPS), end * (1 - _ULPS))
        if found is not None:
            rounder = found == start * (1 + _ULPS) and start >= low
            return (
                start
                if rounder and _kept(excesses, start) and _kept(excesses, start * (1 + HAIR))
                else found
            )
    return high


def _least_in_piece(excesses: Sequence[Excess], low: float, high: float) -> float | None:
    """Return the least scale of a piece that keeps all guarantees; None if there is none.

    Each excess is computed at most once: a guarantee kept at both ends is kept between them.
    """
    if not 0 < low * (1 + HAIR) < high:
        return None
    scale = low
    while (broken := next((excess for excess in excesses if excess(scale) > 0), None)) is not None:
        if broken(high) > 0:
            return None
        scale = _crossing(broken, scale, high)
    return scale if scale * (1 + HAIR) < high and _kept(excesses, scale * (1 + HAIR)) else None


def _kept(excesses: Sequence[Excess], scale: float) -> bool:
    return all(excess(scale) <= 0 for excess in excesses)


def _crossing(excess: Excess, low: float, high: float) -> float:
    """Return the least scale, to a relative 1e-10, that keeps a guarantee which `low` breaks and `high` keeps."""
    while high > low * (1 + _CLOSE):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def too_small(pair: Pair, stairs: Staircase, guarantee: Guarantee) -> float:
    """Return a scale up to which staircase noise of this shape breaks a guarantee that the laws break without noise.

    Each atom keeps all but a share t of its noise closer than half the least gap. So the cells around the atoms have
    probabilities of at least μ(1 − t) and at most ν + t. The exact loss is at least the loss of these.
    """
    mu, nu = finite_laws(pair)
    atoms = np.unique(np.concatenate([mu.values, nu.values]).astype(np.float64))
    if len(atoms) < 2:
        return 0.0
    weights = np.zeros((2, len(atoms)))
    for row, law in zip(weights, (mu, nu), strict=True):
        np.add.at(
            row,
            np.searchsorted(atoms, law.values.astype(np.float64)),
            np.exp(law.log_probabilities),
        )
    gap = float(np.diff(atoms).min())
    for share in _SHARES:
        if any(
            _broken(p, q, share, one)
            for p, q in (weights, weights[::-1])
            for one in guarantee.singles
        ):
            return gap / 2 / float(stairs.reach(np.asarray(share / 2))) * (1 - _CLOSE)
    return 0.0


def _broken(p: Floats, q: Floats, share: float, promise: Guarantee) -> bool:
    least, most = p * (1 - share), q + share
    with np.errstate(over="ignore"):
        match promise.divergence:
            case Divergence.LOG_RATIO:
                return float((least / most).max()) > math.exp(min(promise.epsilon, 700.0))
            case Divergence.RENYI:
                total = float((least * (least / most) ** (promise.alpha - 1)).sum())
                return total > 0 and math.log(total) > (promise.alpha - 1) * promise.epsilon
            case Divergence.HOCKEY_STICK:
                odds = math.exp(min(promise.epsilon, 700.0))
                return float(np.maximum(least - odds * most, 0).sum()) > promise.delta
            case Divergence.CONCENTRATED | Divergence.GAUSSIAN:
                return False


_TOLERANCE = 1e-9


def least(promises: Sequence[Guarantee], kind: GuaranteeFamily) -> float:
    """Return the least loss of a kind that follows from any of several guarantees; ∞ if none does."""
    return min((kind.loss_from(promise) for promise in promises), default=math.inf)


def mean_of_shifts(shifts: Floats, masses: Floats, kind: GuaranteeFamily) -> float:
    """Return the mean loss of Gaussian shifts with these probabilities, of a Rényi order or at a δ (M1)."""
    if kind.example.divergence is Divergence.HOCKEY_STICK and kind.example.delta > 0:
        epsilon = mean_epsilon(shifts, masses, kind.example.delta)
        return (
            kind.loss_from(Approx(epsilon, kind.example.delta)) if epsilon < math.inf else math.inf
        )
    with np.errstate(over="ignore"):
        squares = shifts * shifts / 2 * (1 + 2 * UNIT)
    return least(of_orders(lambda alpha: mean_renyi(alpha * squares, masses, alpha), kind), kind)


def mean_renyi(losses: Floats, masses: Floats, alpha: float) -> float:
    """Return log E exp((α−1)·loss)/(α−1), rounded up."""
    exponents = (alpha - 1) * losses * (1 + 2 * UNIT)
    largest = float(exponents.max())
    if largest == math.inf:
        return math.inf
    rounding = 1 + (len(masses) + 16) * UNIT
    if largest < 600:
        return upwards(
            math.log1p(math.fsum(masses * np.expm1(exponents)) * rounding) / (alpha - 1), 8 * UNIT
        )
    with np.errstate(divide="ignore"):
        total = float(log_sum(np.log(masses) + exponents))
    return upwards((total + len(masses) * 8 * UNIT) / (alpha - 1), 64 * UNIT)


def mean_epsilon(shifts: Floats, masses: Floats, delta: float) -> float:
    """Return the ε at which the mean hockey stick of Gaussian shifts is at most δ, rounded up."""
    largest = float(shifts.max())
    if largest == math.inf:
        return (
            math.inf
            if masses[np.isinf(shifts)].sum() >= delta
            else _finite_mean_epsilon(shifts, masses, delta)
        )
    return _finite_mean_epsilon(shifts, masses, delta)


def _finite_mean_epsilon(shifts: Floats, masses: Floats, delta: float) -> float:
    told = float(masses[np.isinf(shifts)].sum()) * (1 + len(masses) * UNIT)
    moving = np.isfinite(shifts) & (shifts > 0)
    shifts, masses = shifts[moving], masses[moving] * (1 + (len(masses) + 4) * UNIT)

    def excess(epsilon: float) -> float:
        hockey = told + math.fsum(masses * np.minimum(gaussian_deltas(shifts, epsilon), 1.0))
        return math.log(max(hockey, math.ulp(0.0)) / delta)

    if not len(shifts) or excess(0.0) <= 0:
        return 0.0
    high = gdp_to_approx(float(shifts.max()), delta)
    while excess(high) > 0 and high < math.inf:
        high *= 2
    return smallest(excess, high, _TOLERANCE) if high < math.inf else math.inf


def of_orders(loss: Callable[[float], float], kind: GuaranteeFamily) -> list[Guarantee]:
    """Return the Rényi guarantees with finite losses from which a kind follows."""
    alpha = kind.example.alpha
    orders = DEFAULT_ORDERS if alpha == math.inf else (alpha,)
    losses = [(order, loss(order)) for order in orders]
    finite = [(order, value) for order, value in losses if value < math.inf]
    return [RenyiCurve(*map(tuple, zip(*finite, strict=True)))] if finite else []


_MOST_TRIED = 2_000_000
"""The most pairs of atoms, of all laws, for which a transport problem is solved where the quantile coupling is good."""
_MOST_TRIED_EACH = 250_000
_PER_CELL = 400.0
"""How many numbers a search for a scale compares for a pair of atoms of a transport problem."""
_PER_LOSS = 2e4
_STAIRS_BUDGET = 1e7


@final
@suggests_arguments
@dataclass(frozen=True)
class DAGWM(Bound):
    """The distribution aware general Wasserstein mechanism (RPP Theorem 4.5 with q = 1, M5).

    Far but rare movements need little noise: loss = log inf_π E exp((α−1)·D_α(ζ_{x−y} ‖ ζ))/(α−1) over couplings π.

    On R the quantile coupling is optimal if the cost is convex in |x − y|. It is for Laplace and Gaussian noise, and
    for generalized Cauchy noise with k(α−1) ≥ 1. With generalized Cauchy noise this is the mechanism of RPP Cor. 4.1.
    Elsewhere POT searches for a better one; its result is a coupling, so the loss is valid. For (ε, δ) the cost is the
    hockey stick. A pure guarantee gains nothing over `pf.GWM`. The loss is never above that of `pf.GWM`.

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
        """Return no bound for pure guarantees and those of all Rényi orders: `pf.GWM` is as good there."""
        gains = guarantee.divergence in (Divergence.RENYI, Divergence.HOCKEY_STICK)
        return [cls()] if gains else []

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        """Return the count of all transport plans; problems for (ε, δ) are most of it."""
        pairs, cells = laws.size.pairs, laws.size.atoms**2
        solved = guarantee.divergence is Divergence.HOCKEY_STICK and cells <= min(
            _MOST_TRIED_EACH, _MOST_TRIED / pairs
        )
        return super().count(laws, guarantee) + (pairs * cells * _PER_CELL if solved else 0.0)

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
        self.plan = wasserstein_1d.plan(*finite_laws(pair)) if pair.dimension == 1 else None
        self.sensitivity = self.ball.radius
        exact = (
            self.plan is not None and self.plan.settled and self.ball.certainty == Certainty.EXACT
        )
        self.certainty = Certainty.EXACT if exact else Certainty.UPPER_BOUND

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        """Return log E exp((α−1)·D_α(x−y))/(α−1), no more than the ball's."""

        def exponents(differences: Floats) -> Floats:
            losses = noise.renyi(
                differences, alpha
            )  # for vectors the losses of independent coordinates add
            summed = losses if self.pair.dimension == 1 else np.asarray(np.sum(losses, axis=-1))
            return (alpha - 1) * summed * (1 + 2 * UNIT)

        def loss(pair: Pair) -> float:
            return (
                self._log_expected(pair, exponents, optimal=noise.convex(alpha))
                / (alpha - 1)
                * (1 + UNIT)
            )

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
        if (
            self.pair.dimension > 1
            and noise.delta_within(1.0, epsilon, self.pair.dimension) is None
        ):
            return super().delta(noise, epsilon)

        def hockey(differences: Floats) -> Floats:
            if self.pair.dimension == 1:
                return noise.delta(differences, epsilon)
            lengths = common_units.norms(np.moveaxis(differences, -1, 0), 2)
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
        turns = Turns(
            stairs, distances, _PER_LOSS * len(np.unique(np.abs(distances))), _STAIRS_BUDGET
        )
        low = max(above, too_small(self.pair, stairs, guarantee))
        return least_scale_of(
            singles, turns, low, max(self.ball.least_scale(family, guarantee), above)
        )

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

    def _worst(
        self, noise: Noise, loss: Callable[[Pair], float], ceiling: Callable[[], Worst]
    ) -> Worst:
        """Return the larger loss of both orders (one will do if the noise is symmetric), at most the ball's."""
        if noise.scale == 0:
            return Worst(0.0 if self.sensitivity == 0 else ceiling().value, self.pair)
        orders = [self.pair] if noise.symmetric else [self.pair, self.pair.swapped()]
        worst = max((Worst(loss(pair), pair) for pair in orders), key=lambda worst: worst.value)
        try:
            return min(worst, Worst(ceiling().value, worst.witness), key=lambda worst: worst.value)
        except Refused:  # the noise has losses of single coordinates, but of no ball of vectors
            return worst

    def _log_expected(
        self, pair: Pair, exponents: Callable[[Floats], Floats], *, optimal: bool
    ) -> float:
        """Return log E e^exponent, rounded up, where e^exponent itself would over- or underflow too."""
        moves = (
            self.plan.differences if self.plan is not None else all_differences(*finite_laws(pair))
        )
        top = float(np.max(exponents(self._sign(pair) * moves)))
        if top == math.inf:
            return math.inf
        if top <= 1:
            grown = self._expected(
                pair, lambda steps: np.expm1(exponents(steps)) * (1 + 4 * UNIT), optimal=optimal
            )
            return math.log1p(grown) * (1 + 4 * UNIT)

        def relative(steps: Floats) -> Floats:
            with np.errstate(under="ignore", over="ignore"):
                return np.exp(np.minimum(exponents(steps) - top, 0.0)) * (
                    1 + 8 * UNIT + 2 * UNIT * top
                )

        return max(
            top + math.log(self._expected(pair, relative, optimal=optimal)) + 4 * UNIT * (top + 1),
            0.0,
        )

    def _expected(self, pair: Pair, cost: Callable[[Floats], Floats], *, optimal: bool) -> float:
        """Return E cost under the best coupling found, rounded up; the quantile coupling may be known to be optimal."""
        mu, nu = finite_laws(pair)
        price, count = math.inf, len(mu) * len(nu)
        if self.plan is not None:
            price = self.plan.price(cost(self._sign(pair) * self.plan.differences))
        if (self.plan is not None and (optimal or count > self._tried)) or count > MOST_PAIRS:
            return price
        from pufferflow.distributions import (
            emd,
        )  # POT takes longer to import than everything else here together

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


@final
@suggests_arguments
@dataclass(frozen=True)
class Kantorovich(Bound):
    """A pure loss between that of `pf.GWM` and the exact one, from one coupling (Ding 2022).

    It is the largest −log E[e^{−D_∞(x−y)} | x] over atoms x.

    Proof: ν∗ζ = E ζ_y ≥ E_x ζ_x·E[e^{−D_∞(x−y)} | x] ≥ min_x E[…|x] · μ∗ζ, and the same from the other side. The
    coupling is the one that attains W_∞, so the loss is never above `pf.GWM`'s. It covers pure guarantees only.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1], [0.25, 0.75])
    >>> round(pf.loss([pair], pf.Laplace(1.0), pf.Pure, bound=pf.GWM()), 4)
    1.0
    >>> round(pf.loss([pair], pf.Laplace(1.0), pf.Pure, bound=Kantorovich()), 4)
    0.3799
    """

    name = "kantorovich"
    rank = 4
    for_constants = False

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> Sequence[Bound]:
        return [cls()] if isinstance(guarantee, Pure) else []

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        only_if_small(pairs)
        return [CouplingLoss(pair, noise) for pair in pairs]


@final
class CouplingLoss(LossCurve):
    """One pair under the coupling that attains W_∞."""

    certainty = Certainty.UPPER_BOUND

    def __init__(self, pair: Pair, noise: Noise) -> None:
        mu, nu = finite_laws(pair)
        self.pair = pair
        self.ball = ball_of(pair, noise)
        self.sensitivity = self.ball.radius
        if mu.dimension == 1:
            self.plan = wasserstein_1d.plan(mu, nu)
        else:
            self.plan = plan_of_coupling(winf(mu, nu, noise.norm, coupling=True).coupling)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        raise Refused(
            "pf.Kantorovich bounds pure losses only.",
            allowed="pf.Pure guarantees",
            instead="bound=pf.DAGWM() for Rényi and (epsilon, delta) guarantees",
        )

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        return self.renyi(noise, 2.0)

    def zcdp(self, noise: Noise) -> Worst:
        """Return the ρ of the pure loss, or that of the ball if it is less: Gaussian noise has no pure loss."""
        return min(super().zcdp(noise), self.ball.zcdp(noise), key=lambda worst: worst.value)

    def gdp(self, noise: Noise) -> Worst:
        """Return the μ of the pure loss, or that of the ball, as for ρ."""
        return min(super().gdp(noise), self.ball.gdp(noise), key=lambda worst: worst.value)

    def enough(self, family: Family, guarantee: Guarantee) -> float:
        return self.ball.least_scale(family, guarantee)

    def pure(self, noise: Noise) -> Worst:
        """Return the larger loss of the worst atoms of both laws, at most the ball's loss."""
        ceiling = self.ball.pure(noise)
        if noise.scale == 0:
            return ceiling
        losses = noise.pure(self.plan.differences)
        factors = np.exp(-(losses if losses.ndim == 1 else losses.sum(axis=-1)))
        left = _worst_atom(self.plan, self.plan.rows, factors)
        right = _worst_atom(self.plan, self.plan.columns, factors)
        worst = Worst(left, self.pair) if left >= right else Worst(right, self.pair.swapped())
        return min(worst, ceiling, key=lambda worst: worst.value)


def _worst_atom(plan: TransportPlan, atoms: Indices, factors: Floats) -> float:
    """Return −log of the least conditional mean of the factors e^{−D_∞} given an atom, rounded up."""
    count = int(atoms.max()) + 1
    mass = np.bincount(atoms, weights=plan.masses, minlength=count)
    mean = np.bincount(atoms, weights=plan.masses * factors, minlength=count)
    least = np.full(count, math.inf)
    np.minimum.at(least, atoms, factors)
    known = mass > 0
    share = np.where(known, mean / np.where(known, mass, 1.0), least)
    if plan.doubts is not None:  # mass misplaced by rounding may be at the worst partner
        doubts = np.zeros(count)
        np.add.at(doubts, atoms[:-1], plan.doubts)
        np.add.at(doubts, atoms[1:], plan.doubts)
        wrong = np.minimum(doubts / np.where(known, mass, 1.0), 1.0)
        share = np.where(known, share - wrong * np.maximum(share - least, 0.0), least)
    with np.errstate(divide="ignore"):
        logs = np.log(share)
    loss = -logs + 8 * UNIT * (1 - logs) + 2 * UNIT * len(atoms)
    return max(float(loss.max()), 0.0)
