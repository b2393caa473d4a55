"""The Rényi divergence of two noisy laws, ∫ p^α q^{1−α}, from above (M6).

The domain is cut into boxes on each of which the integrand is analytic in a Bernstein ellipse and known to grow little
there. Gauss–Legendre quadrature with N nodes then errs by at most (32/15)·d·volume·M·ρ^{−2(N−1)}/(1 − ρ^{−2}), M the
largest |f| in the ellipse of parameter ρ (Trefethen, Approximation Theory and Practice, Theorem 19.3). Boxes on which f
is negligible count with a crude upper bound. All errors, those of float arithmetic too, are added to the integral.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss

from pufferflow.bounds.exact.field import Field, float_error
from pufferflow.errors import Refused
from pufferflow.noise import Floats
from pufferflow.rounding import UNIT

_MOST_GAIN = 3.0
_NEGLIGIBLE = -42.0
_MOST_WORK = 4e9
_MOST_BOXES = 4_000_000


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


def divergence(field: Field, alpha: float) -> float:
    """Return D_α(p ‖ q) rounded up."""
    pieces = field.cells(alpha)
    axes, tail = list(zip(*pieces[:3], strict=True)), pieces[3]
    centres, halves, measures = _boxes(axes)
    logs, log_measures = [np.array([tail])], np.log(measures).sum(axis=1)
    rules = _RULES.get(field.dimension, _MANY)
    work, largest = 0.0, 0.0
    while len(centres):
        if len(centres) > _MOST_BOXES:
            raise _too_fine(field)
        open_boxes = np.ones(len(centres), dtype=bool)
        gain = np.zeros(len(centres))
        for rule in rules:
            at = np.flatnonzero(open_boxes)
            log_f, complex_gain, real_gain = field.growth(centres[at], halves[at] * rule.reach, alpha)
            heaviest = float((log_f + log_measures[at]).max(initial=0.0))
            largest = max(largest, heaviest)
            error = rule.log_error + math.log(field.dimension) + log_f + complex_gain + log_measures[at]
            done = (complex_gain <= _MOST_GAIN) | (error <= largest + _NEGLIGIBLE)
            gain[at] = np.where(np.isfinite(complex_gain), complex_gain, 64.0)
            if done.any():
                chosen = at[done]
                work += len(chosen) * rule.nodes**field.dimension * field.effort
                if work > _MOST_WORK:
                    raise _too_fine(field)
                logs += [_gauss(field, rule, centres[chosen], halves[chosen], log_measures[chosen], alpha), error[done]]
                open_boxes[chosen] = False
        at = np.flatnonzero(open_boxes)
        log_f, _, real_gain = field.growth(centres[at], halves[at], alpha)
        crude = log_f + real_gain + log_measures[at]
        negligible = crude <= largest + _NEGLIGIBLE
        logs.append(crude[negligible])
        rest = at[~negligible]
        centres, halves, log_measures = _split(centres[rest], halves[rest], log_measures[rest], gain[rest])
    everything = np.concatenate(logs)
    top = max(float(everything.max()), 0.0)
    total = math.fsum(np.exp(everything - top)) * (1 + 1e-14)
    return max((top + math.log(total)) / (alpha - 1), 0.0) * (1 + 1e-15)


def _boxes(axes: list[tuple[Floats, Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """Return all boxes of a grid: centres, half widths and measures, of shape (B, d)."""
    counts = [len(axis[0]) for axis in axes]
    if math.prod(counts) > _MOST_BOXES:
        raise Refused(
            f"{math.prod(counts)} boxes between atoms are too many for quadrature.",
            allowed=f"at most {_MOST_BOXES}",
            instead="bound=pf.DAGWM(), or fewer atoms",
        )
    index = np.indices(counts).reshape(len(axes), -1)
    return tuple(  # pyright: ignore[reportReturnType] - three of them
        np.stack([axis[part][row] for axis, row in zip(axes, index, strict=True)], axis=1) for part in range(3)
    )


def _gauss(field: Field, rule: Rule, centres: Floats, halves: Floats, log_measures: Floats, alpha: float) -> Floats:
    """Return the logs of the terms of the quadrature sums, each raised by what rounding may have taken."""
    nodes, weights = leggauss(rule.nodes)
    dimension = centres.shape[1]
    offsets = np.array(list(itertools.product(nodes, repeat=dimension)))
    log_shares = np.log(np.array([math.prod(w) for w in itertools.product(weights / 2, repeat=dimension)]))
    rows = max((1 << 18) // len(offsets), 1)
    found = []
    for start in range(0, len(centres), rows):
        some = slice(start, start + rows)
        points = (centres[some, None, :] + halves[some, None, :] * offsets[None, :, :]).reshape(-1, dimension)
        log_p, log_q = field.log_densities(points)
        error = float_error(log_p, len(field.p.atoms)) * alpha + float_error(log_q, len(field.q.atoms)) * (alpha - 1)
        logs = alpha * log_p - (alpha - 1) * log_q + error + (2 * alpha - 1) * field.blur(points)
        terms = logs.reshape(-1, len(offsets)) + log_shares + log_measures[some, None]
        top = terms.max(axis=1)
        edges = np.log1p(8 * UNIT * np.abs(centres[some]) / np.where(halves[some] > 0, halves[some], np.inf)).sum(
            axis=1
        )
        found.append(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)) + edges)
    return np.concatenate(found)


def _split(centres: Floats, halves: Floats, log_measures: Floats, gain: Floats) -> tuple[Floats, Floats, Floats]:
    """Cut each box across its longest side, into more pieces the more it has to be cut."""
    if not len(centres):
        return centres, halves, log_measures
    longest = halves.argmax(axis=1)
    pieces = np.clip(np.ceil(gain / _MOST_GAIN), 2, 16 if centres.shape[1] == 1 else 2).astype(np.intp)
    owner = np.repeat(np.arange(len(centres)), pieces)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    count = pieces[owner]
    new_centres, new_halves = centres[owner].copy(), halves[owner].copy()
    axis = longest[owner]
    rows = np.arange(len(owner))
    width = halves[owner, axis]
    new_centres[rows, axis] += width * ((2 * place + 1) / count - 1)
    new_halves[rows, axis] = width / count
    return new_centres, new_halves, log_measures[owner] - np.log(count)


def _too_fine(field: Field) -> Refused:
    return Refused(
        f"The exact loss of laws of {len(field.p.atoms)} and {len(field.q.atoms)} atoms on R^{field.dimension} takes "
        "too many quadrature nodes at this scale.",
        allowed="fewer atoms or coordinates, or a noise that is not much narrower than the answers' range",
        instead="bound=pf.DAGWM()",
    )
