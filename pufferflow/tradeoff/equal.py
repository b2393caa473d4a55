"""Finite laws of total losses: many equal three-point profiles by the law of N₊ − N₋, few different ones by products.

The loss of k releases that are ε, 0 or −ε is ε·(N₊ − N₋). Its law has the coefficients of (g/x + m + g·x)^k, with
g² = p₊p₋ and m = p₀, times e^(dε/2) for N₊ − N₋ = d. They follow from Miller's recurrence for powers of polynomials,
n·c_n = (k + 1 − n)(m/g)·c_{n−1} + (2k + 2 − n)·c_{n−2}, whose terms are all positive up to the middle n = k, so that
each step adds a few roundings, relatively; the other half is its mirror image. No FFT, no subtraction.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.rounding import UNIT
from pufferflow.tradeoff.losses import SLOP, Atoms, Loss, ThreePoint

_RESCALED = 2.0**300
MOST_ATOMS = 1 << 19


@final
@dataclass(frozen=True, eq=False)
class FiniteTotal:
    """The law of a total loss: atoms with masses under P, right to a relative `error`, losses to an absolute one."""

    losses: Floats
    masses: Floats
    error: float
    blur: float

    def times(self, other: "FiniteTotal") -> "FiniteTotal":
        """Return the law of the sum of two independent losses."""
        return FiniteTotal(
            np.add.outer(self.losses, other.losses).ravel(),
            np.multiply.outer(self.masses, other.masses).ravel(),
            self.error + other.error + 2 * UNIT,
            self.blur + other.blur + 2 * UNIT * (self.reach + other.reach),
        )

    @cached_property
    def reach(self) -> float:
        """The largest loss, of either sign."""
        return float(np.abs(self.losses).max()) if len(self.losses) else 0.0

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats]:
        order = np.argsort(self.losses)
        return self.losses[order], self.masses[order]

    @property
    def largest(self) -> float:
        """The largest loss."""
        return float(self._sorted[0][-1]) + self.blur if len(self.losses) else 0.0

    def delta(self, epsilon: float) -> float:
        """Return Σ p(1 − e^(ε − ℓ))₊, summed at this very ε, rounded up."""
        losses, masses = self._sorted
        start = int(np.searchsorted(losses, epsilon - self.blur - 4 * UNIT * abs(epsilon), side="right"))
        above = losses[start:]
        # losses are raised by their rounding error
        gaps = epsilon - above - self.blur - UNIT * (abs(epsilon) + np.abs(above))
        with np.errstate(under="ignore"):
            total = float((masses[start:] * -np.expm1(np.minimum(gaps, 0.0))).sum())
        return total * (1 + self.error + (64 + len(above) ** 0.5) * UNIT) * (1 + 8 * UNIT)

    def near(self, delta: float) -> Callable[[float], float]:
        """Return `delta` itself, which is quick at every ε."""
        return self.delta


def finite_total(classes: Mapping[Loss, int]) -> FiniteTotal | None:
    """Return the law of the total loss of releases, given the number of each; None if it has too many atoms."""
    size = 1.0
    for loss, count in classes.items():
        size *= _size(loss, count)
    if size > MOST_ATOMS and not (len(classes) == 1 and isinstance(next(iter(classes)), ThreePoint)):
        return None
    total = FiniteTotal(np.zeros(1), np.ones(1), 0.0, 0.0)
    for loss, count in classes.items():
        total = total.times(_repeated(loss, count))
    return total


def _size(loss: Loss, count: int) -> float:
    """Return how many atoms a class has."""
    if isinstance(loss, ThreePoint):
        return 2.0 * count + 1
    if loss.finite is None:
        return math.inf
    return math.exp(min(count * math.log(max(len(loss.finite.losses), 1)), 700.0))


def _repeated(loss: Loss, count: int) -> FiniteTotal:
    if isinstance(loss, ThreePoint):
        return _three_point(loss, count)
    atoms = loss.discretised()
    once = _once(atoms)
    total = once
    for _ in range(count - 1):
        total = total.times(once)
    return total


def _once(atoms: Atoms) -> FiniteTotal:
    return FiniteTotal(atoms.losses, atoms.first, SLOP, SLOP * (1 + atoms.reach))


def _three_point(loss: ThreePoint, count: int) -> FiniteTotal:
    """Return the law of ε·(N₊ − N₋)."""
    low, middle, high = loss.masses
    whole = math.exp(count * math.log1p(-loss.out)) if loss.out < 1 else 0.0
    rounding = SLOP * count * (1 + abs(math.log1p(-loss.out)) if loss.out < 1 else 1)
    if loss.share == 0 or whole == 0:
        return FiniteTotal(np.zeros(1), np.array([whole]), rounding, 0.0)
    if count == 1:
        return _once(loss.finite)
    logs = _powers(middle / math.sqrt(low * high), count)
    steps = np.arange(-count, count + 1, dtype=np.float64)
    logs = np.concatenate([logs, logs[-2::-1]]) + steps * (loss.epsilon / 2)
    size = float(np.abs(logs[logs > -math.inf]).max()) + count * loss.epsilon
    with np.errstate(under="ignore"):
        masses = np.exp(logs - float(log_sum(logs))) * whole
    return FiniteTotal(
        steps * loss.epsilon,
        masses,
        rounding + (16 * count + 8 * size) * UNIT,
        2 * UNIT * count * loss.epsilon,
    )


def _powers(ratio: float, count: int) -> Floats:
    """Return the logs of the first half of the coefficients of (1/x + ratio + x)^count, the middle one included."""
    before, now, rescaled = 0.0, 1.0, 0
    logs = [0.0]
    for n in range(1, count + 1):
        before, now = now, ((count + 1 - n) * ratio * now + (2 * count + 2 - n) * before) / n
        if now > _RESCALED:
            before, now, rescaled = before / _RESCALED, now / _RESCALED, rescaled + 1
        logs.append(math.log(now) + rescaled * _LOG_RESCALED if now > 0 else -math.inf)
    return np.array(logs)


_LOG_RESCALED = math.log(_RESCALED)
