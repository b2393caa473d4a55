"""Where the log ratio of two noisy densities on R lies above a level: its supremum, and the hockey stick (M6).

The line is cut into cells until each is known to lie above or below the level, by how far the ratio can move within it.
Cells above count with their exact probabilities; those that stay undecided count with all they could hold.
"""

import math

import numpy as np

from pufferflow.bounds.exact.field import Flags, LineField, float_error
from pufferflow.noise import Floats

_MOST_CELLS = 1_000_000
_SHARE = 1e-7
_CLOSE = 1e-12


def hockey_stick(field: LineField, epsilon: float, far: float, beyond: float) -> float:
    """Return δ(ε) = ∫ (p − e^ε q)_+, rounded up; further than `far` from the atoms log(p/q) is at most `beyond`."""
    centres, halves = _start(field, far)
    ends = np.array([[-math.inf, (centres - halves).min()], [(centres + halves).max(), math.inf]])
    outside = float(field.p.mass(ends[:, 0], ends[:, 1]).sum()) * -math.expm1(min(epsilon - beyond, 0.0))
    above_low, above_high = np.zeros(0), np.zeros(0)
    while True:
        level, down, up = _ratio(field, centres, halves)
        sure_above, sure_below = level - down >= epsilon, level + up <= epsilon
        above_low = np.concatenate([above_low, (centres - halves)[sure_above]])
        above_high = np.concatenate([above_high, (centres + halves)[sure_above]])
        unsure = ~(sure_above | sure_below)
        centres, halves, top = centres[unsure], halves[unsure], (level + up)[unsure]
        held = field.p.mass(centres - halves, centres + halves) * -np.expm1(np.minimum(epsilon - top, 0.0))
        total, waiting = _positive(field, above_low, above_high, epsilon), math.fsum(held)
        finished = waiting <= max(_SHARE * total, 1e-300) or len(centres) > _MOST_CELLS
        if finished or _too_small(centres, halves).all():
            return min((total + waiting + outside) * (1 + 1e-14), 1.0)
        centres, halves = _halved(centres, halves)


def supremum(field: LineField, far: float, beyond: float) -> float:
    """Return sup log(p/q), rounded up; further than `far` from the atoms it is at most `beyond`."""
    centres, halves = _start(field, far)
    best = beyond
    while True:
        level, down, up = _ratio(field, centres, halves)
        best = max(best, float((level - down).max()))
        top = level + up
        unsure = top > best + _CLOSE * (1 + best)
        if not unsure.any():
            return best + _CLOSE * (1 + best)
        if len(centres) > _MOST_CELLS or _too_small(centres, halves).all():
            return float(top.max())
        centres, halves = _halved(centres[unsure], halves[unsure])


def _ratio(field: LineField, centres: Floats, halves: Floats) -> tuple[Floats, Floats, Floats]:
    level, down, up = field.ratio(centres[:, None], halves[:, None])
    log_p, log_q = field.log_densities(centres[:, None])
    slack = float_error(log_p, len(field.p.atoms)) + float_error(log_q, len(field.q.atoms))
    slack += 2 * field.blur(centres[:, None])
    return level, down + slack, up + slack


def _start(field: LineField, far: float) -> tuple[Floats, Floats]:
    """Return cells that are fine inside the hull and grow away from it."""
    inside = np.linspace(float(field.low[0]), float(field.high[0]), 65) if field.range else field.low[:1]
    steps = np.geomspace(1e-3, far, 64)
    ends = np.unique(np.concatenate([field.low[0] - steps, inside, field.high[0] + steps]))
    return (ends[:-1] + ends[1:]) / 2, np.diff(ends) / 2


def _halved(centres: Floats, halves: Floats) -> tuple[Floats, Floats]:
    quarter = halves / 2
    return np.concatenate([centres - quarter, centres + quarter]), np.concatenate([quarter, quarter])


def _too_small(centres: Floats, halves: Floats) -> Flags:
    return halves <= 4e-16 * np.abs(centres)


def _positive(field: LineField, low: Floats, high: Floats, epsilon: float) -> float:
    """Return Σ P(run) − e^ε Q(run) over the runs of neighbouring cells."""
    if not len(low):
        return 0.0
    order = np.argsort(low)
    low, high = low[order], high[order]
    gap = np.concatenate([[True], low[1:] > high[:-1] + 1e-12 * (np.abs(low[1:]) + 1e-3)])
    starts = np.flatnonzero(gap)
    ends = np.append(starts[1:], len(low)) - 1
    p = field.p.mass(low[starts], high[ends])
    q = field.q.mass(low[starts], high[ends]) * math.exp(min(epsilon, 700.0))
    rounding = (len(field.p.atoms) + len(field.q.atoms) + 500) * 1e-16
    return math.fsum(np.maximum(p - q, 0.0)) + rounding * math.fsum(p + np.minimum(q, 2 * p))
