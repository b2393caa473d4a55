"""Releases about one row that is a draw from a table, or from some table of a class: their joint law.

Losses of single releases do not add under a table: two columns without any loss each may together reveal everything.
But consider two points x, x' of all columns read. The losses of the noises bound the ratio of likelihoods of an output
path at these points: ℓ(x, x') = Σ_k D_∞ of release k's noise at φ_k(x) − φ_k(x'). Let μ and ν be the joint laws under
the two secrets. By M20's g the loss is the largest log(μ·v / ν·v) over v > 0 with v_x ≤ e^{ℓ(x,x')}·v_x'. No coupling
gives less. The ratio at an output involves the queries on its path only, so pure totals hold for queries chosen
adaptively.

An answer without noise, or with noise that has no pure loss, may reveal its value: the points are then split by it. If
the secret moves the probability of a part, there is no guarantee, whatever the ratio is: only the prior would hide the
secret.

Rows are independent draws, so only the row that holds the secret matters (M2). A release that touches only another row
counts as if it touched this one, which is no less.

Columns may fall into parts that are independent given the secret. Then every part's answers have the same likelihood as
without the others, on every path of queries. So pure losses of parts add (M25). Rényi losses add release by release:
for a column that is independent of all columns read before, the answer has the law that it has alone, whatever the
earlier answers. The law of a later answer of the same part depends on the earlier answers, so it counts by its loss
between any two values.

Releases about one row that is a draw from some table of a class: their losses under every member (M22, M23).

As under one table, the losses of the noises bound the ratio of likelihoods of an output path at two points of all
columns read. The laws of these points under two secrets lie in regions, and the loss is the largest over all pairs of
members, or more: the two members may come from different tables of the class.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple, final

import numpy as np

from pufferflow.accounting.rules.additive import CouplingRule
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases, added
from pufferflow.calibration.calibrate import loss
from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.markov.law_regions import LawRegions, region_log_ratio
from pufferflow.distributions.markov.star import padded_log_ratio
from pufferflow.models.domain import Domain
from pufferflow.models.priors.table import (
    PROBABILITY,
    Table,
    TablesNear,
    Values,
    released_column,
    table_of_rows,
)
from pufferflow.models.secret import Derived, Secret, hidden_column
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily
from pufferflow.published.cost import Shape
from pufferflow.queries.statistic import Statistic, column_and_domain

_MOST_POINTS = 2000
_MOST_STATES = 48
_MOST_LISTED = 4000
_MOST_CELLS = 200_000
_FAINT = 1e-290
_SAME = Fraction(1, 2**44)
"""Probabilities with a smaller relative difference are equal up to the rounding of the given floats."""


@final
@dataclass(frozen=True, eq=False)
class Reading:
    """A shape of releases, the number of releases that have it, and the column that they read."""

    shape: Shape
    times: int
    column: str
    domain: Domain


@final
@dataclass(frozen=True, eq=False)
class RowReadings:
    """All that releases read of a row, with the table that the row is a draw from, its probabilities rational."""

    table: Table
    hidden: str
    """The column of the secret."""
    pairs: Indices
    """Both orders of the pairs of secrets, by the places of their values."""
    readings: Sequence[Reading]
    exact: bool
    """Whether the probabilities were given as rationals."""

    @classmethod
    def of(cls, releases: UnitReleases) -> "RowReadings | None":
        """Return the readings of a row by all releases; None if rows are no single draws, or terms unknown."""
        prior, secret = releases.prior, releases.scenario.secret
        table = table_of_rows(prior)
        if table is None or not isinstance(secret, Secret | Derived):
            return None
        readings = readings_of(releases)
        if readings is None:
            return None
        hidden, listed = hidden_column(secret, table.values)
        values = table.values(hidden)
        both = np.array([[values.index(a), values.index(b)] for a, b in listed], dtype=np.intp)
        rational = all(isinstance(one, Fraction) for one in table.probabilities)
        if not rational:  # so that nothing is rounded before losses are
            masses = [Fraction(one) for one in table.probabilities]
            table = Table({**dict(zip(table.names, table.cells, strict=True)), PROBABILITY: masses})
        return cls(table, hidden, np.concatenate([both, both[:, ::-1]]), readings, rational)

    @property
    def columns(self) -> list[str]:
        """The columns read, each once."""
        return columns_read(self.readings)

    def laws(self, *columns: Sequence[str]) -> tuple[list[list[Values]], Array]:
        """Return the values of groups of columns, and their joint law given each value of the secret; rational."""
        (_, *points), joint = self.table.joint([self.hidden], *columns)
        flat = joint.reshape(len(joint), -1)
        return points, (flat / flat.sum(axis=1, keepdims=True)).reshape(joint.shape)

    def heights(self, reading: Reading, points: Sequence[Values]) -> Floats:
        """Return the terms of a row in each sum of a reading at points of all columns: of shape (sums, points)."""
        return reading.shape.table[:, _places(reading, self.columns, points)]

    def limits(self, points: Sequence[Values]) -> Floats:
        """Return how much more likely all outputs can be at one point than at another: logs, rounded up."""
        return limits_of(self.readings, points)


def columns_read(readings: Sequence[Reading]) -> list[str]:
    """Return the columns read, each once."""
    return list(dict.fromkeys(one.column for one in readings))


def limits_of(readings: Sequence[Reading], points: Sequence[Values]) -> Floats:
    """Return how much more likely all outputs can be at one point of all columns than at another; rounded up."""
    total, columns = np.zeros((len(points), len(points))), columns_read(readings)
    for one in readings:
        places = _places(one, columns, points)
        total += one.times * one.shape.exposure[np.ix_(places, places)]
    exactly = len(readings) == 1 and readings[0].times == 1
    return total if exactly else total * (1 + (len(readings) + 1) * UNIT)


def _places(reading: Reading, columns: Sequence[str], points: Sequence[Values]) -> Indices:
    """Return which point of its domain a reading finds at points of all columns."""
    at = columns.index(reading.column)
    place = {
        value: reading.domain.place(value, "a value")
        for value in dict.fromkeys(one[at] for one in points)
    }
    return np.array([place[one[at]] for one in points], dtype=np.intp)


def readings_of(releases: UnitReleases) -> list[Reading] | None:
    """Return the readings, equal shapes once; None if a column, or the terms of a row at its points, are unknown."""
    prior = releases.prior
    shapes = {cost.shape.digest: cost.shape for cost in releases.costs}
    times = Counter(cost.shape.digest for cost in releases.costs)
    readings: list[Reading] = []
    for digest, shape in shapes.items():
        column = released_column(prior) if shape.column is None else shape.column
        try:
            name, domain = column_and_domain(
                prior, Statistic.total(1, column=column), releases.scenario.secret
            )
        except UsageError:  # a column that the prior does not have, or several that fit
            return None
        readings.append(Reading(shape, times[digest], name, domain))
    for one in readings:
        if not one.shape.values or any(
            len(row) != len(one.domain.points) for row in one.shape.values
        ):
            return None
    return readings


@final
class JointRule(CompositionRule):
    """A row that is one draw of all columns read; the queries may read any of them, each any number of times."""

    name = "the joint law of all answers about a row (M23)"
    why = (
        "pure totals bound the ratio of likelihoods on each path (M20). Totals of other kinds are for releases that "
        "were all chosen beforehand, and no account counts by them"
    )

    def pure(self, releases: UnitReleases) -> float:
        row = RowReadings.of(releases)
        return math.inf if row is None else pure_loss(row)

    def fixed(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        row = RowReadings.of(releases)
        return math.inf if row is None else _vector_loss(row, kind)


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """Points that outputs without noise do not separate, and their laws under both secrets of every pair, given these.

    Laws are of shape (pairs, points), one row for every pair whose secrets reach the points.
    """

    points: Indices
    tops: Array
    bottoms: Array
    unequal: Fraction
    """The relative difference of the probabilities of the points under two secrets."""


def pure_loss(row: RowReadings) -> float:
    """Return the pure loss of all that is read of a row; ∞ if there is too much to enumerate."""
    (points,), laws = row.laws(row.columns)
    if len(points) > _MOST_POINTS:
        return math.inf
    limits, first, alike = np.unique(
        row.limits(points), axis=0, return_index=True, return_inverse=True
    )
    merged = np.zeros((len(laws), len(first)), dtype=object)
    np.add.at(
        merged.T, alike.reshape(-1), laws.T
    )  # points with the same law of every output are one
    limits = limits[:, first]
    _, labels = np.unique(np.isfinite(limits), axis=0, return_inverse=True)
    blocks = _blocks(row, merged, labels.reshape(-1))
    return (
        math.inf
        if blocks is None
        else max((_loss_of(block, limits) for block in blocks), default=0.0)
    )


def _blocks(row: RowReadings, laws: Array, labels: Indices) -> list[_Block] | None:
    """Return the points of each label; None if a secret moves the probability of a label."""
    tops, bottoms = laws[row.pairs[:, 0]], laws[row.pairs[:, 1]]
    blocks: list[_Block] = []
    for label in range(int(labels.max()) + 1):
        points = np.flatnonzero(labels == label)
        shares, others = tops[:, points].sum(axis=1), bottoms[:, points].sum(axis=1)
        if ((shares > 0) != (others > 0)).any():
            return None
        there = np.flatnonzero(shares > 0)
        shares, others = shares[there], others[there]
        unequal = max([Fraction(0), *(shares / others - 1)])  # of both orders
        if unequal > (0 if row.exact else _SAME):
            return None
        rows = np.ix_(there, points)
        blocks.append(
            _Block(points, tops[rows] / shares[:, None], bottoms[rows] / others[:, None], unequal)
        )
    return blocks


def _loss_of(block: _Block, limits: Floats) -> float:
    """Return g for the worst pair within a block, or the longest step (M7), and the loss of its probability."""
    differ = np.asarray(block.tops != block.bottoms).any(axis=1)
    tops, bottoms, value = block.tops[differ], block.bottoms[differ], 0.0
    limits = limits[np.ix_(block.points, block.points)]
    if differ.any():
        masses = np.concatenate([tops[tops > 0], bottoms[bottoms > 0]]).astype(np.float64)
        if (
            masses.min() < _FAINT or len(limits) > _MOST_STATES
        ):  # no mass can escape the longest step
            possible = zip(tops > 0, bottoms > 0, strict=True)
            value = max(float(limits[np.ix_(one, other)].max()) for one, other in possible)
        else:
            value = float(
                padded_log_ratio(tops.astype(np.float64), bottoms.astype(np.float64), limits).max()
            )
    return value + float_above(block.unequal) * (1 + UNIT) if block.unequal else value


def _vector_loss(row: RowReadings, kind: GuaranteeFamily) -> float:
    """Return a loss of the vector of all answers, each in units of its noise, or ∞; answers without noise are known."""
    noisy = [one for one in row.readings if one.shape.noise.scale > 0]
    noises = {one.shape.noise.at(1.0) for one in noisy}
    (points,), laws = row.laws(row.columns)
    steps = sum(one.times * len(one.shape.table) for one in noisy)
    if len(noises) > 1 or len(points) * max(steps, len(points)) * len(row.pairs) > _MOST_LISTED:
        return math.inf
    still = [row.heights(one, points).T for one in row.readings if one.shape.noise.scale == 0]
    _, labels = np.unique(
        np.hstack([np.zeros((len(points), 1)), *still]), axis=0, return_inverse=True
    )
    blocks = _blocks(row, laws, labels.reshape(-1))
    if blocks is None or any(block.unequal for block in blocks):
        return math.inf
    if not noises:
        return 0.0
    answers: list[list[Fraction]] = []  # at every point, each in units of its noise, exactly
    for one in noisy:
        scale = Fraction(one.shape.noise.scale)
        heights = [
            [Fraction(height) / scale for height in line]
            for line in row.heights(one, points).tolist()
        ]
        answers += heights * one.times
    vectors = np.array(answers, dtype=object).T
    atoms = vectors[:, 0] if vectors.shape[1] == 1 else vectors
    pairs = [
        (Law(list(atoms[block.points]), list(top)), Law(list(atoms[block.points]), list(bottom)))
        for block in blocks
        for top, bottom in zip(block.tops, block.bottoms, strict=True)
    ]
    try:
        return loss(pairs, noises.pop(), kind)
    except Refused:
        return math.inf


@final
class ConditionalRule(CompositionRule):
    """Parts of a row that are independent given the secret, as a table says.

    The loss of a part is that of `JointRule`, or the guarantee of its only release. Rényi losses are added release by
    release instead: a part's joint law is known only after its last query.
    """

    name = "answers that are independent given the secret (M25)"
    why = (
        "pure totals bound the ratio of likelihoods on each path. Rényi totals add, release by release, what is lost "
        "given all answers before and all other rows (M1, M25)"
    )

    def pure(self, releases: UnitReleases) -> float:
        parts, distance = _independent_parts(releases)
        losses = [
            min(part.pure, math.inf if part.promise is None else part.promise.approx_epsilon(0.0))
            for part in parts
        ]
        return added([2 * distance, *losses])

    def renyi(self, releases: UnitReleases, alpha: float) -> float:
        """Return the sum of what each release loses, given all earlier answers and all other rows.

        A release keeps its own guarantee under two conditions: it is the first that reads its column, and this column
        is independent, given the secret, of all columns read before. Any other release counts by its loss between any
        two values of the row (group privacy): earlier answers may have left just these two. No loss depends on later
        queries.
        """
        row = RowReadings.of(releases)
        if row is None:
            return math.inf
        column_of = {one.shape.digest: one.column for one in row.readings}
        losses, times, distance, read = list[float](), list[int](), 0.0, list[str]()
        for shape, often in zip(releases.shapes, releases.times, strict=True):
            column, any_two = column_of[shape.digest], _of_any_two_values(releases, shape, alpha)
            if column not in read:
                own, apart = _of_column_alone(releases, row, shape, (column, read), alpha)
                read.append(column)
            else:
                own, apart = any_two, 0.0
            distance += apart if own < any_two else 0.0
            losses += [min(own, any_two), *([any_two] if often > 1 else [])]
            times += [1, *([often - 1] if often > 1 else [])]
        farther = distance * (2 * alpha - 1) / (alpha - 1) * (1 + (len(read) + 8) * UNIT)  # M30
        return added([farther, *losses], [1, *times])


def _of_any_two_values(releases: UnitReleases, shape: Shape, alpha: float) -> float:
    """Return the Rényi loss of a release between any two values of a row; ∞ if unknown."""
    moved = CouplingRule().movement(releases, shape)
    return (
        shape.noise.renyi_within(moved, alpha, shape.dimension)
        if math.isfinite(moved)
        else math.inf
    )


def _of_column_alone(
    releases: UnitReleases,
    row: "RowReadings",
    shape: Shape,
    columns: tuple[str, Sequence[str]],
    alpha: float,
) -> tuple[float, float]:
    """Return the guarantee of a release about a column independent of earlier ones, up to a log ratio (M30)."""
    column, before = columns
    if releases.digest not in shape.priors or shape.row_by_row or shape.exact_sums is not None:
        return math.inf, math.inf
    apart = _dependence(row, [column], before)
    return (
        (shape.promise.renyi_epsilon(alpha), apart)
        if math.isfinite(apart)
        else (math.inf, math.inf)
    )


class _Part(NamedTuple):
    """The pure loss of all that is read of one part of a row, and the guarantee of the part's only release."""

    pure: float
    promise: Guarantee | None


