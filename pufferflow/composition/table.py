"""All releases about one row as a single answer of many coordinates: the joint law of what they read (M23).

Losses of single releases do not add under a table: two columns that tell nothing each may together tell everything.
But how likely an output path is at one point x of all columns read together, against another point x', is bounded by
the losses of the noises at the steps between: ℓ(x, x') = Σ_k D_∞ of release k's noise at φ_k(x) − φ_k(x'). Hence by
M20's g the loss is the largest log(μ·v / ν·v) over v > 0 with v_x ≤ e^{ℓ(x,x')}·v_x', μ and ν being the joint laws
under the two secrets. No coupling gives less. The ratio at an output involves the queries asked on its path only, so
pure totals hold for queries chosen adaptively.

An answer without noise, or with noise that has no pure loss, may give its value away: the points are then split by it.
Where the secret moves the probability of a part, nothing is promised, whatever the ratio would be: it would be for the
prior alone to hide the secret.

A private row as one draw from a table: what releases read of it, and its laws under each value of the secret (M22).

Rows are independent draws, so the one that holds the secret is all that matters (M2); releases that touch another row
only tell no more than if they touched this one.

Releases about columns that are independent of each other given the secret: their losses add (M25).

Given the secret one part of a row then tells nothing of another, so every part's answers are as likely as they are
without the others, on every path of queries: D_α of all is at most the sum over parts of what each loses to queries
chosen adaptively.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

import numpy as np

from pufferflow.arrays import Array, Floats, Indices
from pufferflow.bounds import loss
from pufferflow.chains import between
from pufferflow.composition.additive import CouplingRule
from pufferflow.composition.cost import Cost, Shape
from pufferflow.composition.rule import CompositionRule, UnitReleases, added
from pufferflow.errors import Misuse, Refused
from pufferflow.guarantees import Guarantee, Kind, Pure
from pufferflow.inference import asked as asked_about
from pufferflow.law import Law
from pufferflow.noise import Noise
from pufferflow.queries import Statistic
from pufferflow.rounding import UNIT, float_above
from pufferflow.scenario import AnySecret, Derived, Domain, Secret
from pufferflow.scenario.priors import PROBABILITY, Empirical, Prior, Table, Values


@final
@dataclass(frozen=True, eq=False)
class Reading:
    """A shape of releases, how many releases have it, and the column that they read."""

    shape: Shape
    times: int
    column: str
    domain: Domain

    @property
    def known(self) -> bool:
        """Whether it is known what a row adds at each point of the domain."""
        values = self.shape.values
        return bool(values) and all(len(row) == len(self.domain.points) for row in values)


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """A table with rational probabilities, the column that is hidden, and what is read; `exact` if it was rational."""

    table: Table
    hidden: str
    pairs: Indices
    values: Values
    readings: Sequence[Reading]
    exact: bool

    @classmethod
    def of(cls, asked: UnitReleases) -> "Draws | None":
        """Return what releases read of a row; None if rows are no single draws, or it is not known what they add."""
        prior, secret = asked.prior, asked.scenario.secret
        table = prior.table if isinstance(prior, Empirical) else prior
        if not isinstance(table, Table) or not table.independent_rows or not isinstance(secret, Secret | Derived):
            return None
        readings = _readings(prior, secret, asked.costs)
        if readings is None or not all(one.known for one in readings):
            return None
        hidden = secret.column if isinstance(secret, Secret) else secret.name
        values = table.values(hidden)
        listed = secret.value_pairs() if isinstance(secret, Secret) else secret.value_pairs(values)
        both = np.array([[values.index(a), values.index(b)] for a, b in listed], dtype=np.intp)
        rational = all(isinstance(one, Fraction) for one in table.probabilities)
        pairs = np.concatenate([both, both[:, ::-1]])
        return cls(table if rational else _rational(table), hidden, pairs, values, readings, rational)

    @property
    def columns(self) -> list[str]:
        """The columns read, each once."""
        return list(dict.fromkeys(one.column for one in self.readings))

    def about(self, columns: Sequence[str]) -> "Draws":
        """Return what is read of some columns only."""
        some = [one for one in self.readings if one.column in columns]
        return Draws(self.table, self.hidden, self.pairs, self.values, some, self.exact)

    def laws(self, *columns: Sequence[str]) -> tuple[list[list[Values]], Array]:
        """Return the values of groups of columns, and their joint law given each value of the secret; rational."""
        (_, *points), joint = self.table.joint([self.hidden], *columns)
        flat = joint.reshape(len(joint), -1)
        return points, (flat / flat.sum(axis=1, keepdims=True)).reshape(joint.shape)

    def places(self, reading: Reading, points: Sequence[Values]) -> Indices:
        """Return which point of its domain a reading finds at points of all columns."""
        at = self.columns.index(reading.column)
        place = {value: reading.domain.place(value, "a value") for value in dict.fromkeys(one[at] for one in points)}
        return np.array([place[one[at]] for one in points], dtype=np.intp)

    def heights(self, reading: Reading, points: Sequence[Values]) -> Floats:
        """Return what a row adds to each sum of a reading at points of all columns: of shape (sums, points)."""
        return reading.shape.table[:, self.places(reading, points)]

    def limits(self, points: Sequence[Values]) -> Floats:
        """Return how much more likely all outputs can be at one point than at another: logs, rounded up."""
        total = np.zeros((len(points), len(points)))
        for one in self.readings:
            places = self.places(one, points)
            total += one.times * one.shape.exposure[np.ix_(places, places)]
        exactly = len(self.readings) == 1 and self.readings[0].times == 1
        return total if exactly else total * (1 + (len(self.readings) + 1) * UNIT)


def _readings(prior: Prior, secret: AnySecret, costs: Sequence[Cost]) -> list[Reading] | None:
    """Return what is read, equal shapes once; None if a column is not known."""
    shapes = {cost.shape.digest: cost.shape for cost in costs}
    times = Counter(cost.shape.digest for cost in costs)
    found: list[Reading] = []
    for digest, shape in shapes.items():
        column = shape.column
        if column is None and isinstance(prior, Empirical):
            column = prior.released
        try:
            found.append(Reading(shape, times[digest], *asked_about(prior, Statistic.total(1, column=column), secret)))
        except Misuse:  # a column that the prior does not speak of, or several that may be meant
            return None
    return found


def _rational(table: Table) -> Table:
    """Return the table with rational probabilities, so that nothing is rounded before losses are."""
    masses = [Fraction(one) for one in table.probabilities]
    return Table({**dict(zip(table.names, table.cells, strict=True)), PROBABILITY: masses})


_MOST_POINTS = 2000
_MOST_STATES = 48
_MOST_LISTED = 4000
_FAINT = 1e-290
_SAME = Fraction(1, 2**44)
"""Probabilities that differ by less, relatively, are equal but for the rounding of the floats they were given as."""


@final
@dataclass(frozen=True, eq=False)
class Part:
    """Some points, their laws under both secrets of every pair given that they are there, and how unequal shares are.

    Laws are of shape (pairs, points), one row for every pair whose secrets reach the points.
    """

    points: Indices
    tops: Array
    bottoms: Array
    unequal: Fraction


@final
class JointRule(CompositionRule):
    """A row that is one draw of all columns read; the queries may read any of them, each any number of times."""

    name = "the joint law of all answers about a row (M23)"

    def pure(self, asked: UnitReleases) -> float:
        """Return the largest log ratio of the likelihoods of two secrets at any outputs, or more."""
        draws = Draws.of(asked)
        return math.inf if draws is None else pure_loss(draws)

    def fixed(self, asked: UnitReleases, kind: Kind) -> float:
        """Return what the bounds on a vector make of all answers together, each in units of its noise."""
        draws = Draws.of(asked)
        return math.inf if draws is None else _vector_loss(draws, kind)


def pure_loss(draws: Draws) -> float:
    """Return the pure loss of all that is read of a row; ∞ if it is too much to be looked through."""
    (points,), laws = draws.laws(draws.columns)
    if len(points) > _MOST_POINTS:
        return math.inf
    limits = draws.limits(points)
    limits, first, alike = np.unique(limits, axis=0, return_index=True, return_inverse=True)
    merged = np.zeros((len(laws), len(first)), dtype=object)
    np.add.at(merged.T, alike.reshape(-1), laws.T)  # points that no output tells apart are one
    limits = limits[:, first]
    _, labels = np.unique(np.isfinite(limits), axis=0, return_inverse=True)
    parts = _split(draws, merged, labels.reshape(-1))
    return math.inf if parts is None else max((_of_part(part, limits) for part in parts), default=0.0)


def _split(draws: Draws, laws: Array, labels: Indices) -> list[Part] | None:
    """Return the points of each label; None if a secret moves the probability of a label."""
    tops, bottoms = laws[draws.pairs[:, 0]], laws[draws.pairs[:, 1]]
    found: list[Part] = []
    for label in range(int(labels.max()) + 1):
        points = np.flatnonzero(labels == label)
        shares, others = tops[:, points].sum(axis=1), bottoms[:, points].sum(axis=1)
        if ((shares > 0) != (others > 0)).any():
            return None
        there = np.flatnonzero(shares > 0)
        shares, others = shares[there], others[there]
        unequal = max([Fraction(0), *(shares / others - 1)])  # of both orders
        if unequal > (0 if draws.exact else _SAME):
            return None
        rows = np.ix_(there, points)
        found.append(Part(points, tops[rows] / shares[:, None], bottoms[rows] / others[:, None], unequal))
    return found


def _of_part(part: Part, limits: Floats) -> float:
    """Return the loss within a part, and what its shares tell themselves; rounded up."""
    differ = np.asarray(part.tops != part.bottoms).any(axis=1)
    inside = limits[np.ix_(part.points, part.points)]
    told = _told(part.tops[differ], part.bottoms[differ], inside) if differ.any() else 0.0
    return told + float_above(part.unequal) * (1 + UNIT) if part.unequal else told


def _told(tops: Array, bottoms: Array, limits: Floats) -> float:
    """Return g for the worst pair, or the longest step (M7), which no mass can escape."""
    masses = np.concatenate([tops[tops > 0], bottoms[bottoms > 0]]).astype(np.float64)
    if masses.min() < _FAINT or len(limits) > _MOST_STATES:
        possible = zip(tops > 0, bottoms > 0, strict=True)
        return max(float(limits[np.ix_(one, other)].max()) for one, other in possible)
    return float(between(tops.astype(np.float64), bottoms.astype(np.float64), limits).max())


def _vector_loss(draws: Draws, kind: Kind) -> float:
    """Return a loss of the vector of all answers, or ∞; answers without noise are known."""
    noises = {one.shape.noise.at(1.0) for one in draws.readings if one.shape.noise.scale > 0}
    (points,), laws = draws.laws(draws.columns)
    steps = sum(one.times * len(one.shape.table) for one in draws.readings if one.shape.noise.scale > 0)
    if len(noises) > 1 or len(points) * max(steps, len(points)) * len(draws.pairs) > _MOST_LISTED:
        return math.inf
    still = [draws.heights(one, points).T for one in draws.readings if one.shape.noise.scale == 0]
    _, labels = np.unique(np.hstack([np.zeros((len(points), 1)), *still]), axis=0, return_inverse=True)
    parts = _split(draws, laws, labels.reshape(-1))
    if parts is None or any(part.unequal for part in parts):
        return math.inf
    if not noises:
        return 0.0
    return _loss(_pairs_of(parts, _in_units(draws, points)), noises.pop(), kind)


def _in_units(draws: Draws, points: Sequence[Values]) -> Array:
    """Return all answers' values at every point, each in units of its noise; exactly, of shape (points, answers)."""
    columns: list[list[Fraction]] = []
    for one in draws.readings:
        if one.shape.noise.scale > 0:
            scale = Fraction(one.shape.noise.scale)
            heights = [[Fraction(height) / scale for height in row] for row in draws.heights(one, points).tolist()]
            columns += heights * one.times
    return np.array(columns, dtype=object).T


