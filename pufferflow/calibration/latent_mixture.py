"""Losses of adaptive Gaussian releases about rows that share a hidden class (M63).

Given the secret's value the class has a posterior law. The other rows of a group follow the class. Couple their laws
under two classes once, row by row. Then a fixed draw of the other rows leaves four data sets: two values of the
secret's row, and two classes. Releases are about sums, so their means move by o·u + c·w, with o the secret and c the
class.

All bounds are for the same games. One number B, the *information*, limits every path of answers. The squares of what
one row moves, in standard deviations, add up to at most B. So do those of the other rows, in units fixed beforehand.
Every bound holds for each adversary who is stopped there, and grows with B. So the smallest of them is a bound too. A
limit allows the paths up to one largest B, and the bound that is smallest there holds for all of them. The split θ and
the choice of a bound may likewise depend on B, on the guarantee and on how many other rows move.

- *Thinned*: answers of adaptive Gaussian releases are made from one normal vector with more information on every path.
  That of u and w together is at most that of u/√θ and of w/√(1−θ), which are independent of each other.
- *Revealed*: the class is published, and only the secret's row moves.
- *Coupled*: both laws of the class are coupled. With probability 1−τ only the secret's row moves, else all rows do.

Thinning needs Gaussian noise on sums and two classes. The others hold for all that is μ-Gaussian, and any classes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import scipy  # imports its parts when first used

from pufferflow.core.arrays import Flags, Floats
from pufferflow.core.rounding import SMALLEST, UNIT, smallest
from pufferflow.privacy.conversions import gaussian_deltas, pure_to_zcdp

SPLITS = 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98
"""The values of θ, fixed for all accounts."""
_TOLERANCE = 1e-7
_UNLIKELY, _MOST_COUNTS = 1e-15, 16
"""Numbers of rows below the first and above the last that is likelier count as these, or as all rows."""
_MOST_LISTED, _TAIL_ERROR = 1 << 17, 2.0**-30
"""The most numbers of rows whose masses are listed; of more, tails have at most that relative error."""
_PAD = 64 * UNIT
_COARSE, _FINE = 33, 257
_RENYI_NODES = 513
_REACH = 9.0
_FARTHEST = 37.0
_MOST_OWN = 30.0
_MOST_EPSILON = 300.0
_LEAST_DEVIATION = 1e-12
_SCORES, _CLOSE, _MOST_CELLS = 129, 1 + 5e-4, 20_000
"""Thresholds that are tried first, how near to the largest known difference the result is, and where that ends."""


@final
@dataclass(frozen=True, eq=False)
class OtherRows:
    """How far other rows move a release between two classes, in units of what one row moves it.

    Each draw of the other rows has a mass. `inside` is for releases that read the secret's row, `outside` for others;
    `whole` is what all rows move together.
    """

    masses: Floats
    inside: Floats
    outside: Floats
    whole: Floats

    @classmethod
    def at_most(cls, rows: float, group: float = math.inf) -> "OtherRows":
        """Return the movement of releases of so many rows of a group, whichever they are, which move at most `group`.

        >>> rows = OtherRows.at_most(3)
        >>> rows.inside.tolist(), rows.outside.tolist(), rows.whole.tolist()
        ([2.0], [3.0], [3.0])
        """
        most = [
            np.array([min(one, group)]) for one in (max(rows - 1.0, 0.0), float(rows), float(rows))
        ]
        return cls(np.ones(1), *most)

    @classmethod
    def differing(cls, laws: Floats, others: int) -> "OtherRows":
        """Return the movement of any releases about a fixed set of rows with so many others, under two laws of a row.

        >>> OtherRows.differing(np.array([[0.8, 0.2], [0.3, 0.7]]), 2).masses.round(4)
        array([0.25, 0.5 , 0.25])
        """
        masses, counts = counts_of_differing(laws, others)
        return cls(masses, counts, counts, counts + 1)

    @classmethod
    def beside(cls, laws: Floats, others: int) -> "OtherRows":
        """Return the same for releases that do not read the secret's row."""
        masses, counts = counts_of_differing(laws, others)
        return cls(masses, np.zeros_like(counts), counts, counts)

    @cached_property
    def splits(self) -> tuple[float, ...]:
        """The values of θ; 1 if no release reads the secret's row beside others."""
        return SPLITS if self.inside.any() else (1.0,)

    def squares(self, split: float) -> Floats:
        """Return the squared movement of the other rows after thinning with a θ."""
        inside = self.inside**2 / (1 - split) if split < 1 else np.zeros_like(self.inside)
        return np.maximum(self.outside**2, inside) * (1 + 8 * UNIT)

    def price(self, other: "OtherRows") -> float:
        """Return the information of a release with other movements, one row's being 1, in units of this one.

        A release with the movements u and w is made from independent ones with informations x and y if u²/x + w²/y ≤ 1.

        >>> [round(OtherRows.at_most(1).price(OtherRows.at_most(rows)), 9) for rows in (1, 7)]
        [1.0, 49.0]
        """
        prices = [_quotient(other.whole**2, self.whole**2)]
        for split in self.splits:
            least = self.squares(split)
            prices.append(split + _quotient(other.inside**2, least))
            prices.append(_quotient(other.outside**2, least))
        return max(prices) * (1 + 16 * UNIT)


