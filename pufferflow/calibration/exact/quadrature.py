"""Upper bounds on losses of two noisy laws, by integrals or searches over pieces of their domain (M6).

The laws have densities p and q, in units of the noise's scale. For each noise a `Field` gives the quantities that bound
the error of quadrature. Around a centre c write ζ(c + ω − x) = ζ(c − x)·g(ω, x) for complex ω. If |g − 1| ≤ G − 1 for
all atoms x, then |p(c + ω)| ≤ G·p(c) and |q(c + ω)| ≥ (2 − G)·q(c): no zero of q is near. So p^α q^{1−α} is analytic
there, and at most G^α (2 − G)^{1−α} times its size in the centre.

Rényi divergences ∫ p^α q^{1−α}: the domain is cut into boxes on each of which the integrand is analytic in a Bernstein
ellipse and known to grow little there. Let M be the largest |f| in the ellipse of parameter ρ. Gauss–Legendre
quadrature with N nodes then errs by at most (32/15)·d·volume·M·ρ^{−2(N−1)}/(1 − ρ^{−2}). (Trefethen, Approximation
Theory and Practice, Theorem 19.3.) Boxes on which f is negligible count with a crude upper bound. All errors, also of
float arithmetic, are added to the integral.

The hockey stick on R, and the supremum of log(p/q): the line is cut into cells until each lies above or below a level.
How far the ratio can move within a cell decides that. Cells above count with their exact probabilities; undecided cells
count with the most they can hold.
"""

import abc
import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import leggauss

from pufferflow.calibration.laws import Pair, finite_laws
from pufferflow.core.arrays import Flags, Floats, log_sum
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.finite_law import Law, as_fractions
from pufferflow.noise.base import Noise

CELLS = 1 << 21
_TAILS = 4e-13
"""The relative error of a tail probability."""


