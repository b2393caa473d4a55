"""The Rényi divergence of two noisy laws, ∫ p^α q^{1−α}, from above (M6).

The domain is cut into boxes on each of which the integrand is analytic in a Bernstein ellipse and known to grow little
there. Gauss–Legendre quadrature with N nodes then errs by at most (32/15)·d·volume·M·ρ^{−2(N−1)}/(1 − ρ^{−2}), M the
largest |f| in the ellipse of parameter ρ (Trefethen, Approximation Theory and Practice, Theorem 19.3). Boxes on which f
is negligible count with a crude upper bound. All errors, those of float arithmetic too, are added to the integral.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import leggauss

from pufferflow.bounds.exact.field import Field, float_error, log_sum
from pufferflow.errors import Refused
from pufferflow.noise import Floats
from pufferflow.rounding import UNIT

_MOST_GAIN = 3.0
_NEGLIGIBLE = -42.0
_MOST_WORK = 4e9
_MOST_BOXES = 4_000_000
_MOST_POINTS = 1 << 18


@dataclass(frozen=True)
class Rule:
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
        return math.log(32 / 15) - 2 * (self.nodes - 1) * math.log(self.parameter) - math.log1p(-(self.parameter**-2))


_RULES = {1: (Rule(6, 40.0), Rule(20, 2.8)), 2: (Rule(6, 12.0), Rule(14, 3.0))}
_MANY = (Rule(5, 12.0),)


@dataclass(frozen=True)
class Boxes:
    """Boxes of R^d: centres and half widths of shape (B, d), and the logs of their measures."""

    centres: Floats
    halves: Floats
    log_measures: Floats

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.centres)

    def at(self, index: npt.NDArray[Any] | slice) -> "Boxes":
        """Return some of them."""
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
            some = boxes.at(unsure)
            log_f, gain[unsure], _ = field.growth(some.centres, some.halves * rule.reach, alpha)
            weight = log_f + some.log_measures
            largest = max(largest, float(weight.max(initial=0.0)))
            error = rule.log_error + math.log(field.dimension) + weight + gain[unsure]
            done = (gain[unsure] <= _MOST_GAIN) | (error <= largest + _NEGLIGIBLE)
            work += int(done.sum()) * rule.nodes**field.dimension * field.effort
            if work > _MOST_WORK:
                raise _too_fine(field)
            logs += [_gauss(field, rule, some.at(done), alpha), error[done]]
            unsure = unsure[~done]
        some = boxes.at(unsure)
        log_f, _, real_gain = field.growth(some.centres, some.halves, alpha)
        crude = log_f + real_gain + some.log_measures
        negligible = crude <= largest + _NEGLIGIBLE
        logs.append(crude[negligible])
        boxes = _split(some.at(~negligible), gain[unsure[~negligible]])
        if len(boxes) > _MOST_BOXES:
            raise _too_fine(field)
    everything = np.concatenate(logs)
    top = max(float(everything.max()), 0.0)
    total = math.fsum(np.exp(everything - top)) * (1 + 1e-14)
    return max((top + math.log(total)) / (alpha - 1), 0.0) * (1 + 1e-15)


def _grid(axes: Sequence[Any]) -> Boxes:
    """Return all boxes of a grid, given centres, half widths and measures for each axis."""
    counts = [len(centres) for centres in axes[0]]
    if math.prod(counts) > _MOST_BOXES:
        raise Refused(
            f"{math.prod(counts)} boxes between atoms are too many for quadrature.",
            allowed=f"at most {_MOST_BOXES}",
            instead="bound=pf.DAGWM(), or fewer atoms",
        )
    index = np.indices(counts).reshape(len(counts), -1)
    centres, halves, measures = (
        np.stack([axis[row] for axis, row in zip(part, index, strict=True)], axis=1) for part in axes
    )
    return Boxes(centres, halves, np.log(measures).sum(axis=1))


def _gauss(field: Field, rule: Rule, boxes: Boxes, alpha: float) -> Floats:
    """Return the log of each box's quadrature sum, raised by what rounding may have taken."""
    nodes, weights = leggauss(rule.nodes)
    dimension = field.dimension
    offsets = np.array(list(itertools.product(nodes, repeat=dimension)))
    log_shares = np.log([math.prod(w) for w in itertools.product(weights / 2, repeat=dimension)])
    rows = max(_MOST_POINTS // len(offsets), 1)
    found = [np.zeros(0)]
    for start in range(0, len(boxes), rows):
        some = boxes.at(slice(start, start + rows))
        points = (some.centres[:, None, :] + some.halves[:, None, :] * offsets).reshape(-1, dimension)
        log_p, log_q = field.log_densities(points)
        error = float_error(log_p, len(field.p.atoms)) * alpha + float_error(log_q, len(field.q.atoms)) * (alpha - 1)
        error += alpha * field.blur(log_p) + (alpha - 1) * field.blur(log_q)
        logs = alpha * log_p - (alpha - 1) * log_q + error
        terms = logs.reshape(-1, len(offsets)) + log_shares + some.log_measures[:, None]
        widths = np.where(some.halves > 0, some.halves, np.inf)  # where edges are rounded, boxes overlap or gape
        found.append(log_sum(terms) + np.log1p(8 * UNIT * np.abs(some.centres) / widths).sum(axis=1))
    return np.concatenate(found)


def _split(boxes: Boxes, gain: Floats) -> Boxes:
    """Cut each box across its longest side, into more pieces the more |f| may grow in it."""
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