def counts_of_differing(
    laws: Floats, rows: int, most: int = _MOST_COUNTS, beyond: int = 1
) -> tuple[Floats, Floats]:
    """Return the law of how many rows differ under two laws, on few numbers; others count as the next larger one.

    Above the likely numbers there are `beyond` more, the last of which is that of all rows.
    """
    share = min(float(np.abs(laws[0] - laws[1]).sum()) / 2 * (1 + 8 * UNIT), 1.0)
    if rows > _MOST_LISTED:
        return _counts_of_many(share, rows, most, beyond)
    counts = np.arange(rows + 1)
    masses = scipy.stats.binom.pmf(counts, rows, share) * (1 + 2.0**-36)
    likely = np.flatnonzero(masses > _UNLIKELY)
    places = np.linspace(float(likely[0]), float(likely[-1]), most)
    places = np.append(places, np.linspace(float(likely[-1]), rows, beyond + 1)[1:])
    kept = np.unique(np.round(places).astype(np.intp))
    sums = np.zeros(len(kept))
    np.add.at(sums, np.searchsorted(kept, counts), masses)
    return sums * (1 + rows * UNIT), kept.astype(np.float64)


def _counts_of_many(share: float, rows: int, most: int, beyond: int) -> tuple[Floats, Floats]:
    """Return the same from tails of the binomial law, which have a small relative error at any number of rows."""
    binomial = scipy.stats.binom(rows, share)
    low, high = float(binomial.ppf(_UNLIKELY)), float(binomial.isf(_UNLIKELY))
    places = [np.linspace(low, high, most), np.linspace(high, rows, beyond + 1)[1:]]
    kept: Floats = np.unique(np.round(np.concatenate(places)))
    below, above = binomial.cdf(kept), binomial.sf(kept)
    before, after = np.append(0.0, below[:-1]), np.append(1.0, above[:-1])
    left = kept <= rows * share
    masses = np.where(left, below - before, after - above)
    return np.maximum(masses, 0.0) + _TAIL_ERROR * np.where(left, below, after), kept