def _pairs_of(parts: Sequence[Part], vectors: Array) -> list[tuple[Law, Law]]:
    """Return the pairs of laws of vectors (of numbers, if they have one coordinate) within each part."""
    atoms = vectors[:, 0] if vectors.shape[1] == 1 else vectors
    return [
        (Law(list(atoms[part.points]), list(top)), Law(list(atoms[part.points]), list(bottom)))
        for part in parts
        for top, bottom in zip(part.tops, part.bottoms, strict=True)
    ]


def _loss(pairs: Sequence[tuple[Law, Law]], noise: Noise, kind: Kind) -> float:
    try:
        return loss(pairs, noise, kind)
    except Refused:
        return math.inf


_MOST_CELLS = 200_000


class Parts(NamedTuple):
    """Releases part by part, what each reads of a row, and how far (D_∞) the table is from the product of its parts."""

    releases: list[UnitReleases]
    draws: list[Draws]
    apart: float


@final
class ConditionalRule(CompositionRule):
    """Parts of a row that are independent given the secret, as a table says.

    What a part loses is what `JointRule` finds, or for a release alone its promise.
    """

    name = "answers that are independent given the secret (M25)"

    def pure(self, asked: UnitReleases) -> float:
        """Return the sum of the pure losses of all parts."""
        found = _parts(asked)
        if found is None:
            return math.inf
        losses = [_pure(*part) for part in zip(found.releases, found.draws, strict=True)]
        return added([2 * found.apart, *losses])

    def renyi(self, asked: UnitReleases, alpha: float) -> float:
        """Return the sum of the Rényi losses of all parts."""
        found = _parts(asked)
        if found is None:
            return math.inf
        losses = [_renyi(*part, alpha) for part in zip(found.releases, found.draws, strict=True)]
        return added([found.apart * (2 * alpha - 1) / (alpha - 1), *losses])  # M30


