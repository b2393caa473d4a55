"""The least scale of staircase noise, whose exact losses may rise with it, but are linear between turns (M6, M12).

Jumps lie γ + j steps beside each atom. At the scales where jumps of two atoms meet, and only there, pieces of both
densities appear or vanish; between two such scales the densities' values stay, and lengths in steps are linear in
1/scale. So there E e^((α−1)·loss) and the hockey stick of the two laws in one order are linear in 1/scale, and the
pure loss is constant. (Under the best coupling they are minima of linear functions, so concave.) Whether some scale of
a piece keeps a guarantee is decided at its ends, and the least one is found by bisection. The search starts at the
least scale; the loss at the scale that it returns was computed.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pufferflow.calibration.law_pairs import Pair, finite_laws
from pufferflow.core.arrays import Floats
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.guarantee import Divergence, Guarantee

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
        work = np.cumsum(1.0 + self.work * (1 + np.abs(self.distances).max(initial=0.0) / turns[::-1]))
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
            return start if rounder and _kept(excesses, start) and _kept(excesses, start * (1 + HAIR)) else found
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

    Each atom keeps all but a share t of its noise closer than half the least gap, so the cells around the atoms have
    probabilities of at least μ(1 − t) and at most ν + t, whose loss no exact loss is below.
    """
    mu, nu = finite_laws(pair)
    atoms = np.unique(np.concatenate([mu.values, nu.values]).astype(np.float64))
    if len(atoms) < 2:
        return 0.0
    weights = np.zeros((2, len(atoms)))
    for row, law in zip(weights, (mu, nu), strict=True):
        np.add.at(row, np.searchsorted(atoms, law.values.astype(np.float64)), np.exp(law.log_probabilities))
    gap = float(np.diff(atoms).min())
    for share in _SHARES:
        if any(_broken(p, q, share, one) for p, q in (weights, weights[::-1]) for one in guarantee.singles):
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