def _quotient(tops: Floats, bottoms: Floats) -> float:
    """Return the largest quotient, with 0/0 as 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(tops == 0, 0.0, tops / bottoms).max())


@final
@dataclass(frozen=True, eq=False)
class HiddenClassLoss:
    """The loss between two values of a row's secret, with class laws `top` and `bottom` given them.

    `thinned` says that all releases are sums with Gaussian noise; then two classes have the bound by thinning.

    >>> rows = OtherRows.differing(np.array([[0.8, 0.2], [0.3, 0.7]]), 5)
    >>> loss = HiddenClassLoss(np.array([8, 3]) / 11, np.array([2, 7]) / 9, rows)
    >>> round(loss.renyi(1 / 16, 2.0), 3)
    0.313
    """

    top: Floats
    bottom: Floats
    others: OtherRows
    thinned: bool = True

    @cached_property
    def apart(self) -> float:
        """The total variation τ between the laws of the class."""
        return min(float(np.maximum(self.top - self.bottom, 0.0).sum()) + 8 * UNIT, 1.0)

    def epsilon(self, information: float, delta: float, least: float = 0.0) -> float:
        """Return an ε, at least `least`, that is kept with δ up to that information; ∞ if none is found."""
        return least_epsilon(self.delta, information, delta, least)

    def delta(self, information: float, epsilon: float) -> float:
        """Return a δ that is kept with ε by all releases up to that information."""
        if not math.isfinite(information):
            return 1.0
        root = math.sqrt(information) * (1 + 2 * UNIT)
        own = sticks(np.array([root]), epsilon)
        whole = sticks(root * self.others.whole, epsilon)
        coupled = ((1 - self.apart) * own + self.apart * whole) * (1 + _PAD)
        ways = [coupled, np.full(len(whole), revealed_delta(root, self.top, self.bottom, epsilon))]
        if self.thinned and len(self.top) == 2 and epsilon <= _MOST_EPSILON:
            ways.append(np.where(self._alone, own, self._thinned_delta(information, epsilon)))
        return min(float((self.others.masses * np.min(ways, axis=0)).sum()) * (1 + _PAD), 1.0)

    def _thinned_delta(self, information: float, epsilon: float) -> Floats:
        """Return the δ by thinning for each draw of the other rows, with the best θ."""
        own, moved = self._thinned(information)
        deltas = product_deltas(own, moved, self.top, self.bottom, epsilon, _COARSE)
        own, moved = _at_least(deltas, own, moved)
        return product_deltas(own, moved, self.top, self.bottom, epsilon, _FINE)

    @cached_property
    def _alone(self) -> Flags:
        """Whether no other row differs, for each draw: then there is no class, and no θ."""
        return (self.others.outside == 0) & (self.others.inside == 0)

    def _thinned(self, information: float) -> tuple[Floats, Floats]:
        """Return how far the secret's row and the class move normal laws, for each θ and each draw."""
        squares = np.array([self.others.squares(split) for split in self.others.splits])
        own = np.sqrt(information / np.array(self.others.splits))[:, None]
        own = np.broadcast_to(own, squares.shape)
        with np.errstate(over="ignore"):
            return own * (1 + 4 * UNIT), np.sqrt(information * squares) * (1 + 4 * UNIT)

    def renyi(self, information: float, alpha: float) -> float:
        """Return the Rényi loss of an order that all releases up to that information keep."""
        if information == 0:
            return 0.0
        if not math.isfinite(information):
            return math.inf
        own = (alpha - 1) * alpha * information / 2
        whole = np.maximum(own * self.others.whole**2, own)
        with np.errstate(divide="ignore"):
            shares = np.log([max(1 - self.apart, 0.0), self.apart])
            ways = [np.logaddexp(shares[0] + own, shares[1] + whole)]
            ways.append(np.full(len(whole), own + _log_of_classes(self.top, self.bottom, alpha)))
            if self.thinned and len(self.top) == 2:
                ways.append(np.where(self._alone, own, self._thinned_renyi(information, alpha)))
            logs = np.log(self.others.masses) + np.min(ways, axis=0)
        total = float(np.logaddexp.reduce(logs))
        rounding = 64 * UNIT * (alpha + abs(total))
        return max(total + rounding, 0.0) / (alpha - 1) * (1 + 8 * UNIT)

    def gaussian(self, information: float) -> float:
        """Return a μ such that all releases up to that information are μ-Gaussian: where most other rows differ."""
        if information == 0 or not math.isfinite(information):
            return information
        root, farthest = math.sqrt(information) * (1 + 2 * UNIT), int(self.others.whole.argmax())
        ways = [root * max(float(self.others.whole[farthest]), 1.0)]
        ways.append(math.hypot(root, gaussian_of_classes(self.top, self.bottom)))
        if self._alone[farthest]:
            ways.append(root)
        elif self.thinned and len(self.top) == 2:
            own, moved = (column[:, farthest] for column in self._thinned(information))
            about = gaussian_of_mixtures(moved, self.top, self.bottom, refined=False)
            best = [int(np.hypot(own, about).argmin())]
            mixed = gaussian_of_mixtures(moved[best], self.top, self.bottom)
            ways.append(float(np.hypot(own[best], mixed)[0]))
        return min(ways) * (1 + 8 * UNIT)

    def concentrated(self, information: float) -> float:
        """Return a ρ such that all releases up to that information are ρ-concentrated."""
        if not math.isfinite(information):
            return math.inf
        ratio = _widest_ratio(self.top, self.bottom)
        revealed = information / 2 + (pure_to_zcdp(ratio) if math.isfinite(ratio) else math.inf)
        whole = information / 2 * max(float(self.others.whole.max()) ** 2, 1.0)
        return min(revealed, whole) * (1 + 8 * UNIT)

    def _thinned_renyi(self, information: float, alpha: float) -> Floats:
        """Return the log of the moment by thinning for each draw of the other rows, with the best θ."""
        own, moved = self._thinned(information)
        gained = (alpha - 1) * alpha * own**2 / 2
        logs = gained + mixture_log_moments(moved, self.top, self.bottom, alpha, _COARSE)
        gained, moved = _at_least(logs, gained, moved)
        return gained + mixture_log_moments(moved, self.top, self.bottom, alpha)