def _pure(asked: UnitReleases, draws: Draws) -> float:
    """Return the pure loss of one part."""
    own = _promise(asked)
    return min(pure_loss(draws), math.inf if own is None else own.approx_epsilon(0.0))


def _renyi(asked: UnitReleases, draws: Draws, alpha: float) -> float:
    """Return a Rényi loss of one part that holds for queries chosen adaptively."""
    own, pure = _promise(asked), pure_loss(draws)
    return min(
        math.inf if own is None else own.renyi_epsilon(alpha),
        math.inf if math.isinf(pure) else Pure(pure).renyi_epsilon(alpha),
        CouplingRule().renyi(asked, alpha),
    )


def _promise(asked: UnitReleases) -> Guarantee | None:
    """Return the promise of a release that is alone, if it was made for this belief."""
    if len(asked.costs) != 1 or asked.digest not in asked.costs[0].shape.priors:
        return None
    return asked.costs[0].shape.promise


def _parts(asked: UnitReleases) -> Parts | None:
    """Return the finest parts found; None if there is only one."""
    draws = Draws.of(asked)
    if draws is None or len(draws.columns) < 2:
        return None
    together = _joined(draws)
    if len(together) < 2:
        return None
    apart, rest = 0.0, list(draws.columns)
    for part in together[:-1]:
        rest = [name for name in rest if name not in part]
        distance = _apart(draws, part, rest)
        if distance is None:
            return None
        apart += distance
    some = [draws.about(part) for part in together]
    digests = [{one.shape.digest for one in part.readings} for part in some]
    costs = [[cost for cost in asked.costs if cost.shape.digest in known] for known in digests]
    return Parts(
        [UnitReleases(asked.scenario, asked.prior, one) for one in costs], some, apart * (1 + len(together) * UNIT)
    )


