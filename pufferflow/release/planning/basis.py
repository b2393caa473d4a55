"""The basis of noise: the weight of each sum, and whether noise is on sums or, correlated, on combinations (M28).

Weights divide one guarantee between the sums of a batch: they are the units in which movements are added up.

A batch is one vector of sums (M23), each measured in a unit of its own. All sums get noise of one scale in these units,
and the scale is calibrated for the vector as a whole. So the units alone divide the budget. They have short binary
fractions, so that sums of whole steps are scaled without rounding.

Combinations of the sums of a batch get independent noise, so that the noise of the sums is correlated (M28).

Independent Gaussian noise on T·sums, of one scale in their units, is noise of covariance T⁻¹T⁻ᵀ on the sums. Applying
T⁻¹ to the noisy combinations is post-processing. So a batch with correlated noise is a batch of other sums: laws,
bounds, costs and totals are those of the combinations, and hold for all shifts of the sums that can occur. The
combinations have whole numbers as factors: they are sums of whole steps too, on grids that do not depend on the data.

They are proposed for what one row moves, and taken only where the least noise that is proven for them is less.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import finite_number, quoted
from pufferflow.models.secret import AnySecret, ValueSecret
from pufferflow.noise.base import Noise
from pufferflow.noise.joint_gaussian import least_covariance
from pufferflow.queries.statistic import Query
from pufferflow.release.planning.key_threshold import grid_below
from pufferflow.release.planning.sum_functions import SumFunctions, Tables

ROUNDINGS: Final = 64 * UNIT
NOISE_MARGIN: Final = 1 + 56 * UNIT
"""The factor by which the noise of every sum exceeds that of the weighted sums, division by weights included."""
_SOME = 6
_SHARE_BITS = 12
_MOST_SHARES = 1 << 24


def read_shares(shares: Mapping[str, float] | None, queries: Sequence[Query]) -> Floats:
    """Return the share of the budget of each query, which sum to 1; equal ones if none are given."""
    if shares is None:
        return np.full(len(queries), 1 / len(queries))
    names = [query.name for query in queries]
    allowed = f"a number > 0 for each of {', '.join(map(repr, names))}"
    instead = f"shares={{{', '.join(f'{name!r}: {max(2 - place, 1)}' for place, name in enumerate(names[:_SOME]))}}}"
    if not isinstance(shares, Mapping) or set(shares) != set(names):  # pyright: ignore[reportUnnecessaryIsInstance]
        given = shares if isinstance(shares, Mapping) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
        wrong = [name for name in given if name not in names]
        question = (
            f" No query is called {quoted(wrong[0])}.{did_you_mean(wrong[0], names)}"
            if wrong
            else ""
        )
        raise UsageError(
            f"shares does not name each query once.{question}", allowed=allowed, instead=instead
        )
    read = np.array(
        [finite_number(shares[name], "a share", allowed=allowed, instead=instead) for name in names]
    )
    if not (read > 0).all() or read.min() / read.max() < 1e-6:
        raise UsageError(
            "A share is not above 0, or less than a millionth of another.",
            allowed=allowed,
            instead=instead,
        )
    of_most = read / read.max()  # the sum of very large numbers would be infinite
    return of_most / of_most.sum()


def distinct(places: Sequence[Sequence[int]], shares: Floats) -> dict[tuple[int, ...], float]:
    """Return the share of each different set of sums: a set that is queried twice has one share, the larger one.

    >>> distinct([[0], [1], [0]], np.array([0.25, 0.5, 0.25]))
    {(0,): 0.333..., (1,): 0.666...}
    """
    found = dict[tuple[int, ...], float]()
    for own, share in zip(places, shares.tolist(), strict=True):
        found[tuple(own)] = max(share, found.get(tuple(own), 0.0))
    total = math.fsum(found.values())
    return {own: share / total for own, share in found.items()}


def balanced(
    shares: Mapping[tuple[int, ...], float],
    ranges: Floats,
    need: Callable[[Floats, float], float],
    exclusive: Collection[tuple[int, ...]] = (),
) -> Floats:
    """Return the weight of each sum, with which noise of scale 1 gives each query alone what its share requires.

    `shares` has the share of each query, by its sums. `ranges` has the range of each sum's function. `need` returns the
    scale that weighted sums need with a share. A sum that no row moves has weight 0. A sum of several queries has the
    largest of their weights. A row moves at most one of the `exclusive` sums.
    """
    units = np.divide(1.0, ranges, out=np.zeros(len(ranges)), where=ranges > 0)
    weight_of = np.zeros(len(ranges))
    for own, share in shares.items():
        places, chosen = np.array(own, dtype=np.intp), np.zeros(len(ranges))
        moved = places[units[places] > 0]
        some = moved[:1] if own in exclusive else moved
        chosen[some] = units[some]
        least = need(chosen, share) if len(some) else 0.0
        if least > 0:
            weight_of[places] = np.maximum(weight_of[places], units[places] / least)
    return np.array([short_binary(weight) for weight in weight_of.tolist()])


def short_binary(number: float) -> float:
    """Return a number of few binary digits near another.

    >>> short_binary(1 / 3) * 3
    1.0001220703125
    """
    if number == 0:
        return 0.0
    digits, exponent = math.frexp(number)
    return math.ldexp(math.ceil(math.ldexp(digits, _SHARE_BITS)), exponent - _SHARE_BITS)


def longest_move(moves: Floats, norm: float) -> float:
    """Return the largest norm of a row's movement between two points, or a bound on it where points are many."""
    measures, points = moves.shape
    if points * points * measures > _MOST_SHARES:
        return float(np.linalg.norm(moves.max(axis=1) - moves.min(axis=1), norm))
    return max(
        float(np.linalg.norm(moves - moves[:, [point]], norm, axis=0).max())
        for point in range(points)
    )