def least_epsilon(
    delta_at: Callable[[float, float], float], information: float, delta: float, least: float
) -> float:
    """Return an ε, at least `least`, at which a bound of δ is at most `delta`; ∞ if none is found."""

    def excess(epsilon: float) -> float:
        return math.log(max(delta_at(information, epsilon), SMALLEST) / delta)

    if not 0 < delta < 1 or not math.isfinite(information):
        return math.inf
    if information == 0 or excess(least) <= 0:
        return least
    high = max(1.0, 2 * least)
    while excess(high) > 0:
        high *= 2
        if high > _MOST_EPSILON:
            return math.inf
    return smallest(excess, high, _TOLERANCE)


def _at_least(losses: Floats, *columns: Floats) -> list[Floats]:
    """Return the entries of arrays where the losses of their columns are least."""
    best = losses.argmin(axis=0)[None]
    return [np.take_along_axis(one, best, axis=0)[0] for one in columns]


def revealed_delta(root: float, top: Floats, bottom: Floats, epsilon: float) -> float:
    """Return the δ if the class is published and one row moves answers by `root` deviations.

    A class that the second value excludes counts wholly.

    >>> round(revealed_delta(0.5, np.array([0.3, 0.7]), np.array([0.8, 0.2]), 0.4), 6)
    0.405914
    """
    moved, total = np.array([root]), 0.0
    for mass, other in zip(top.tolist(), bottom.tolist(), strict=True):
        if mass > 0:
            ratio = math.log(mass / other) if other > 0 else math.inf
            total += mass * (float(sticks(moved, epsilon - ratio)[0]) if other > 0 else 1.0)
    return total * (1 + _PAD)


def sticks(deviations: Floats, epsilon: float) -> Floats:
    """Return the hockey sticks of normal laws at any ε, below 0 too, rounded up."""
    moved = np.maximum(deviations, _LEAST_DEVIATION)
    deltas = np.minimum(gaussian_deltas(moved, abs(epsilon)), 1.0)
    if epsilon >= 0:
        return deltas
    return np.minimum((deltas - 1) * math.exp(epsilon) + 1 + 8 * UNIT, 1.0)


