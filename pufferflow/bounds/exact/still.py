"""Two laws without noise, and with staircase noise: finitely many values of p and q, each with its weight."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pufferflow.bounds.exact.field import centred
from pufferflow.bounds.pairs import Pair, finite_laws
from pufferflow.errors import Refused
from pufferflow.law import Law
from pufferflow.noise import Floats, Staircase
from pufferflow.rounding import UNIT, float_above
from pufferflow.transport import footing

_MOST_PIECES = 20_000_000
Indices = npt.NDArray[np.intp]


class Table:
    """log p and log q on pieces of given weight; −∞ where one of them is 0."""

    def __init__(self, log_p: Floats, log_q: Floats, log_weights: Floats) -> None:
        self.log_p, self.log_q, self.log_weights = log_p, log_q, log_weights
        sizes = [np.abs(logs[np.isfinite(logs)]).max(initial=0.0) for logs in (log_p, log_q)]
        self.rounding = 8 * UNIT * (float(sum(sizes)) + 4)

    def pure(self) -> float:
        """Return the largest log ratio."""
        held = self.log_p > -math.inf
        worst = float((self.log_p[held] - self.log_q[held]).max())
        return 0.0 if worst == 0 else max(worst + self.rounding, 0.0)

    def renyi(self, alpha: float) -> float:
        """Return log Σ weight·p^α q^{1−α} / (α−1)."""
        held = self.log_p > -math.inf
        if (self.log_q[held] == -math.inf).any():
            return math.inf
        if (self.log_p == self.log_q).all():
            return 0.0
        logs = alpha * self.log_p[held] - (alpha - 1) * self.log_q[held] + self.log_weights[held]
        top = float(logs.max())
        total = top + math.log(math.fsum(np.exp(logs - top)))
        return max(total + (2 * alpha - 1) * self.rounding + 4 * UNIT, 0.0) / (alpha - 1) * (1 + UNIT)

    def delta(self, epsilon: float) -> float:
        """Return Σ weight·(p − e^ε q)_+."""
        held = self.log_p > -math.inf
        log_p, log_q = self.log_p[held], self.log_q[held]
        p = np.exp(log_p + self.log_weights[held])
        exceeding = log_p > log_q + epsilon
        parts = p[exceeding] * -np.expm1(log_q[exceeding] + epsilon - log_p[exceeding])
        above = math.fsum(parts)
        return min(above + (2 * self.rounding + 2 * UNIT * epsilon) * math.fsum(p[exceeding]), 1.0)


def without_noise(pair: Pair) -> Table:
    """Return the table of the laws themselves: each atom of either, and its two weights."""
    mu, nu = finite_laws(pair)
    rows, columns, count = _places(mu, nu)
    logs = np.full((2, count), -math.inf)
    logs[0, rows], logs[1, columns] = np.log(mu.probabilities), np.log(nu.probabilities)
    return Table(logs[0], logs[1], np.zeros(count))


def pure_without_noise(pair: Pair) -> float:
    """Return the largest log ratio of weights, from the exact ratio where weights are rational."""
    mu, nu = finite_laws(pair)
    rows, columns, _ = _places(mu, nu)
    if not np.isin(rows, columns).all():
        return math.inf
    if not (mu.exact and nu.exact):
        return without_noise(pair).pure()
    other = dict(zip(columns.tolist(), nu.masses.tolist(), strict=True))
    ratios = (
        Fraction(mass * nu.total, other[place] * mu.total)
        for place, mass in zip(rows.tolist(), mu.masses.tolist(), strict=True)
    )
    worst = max(ratios)
    return math.log(float_above(worst)) * (1 + 2 * UNIT) if worst > 1 else 0.0


def _places(mu: Law, nu: Law) -> tuple[Indices, Indices, int]:
    """Return where the atoms of both laws stand among all atoms, and how many these are."""
    left, right = footing.values(mu, nu)
    if left.dtype == object:
        known: dict[object, int] = {}
        keys = [[tuple(atom) for atom in atoms.reshape(len(atoms), -1).tolist()] for atoms in (left, right)]
        first, second = ([known.setdefault(key, len(known)) for key in side] for side in keys)
        return np.array(first), np.array(second), len(known)
    _, places = np.unique(np.concatenate([left, right]), axis=0, return_inverse=True)
    places = places.ravel()
    return places[: len(mu)], places[len(mu) :], int(places.max()) + 1


def with_staircase(pair: Pair, noise: Staircase) -> Table:
    """Return the table of both densities on R: constant between jumps, and repeating beyond the hull.

    Beyond the outermost atoms each further step is e^{−ε} times the one before, for both; so the first step outside
    counts 1/(1 − e^{−ε}) times.
    """
    mu, nu = finite_laws(pair)
    if mu.dimension > 1:
        raise Refused(
            "Staircase noise for an answer of several coordinates.",
            allowed="answers of one coordinate",
            instead="noise=pf.Laplace",
        )
    left, right = (atoms[:, 0] / noise.scale for atoms in centred(mu, nu))
    atoms = np.unique(np.concatenate([left, right]))
    low, high = float(atoms[0]), float(atoms[-1])
    gamma = noise.gamma or 0.0
    steps = np.arange(-math.ceil(high - low) - 2, math.ceil(high - low) + 3)
    if len(atoms) ** 2 * len(steps) * 2 > _MOST_PIECES:
        raise Refused(
            f"{len(atoms)} atoms over {high - low:.3g} steps of a staircase have too many jumps.",
            allowed="fewer atoms, or wider steps",
            instead="bound=pf.GWM()",
        )
    jumps = np.concatenate([steps, np.where(steps >= 0, steps + gamma, steps + 1 - gamma)])
    ends = np.unique((atoms[:, None] + jumps[None, :]).ravel())
    ends = np.concatenate([[low - 1], ends[(ends > low - 1) & (ends < high + 1)], [high + 1]])
    widths = np.diff(ends)
    kept = widths > 1e-13 * (1 + high - low)  # slivers between jumps that coincide but for rounding
    middles, widths = (ends[:-1] + widths / 2)[kept], widths[kept]
    unit = noise.at(1.0)
    densities = [
        np.log(np.exp(unit.logpdf(middles[:, None] - some[None, :])) @ law.probabilities)
        for some, law in ((left, mu), (right, nu))
    ]
    outside = (middles < low) | (middles > high)
    log_weights = np.log(widths) - np.where(outside, math.log(-math.expm1(-noise.epsilon)), 0.0)
    return Table(densities[0], densities[1], log_weights)