MOST_SUMS: Final = 8
_BITS: Final = 10
_EXACT: Final = 2.0**53
_MOST: Final = 2**40
_LONGEST: Final = 2**62
_MOST_PAIRS: Final = 20_000
_FEW: Final = 64
_DIRECTIONS: Final = 256
_WORTHWHILE: Final = 0.98


class EachSum:
    """What noise is added to: here each sum by itself."""

    words: ClassVar[str] = ""
    """What an explanation adds about it."""
    parts_of_name: ClassVar[tuple[str, ...]] = ()
    """What it adds to the name of a plan."""
    one_by_one: ClassVar[bool] = True
    """Whether each noisy number is a sum, so that it is known in whole steps."""

    def functions(self, functions: SumFunctions) -> SumFunctions:
        """Return the functions of what noise is added to."""
        return functions

    def of_totals(self, totals: Sequence[Array]) -> Sequence[Array]:
        """Return what noise is added to, exactly, from sums of whole steps: an array of all cells for each."""
        return totals

    def to_sums(self, noisy: Floats) -> Floats:
        """Return the sums that noisy numbers stand for, of shape (cells, sums)."""
        return noisy

    def of_sums(self, noises: Sequence[Noise]) -> tuple[Noise, ...]:
        """Return the noise of each sum by itself, never less than it is."""
        return tuple(noises)

    def correlations(self, noises: Sequence[Noise]) -> tuple[tuple[float, ...], ...]:
        """Return the correlations of the noise of the sums; none where it is independent."""
        del noises
        return ()

    def longest(self, weights: Floats, units: Sequence[float]) -> float:
        """Return how far the weighted numbers move if the sums move by 1 in their units, at most."""
        return max(weight / unit for weight, unit in zip(weights.tolist(), units, strict=True))

    def errors(self, noise: Noise, weights: Floats) -> Floats:
        """Return the expected error of each sum; 0 for a sum that no row moves."""
        return np.divide(
            noise.expected_error, weights, out=np.zeros(len(weights)), where=weights > 0
        )

    def ranges(self, functions: SumFunctions) -> Floats:
        """Return how far a row may move each sum, from the functions of what noise is added to."""
        return functions.ranges

    def grid(self, noise: Noise) -> Fraction:
        """Return the grid on which a noisy number is drawn, in whole steps."""
        return grid_below(noise)

    def grids(self, noises: Sequence[Noise]) -> list[Fraction]:
        """Return the grid of each sum that is published, in whole steps."""
        return [self.grid(noise) for noise in noises]


