"""The exact loss of two laws with staircase noise or none: densities that are constant on pieces (M6, M12)."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.calibration.bound import LossCurve, Worst
from pufferflow.calibration.laws import Pair, finite_laws
from pufferflow.calibration.transport_bounds import (
    Excess,
    Turns,
    ball_of,
    least_scale_of,
    too_small,
)
from pufferflow.core.arrays import Floats, Indices, log_sum
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.distributions import common_units
from pufferflow.distributions.coupling import Certainty, all_differences
from pufferflow.distributions.finite_law import Law, log_quotient
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.guarantee import Guarantee

_MOST_PIECES = 20_000_000
_LEAST = 1e-300
"""More than a mass can lose by underflow."""


class PiecewiseConstant:
    """log p and log q on pieces of given weight; −∞ where one of them is 0."""

    def __init__(self, log_p: Floats, log_q: Floats, log_weights: Floats) -> None:
        self.log_p, self.log_q, self.log_weights = log_p, log_q, log_weights
        sizes = [
            np.abs(logs[np.isfinite(logs)]).max(initial=0.0) for logs in (log_p, log_q, log_weights)
        ]
        self.rounding = 8 * UNIT * (float(sum(sizes)) + math.log2(len(log_p)) + 8)

    def pure(self) -> float:
        """Return the largest log ratio."""
        held = self.log_p > -math.inf
        worst = float((self.log_p[held] - self.log_q[held]).max())
        return 0.0 if worst == 0 else max(worst + self.rounding, 0.0)

    def renyi(self, alpha: float) -> float:
        """Return log Σ weight·p^α q^{1−α} / (α−1)."""
        held = self.log_p > -math.inf
        if (self.log_q[held] == -math.inf).any():
            return math.inf
        if (self.log_p == self.log_q).all():
            return 0.0
        logs = alpha * self.log_p[held] - (alpha - 1) * self.log_q[held] + self.log_weights[held]
        top = float(logs.max())
        total = top + math.log(math.fsum(np.exp(logs - top)))
        return (
            max(total + (2 * alpha - 1) * self.rounding + 4 * UNIT, 0.0) / (alpha - 1) * (1 + UNIT)
        )

    def delta(self, epsilon: float) -> float:
        """Return Σ weight·(p − e^ε q)_+."""
        held = self.log_p > -math.inf
        log_p, log_q = self.log_p[held], self.log_q[held]
        hair = 2 * self.rounding + 4 * UNIT * epsilon
        above = log_p > log_q + epsilon - hair
        with np.errstate(under="ignore"):
            p = np.exp(log_p + self.log_weights[held])[above]
            parts = p * -np.expm1(np.minimum(log_q[above] + epsilon - log_p[above], 0.0))
        return min(math.fsum(parts) + hair * math.fsum(p) + _LEAST * len(p), 1.0)


def without_noise(pair: Pair) -> PiecewiseConstant:
    """Return the table of the laws themselves: each atom of either, and its two weights."""
    mu, nu = finite_laws(pair)
    rows, columns, count = _places(mu, nu)
    logs = np.full((2, count), -math.inf)
    logs[0, rows], logs[1, columns] = mu.log_probabilities, nu.log_probabilities
    return PiecewiseConstant(logs[0], logs[1], np.zeros(count))


def pure_without_noise(pair: Pair) -> float:
    """Return the largest log ratio of weights, from the exact ratio where weights are rational."""
    mu, nu = finite_laws(pair)
    rows, columns, _ = _places(mu, nu)
    if not np.isin(rows, columns).all():
        return math.inf
    if not (mu.exact and nu.exact):
        return without_noise(pair).pure()
    other = dict(zip(columns.tolist(), nu.masses.tolist(), strict=True))
    ratios = (
        Fraction(mass * nu.total, other[place] * mu.total)
        for place, mass in zip(rows.tolist(), mu.masses.tolist(), strict=True)
    )
    worst = max(ratios)
    return math.log(float_above(worst)) * (1 + 2 * UNIT) if worst > 1 else 0.0


def _places(mu: Law, nu: Law) -> tuple[Indices, Indices, int]:
    """Return the positions of the atoms of both laws among all atoms, and the number of all."""
    left, right = common_units.values(mu, nu)
    if left.dtype == object:
        known: dict[object, int] = {}
        keys = [
            [tuple(atom) for atom in atoms.reshape(len(atoms), -1).tolist()]
            for atoms in (left, right)
        ]
        first, second = ([known.setdefault(key, len(known)) for key in side] for side in keys)
        return np.array(first), np.array(second), len(known)
    _, places = np.unique(np.concatenate([left, right]), axis=0, return_inverse=True)
    places = places.ravel()
    return places[: len(mu)], places[len(mu) :], int(places.max()) + 1


def with_staircase(pair: Pair, noise: Staircase) -> PiecewiseConstant:
    """Return the table of both densities on R: constant between jumps, and repeating beyond the hull.

    Beyond the outermost atoms each further step of both densities is e^{−ε} times the one before. So the first step
    outside counts 1/(1 − e^{−ε}) times. Jumps are placed in exact integers: a piece of one ulp can have the most
    weight.
    """
    mu, nu = finite_laws(pair)
    if mu.dimension > 1:
        raise Refused(
            "Staircase noise needs an answer of one coordinate.",
            allowed="answers of one coordinate",
            instead="noise=pf.Laplace",
        )
    left, right, width, share = _in_whole_numbers(mu, nu, noise)
    atoms = [*left, *right]
    low, high = min(atoms), max(atoms)
    count = (high - low) // width + 2
    if len(atoms) ** 2 * count * 2 > _MOST_PIECES:
        raise Refused(
            f"{len(atoms)} atoms over {float_above(Fraction(high - low, width)):.3g} steps of a staircase have too "
            "many jumps.",
            allowed="fewer atoms, or wider steps",
            instead="bound=pf.GWM()",
        )
    kind = np.int64 if max(high + 3 * width, 3 * width - low) < 2**62 else object
    jumps = np.array([share + width * step for step in range(count)], dtype=kind)
    places = np.array(atoms, dtype=kind)[:, None]
    rises, falls = places + jumps, places - jumps
    bounds = np.array([low - width, low, high, high + width], dtype=kind)
    ends = np.unique(np.concatenate([rises.ravel(), falls.ravel(), bounds]))
    ends = ends[(ends >= low - width) & (ends <= high + width)]
    passed = _counts(np.searchsorted(ends, rises), len(ends))[
        :, :-1
    ]  # jumps at or before a piece's lower end
    ahead = _counts(np.searchsorted(ends, falls), len(ends))
    ahead = ahead[:, -1:] - ahead[:, :-1]  # jumps at or beyond its upper end
    logs = -noise.epsilon * (passed + ahead)
    highest = float(noise.at(1.0).logpdf(0.0)) + (noise.epsilon if share == 0 else 0.0)
    log_p, log_q = (
        log_sum((logs[rows] + law.log_probabilities[:, None]).T) + highest
        for rows, law in ((slice(None, len(mu)), mu), (slice(len(mu), None), nu))
    )
    outside = (ends[:-1] < low) | (ends[1:] > high)
    log_widths = np.array([log_quotient(length, width) for length in np.diff(ends).tolist()])
    return PiecewiseConstant(
        log_p, log_q, log_widths - np.where(outside, math.log(-math.expm1(-noise.epsilon)), 0.0)
    )


def _in_whole_numbers(mu: Law, nu: Law, noise: Staircase) -> tuple[list[int], list[int], int, int]:
    """Return atoms, step and the distance of the first jump, all times one common denominator."""
    width = Fraction(noise.scale)
    numbers = [[Fraction(x) for x in law.values.tolist()] for law in (mu, nu)]
    share = width * Fraction(noise.gamma or 0.0)
    common = math.lcm(*(number.denominator for number in [*numbers[0], *numbers[1], width, share]))
    left, right = ([int(x * common) for x in side] for side in numbers)
    return left, right, int(width * common), int(share * common)


def _counts(places: Indices, size: int) -> npt.NDArray[np.int64]:
    """Return for each row how many of its positions are at or before 0, 1, 2 and so on."""
    rows = np.arange(len(places))[:, None]
    tally = np.bincount(
        (rows * (size + 1) + np.minimum(places, size)).ravel(), minlength=len(places) * (size + 1)
    )
    return tally.reshape(len(places), size + 1)[:, :size].cumsum(axis=1)


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
            self._last = noise, with_staircase(self.pair, cast(Staircase, noise))
        return self._last[1]


def worst_order(pair: Pair, loss: Callable[[OneOrder], Worst]) -> Worst:
    """Return the larger loss of both orders."""
    return max(
        (loss(OneOrder(order)) for order in (pair, pair.swapped())), key=lambda worst: worst.value
    )


def least_scale(
    pair: Pair, family: Family, guarantee: Guarantee, above: float, high: float
) -> float:
    """Return the least scale ≥ above that keeps a guarantee exactly, within the work limit; `high` keeps it."""
    stairs = cast(Staircase, family(1.0))
    orders = [OneOrder(pair), OneOrder(pair.swapped())]

    def excess(curve: LossCurve, one: Guarantee) -> Excess:
        return lambda scale: curve.excess(family(scale), one)

    excesses = [excess(curve, one) for curve in orders for one in guarantee.singles]
    mu, nu = finite_laws(pair)
    distances = np.concatenate(
        [all_differences(*both).ravel() for both in ((mu, nu), (mu, mu), (nu, nu))]
    )
    work = 2.0 * (len(mu) + len(nu)) ** 2
    farthest = float(np.abs(distances).max())
    low = max(above, too_small(pair, stairs, guarantee), farthest * work / _MOST_TABLES)
    return least_scale_of(
        excesses, Turns(stairs, distances, work + _PER_TABLE, _BUDGET), low, max(high, above)
    )
