"""From probabilities of events to a loss: the least loss of a guarantee with so large a P(S) and so small a Q(S).

S is one event, or several nested ones. A guarantee is about all events, and every function of an answer keeps it (data
processing), so every S gives a lower bound. All of these bounds rise with P(S) and fall with Q(S), so bounds of the
probabilities give bounds of the loss.

From counts to probabilities: the bounds of Clopper and Pearson, which hold for every true probability.

The count K of an event in n independent draws is binomial. `at_least` is above the true probability with a chance of at
most `error`, `at_most` below it likewise: each is the probability at which a count at least (at most) as large as K has
the chance `error`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from pufferflow.core.arrays import Floats
from pufferflow.privacy.guarantee import Divergence, Guarantee
from pufferflow.privacy.renyi import Renyi

_ROUNDING = 1e-11
_ORDERS = (1.01, 2.0, 4.0, 16.0)


def of_events(target: Guarantee, p: Floats, q: Floats) -> Floats:
    """Return for each event the loss that it shows, rounded down; 0 if it shows none.

    Pure: ln(P/Q). Approx: ln((P − δ)/Q). Gdp: Φ⁻¹(P) − Φ⁻¹(Q). Rényi: the divergence of the two laws of whether S
    happens; Zcdp: the largest such divergence over its order, of a few orders.

    >>> from pufferflow.privacy.guarantee import Pure
    >>> of_events(Pure(1.0), np.array([0.5]), np.array([0.25])).round(6)
    array([0.693147])
    """
    if target.divergence is Divergence.GAUSSIAN:
        with np.errstate(invalid="ignore"):
            shown = special.ndtri(p) - special.ndtri(q)
        return np.where(p > q, _down(np.where((p > 0) & (q < 1), shown, 0.0)), 0.0)
    if target.divergence.about_odds:
        above = np.maximum(p - target.delta, 0.0)
        with np.errstate(divide="ignore"):
            return _down(np.log(above) - np.log(q))
    if target.divergence is Divergence.CONCENTRATED:
        return np.max([of_events(Renyi(order, 0.0), p, q) / order for order in _ORDERS], axis=0)
    alpha, p, q = _renyi(target, p, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = alpha * np.log(p) + (1 - alpha) * np.log(q)
        outside = alpha * np.log1p(-p) + (1 - alpha) * np.log1p(-q)
        divergences = np.logaddexp(inside, outside) / (alpha - 1)
    return np.where(p > q, _down(divergences), 0.0)


def of_nested(target: Guarantee, p: Floats, q: Floats) -> float:
    """Return the loss that nested events show together; probabilities fall from the first to the last.

    For Rényi guarantees they cut the answers into levels. D_α = sup_g α/(α−1)·log E_P e^{(α−1)g} − log E_Q e^{αg}, and
    for a g that rises with the levels the first mean only grows with P(S), the second with Q(S). So the bounds may
    replace the laws themselves, if their ratio rises with the levels, which pooling neighbours ensures.

    >>> from pufferflow.privacy.renyi import Renyi
    >>> round(of_nested(Renyi(2, 1.0), np.array([0.8, 0.4]), np.array([0.6, 0.1])), 4)
    0.7031
    """
    if target.divergence is Divergence.CONCENTRATED:
        return max(of_nested(Renyi(order, 0.0), p, q) / order for order in _ORDERS)
    if target.divergence is not Divergence.RENYI:
        return float(of_events(target, p, q).max())
    alpha, p, q = _renyi(target, p, q)
    cells = _pool(-np.diff(p, prepend=1.0, append=0.0), -np.diff(q, prepend=1.0, append=0.0))
    with np.errstate(divide="ignore"):
        left, right = np.log(cells)
    finite = np.isfinite(left)
    divergence = np.logaddexp.reduce(alpha * left[finite] + (1 - alpha) * right[finite]) / (alpha - 1)
    return float(_down(np.asarray(divergence)))


def _renyi(target: Guarantee, p: Floats, q: Floats) -> tuple[float, Floats, Floats]:
    """Return the order and probabilities after a share δ of each law is left out, if the guarantee allows it.

    The remaining probabilities have P'(S) ≥ (P(S) − δ)/(1 − δ) and Q'(S) ≤ Q(S)/(1 − δ).
    """
    if not target.delta:
        return target.alpha, p, q
    rest = 1 - target.delta
    return target.alpha, np.maximum((p - target.delta) / rest, 0.0), np.minimum(q / rest, 1.0)


def _pool(p: Floats, q: Floats) -> Floats:
    """Return the masses of neighbouring cells put together until p/q rises from each to the next."""
    pooled: list[tuple[float, float]] = []
    for mass, other in zip(p.tolist(), q.tolist(), strict=True):
        cell = mass, max(other, 0.0)
        while pooled and _falls(pooled[-1], cell):
            before = pooled.pop()
            cell = before[0] + cell[0], before[1] + cell[1]
        pooled.append(cell)
    return np.array(pooled).T


def _falls(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return whether p/q does not rise between two cells; a cell without mass is pooled with its neighbour."""
    return before[0] * after[1] >= after[0] * before[1]


def _down(values: Floats) -> Floats:
    """Return a bound a little lower than it was computed, and at least 0, which always holds."""
    return np.maximum(values - _ROUNDING * (1 + np.abs(np.where(np.isfinite(values), values, 0.0))), 0.0)


_COUNT_ROUNDING = 1e-9


def at_least(counts: Any, draws: int, error: float) -> Floats:
    """Return lower bounds of probabilities, rounded down.

    >>> at_least([0, 5, 10], 10, 0.05).round(4)
    array([0.    , 0.2224, 0.7411])
    """
    numbers = np.asarray(counts, dtype=np.float64)
    positive = np.maximum(numbers, 1e-9)
    inside = special.betaincinv(positive, draws - positive + 1, error)
    return np.where(numbers > 0, inside * (1 - _COUNT_ROUNDING), 0.0)  # the quantile is accurate to some digits only


def at_most(counts: Any, draws: int, error: float) -> Floats:
    """Return upper bounds of probabilities, rounded up.

    >>> at_most([0, 5, 10], 10, 0.05).round(4)
    array([0.2589, 0.7776, 1.    ])
    """
    numbers = np.asarray(counts, dtype=np.float64)
    rest = np.maximum(draws - numbers, 1e-9)
    inside = special.betainccinv(numbers + 1, rest, error)
    return np.where(numbers < draws, np.minimum(inside * (1 + _COUNT_ROUNDING), 1.0), 1.0)