def _joined(draws: Draws) -> list[list[str]]:
    """Return the columns in parts none of which depends on all others; those that do are one part."""
    parts: list[list[str]] = []
    for name in draws.columns:
        near = [part for part in parts if any(_apart(draws, [name], [other]) is None for other in part)]
        parts = [part for part in parts if part not in near] + [[*(other for part in near for other in part), name]]
    free = [
        part for part in parts if _apart(draws, part, [one for one in draws.columns if one not in part]) is not None
    ]
    rest = [name for part in parts if part not in free for name in part]
    return [*free, *([rest] if rest else [])]


def _apart(draws: Draws, part: Sequence[str], rest: Sequence[str]) -> float | None:
    """Return how far two parts are from being independent given the secret; None if they are not, or may not be.

    Of rational tables 0; of floats a bound of the log ratio, for what rounding alone can have done.
    """
    if not rest:
        return 0.0
    (left, right), joint = draws.laws(part, rest)
    if len(left) * len(right) * len(joint) > _MOST_CELLS:
        return None
    joint = joint[np.unique(draws.pairs)]
    product = joint.sum(axis=2)[:, :, None] * joint.sum(axis=1)[:, None, :]
    possible = joint > 0
    if (possible != (product > 0)).any():
        return None
    ratios = joint[possible] / product[possible]
    farthest = max(ratios.max() - 1, 1 / ratios.min() - 1)
    return None if farthest > (0 if draws.exact else _SAME) else float_above(farthest)
