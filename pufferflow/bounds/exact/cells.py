"""Where the log ratio of two noisy densities on R lies above a level: its supremum, and the hockey stick (M6).

The line is cut into cells until each is known to lie above or below the level, by how far the ratio can move within it.
Cells above count with their exact probabilities; those that stay undecided count with all they could hold.
"""

import math

import numpy as np
from numpy.polynomial.legendre import leggauss

from pufferflow.bounds.exact.field import Flags, LineField, float_error
from pufferflow.noise import Floats
from pufferflow.rounding import UNIT

_MOST_CELLS = 1_000_000
_SHARE = 1e-7
_SLACKS = 4
_CLOSE = 1e-9
_CLOSEST = 1e-13
_LEAST = 1e-300
"""More than floats can lose in tails."""
_NARROW = 0.25
_LARGEST_EXPONENT = 700.0
_NODES, _WEIGHTS = leggauss(20)


def hockey_stick(field: LineField, epsilon: float, far: float, beyond: float) -> float:
    """Return δ(ε) = ∫ (p − e^ε q)_+, rounded up; further than `far` from the atoms log(p/q) is at most `beyond`."""
    centres, halves = _start(field, far)
    ends = np.array([[-math.inf, (centres - halves).min()], [(centres + halves).max(), math.inf]])
    outside = float(np.sum(field.p.mass(ends[:, 0], ends[:, 1]))) * -math.expm1(min(epsilon - beyond, 0.0))
    outside += _LEAST if beyond == math.inf else 0.0
    lows, highs, roughly = [np.zeros(0)], [np.zeros(0)], 0.0
    while True:
        level, down, up, slack = _ratio(field, centres, halves)
        above, top = level - down >= epsilon, level + up
        lows.append((centres - halves)[above])
        highs.append((centres + halves)[above])
        log_p = field.p.log_density(centres[:, None])
        with np.errstate(under="ignore"):
            roughly += float((2 * halves * np.exp(log_p) * -np.expm1(np.minimum(epsilon - level, 0.0)))[above].sum())
        unsure = ~(above | (top <= epsilon))
        stuck = (up <= _SLACKS * slack)[unsure]  # by rounding: smaller cells would know no more
        centres, halves, log_p, slack = centres[unsure], halves[unsure], log_p[unsure], slack[unsure]
        held = _held(field, centres, halves, log_p + slack) * -np.expm1(np.minimum(epsilon - top[unsure], 0.0))
        outside += math.fsum(held[stuck])
        waiting = math.fsum(held[~stuck])
        centres, halves = centres[~stuck], halves[~stuck]
        finished = waiting <= max(_SHARE * roughly, 1e-300) or len(centres) > _MOST_CELLS
        if finished or _too_small(centres, halves).all():
            total = _positive(field, np.concatenate(lows), np.concatenate(highs), epsilon)
            return min((total + waiting + outside) * (1 + 1e-14), 1.0)
        centres, halves = _halved(centres, halves)


def _held(field: LineField, centres: Floats, halves: Floats, log_p: Floats) -> Floats:
    """Return what of p cells can hold: its size times its growth in small ones, tail probabilities in others."""
    with np.errstate(under="ignore", over="ignore"):
        rise = field.steepest(centres[:, None], halves[:, None])
        held = np.minimum(2 * halves * np.exp(np.minimum(log_p + rise, _LARGEST_EXPONENT)), 1.0)
    wide = halves > _NARROW / 4
    mass, doubt = field.p.mass((centres - halves)[wide], (centres + halves)[wide])
    held[wide] = np.minimum(held[wide], mass + doubt)
    return held


def supremum(field: LineField, far: float, beyond: float) -> float:
    """Return sup log(p/q), rounded up; further than `far` from the atoms it is at most `beyond`."""
    centres, halves = _start(field, far)
    best = ceiling = beyond
    while True:
        level, down, up, slack = _ratio(field, centres, halves)
        best, top = max(best, float((level - down).max())), level + up
        enough = np.maximum(best * (1 + _CLOSE) + _CLOSEST, level + _SLACKS * slack)
        unsure = ~(top <= enough)
        if len(centres) > _MOST_CELLS or _too_small(centres, halves).all():
            unsure[:] = False
        ceiling = max(ceiling, float(top[~unsure].max(initial=ceiling)))
        if not unsure.any():
            return ceiling
        centres, halves = _halved(centres[unsure], halves[unsure])


def _ratio(field: LineField, centres: Floats, halves: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return log(p/q) in the middle of cells, how far it may be below and above within them, and rounding's part."""
    level, down, up = field.ratio(centres[:, None], halves[:, None])
    log_p, log_q = field.log_densities(centres[:, None])
    slack = float_error(log_p, len(field.p.atoms)) + float_error(log_q, len(field.q.atoms))
    slack += field.blur(log_p) + field.blur(log_q)
    return level, down + slack, up + slack, slack


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
    low, high = low[starts], high[ends]
    narrow = high - low <= _NARROW
    return _of_runs(field, low[~narrow], high[~narrow], epsilon) + _of_narrow(field, low[narrow], high[narrow], epsilon)


def _of_runs(field: LineField, low: Floats, high: Floats, epsilon: float) -> float:
    """Return the sum from tail probabilities, with all their errors."""
    (p, p_doubt), (q, q_doubt) = (mixture.mass(low, high) for mixture in (field.p, field.q))
    factor = math.exp(min(epsilon, _LARGEST_EXPONENT))
    return math.fsum(np.maximum(p - q * factor, 0.0)) + math.fsum(p_doubt + q_doubt * factor)


def _of_narrow(field: LineField, low: Floats, high: Floats, epsilon: float) -> float:
    """Return the sum by quadrature, for tails would cancel; 20 nodes are exact where all of ζ is that smooth."""
    if not len(low):
        return 0.0
    halves = (high - low) / 2
    points = (low + halves)[:, None] + halves[:, None] * _NODES
    log_p, log_q = field.log_densities(points.reshape(-1, 1))
    error = float_error(log_p, len(field.p.atoms)) + float_error(log_q, len(field.q.atoms))
    error += field.blur(log_p) + field.blur(log_q) + 4 * UNIT
    with np.errstate(under="ignore"):
        p, q = np.exp(log_p), np.exp(np.minimum(log_q + epsilon, _LARGEST_EXPONENT))
    exceeding = (p - q + error * (p + q)).reshape(points.shape) @ _WEIGHTS
    return math.fsum(np.maximum(exceeding * halves, 0.0)) * (1 + 1e-13)
