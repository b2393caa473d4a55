"""How far apart expectations can lie under two rows, of a function that changes little, for many states (M20).

As in `cone`, log(p·v / q·v) is maximised over v_e ≤ e^{D(e,f)}·v_f, D closed under paths. In u = log v its slope is
a − b, with a = p·v and b = q·v normalised, so the next u to try is the dual of a transport problem: carry a to b at
costs D. Taking that step again and again is Newton's method on a program of linear pieces: it ends after a few steps,
at the maximum, when a plan runs along limits that hold with equality. POT solves each transport problem.

Any plan is a proof. Let s(e, ·) be the shares in which a plan carries e's mass. Then p·v = Σ p_e s(e,f) v_e ≤
Σ_f v_f Σ_e p_e s(e,f) e^{D(e,f)} ≤ λ·q·v with λ the largest Σ_e p_e s(e,f) e^{D(e,f)} / q_f. So log λ, rounded up, is
never below the maximum, however rough the plan.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.messages.cone import shortest, spread
from pufferflow.messages.stretches import Whole
from pufferflow.rounding import UNIT
from pufferflow.transport.small import small_plans

Floats = npt.NDArray[np.float64]
FLAT = 12.0
"""Limits up to this leave plans all the digits they need."""
FLATTEST = 100.0
"""Limits beyond this are not for plain exponentials."""
_MOST_WORK = 3e7
_LOOSE = 1e-8
_CLOSE = 1e-9
_MOST_SWEEPS = 24
_AT_ONCE = 1 << 22


@final
@dataclass(frozen=True, eq=False)
class Tangent:
    """A message, and what it becomes when the limits it was made of change a little: by `slopes` for each of them."""

    message: Floats
    pairs: tuple[Whole, Whole]
    sources: Whole
    closed: Floats
    heights: Floats
    slopes: Any

    def send(self, limits: Floats) -> Floats:
        """Return about what limits near to the known ones make."""
        message = self.message.copy()
        closed = shortest(limits[np.ix_(self.sources, self.sources)])
        message[self.pairs] += self.slopes @ (closed - self.closed).ravel()
        return np.maximum(message, 0.0)


@final
@dataclass(frozen=True, eq=False)
class Flows:
    """The bounds found for some pairs of rows: `above` is proven, `below` attained, by functions of logs `heights`.

    `slopes` says by how much a bound changes with each limit, of shape (N, k²): the plans.
    """

    above: Floats
    below: Floats
    heights: Floats
    slopes: Floats


def tangent(message: Floats, pairs: tuple[Whole, Whole], sources: Whole, closed: Floats, bounds: Flows) -> Tangent:
    """Return how a message changes with the limits among its sources: plans carry little mass along most of them."""
    from scipy.sparse import csr_matrix  # takes longer to load than all else here

    return Tangent(message, pairs, sources, closed, bounds.heights, csr_matrix(bounds.slopes))


def farthest(top: Floats, bottom: Floats, closed: Floats, heights: Floats | None = None) -> Flows:
    """Return `flows`; where limits are so large that plans lose their digits, vertices make up for it.

    Unless there are too many: then bounds are proven, but may be far above what is attained.
    """
    found = flows(top, bottom, closed, heights)
    widest, size = float(closed.max()), len(closed)
    rough = np.flatnonzero(found.above - found.below > _LOOSE * widest)
    if len(rough) and len(rough) * size**3 <= _MOST_WORK:
        found.above[rough] = np.minimum(found.above[rough], spread(top[rough], bottom[rough], closed))
    return found


def flows(
    top: Floats, bottom: Floats, closed: Floats, heights: Floats | None = None, sweeps: int = _MOST_SWEEPS
) -> Flows:
    """Return bounds on max log(top·v / bottom·v) over v_e ≤ e^{closed[e,f]}·v_f, starting from logs of v, if given.

    >>> found = flows(np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]]), np.array([[0, 1.0], [1.0, 0]]))
    >>> found.above.round(6), bool(found.above - found.below < 1e-9)
    (array([0.776137]), True)
    """
    count, size = len(top), len(closed)
    found = Flows(
        np.full(count, np.inf),
        np.full(count, -np.inf),
        _fitted(np.zeros(top.shape) if heights is None else heights, closed),
        np.zeros((count, size * size)),
    )
    widest, active = float(closed.max()), np.arange(count, dtype=np.intp)
    for _ in range(sweeps):
        some = max(_AT_ONCE // (size * size), 1)
        for at in range(0, len(active), some):
            part = active[at : at + some]
            _sweep(found, part, top[part], bottom[part], closed)
        active = active[(found.above - found.below)[active] > _CLOSE * widest]
        if not len(active):
            break
    return found


def _sweep(found: Flows, part: Whole, top: Floats, bottom: Floats, closed: Floats) -> None:
    """Take one step for some pairs, and keep what is better."""
    a, b = _weights(top, found.heights[part]), _weights(bottom, found.heights[part])
    plans, heights = small_plans(a, b, closed)
    heights = _fitted(heights, closed)
    above = _proven(top, bottom, plans, closed)
    with np.errstate(divide="ignore"):
        below = np.log((top * np.exp(heights)).sum(axis=1)) - np.log((bottom * np.exp(heights)).sum(axis=1))
    found.slopes[part] = plans.reshape(-1, closed.size)
    found.above[part] = np.minimum(above, found.above[part])
    found.below[part] = np.maximum(below, found.below[part])
    found.heights[part] = heights


def _weights(rows: Floats, heights: Floats) -> Floats:
    weights = rows * np.exp(heights)
    return weights / weights.sum(axis=1, keepdims=True)


def _fitted(heights: Floats, closed: Floats) -> Floats:
    """Return the largest functions below some that keep the limits, with 0 as their largest value."""
    fitted = np.stack([(row + heights).min(axis=1) for row in closed], axis=1)
    return fitted - fitted.max(axis=1, keepdims=True)


def _proven(top: Floats, bottom: Floats, plans: Floats, closed: Floats) -> Floats:
    """Return log λ of each plan, rounded up.

    A plan's entries are off by rounding, which matters where q is small. So no state takes more than its share; what is
    left over goes to the state with the largest q.
    """
    size = len(closed)
    gains = np.exp(closed)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        whole = plans.sum(axis=2)
        carried = plans * np.where(whole > 0, top / whole, 0.0)[:, :, None]
        loads = np.einsum("nef,ef->nf", carried, gains)
        aim = (loads.sum(axis=1) / bottom.sum(axis=1))[:, None] * bottom
        carried *= np.where(loads > aim, aim / loads, 1.0)[:, None, :]
        left = np.maximum(top * (1 + 2 * size * UNIT) - carried.sum(axis=2), 0.0)
        largest = bottom.argmax(axis=1)
        loads = np.minimum(loads, aim)
        loads[np.arange(len(top)), largest] += (left * gains.T[largest]).sum(axis=1)
        # sums of k products of exponentials: off by a few units for each, rounded up
        rounded = np.log(np.where(bottom > 0, loads / bottom, 0.0).max(axis=1)) + 8 * (size + 8) * UNIT
    return np.where(np.isfinite(rounded), rounded, np.inf)