def mixture_sticks(first: Floats, second: Floats, moved: Floats) -> Floats:
    """Return ∫ (c₀N(0, 1) + c₁N(μ, 1))⁺ for any c and μ: the hockey stick of mixtures, rounded up.

    >>> top, bottom, ratio = np.array([0.3, 0.7]), np.array([0.8, 0.2]), np.exp(0.4)
    >>> float(mixture_sticks(*(top - ratio * bottom), np.array(1.3)).round(8))
    0.11445553
    """
    ndtr = scipy.special.ndtr
    with np.errstate(all="ignore"):
        cut = np.log(-first / second) / moved + moved / 2
        above = first * ndtr(-cut) + second * ndtr(moved - cut)
        below = first * ndtr(cut) + second * ndtr(cut - moved)
    apart = np.isfinite(moved) & (moved > 0)
    sums = np.maximum(first + second, 0.0)
    parts = np.maximum(first, 0.0) + np.maximum(second, 0.0)
    mixed = np.where(second > 0, above, below)
    crossing = (first * second < 0) & apart & ~np.isnan(mixed)
    value = np.where(crossing, np.maximum(mixed, sums), np.where(moved > 0, parts, sums))
    return np.minimum(value + 32 * UNIT * parts, parts * (1 + UNIT))


def product_deltas(  # noqa: PLR0913, PLR0917 - two movements, two laws of the class, ε, and the grid
    own: Floats, moved: Floats, top: Floats, bottom: Floats, epsilon: float, nodes: int
) -> Floats:
    """Return the hockey stick of G ⊗ mix, the secret's row and the class moving independent normal laws, rounded up.

    At a likelihood ratio r of the first the stick is ψ(r), a convex function. Its mean is at most that of the chords
    between nodes.

    >>> laws = np.array([0.3, 0.7]), np.array([0.8, 0.2])
    >>> product_deltas(np.array([0.5]), np.array([1.0]), *laws, 0.5, 1025).round(5)
    array([0.11731])
    """
    shape, own, moved = own.shape, own.ravel(), moved.ravel()
    spread = np.clip(own, _LEAST_DEVIATION, _MOST_OWN)
    places = -_REACH + np.linspace(0, 1, nodes) * (2 * _REACH + spread[:, None])
    ratios = np.exp(spread[:, None] * places - spread[:, None] ** 2 / 2)
    odds = math.exp(epsilon) * (1 - 4 * UNIT)
    values = mixture_sticks(
        ratios * top[0] - odds * bottom[0], ratios * top[1] - odds * bottom[1], moved[:, None]
    )
    below = scipy.special.ndtr(places[:, 0] - spread) / ratios[:, 0] * values[:, 0]
    beyond = scipy.special.ndtr(spread - places[:, -1])
    beyond += scipy.special.ndtr(-places[:, -1]) * values[:, -1]
    total = (chord_means(places, ratios, values, spread) + below + beyond) * (1 + 2.0**-36)
    return np.where(own <= _MOST_OWN, np.minimum(total + 8 * UNIT, 1.0), 1.0).reshape(shape)


def chord_means(places: Floats, ratios: Floats, values: Floats, moved: Floats) -> Floats:
    """Return upper bounds of the means of convex functions of r = N(μ, 1)/N(0, 1) under N(0, 1), between nodes.

    `values` are those of the functions at nodes. Within a cell a function is at most its chord, whose mean needs the
    mean of r alone.
    """
    likely, tilted = _cells(places), _cells(places - moved[:, None])
    low, high = values[:, :-1], values[:, 1:]
    step = ratios[:, 1:] - ratios[:, :-1]
    error = 8 * UNIT * (16 + np.abs(np.log(ratios[:, 1:])))
    with np.errstate(all="ignore"):
        share = (tilted - ratios[:, :-1] * likely) / (likely * step)
        slack = error * ratios[:, 1:] / step
        chords = low + np.clip(share, 0, 1) * (high - low) + slack * np.abs(high - low)
    most = np.maximum(low, high)
    return (likely * np.where(chords <= most, chords, most)).sum(axis=1)


def _cells(places: Floats) -> Floats:
    """Return the probabilities of a normal law between nodes, each with a small relative error, rounded up."""
    low, high = places[:, :-1], places[:, 1:]
    right = low + high > 0
    ndtr = scipy.special.ndtr
    return (ndtr(np.where(right, -low, high)) - ndtr(np.where(right, -high, low))) * (1 + 2.0**-40)