@final
@dataclass(frozen=True, eq=False)
class Combined(EachSum):
    """Noise on combinations of sums: a row of whole factors for each combination, as many as there are sums."""

    factors: tuple[tuple[int, ...], ...]
    words: ClassVar[str] = ", correlated between sums to reduce it (M28)"
    parts_of_name: ClassVar[tuple[str, ...]] = ("combined",)
    one_by_one: ClassVar[bool] = False

    def functions(self, functions: SumFunctions) -> SumFunctions:
        return functions.combining(np.array(self.factors, dtype=np.float64))

    def of(self, values: Floats) -> Floats:
        """Return the combinations of functions that have whole steps, exactly."""
        return np.array(self.factors, dtype=np.float64) @ values

    def of_totals(self, totals: Sequence[Array]) -> Sequence[Array]:
        """Return the combinations of sums of whole steps, however large they are."""
        columns, factors = np.stack(totals, axis=1), np.array(self.factors, dtype=np.int64)
        most = 1 if columns.dtype == object else int(np.abs(columns).max(initial=0))
        small = columns.dtype != object and most * int(np.abs(factors).sum(axis=1).max()) < _LONGEST
        return list(
            (columns @ factors.T if small else columns.astype(object) @ factors.astype(object).T).T
        )

    def to_sums(self, noisy: Floats) -> Floats:
        """Return the sums whose combinations these are, of shape (cells, sums)."""
        return noisy @ self._back.T

    def of_sums(self, noises: Sequence[Noise]) -> tuple[Noise, ...]:
        """Return the Gaussian noise of each sum by itself, rounded up, for that of the combinations."""
        widths = np.sqrt((self._back**2) @ np.array([noise.scale for noise in noises]) ** 2)
        rounding = 4 * len(noises) * UNIT
        return tuple(
            noises[0].at(upwards(width, rounding) if width else 0.0) for width in widths.tolist()
        )

    def correlations(self, noises: Sequence[Noise]) -> tuple[tuple[float, ...], ...]:
        """Return the correlations of the noise of the sums, to six digits; 0 with a sum that has none."""
        back = self._back * np.array([noise.scale for noise in noises])
        widths = np.linalg.norm(back, axis=1)
        rows = (back @ back.T) / np.outer(
            np.where(widths, widths, 1.0), np.where(widths, widths, 1.0)
        )
        return tuple(tuple(round(one, 6) + 0.0 for one in row) for row in rows.tolist())

    def longest(self, weights: Floats, units: Sequence[float]) -> float:
        """Return how far the weighted combinations move if the sums move by 1 in their units, at most (norm 2)."""
        moves = np.array(self.factors, dtype=np.float64) * weights[:, None] / np.array(units)
        return upwards(float(np.linalg.norm(moves, 2)), 64 * UNIT * len(weights))

    def errors(self, noise: Noise, weights: Floats) -> Floats:
        return np.array([own.expected_error for own in self.of_sums(noises_at(noise, weights))])

    def ranges(self, functions: SumFunctions) -> Floats:
        return np.ptp(self.to_sums(functions.at_values.T), axis=0)

    def grid(self, noise: Noise) -> Fraction:
        return grid_below(noise, finer=True)

    def grids(self, noises: Sequence[Noise]) -> list[Fraction]:
        """Return one grid for all: that of all combinations of the steps of noisy numbers."""
        return [min(map(self.grid, noises)) / self.determinant] * len(noises)

    @property
    def determinant(self) -> int:
        """The number of which each sum, times it, is a whole combination of the combinations."""
        return math.prod(row[place] for place, row in enumerate(self.factors))

    @cached_property
    def _back(self) -> Floats:
        """The inverse of the factors, which are a triangle; worked out with fractions."""
        return np.array(_inverse(self.factors), dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class Basis:
    """What noise is added to, the functions of a row that are behind it, and its weights.

    With noise of one scale on the weighted numbers each query has its share of the guarantee.
    """

    transform: EachSum
    functions: SumFunctions
    weights: Floats

    def weighted(self, weights: Floats) -> "Basis":
        """Return the basis with other weights."""
        return replace(self, weights=weights)

    def noises(self, noise: Noise) -> tuple[Noise, ...]:
        """Return the noise of each number in whole steps, for a noise of the weighted numbers."""
        return noises_at(noise, self.weights)

    def expected_errors(self, noise: Noise) -> Floats:
        """Return the expected error of each noisy sum over what one row can add."""
        errors = self.transform.errors(noise, self.weights)
        return np.where(
            errors > 0, errors / np.maximum(self.transform.ranges(self.functions), 1e-300), 0.0
        )


def noises_at(noise: Noise, weights: Floats) -> tuple[Noise, ...]:
    """Return the noise of every number for a noise of the weighted ones, larger by a few roundings than necessary.

    So the loss stays below a guarantee that is no short binary fraction, and ten times 0.1 fit into 1.
    """
    scales = [
        upwards(noise.scale / weight, ROUNDINGS) if weight > 0 else 0.0
        for weight in weights.tolist()
    ]
    return tuple(noise.at(scale) for scale in scales)


class Proposal(NamedTuple):
    """Combinations, their weights, and what share of independent noise's errors is left, as one row moves."""

    combined: Combined
    basis: Basis
    share: float

    def tables(self, tables: Sequence[Sequence[Tables]]) -> list[list[Tables]]:
        """Return tables of the combinations."""
        return [
            [one._replace(values=self.combined.of(one.values)) for one in own] for own in tables
        ]


def proposed(secret: AnySecret, values: Floats, basis: Basis) -> Proposal | None:
    """Return combinations of sums whose noise would be less than that of the weighted sums; None if there are none.

    `values` are the functions of all sums at the points of a finite domain, with zeros for a row that is not there.
    """
    weights = basis.weights
    moved = np.flatnonzero(weights > 0)
    if not 2 <= len(moved) <= MOST_SUMS:
        return None
    shifts = _shifts(secret, values[moved] * weights[moved, None])
    covariance, alone = least_covariance(shifts), np.linalg.norm(shifts, axis=1).max()
    share = float(np.sqrt(np.diag(covariance)).mean() / alone)
    if not share < _WORTHWHILE:
        return None
    rows = np.linalg.cholesky(np.linalg.inv(covariance)).T
    steps = (
        np.abs(rows).max(axis=1) * weights[moved].min() / 2**_BITS
    )  # fine enough for the sum of the widest range
    whole = np.rint(rows * weights[moved] / steps[:, None])
    if not (np.abs(whole) @ np.abs(values[moved])).max() < _EXACT or np.abs(whole).max() >= _MOST:
        return None
    factors, own = np.eye(len(values), dtype=np.int64), np.zeros(len(values))
    factors[np.ix_(moved, moved)] = whole
    own[moved] = [short_binary(step) for step in steps.tolist()]
    combined = Combined(tuple(tuple(row) for row in factors.tolist()))
    moves = np.ptp(combined.of(values), axis=1)
    if not np.diag(factors).all():
        return None
    return Proposal(
        combined,
        Basis(combined, combined.functions(basis.functions), np.where(moves > 0, own, 0.0)),
        share,
    )


def _shifts(secret: AnySecret, values: Floats) -> Floats:
    """Return how one row moves the weighted sums jointly; of very many ways those that are farthest out."""
    pairs = _pairs(secret, values.shape[1])
    if pairs is not None:
        return _farthest(values[:, pairs[:, 0]] - values[:, pairs[:, 1]])
    points = np.unique(values, axis=1)
    if points.shape[1] > _FEW:
        ends = _directions(len(points)) @ points
        points = points[:, np.unique(np.concatenate([ends.argmax(axis=1), ends.argmin(axis=1)]))]
    first, second = np.triu_indices(points.shape[1], 1)
    return _farthest(points[:, first] - points[:, second])


def _pairs(secret: AnySecret, points: int) -> Array | None:
    """Return the pairs of a secret by the places of their values; None for any two, and where they are too many."""
    if not isinstance(secret, ValueSecret) or secret.pairs == "all" or not secret.domain.finite:
        return None
    pairs = (
        secret.pair_places
        if len(secret.domain.points) == points
        else np.zeros((0, 2), dtype=np.intp)
    )
    return pairs if 0 < len(pairs) <= _MOST_PAIRS else None


def _farthest(moves: Floats) -> Floats:
    shifts = np.unique(moves, axis=1).T
    if len(shifts) <= _FEW:
        return shifts
    reach = np.abs(_directions(shifts.shape[1]) @ shifts.T)
    return shifts[np.unique(reach.argmax(axis=1))]


def _directions(dimension: int) -> Floats:
    """Return directions all around, and the axes; always the same ones."""
    drawn = np.random.default_rng(28).standard_normal((_DIRECTIONS, dimension))
    return np.concatenate([np.eye(dimension), drawn])


def _inverse(factors: tuple[tuple[int, ...], ...]) -> list[list[Any]]:
    """Return the inverse of an upper triangle of whole numbers, column by column from below."""
    size = len(factors)
    inverse = [[Fraction(0)] * size for _ in range(size)]
    for column in range(size):
        for row in range(column, -1, -1):
            own = Fraction(row == column) - sum(
                (factors[row][at] * inverse[at][column] for at in range(row + 1, column + 1)),
                Fraction(0),
            )
            inverse[row][column] = own / factors[row][row]
    return inverse
