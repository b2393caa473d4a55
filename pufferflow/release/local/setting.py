"""Local privacy in two numbers, ε and η, and the divergences that remain between any two laws of rows (TV paper, VII).

A channel is (ε, η)-private if no output is more than e^ε times as likely for one input as for another, and the laws of
its outputs for two inputs differ by η in total variation at most. Of all such channels one dominates: with probability
1 − η(e^ε + 1)/(e^ε − 1) it erases, else it answers by randomised response. M0 and M1 are the laws of outputs of rows
with the laws P0 and P1. The paper prints the largest η upside down: it is tanh(ε/2), not its inverse.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, finite_number_at_least_zero, set_fields
from pufferflow.tradeoff.profile import Profile

_ROUNDINGS = 16 * UNIT
_STEPS = 200


@final
@suggests_arguments
@dataclass(frozen=True)
class LocalPrivacy:
    """A channel's ε and its total variation η, which is at most tanh(ε/2): a larger one is cut to that.

    >>> round(LocalPrivacy(1.0).tv, 6), LocalPrivacy(1.0, tv=0.3)
    (0.462117, LocalPrivacy(epsilon=1.0, tv=0.3))
    """

    epsilon: float
    tv: float = 1.0

    def __post_init__(self) -> None:
        """Read both numbers."""
        infinite = self.epsilon == math.inf
        epsilon = math.inf if infinite else finite_number_at_least_zero(self.epsilon, "epsilon")
        tv = finite_number(
            self.tv, "tv", allowed="a number from 0 to 1", instead="tv=0.3", fits=lambda tv: 0 <= tv <= 1
        )
        set_fields(self, epsilon=epsilon, tv=min(tv, largest_tv(epsilon)))

    @property
    def share(self) -> float:
        """The probability that the dominating channel does not erase, η/tanh(ε/2), rounded up.

        For every f-divergence the best (ε, η)-private channel has at least this share of what the best ε-private one
        has of D_f(M0 ‖ M1) (the TV paper, Theorem 7): erasing the outputs of the latter is (ε, η)-private.
        """
        limit = math.tanh(self.epsilon / 2)
        return min(upwards(self.tv / limit, _ROUNDINGS), 1.0) if limit else 1.0

    @property
    def profile(self) -> Profile:
        """The same as a profile of `pf.tradeoff`, for the value of one row; composed, profiles give the joint loss.

        >>> import pufferflow as pf
        >>> twice = pf.tradeoff.compose([LocalPrivacy(1.0, tv=0.3).profile] * 2)
        >>> round(twice.tv, 4)
        0.4052
        """
        return Profile(self.epsilon, tv=self.tv)

    def dominating(self) -> Floats:
        """Return the two laws of the dominating channel: of its answers 0 and 1, and of being erased.

        >>> LocalPrivacy(1.0, tv=0.3).dominating().round(4).tolist()
        [[0.4746, 0.1746, 0.3508], [0.1746, 0.4746, 0.3508]]
        """
        if self.epsilon == 0:
            return np.array([[0.0, 0.0, 1.0]] * 2)
        low = self.tv / math.expm1(self.epsilon)
        high = self.tv + low  # η·e^ε/(e^ε − 1)
        erased = max(1 - high - low, 0.0)
        return np.array([[high, low, erased], [low, high, erased]])

    def divergence(self, f: Callable[[float], float]) -> float:
        """Return the largest D_f between outputs for two inputs, η(f(e^ε) + e^ε·f(e^−ε))/(e^ε − 1).

        `f` is convex with f(1) = 0: t·log t for KL, (t − 1)² for χ², max(0, t − 1) for total variation. The dominating
        channel attains it.

        >>> round(LocalPrivacy(1.0, tv=0.3).divergence(lambda t: t * math.log(t)), 6)
        0.3
        """
        if self.epsilon == 0 or self.tv == 0:
            return 0.0
        if self.epsilon == math.inf:
            raise UsageError("epsilon is inf.", allowed="a finite epsilon", instead="LocalPrivacy(1.0)")
        ratio = math.exp(self.epsilon)
        return upwards(self.tv * (f(ratio) + ratio * f(1 / ratio)) / math.expm1(self.epsilon), _ROUNDINGS)

    @property
    def kl_contraction(self) -> float:
        """The largest KL(M0 ‖ M1)/KL(P0 ‖ P1), η·tanh(ε/2), rounded up; of χ² the same (TV Theorem 5)."""
        return upwards(self.tv * math.tanh(self.epsilon / 2), _ROUNDINGS)

    def tv_bound(self, distance: float) -> float:
        """Return the largest TV(M0, M1) for TV(P0, P1) = `distance`: η times it; binary erasure attains it."""
        return upwards(self.tv * _distance(distance), _ROUNDINGS)

    def chi2_bound(self, distance: float) -> float:
        """Return a bound on χ²(M0 ‖ M1) for TV(P0, P1) = `distance`: 4η(e^ε − 1)(e^−ε + 1)·TV², loose (TV Theorem 6).

        >>> round(LocalPrivacy(1.0, tv=0.3).chi2_bound(0.5), 6)
        0.705121
        """
        factor = 4 * self.tv * math.expm1(self.epsilon) * (math.exp(-self.epsilon) + 1) if self.tv else 0.0
        return upwards(factor * _distance(distance) ** 2, _ROUNDINGS)

    def kl_bound(self, distance: float) -> float:
        """Return a bound on KL(M0 ‖ M1) for TV(P0, P1) = `distance`: log(1 + χ²), for laws of any KL themselves."""
        return upwards(math.log1p(self.chi2_bound(distance)), _ROUNDINGS)

    @property
    def erasure_share(self) -> float:
        """A share of the best KL(M0 ‖ M1) that binary erasure never falls below, η/(2(e^ε − 1)(e^−ε + 1)) (TV (41))."""
        if self.epsilon == 0:
            return 0.0
        return self.tv / (2 * math.expm1(self.epsilon) * (math.exp(-self.epsilon) + 1)) * (1 - _ROUNDINGS)


def largest_tv(epsilon: float) -> float:
    """Return the largest η of an ε-private channel, tanh(ε/2), rounded up.

    >>> round(largest_tv(1.0), 6), largest_tv(0.0)
    (0.462117, 0.0)
    """
    return min(upwards(math.tanh(epsilon / 2), _ROUNDINGS), 1.0)


def kl_contraction(probabilities: Any) -> float:
    """Return a channel's KL contraction coefficient, the largest KL(M0 ‖ M1)/KL(P0 ‖ P1), rounded up; χ² has the same.

    It is that of two inputs, and of these the largest Le Cam divergence over weights β. That is concave in β, so its
    tangents bound it from above.

    >>> round(kl_contraction([[0.75, 0.25], [0.25, 0.75]]), 6)
    0.25
    """
    rows = np.asarray(probabilities, dtype=np.float64)
    pairs = [(rows[a], rows[b]) for a in range(len(rows)) for b in range(a)]
    return min(max((_largest_le_cam(p, q) for p, q in pairs), default=0.0) * (1 + _ROUNDINGS), 1.0)


def _largest_le_cam(p: Floats, q: Floats) -> float:
    """Return an upper bound, close to it, on β(1 − β)·Σ (p − q)²/(βp + (1 − β)q) over β."""
    there = (p > 0) | (q > 0)
    p, q = p[there], q[there]
    if (p * q == 0).all():
        return 1.0
    low, high, best = 0.0, 1.0, math.inf
    for _ in range(_STEPS):
        beta = (low + high) / 2
        value, slope = _le_cam(p, q, beta)
        best = min(best, value + max(slope * (high - beta), slope * (low - beta)))
        if high - low < UNIT:
            break
        low, high = (beta, high) if slope > 0 else (low, beta)
    return best + 4 * UNIT


def _le_cam(p: Floats, q: Floats, beta: float) -> tuple[float, float]:
    """Return 1 − Σ pq/(βp + (1 − β)q), which is the same, and its slope."""
    mixed = beta * p + (1 - beta) * q
    shared = p * q / mixed
    return float(1 - shared.sum()), float((shared * (p - q) / mixed).sum())


def total_variation(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return the total variation of two laws on the same values.

    >>> total_variation([0.5, 0.5], [0.75, 0.25])
    0.25
    """
    return float(np.abs(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)).sum() / 2)


def _distance(given: object) -> float:
    return finite_number(
        given, "distance", allowed="a total variation, from 0 to 1", instead="0.5", fits=lambda tv: 0 <= tv <= 1
    )
