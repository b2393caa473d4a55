"""The guarantee left if the true prior is within a Rényi divergence of finite order of a prior of the scenario (M30).

Let A and D be the true laws of the data under two secrets, B and C those of the scenario. The mechanism turns all of
them into laws of answers, between which divergences are no larger. Hölder's inequality with weights u + v + w = 1
bounds D_α(A‖D) by three divergences: of order α/u from A to B, (α−u)/v from B to C, (α−u−v)/w from C to D. The
weights are chosen so that these are orders for which there are bounds.

For events a tail bound of the divergence is applied twice, around that of (ε, δ). What results is a concave function of
an event's probability under D, and each of its tangents is an (ε, δ).
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.core.validate import order_above_one, probability_below_one
from pufferflow.privacy.guarantee import Approx, Guarantee
from pufferflow.privacy.renyi import Renyi, RenyiCurve, Zcdp

_GRID: Final = [1 + 10 ** (place / 8) for place in range(-24, 33)]
"""Multiples of an order that are tried where there are bounds for all orders."""
_SHARES: Final = [0.0, *(10 ** (-place / 2) for place in range(1, 12))]
_SOME: Final = 24
_STEPS: Final = 64
_FEW: Final = 8
_TINY: Final = 1e-12
_ROUNDING: Final = 1e-9
_ALLOWED: Final = "pf.Renyi, pf.RenyiCurve or pf.Zcdp, with the largest divergence under any secret; ratio= for D_∞"
_INSTEAD: Final = "divergence=pf.Renyi(8, 0.1)"


def read_divergence(given: object) -> Guarantee:
    """Return bounds on Rényi divergences, stated as a guarantee states them."""
    if isinstance(given, Renyi | RenyiCurve | Zcdp):
        return given
    raise UsageError(
        f"divergence is of type {type(given).__name__}.", allowed=_ALLOWED, instead=_INSTEAD
    )


def renyi_under(guarantee: Guarantee, divergence: Guarantee, order: float | None) -> Guarantee:
    """Return the Rényi privacy that is left of one order; by default of those orders of the guarantee that have any.

    >>> renyi_under(Renyi(16, 1.0), Renyi(16, 0.1), 4)
    Renyi(alpha=4.0, epsilon=1.28...)
    """
    if order is not None:
        return _at(guarantee, divergence, order_above_one(order))
    own = (
        guarantee.alphas
        if isinstance(guarantee, RenyiCurve)
        else RenyiCurve.of(lambda _: 0.0).alphas
    )
    orders = own if math.isinf(guarantee.alpha) else (guarantee.alpha,)
    found = [_bound(guarantee, divergence, one) for one in orders]
    known = [(one, loss) for one, loss in zip(orders, found, strict=True) if loss < math.inf]
    if not known:
        raise _too_high(guarantee, divergence, orders[0])
    return RenyiCurve([one for one, _ in known], [loss for _, loss in known])


def _at(guarantee: Guarantee, divergence: Guarantee, order: float) -> Renyi:
    loss = _bound(guarantee, divergence, order)
    if math.isinf(loss):
        raise _too_high(guarantee, divergence, order)
    return Renyi(order, loss)


def _too_high(guarantee: Guarantee, divergence: Guarantee, order: float) -> Refused:
    """Return the error for an order of which nothing is left, or for a guarantee without Rényi losses."""
    own, between = (_largest_order(one) for one in (guarantee, divergence))
    if own is None:
        return Refused(
            f"{guarantee!r} bounds no Rényi divergence, so none is left under another prior.",
            allowed="a guarantee such as pf.Renyi(8, 1.0), pf.Zcdp(0.1) or pf.Pure(1.0); or the ε that is left at a δ",
            instead="delta=1e-5 in place of order",
        )
    most = float(_most_order(own, between)) if between is not None else own
    return Refused(
        f"Of {guarantee!r} nothing is known at the order {order:g}, if priors are within {divergence!r}.",
        allowed=f"orders above 1 and below {most:.4g}; guarantees and divergences of larger orders allow more",
        instead=f"order={math.floor((1 + 0.9 * (most - 1)) * 1000) / 1000:g}",
    )


def _largest_order(guarantee: Guarantee) -> float | None:
    orders = _orders(guarantee, 2.0)
    known = [one for one in orders if guarantee.renyi_epsilon(one) < math.inf]
    return max(known, default=None)


def _most_order(own: float, between: float) -> Fraction:
    """Return the order below which some weights fit a guarantee of one order and a divergence of one order."""
    a, b = Fraction(own), Fraction(between)
    return a * b**2 / (b**2 + (a - 1) * (2 * b - 1))


def _orders(bounds: Guarantee, above: float) -> Sequence[float]:
    """Return the orders of which there are bounds; a grid of orders above one if there are bounds of all."""
    if isinstance(bounds, RenyiCurve):
        return bounds.alphas
    return (bounds.alpha,) if math.isfinite(bounds.alpha) else [above * one for one in _GRID]


def _bound(guarantee: Guarantee, divergence: Guarantee, order: float) -> float:
    """Return the least loss of an order over all weights that fit two orders; ∞ if none do.

    The best weights are looked for in floats, and the loss of the first few is worked out exactly.
    """
    if _is_zero(divergence):
        return guarantee.renyi_epsilon(order)
    own, last = (np.array(_orders(one, order)) for one in (guarantee, divergence))
    losses = np.array([guarantee.renyi_epsilon(one) for one in own.tolist()])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        both = np.where(last > order, (last - order) / (last - 1), 0.0)[None, :]
        first = (both * own[:, None] - order) / (own[:, None] - 1)
        of_first = _at_orders(divergence, order / np.maximum(first, _TINY) * (1 - _TINY))
        total = (order - first) * of_first + (order - both) * losses[:, None]
        total = np.where(first > 0, total / (order - 1) + _at_orders(divergence, last), np.inf)
    best: list[int] = np.argsort(total, axis=None)[:_FEW].tolist()
    owns, lasts = (list(map(Fraction, one.tolist())) for one in (own, last))
    ways = (divmod(place, len(lasts)) for place in best)
    exact = (_Weights.of(Fraction(order), owns[one], lasts[other]) for one, other in ways)
    return min(
        (one.loss(guarantee, divergence) for one in exact if one is not None), default=math.inf
    )


def _at_orders(divergence: Guarantee, orders: Floats) -> Floats:
    """Return the bound of each order: that of the best order that is not below; ∞ where there is none."""
    if isinstance(divergence, Zcdp):
        return divergence.rho * orders
    known = divergence.singles
    alphas, losses = np.array([one.alpha for one in known]), np.array([one.loss for one in known])
    least = np.append(np.minimum.accumulate(losses[::-1])[::-1], np.inf)
    return least[np.searchsorted(alphas, orders)]


def _is_zero(divergence: Guarantee) -> bool:
    """Return whether the laws are the same, as they are if the divergence of any order is 0."""
    return any(one.loss == 0 for one in divergence.singles)


@final
@dataclass(frozen=True)
class _Weights:
    """Weights u and s = u + v for an order, of which `own` = (α−u)/v and `last` = (α−s)/w are the orders."""

    order: Fraction
    own: Fraction
    last: Fraction
    first_weight: Fraction
    both: Fraction

    @classmethod
    def of(cls, order: Fraction, own: Fraction, last: Fraction) -> "_Weights | None":
        """Return the largest weights for two orders; None if there are none."""
        if last <= order:
            return None
        both = (last - order) / (last - 1)
        first = (both * own - order) / (own - 1)
        return cls(order, own, last, first, both) if first > 0 else None

    def loss(self, guarantee: Guarantee, divergence: Guarantee) -> float:
        """Return the loss, rounded up; ∞ where there is no bound of the first order."""
        order, first_order = self.order, float_above(self.order / self.first_weight)
        if math.isinf(first_order):
            return math.inf
        first = divergence.renyi_epsilon(first_order)
        own, last = (
            guarantee.renyi_epsilon(float(self.own)),
            divergence.renyi_epsilon(float(self.last)),
        )
        if math.inf in (first, own, last):
            return math.inf
        total = (order - self.first_weight) * Fraction(first) + (order - self.both) * Fraction(own)
        return float_above(total / (order - 1) + Fraction(last))


def approx_under(guarantee: Guarantee, divergence: Guarantee, delta: float) -> Approx:
    """Return the (ε, delta) that is left, with the least ε found.

    >>> approx_under(Approx(1.0, 1e-7), Renyi(16, 0.1), 1e-5)
    Approx(epsilon=2.44..., delta=1e-05)
    """
    target = probability_below_one(delta, "delta")
    found = min(_tangents(guarantee, divergence, target), default=math.inf)
    if math.isinf(found):
        raise Refused(
            f"Of {guarantee!r} nothing is known at delta={target:g}, if priors are within {divergence!r}.",
            allowed="a delta well above the guarantee's own: δ^((β−1)/β) and more, where β is the divergence's order",
            instead=f"delta={max(2 * target, guarantee.delta**0.5, 1e-5):.3g}",
        )
    return Approx(found, target)


def _tangents(guarantee: Guarantee, divergence: Guarantee, target: float) -> Iterator[float]:
    """Yield an ε for each choice of orders and of the guarantee's own δ."""
    if _is_zero(divergence):
        yield guarantee.approx_epsilon(target)
        return
    orders = _orders(divergence, 1.0)
    some = orders[:: max(len(orders) // _SOME, 1)]
    for order, share in itertools.product(some, _SHARES):
        t, lift = (order - 1) / order, divergence.renyi_epsilon(order)
        room = math.exp(math.log(target) / t - lift) if target else 0.0
        own = guarantee.delta + share * max(room - guarantee.delta, 0.0)
        epsilon = guarantee.approx_epsilon(own) if own <= room * (1 - _ROUNDING) else math.inf
        if epsilon < math.inf and target:
            yield _Curve(t, lift, epsilon, own).epsilon(target)


@final
@dataclass(frozen=True)
class _Curve:
    """f(p) = (e^lift·(e^ε·(e^lift·p)^t + δ))^t, the largest probability of an event whose own is p."""

    t: float
    lift: float
    own_epsilon: float
    own_delta: float

    def epsilon(self, target: float) -> float:
        """Return the least ε of a tangent that starts at `target` or below, or of a line from there to f(p) = 1."""
        low, high = -1e4, 0.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            fits = self._log(middle) <= 0 and self._start(middle) <= target * (1 - _ROUNDING)
            low, high = (middle, high) if fits else (low, middle)
        tangent = self._log(low) + math.log(self._elasticity(low)) - low
        line = math.log1p(-target) - low
        return max(min(tangent, line), 0.0) * (1 + 4 * UNIT) + _ROUNDING

    def _log(self, log_p: float) -> float:
        return self.t * (self.lift + self._inner(log_p))

    def _grown(self, log_p: float) -> float:
        return self.own_epsilon + self.t * (self.lift + log_p)

    def _inner(self, log_p: float) -> float:
        grown = self._grown(log_p)
        if not self.own_delta:
            return grown
        own = math.log(self.own_delta)
        return max(grown, own) + math.log1p(math.exp(-abs(grown - own)))

    def _elasticity(self, log_p: float) -> float:
        """Return p·f'(p)/f(p), which is below 1 and falls as p does."""
        return self.t**2 * math.exp(self._grown(log_p) - self._inner(log_p))

    def _start(self, log_p: float) -> float:
        """Return where the tangent at p starts: f(p) − p·f'(p)."""
        return math.exp(self._log(log_p)) * (1 - self._elasticity(log_p))