def _independent_parts(releases: UnitReleases) -> tuple[list[_Part], float]:
    """Return the finest parts, and how far (D_∞) the table is from their product; (none, ∞) if there is only one."""
    row = RowReadings.of(releases)
    if row is None or len(row.columns) < 2:
        return [], math.inf
    together = _joined(row)
    distance, rest = 0.0, list(row.columns)
    for part in together[:-1]:
        rest = [name for name in rest if name not in part]
        distance += _dependence(row, part, rest)
    if len(together) < 2 or math.isinf(distance):
        return [], math.inf
    parts = list[_Part]()
    for part in together:
        own = replace(row, readings=[one for one in row.readings if one.column in part])
        digests = {one.shape.digest for one in own.readings}
        costs = [cost for cost in releases.costs if cost.shape.digest in digests]
        known = len(costs) == 1 and releases.digest in costs[0].shape.priors
        parts.append(_Part(pure_loss(own), costs[0].shape.promise if known else None))
    return parts, distance * (1 + len(together) * UNIT)


def _joined(row: RowReadings) -> list[list[str]]:
    """Return the columns in parts none of which depends on all others; dependent ones are one part."""
    parts: list[list[str]] = []
    for name in row.columns:
        near = [
            part
            for part in parts
            if any(math.isinf(_dependence(row, [name], [other])) for other in part)
        ]
        parts = [part for part in parts if part not in near] + [
            [*(other for part in near for other in part), name]
        ]
    others = [[name for name in row.columns if name not in part] for part in parts]
    free = [
        part
        for part, rest in zip(parts, others, strict=True)
        if math.isfinite(_dependence(row, part, rest))
    ]
    tied = [name for part in parts if part not in free for name in part]
    return [*free, *([tied] if tied else [])]