def _log_of_classes(top: Floats, bottom: Floats, alpha: float) -> float:
    """Return log Σ π_a^α π_b^{1−α}: the Rényi moment of the class."""
    possible = top > 0
    if (bottom[possible] == 0).any():
        return math.inf
    logs = alpha * np.log(top[possible]) + (1 - alpha) * np.log(bottom[possible])
    return float(np.logaddexp.reduce(logs)) + 16 * alpha * UNIT * (1 + float(np.abs(logs).max()))


def _widest_ratio(top: Floats, bottom: Floats) -> float:
    """Return the largest log ratio of two laws of a class, in either order."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(top) - np.log(bottom))[(top > 0) | (bottom > 0)]
    return float(ratios.max()) * (1 + 8 * UNIT)


def gaussian_of_classes(top: Floats, bottom: Floats) -> float:
    """Return the least μ such that two laws of a class are μ-Gaussian; ∞ if one excludes a class of the other.

    The curve of errors has a corner for each number of classes that a test accepts, likely ones first.

    >>> round(gaussian_of_classes(np.array([0.3, 0.7]), np.array([0.8, 0.2])), 6)
    1.366022
    """
    if not math.isfinite(_widest_ratio(top, bottom)):
        return math.inf
    order = np.argsort(np.log(bottom[top > 0]) - np.log(top[top > 0]))
    power, size = (
        _normal_scores(np.cumsum(law)[:-1], np.cumsum(law[::-1])[::-1][1:])
        for law in (top[top > 0][order], bottom[top > 0][order])
    )
    return float((power - size).max(initial=0.0)) * (1 + 2.0**-30)


def _normal_scores(masses: Floats, rest: Floats) -> Floats:
    """Return Φ⁻¹ of masses, from the smaller one of mass and rest, which has all its digits."""
    signs = np.where(masses < rest, 1.0, -1.0)
    return np.asarray(signs * scipy.special.ndtri(np.minimum(masses, rest)))


def gaussian_of_mixtures(
    moved: Floats, top: Floats, bottom: Floats, *, refined: bool = True
) -> Floats:
    """Return for each distance of two normal laws a μ such that their two mixtures are μ-Gaussian, rounded up.

    The best tests accept what lies beyond a threshold. A mixture of normal laws is more spread than one, so the normal
    scores of tests have slopes of at most 1 in the threshold. Between two thresholds the difference is little
    above the mean of both. Cells that may hold more than the largest known are halved. Unrefined values are smaller,
    for comparisons only.

    >>> gaussian_of_mixtures(np.array([0.5, 1.3, 9.0]), np.array([0.3, 0.7]), np.array([0.8, 0.2])).round(3)
    array([0.251, 0.623, 1.366])
    """
    laws = (top, bottom) if top[1] >= bottom[1] else (top[::-1], bottom[::-1])
    whole, ratio = gaussian_of_classes(top, bottom), _widest_ratio(top, bottom)
    shape, found = moved.shape, list[float]()
    for distance in moved.ravel().tolist():
        most = min(distance, whole)
        if 0 < distance <= _MOST_OWN and whole > 0:
            scores = _Scores(distance, *laws)
            most = min(most, scores.largest(ratio) if refined else scores.about)
        found.append(most)
    return np.array(found).reshape(shape)


@final
@dataclass(frozen=True, eq=False)
class _Scores:
    """The normal scores of tests between mixtures of N(0, 1) and N(μ, 1): those who accept beyond a threshold."""

    moved: float
    top: Floats
    bottom: Floats

    def apart(self, places: Floats) -> Floats:
        """Return by how much the scores of power and size differ at thresholds."""
        power, size = (self._score(law, places) for law in (self.top, self.bottom))
        return power - size

    def _score(self, law: Floats, places: Floats) -> Floats:
        """Return the normal scores of the probability beyond thresholds."""
        ndtr = scipy.special.ndtr
        beyond: Floats = law[0] * ndtr(-places) + law[1] * ndtr(self.moved - places)
        below: Floats = law[0] * ndtr(places) + law[1] * ndtr(places - self.moved)
        return _normal_scores(beyond, below)

    @cached_property
    def places(self) -> Floats:
        """Thresholds as far as floats hold the tails."""
        return np.linspace(-_FARTHEST, _FARTHEST + self.moved, _SCORES)

    @cached_property
    def about(self) -> float:
        """The largest difference at these thresholds."""
        return float(self.apart(self.places).max())

    def largest(self, ratio: float) -> float:
        """Return an upper bound of the largest difference; beyond the thresholds one likelihood ratio bounds it."""
        low, step = self.places[:-1], float(self.places[1] - self.places[0])
        values = self.apart(self.places)
        first, second, best = values[:-1], values[1:], max(float(values.max()), 0.0)
        limit = math.inf
        while limit > best * _CLOSE and len(low) <= _MOST_CELLS:
            best = max(best, float(first.max()), float(second.max()))
            most = (first + second + step * self._slope) / 2
            limit = float(most.max())
            some = most > best * _CLOSE
            low, first, second, step = low[some], first[some], second[some], step / 2
            middle = self.apart(low + step)
            low = np.concatenate([low, low + step])
            first, second = np.concatenate([first, middle]), np.concatenate([middle, second])
        beyond = min(self.moved, ratio / _FARTHEST * 1.01)
        return max(limit, best * _CLOSE, beyond) * (1 + 2.0**-30)

    @property
    def _slope(self) -> float:
        """The largest slope of the difference.

        Scores have slopes of at most 1, and of at least the root of 1 − μ²/4: so log-concave are the mixtures.
        """
        return (1 - math.sqrt(max(1 - self.moved**2 / 4, 0.0))) * (1 + 2.0**-20) + 2.0**-40


def mixture_log_moments(
    moved: Floats, top: Floats, bottom: Floats, alpha: float, nodes: int = _RENYI_NODES
) -> Floats:
    """Return log ∫ (Σ π_a(c)N_c)^α (Σ π_b(c)N_c)^{1−α}, of normal laws μ deviations apart, rounded up.

    As a function of their likelihood ratio r the integrand is convex. Beyond the nodes it grows no faster than r^α and
    r^{1−α}.

    >>> laws = np.array([0.3, 0.7]), np.array([0.8, 0.2])
    >>> mixture_log_moments(np.array([1.0]), *laws, 2.0).round(4)
    array([0.2167])
    """
    shape, moved = moved.shape, moved.ravel()
    spread = np.clip(moved, _LEAST_DEVIATION, _MOST_OWN)
    low = np.maximum(-_REACH - (alpha - 1) * spread, -_FARTHEST)
    high = np.minimum(_REACH + alpha * spread, _FARTHEST)
    places = low[:, None] + np.linspace(0, 1, nodes) * (high - low)[:, None]
    exponents = spread[:, None] * places - spread[:, None] ** 2 / 2
    ratios = np.exp(exponents)
    with np.errstate(all="ignore"):
        logs = alpha * np.log(top[0] + top[1] * ratios)
        logs += (1 - alpha) * np.log(bottom[0] + bottom[1] * ratios)
        whole = alpha * (alpha - 1) * spread**2 / 2
        normal = scipy.special.log_ndtr
        tails = [
            logs[:, 0] - (1 - alpha) * exponents[:, 0] + whole + normal(low + (alpha - 1) * spread),
            logs[:, -1] - alpha * exponents[:, -1] + whole + normal(alpha * spread - high),
        ]
        most = logs.max(axis=1)
        inner = np.log(chord_means(places, ratios, np.exp(logs - most[:, None]), spread)) + most
        total = np.logaddexp(inner, np.logaddexp(*tails))
        total += (
            alpha * UNIT * (64 + 8 * np.abs(logs).max(axis=1) + 8 * np.abs(exponents).max(axis=1))
        )
    known = np.where(moved <= _MOST_OWN, np.where(np.isnan(total), np.inf, total), np.inf)
    return np.minimum(known, _log_of_classes(top, bottom, alpha)).reshape(shape)