@final
class Mixture:
    """The density of X + noise for a finite law X: atoms of shape (n, d) in units, and the logs of their weights."""

    def __init__(self, atoms: Floats, log_weights: Floats, unit: Noise) -> None:
        self.atoms, self.log_weights, self.unit = atoms, log_weights, unit

    def log_terms(self, points: Floats) -> Floats:
        """Return log(weight · ζ(point − atom)) for N points, of shape (N, n)."""
        steps = points[:, None, :] - self.atoms[None, :, :]
        return self.unit.logpdf(steps).sum(axis=-1) + self.log_weights

    def log_density(self, points: Floats) -> Floats:
        """Return the log density at points of shape (N, d)."""
        return in_rows(points, len(self.atoms), lambda rows: log_sum(self.log_terms(rows)))

    def mass(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the probability of intervals on R, from the tails that cancel least, and its error."""

        def block(ends: Floats) -> Floats:
            left, right = (ends[:, i, None] - self.atoms[None, :, 0] for i in (0, 1))
            above = left > 0
            first, second = (
                self.unit.tail(np.where(above, left, -right)),
                self.unit.tail(np.where(above, right, -left)),
            )
            straddling = ~above & (right > 0)
            between = np.where(
                straddling,
                1 - self.unit.tail(np.abs(left)) - self.unit.tail(np.abs(right)),
                first - second,
            )
            doubt = _TAILS * np.where(straddling, 1.0, np.maximum(first, second))
            return np.stack([np.maximum(between, 0.0), doubt], axis=-1).swapaxes(1, 2) @ np.exp(
                self.log_weights
            )

        masses = in_rows(np.stack([low, high], axis=1), len(self.atoms), block)
        return masses[:, 0], masses[:, 1]


@final
class PairAtoms:
    """A pair before division by the noise's scale: atoms of shape (n, d) around their middle, and weights."""

    def __init__(self, pair: Pair, reach: float) -> None:
        mu, nu = finite_laws(pair)
        self.left, self.right = centred(mu, nu)
        self.log_left, self.log_right = mu.log_probabilities, nu.log_probabilities
        self.reach = reach
        """W_∞ in the norm of the noise."""
        both = np.concatenate([self.left, self.right])
        self.low, self.high = both.min(axis=0), both.max(axis=0)
        with np.errstate(over="ignore"):
            self.range = float((self.high - self.low).max())
        self.knots = [np.unique(column) for column in both.T]
        """The coordinates that occur, for each axis."""


class Field(abc.ABC):
    """Both densities of a pair under one noise."""

    def __init__(self, atoms: PairAtoms, noise: Noise) -> None:
        unit, scale = noise.at(1.0), noise.scale
        self.p = Mixture(atoms.left / scale, atoms.log_left, unit)
        self.q = Mixture(atoms.right / scale, atoms.log_right, unit)
        self.low, self.high = atoms.low / scale, atoms.high / scale
        self.range = float((self.high - self.low).max())
        self.knots = [knots / scale for knots in atoms.knots]
        self.reach = atoms.reach / scale * (1 + 4 * UNIT)
        self.dimension = len(self.knots)

    @property
    def effort(self) -> int:
        """The terms of both densities at one point."""
        return len(self.p.atoms) + len(self.q.atoms)

    def swapped(self) -> Self:
        """Return the field of the pair in the other order."""
        other = copy.copy(self)
        other.p, other.q = self.q, self.p
        return other

    def log_densities(self, points: Floats) -> tuple[Floats, Floats]:
        """Return log p and log q."""
        return self.p.log_density(points), self.q.log_density(points)

    @abc.abstractmethod
    def cells(self, alpha: float) -> tuple[list[Floats], list[Floats], list[Floats], float]:
        """Return, for each axis, centres, half widths and measures of pieces, and a bound on the integral beyond them.

        Between pieces both densities are analytic. A measure is the piece's width, or 1 for a piece of width 0 that
        stands for a whole exponential tail.
        """

    @abc.abstractmethod
    def growth(self, centres: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats, Floats]:
        """Return log f at the centres, and the most that log|f| can rise within `sizes`: by complex and by real steps.

        f = p^α q^{1−α}; the first gain is ∞ where q may vanish.
        """

    @abc.abstractmethod
    def blur(self, log_densities: Floats) -> Floats:
        """Return the most that rounding of the atoms may change a log density, given its values."""


class LineField(Field):
    """A field on R that bounds how far log(p/q) can move, for the pure loss and the hockey stick."""

    @abc.abstractmethod
    def horizon(self) -> tuple[float, float]:
        """Return a distance from the atoms, and a bound on |log(p/q)| beyond it."""

    @abc.abstractmethod
    def ratio(self, centres: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log(p/q) at the centres, and how far below and above that it may be within `sizes`."""

    @abc.abstractmethod
    def steepest(self, centres: Floats, sizes: Floats) -> Floats:
        """Return the most that log p may rise within `sizes`."""


class UniformField(Field):
    """A field whose growth G is the same for all atoms that are as far away: Laplace and generalized Cauchy noise."""

    @abc.abstractmethod
    def log_growth(self, centres: Floats, sizes: Floats) -> Floats:
        """Return log G for complex steps up to `sizes` in every coordinate; ∞ where it is not bounded."""

    def growth(self, centres: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats, Floats]:
        log_p, log_q = self.log_densities(centres)
        wide = self.log_growth(centres, sizes)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            shrink = np.where(
                wide < math.log(2),
                -np.log(np.maximum(2 - np.exp(np.minimum(wide, 1.0)), 0.0)),
                math.inf,
            )
        return (
            alpha * log_p - (alpha - 1) * log_q,
            alpha * wide + (alpha - 1) * shrink,
            (2 * alpha - 1) * wide,
        )


def centred(mu: Law, nu: Law) -> tuple[Floats, Floats]:
    """Return the atoms of both laws as (n, d) floats around the middle of their hull: translation changes no loss."""
    left, right = (law.values.reshape(len(law), -1) for law in (mu, nu))
    if object in (left.dtype, right.dtype):
        left, right = as_fractions(left), as_fractions(right)
    low, high = (
        np.minimum(left.min(axis=0), right.min(axis=0)),
        np.maximum(left.max(axis=0), right.max(axis=0)),
    )
    middle = low / 2 + high / 2
    first, second = ((values - middle).astype(np.float64) for values in (left, right))
    return first, second


def in_rows(points: Floats, width: int, function: Callable[[Floats], Floats]) -> Floats:
    """Apply a function of some rows to all rows, in batches for which rows × width fits in memory."""
    rows = max(CELLS // max(width, 1), 1)
    if len(points) <= rows:
        return function(points)
    return np.concatenate([function(points[at : at + rows]) for at in range(0, len(points), rows)])


def float_error(log_values: Floats, count: int) -> Floats:
    """Return the error of a log density from rounding of its terms and their sum."""
    return 4 * UNIT * (np.abs(log_values) + math.log2(count + 1) + 8)


_MOST_GAIN = 3.0
_NEGLIGIBLE = -42.0
_MOST_WORK = 4e9
_MOST_BOXES = 4_000_000
_MOST_POINTS = 1 << 18


@dataclass(frozen=True)
class QuadratureRule:
    """Gauss–Legendre quadrature with N nodes, and the ellipse for which it is used."""

    nodes: int
    parameter: float

    @property
    def reach(self) -> float:
        """The ellipse's larger half axis, in half widths of the box."""
        return (self.parameter + 1 / self.parameter) / 2

    @property
    def log_error(self) -> float:
        """The log of the error for volume 1, M = 1 and d = 1."""
        return (
            math.log(32 / 15)
            - 2 * (self.nodes - 1) * math.log(self.parameter)
            - math.log1p(-(self.parameter**-2))
        )


_RULES = {
    1: (QuadratureRule(6, 40.0), QuadratureRule(20, 2.8)),
    2: (QuadratureRule(6, 12.0), QuadratureRule(14, 3.0)),
}
_MANY = (QuadratureRule(5, 12.0),)


@dataclass(frozen=True)
class Boxes:
    """Boxes of R^d: centres and half widths of shape (B, d), and the logs of their measures."""

    centres: Floats
    halves: Floats
    log_measures: Floats

    def __len__(self) -> int:
        return len(self.centres)

    def at(self, index: npt.NDArray[Any] | slice) -> "Boxes":
        """Return the boxes at an index."""
        return Boxes(self.centres[index], self.halves[index], self.log_measures[index])


def divergence(field: Field, alpha: float) -> float:
    """Return D_α(p ‖ q) rounded up."""
    *axes, tail = field.cells(alpha)
    boxes = _grid(axes)
    logs, largest, work = [np.array([tail])], 0.0, 0.0
    while len(boxes):
        gain = np.zeros(len(boxes))
        unsure = np.arange(len(boxes))
        for rule in _RULES.get(field.dimension, _MANY):
            left = boxes.at(unsure)
            log_f, gain[unsure], _ = field.growth(left.centres, left.halves * rule.reach, alpha)
            weight = log_f + left.log_measures
            largest = max(largest, float(weight.max(initial=0.0)))
            error = rule.log_error + math.log(field.dimension) + weight + gain[unsure]
            done = (gain[unsure] <= _MOST_GAIN) | (error <= largest + _NEGLIGIBLE)
            work += int(done.sum()) * rule.nodes**field.dimension * field.effort
            if work > _MOST_WORK:
                raise _too_fine(field)
            logs += [_gauss(field, rule, left.at(done), alpha), error[done]]
            unsure = unsure[~done]
        left = boxes.at(unsure)
        log_f, _, real_gain = field.growth(left.centres, left.halves, alpha)
        crude = log_f + real_gain + left.log_measures
        negligible = crude <= largest + _NEGLIGIBLE
        logs.append(crude[negligible])
        boxes = _split(left.at(~negligible), gain[unsure[~negligible]])
        if len(boxes) > _MOST_BOXES:
            raise _too_fine(field)
    everything = np.concatenate(logs)
    top = max(float(everything.max()), 0.0)
    total = math.fsum(np.exp(everything - top)) * (1 + 1e-14)
    return max((top + math.log(total)) / (alpha - 1), 0.0) * (1 + 1e-15)


def _grid(axes: Sequence[Any]) -> Boxes:
    """Return all boxes of a grid but empty ones, given centres, half widths and measures for each axis."""
    counts = [len(centres) for centres in axes[0]]
    if math.prod(counts) > _MOST_BOXES:
        raise Refused(
            f"{math.prod(counts)} boxes between atoms are too many for quadrature.",
            allowed=f"at most {_MOST_BOXES}",
            instead="bound=pf.DAGWM(), or fewer atoms",
        )
    index = np.indices(counts).reshape(len(counts), -1)
    centres, halves, measures = (
        np.stack([axis[row] for axis, row in zip(part, index, strict=True)], axis=1)
        for part in axes
    )
    full = (measures > 0).all(
        axis=1
    )  # between atoms that differ in their last bit a box may have no width
    return Boxes(centres[full], halves[full], np.log(measures[full]).sum(axis=1))


def _gauss(field: Field, rule: QuadratureRule, boxes: Boxes, alpha: float) -> Floats:
    """Return the log of each box's quadrature sum, raised by its rounding error."""
    nodes, weights = leggauss(rule.nodes)
    dimension = field.dimension
    offsets = np.array(list(itertools.product(nodes, repeat=dimension)))
    log_shares = np.log([math.prod(w) for w in itertools.product(weights / 2, repeat=dimension)])
    rows = max(_MOST_POINTS // len(offsets), 1)
    sums = [np.zeros(0)]
    for start in range(0, len(boxes), rows):
        block = boxes.at(slice(start, start + rows))
        points = (block.centres[:, None, :] + block.halves[:, None, :] * offsets).reshape(
            -1, dimension
        )
        log_p, log_q = field.log_densities(points)
        error = float_error(log_p, len(field.p.atoms)) * alpha + float_error(
            log_q, len(field.q.atoms)
        ) * (alpha - 1)
        error += alpha * field.blur(log_p) + (alpha - 1) * field.blur(log_q)
        logs = alpha * log_p - (alpha - 1) * log_q + error
        terms = logs.reshape(-1, len(offsets)) + log_shares + block.log_measures[:, None]
        widths = np.where(
            block.halves > 0, block.halves, np.inf
        )  # rounded edges leave overlaps or gaps between boxes
        sums.append(
            log_sum(terms) + np.log1p(8 * UNIT * np.abs(block.centres) / widths).sum(axis=1)
        )
    return np.concatenate(sums)


def _split(boxes: Boxes, gain: Floats) -> Boxes:
    """Cut each box across its longest side, into more pieces where |f| may grow more."""
    most = 16 if boxes.centres.shape[1] == 1 else 2
    pieces = np.clip(np.ceil(np.minimum(gain, 1e3) / _MOST_GAIN), 2, most).astype(np.intp)
    owner = np.repeat(np.arange(len(boxes)), pieces)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    count = pieces[owner]
    cut = boxes.at(owner)
    rows, axis = np.arange(len(owner)), boxes.halves.argmax(axis=1)[owner] if len(boxes) else owner
    width = cut.halves[rows, axis]
    cut.centres[rows, axis] += width * ((2 * place + 1) / count - 1)
    cut.halves[rows, axis] = width / count
    return Boxes(cut.centres, cut.halves, cut.log_measures - np.log(count))


def _too_fine(field: Field) -> Refused:
    return Refused(
        f"The exact loss of laws of {len(field.p.atoms)} and {len(field.q.atoms)} atoms on R^{field.dimension} takes "
        "too many quadrature nodes at this scale.",
        allowed="fewer atoms or coordinates, or a noise that is not much narrower than the answers' range",
        instead="bound=pf.DAGWM()",
    )


_MOST_CELLS = 1_000_000
_SHARE = 1e-7
_SLACKS = 4
_CLOSE = 1e-9
_CLOSEST = 1e-13
_LEAST = 1e-300
"""More than tails can lose by float rounding."""
_NARROW = 0.25
_LARGEST_EXPONENT = 700.0
_NODES, _WEIGHTS = leggauss(20)


def hockey_stick(field: LineField, epsilon: float, far: float, beyond: float) -> float:
    """Return δ(ε) = ∫ (p − e^ε q)_+, rounded up; further than `far` from the atoms log(p/q) is at most `beyond`."""
    centres, halves = _start(field, far)
    ends = np.array([[-math.inf, (centres - halves).min()], [(centres + halves).max(), math.inf]])
    outside = float(np.sum(field.p.mass(ends[:, 0], ends[:, 1]))) * -math.expm1(
        min(epsilon - beyond, 0.0)
    )
    outside += _LEAST if beyond == math.inf else 0.0
    lows, highs, roughly = [np.zeros(0)], [np.zeros(0)], 0.0
    while True:
        level, down, up, slack = _ratio(field, centres, halves)
        above, top = level - down >= epsilon, level + up
        lows.append((centres - halves)[above])
        highs.append((centres + halves)[above])
        log_p = field.p.log_density(centres[:, None])
        with np.errstate(under="ignore"):
            roughly += float(
                (2 * halves * np.exp(log_p) * -np.expm1(np.minimum(epsilon - level, 0.0)))[
                    above
                ].sum()
            )
        unsure = ~(above | (top <= epsilon))
        stuck = (up <= _SLACKS * slack)[unsure]  # undecided by rounding: smaller cells do not help
        centres, halves, log_p, slack = (
            centres[unsure],
            halves[unsure],
            log_p[unsure],
            slack[unsure],
        )
        held = _held(field, centres, halves, log_p + slack) * -np.expm1(
            np.minimum(epsilon - top[unsure], 0.0)
        )
        outside += math.fsum(held[stuck])
        waiting = math.fsum(held[~stuck])
        centres, halves = centres[~stuck], halves[~stuck]
        finished = waiting <= max(_SHARE * roughly, 1e-300) or len(centres) > _MOST_CELLS
        if finished or _too_small(centres, halves).all():
            total = _positive(field, np.concatenate(lows), np.concatenate(highs), epsilon)
            return min((total + waiting + outside) * (1 + 1e-14), 1.0)
        centres, halves = _halved(centres, halves)


def _held(field: LineField, centres: Floats, halves: Floats, log_p: Floats) -> Floats:
    """Return bounds on p's mass in cells: size times growth in small ones, tail probabilities in others."""
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


def _ratio(
    field: LineField, centres: Floats, halves: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return log(p/q) in the middle of cells, how far it may fall and rise within them, and its rounding error."""
    level, down, up = field.ratio(centres[:, None], halves[:, None])
    log_p, log_q = field.log_densities(centres[:, None])
    slack = float_error(log_p, len(field.p.atoms)) + float_error(log_q, len(field.q.atoms))
    slack += field.blur(log_p) + field.blur(log_q)
    return level, down + slack, up + slack, slack


def _start(field: LineField, far: float) -> tuple[Floats, Floats]:
    """Return cells that are fine inside the hull and grow away from it."""
    inside = (
        np.linspace(float(field.low[0]), float(field.high[0]), 65) if field.range else field.low[:1]
    )
    steps = np.geomspace(1e-3, far, 64)
    ends = np.unique(np.concatenate([field.low[0] - steps, inside, field.high[0] + steps]))
    return (ends[:-1] + ends[1:]) / 2, np.diff(ends) / 2


def _halved(centres: Floats, halves: Floats) -> tuple[Floats, Floats]:
    quarter = halves / 2
    return np.concatenate([centres - quarter, centres + quarter]), np.concatenate(
        [quarter, quarter]
    )


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
    return _of_runs(field, low[~narrow], high[~narrow], epsilon) + _of_narrow(
        field, low[narrow], high[narrow], epsilon
    )


def _of_runs(field: LineField, low: Floats, high: Floats, epsilon: float) -> float:
    """Return the sum from tail probabilities, with all their errors."""
    (p, p_doubt), (q, q_doubt) = (mixture.mass(low, high) for mixture in (field.p, field.q))
    factor = math.exp(min(epsilon, _LARGEST_EXPONENT))
    return math.fsum(np.maximum(p - q * factor, 0.0)) + math.fsum(p_doubt + q_doubt * factor)


def _of_narrow(field: LineField, low: Floats, high: Floats, epsilon: float) -> float:
    """Return the sum by quadrature, since tails would cancel; 20 nodes are exact where ζ is smooth enough."""
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