def _dependence(row: RowReadings, part: Sequence[str], rest: Sequence[str]) -> float:
    """Return how far two parts are from being independent given the secret; ∞ if they are not, or may not be.

    It is 0 for rational tables; for floats it is a bound of the log ratio that rounding alone can cause.
    """
    if not rest:
        return 0.0
    (left, right), joint = row.laws(part, rest)
    if len(left) * len(right) * len(joint) > _MOST_CELLS:
        return math.inf
    joint = joint[np.unique(row.pairs)]
    product = joint.sum(axis=2)[:, :, None] * joint.sum(axis=1)[:, None, :]
    possible = joint > 0
    if (possible != (product > 0)).any():
        return math.inf
    ratios = joint[possible] / product[possible]
    farthest = max(ratios.max() - 1, 1 / ratios.min() - 1)
    return math.inf if farthest > (0 if row.exact else _SAME) else float_above(farthest)


@final
class NearRule(CompositionRule):
    """A row that is one draw of all columns read, from a table that is known up to a region."""

    name = "the joint laws of all answers about a row, near those counted (M23)"
    why = "only pure totals, which bound the ratio of likelihoods on each path under every table of the class (M23)"

    def pure(self, releases: UnitReleases) -> float:
        prior, secret = releases.prior, releases.scenario.secret
        if not isinstance(prior, TablesNear) or not isinstance(secret, Secret | Derived):
            return math.inf
        readings = readings_of(releases)
        if readings is None:
            return math.inf
        hidden = secret.column if isinstance(secret, Secret) else secret.name
        values = prior.values_of(hidden)
        points, laws = _laws(prior, hidden, columns_read(readings))
        if len(points) > _MOST_POINTS:
            return math.inf
        limits = limits_of(readings, points)
        if not np.isfinite(limits).all():
            return math.inf
        place = {value: at for at, value in enumerate(values)}
        listed = secret.value_pairs() if isinstance(secret, Secret) else secret.value_pairs(values)
        both = np.array(
            [[place[a], place[b]] for a, b in [*listed, *((b, a) for a, b in listed)]],
            dtype=np.intp,
        )
        return float(region_log_ratio(laws.some(both[:, 0]), laws.some(both[:, 1]), limits).max())


def _laws(
    prior: TablesNear, hidden: str, columns: Sequence[str]
) -> tuple[list[Values], LawRegions]:
    """Return the points of the columns read, and the regions of their laws given each value of the secret.

    If a column is the secret itself, it has the given value.
    """
    others = [name for name in columns if name != hidden]
    size = len(prior.values_of(hidden))
    if not others:
        return [(value,) for value in prior.values_of(hidden)], LawRegions.known(np.eye(size))
    points, laws = prior.given(hidden, others)
    if hidden not in columns:
        return points, laws
    at = list(columns).index(hidden)
    whole = [
        (*point[:at], value, *point[at:]) for value in prior.values_of(hidden) for point in points
    ]

    def spread(masses: Floats) -> Floats:
        return (np.eye(size)[:, :, None] * masses[:, None, :]).reshape(size, -1)

    return whole, LawRegions(spread(laws.centre), spread(laws.low), spread(laws.high), laws.radius)
