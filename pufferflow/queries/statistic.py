"""Additive statistics of one correlated group of rows, to which every query reduces, and the base of queries.

Rows of equal weights are one kind: results for one of them hold for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Whole
from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import finite_number, read_name, whole_number
from pufferflow.models.domain import Domain
from pufferflow.models.priors.base import Prior
from pufferflow.models.secret import AnySecret, Derived
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.expressions.values import Values

_MOST_ROWS = 2_000_000
_MOST_WEIGHTS = 5_000_000
_WEIGHTS = "one finite weight for each row, or rows of them: one for each answer"


@final
@dataclass(frozen=True, eq=False)
class Statistic(InNotebooks):
    """Answers Σ_r weights[o, r] · φ_o(X_r) over the rows r of one correlated group, one for each o.

    Every row of the group is included. Rows that are not selected have weight 0, for their values are secret too.
    `weights` has one number for each row, or one list of them for each answer.

    `values` gives φ: a mapping from value to number, or the numbers for the points of the domain in their order. The
    numbers are the same for all answers, or a list for each. By default φ is the value itself. On an interval φ is
    linear between its ends.

    `positions` are those of the rows in their sequence; by default the rows follow each other from 0. `start` is the
    position at which the sequence began, where a prior's initial law holds. `column` names the column to read, if there
    are several. `counts` are the numbers of rows for which each column of weights stands, if many have equal weights.
    Such rows follow each other from 0.

    >>> Statistic([1, 1, 1]).size, Statistic.total(3).answers, Statistic.histogram(3, 4).answers
    (3, 1, 4)
    >>> Statistic([1, 0], counts=[20_000_000, 5]).size
    20000005
    """

    weights: Floats
    values: Floats | Mapping[Any, float] | None
    positions: Floats
    start: float
    column: str | None
    counts: Whole | None

    def __init__(  # noqa: PLR0913 - weights, function, and the place of rows
        self,
        weights: Any,
        values: Any = None,
        positions: Any = None,
        *,
        start: float = 0,
        column: str | None = None,
        counts: Any = None,
    ) -> None:
        read = np.atleast_2d(_floats(weights, "weights", _WEIGHTS, "Statistic([1, 1, 1])"))
        if read.ndim != 2 or read.size == 0:
            raise UsageError(
                f"weights has shape {read.shape}.", allowed=_WEIGHTS, instead="Statistic([1, 1, 1])"
            )
        if values is not None and not isinstance(values, Mapping):
            values = _floats(
                values, "values", "a number for every point of the domain", "values=[0, 0, 0, 1]"
            )
        rows_of = _counts(counts, read.shape[1])
        places = _positions(positions, read.shape[1], rows_of)
        read.setflags(write=False)
        places.setflags(write=False)
        allowed, instead = "a number not above the first position", "start=0"
        first = finite_number(start, "start", allowed=allowed, instead=instead)
        if first > places[0]:
            problem = f"start is {first:g}, and the first row is at {places[0]:g}."
            raise UsageError(problem, allowed=allowed, instead=instead)
        object.__setattr__(self, "weights", read)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "positions", places)
        object.__setattr__(self, "start", first)
        object.__setattr__(self, "column", None if column is None else read_name(column, "column"))
        object.__setattr__(self, "counts", rows_of)

    @classmethod
    def total(cls, size: int, values: Any = None, *, column: str | None = None) -> Self:
        """Return the sum of φ over rows that follow each other.

        >>> Statistic.total(24).size
        24
        """
        return cls(np.ones(_count(size)), values, column=column)

    @classmethod
    def mean(cls, size: int, values: Any = None, *, column: str | None = None) -> Self:
        """Return the mean of φ over rows that follow each other; their number is public."""
        return cls(np.full(_count(size), 1 / _count(size)), values, column=column)

    @classmethod
    def histogram(cls, size: int, points: int, *, column: str | None = None) -> Self:
        """Return how many rows have each value of a domain with that many points."""
        return cls(np.ones((_count(points), _count(size))), np.eye(points), column=column)

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.weights.shape[1] if self.counts is None else int(self.counts.sum())

    @property
    def answers(self) -> int:
        """How many numbers the statistic has."""
        return self.weights.shape[0]

    def listed(self) -> "Statistic | None":
        """Return the same with a column of weights for every row; None if they are too many to list.

        >>> Statistic([1, 0], counts=[2, 1]).listed().weights
        array([[1., 1., 0.]])
        """
        if self.counts is None:
            return self
        if self.size > _MOST_ROWS or self.size * self.answers > _MOST_WEIGHTS:
            return None
        weights = np.repeat(self.weights, self.counts, axis=1)
        return Statistic(weights, self.values, start=self.start, column=self.column)

    def on(self, domain: Domain) -> Floats:
        """Return φ at the points of a domain, of shape (answers, points).

        >>> from pufferflow.models.domain import Interval
        >>> Statistic.total(2).on(Interval(0, 5))
        array([[0., 5.]])
        """
        points = domain.points
        if self.values is None:
            table = domain.numbers[None]
        elif isinstance(self.values, Mapping):
            known = self.values
            missing = [point for point in points if point not in known]
            if missing:
                raise UsageError(
                    f"values has no number for {len(missing)} points of the domain.",
                    allowed="a number for every point",
                    instead="a mapping with all values of the domain as keys",
                )
            numbers = [known[point] for point in points]
            table = _floats(
                [numbers], "values", "a finite number for every point", "values={0: 0, 1: 1}"
            )
        else:
            table = np.atleast_2d(self.values)
        if table.shape[1] != len(points) or table.shape[0] not in (1, self.answers):
            raise UsageError(
                f"values has shape {table.shape} for {self.answers} answers and {len(points)} points of the domain.",
                allowed="a number for every point, in the domain's order; for several answers a row each",
                instead="values=[0, 0, 0, 1]",
            )
        with np.errstate(over="ignore"):
            rows = np.abs(self.weights) * (1 if self.counts is None else self.counts)
            most = float(rows.sum(axis=1).max() * np.abs(table).max() * 2)
        if not np.isfinite(most):
            raise UsageError(
                "The answers can be too large for floats.",
                allowed="weights and values whose sums are finite floats",
                instead="larger units",
            )
        return np.broadcast_to(table, (self.answers, len(points)))


def _count(size: object) -> int:
    return whole_number(size, "size", allowed="a whole number >= 1", instead="Statistic.total(24)")


def _floats(given: Any, name: str, allowed: str, instead: str) -> Floats:
    try:
        read = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{name} is not made of numbers.", allowed=allowed, instead=instead
        ) from error
    if not np.isfinite(read).all():
        raise UsageError(f"{name} has a NaN or infinite entry.", allowed=allowed, instead=instead)
    return read


def _counts(given: Any, columns: int) -> Whole | None:
    """Validate the number of rows of each column of weights; None if each stands for one."""
    if given is None:
        return None
    allowed, instead = (
        "one whole number >= 1 for each column of weights, below 2^53 together",
        "counts=[1000, 20]",
    )
    read = _floats(given, "counts", allowed, instead)
    if (
        read.shape != (columns,)
        or (read < 1).any()
        or (read != np.rint(read)).any()
        or read.sum() > 2.0**53
    ):
        raise UsageError(
            f"counts do not fit {columns} columns of weights.", allowed=allowed, instead=instead
        )
    return None if (read == 1).all() else read.astype(np.int64)


def _positions(given: Any, size: int, counts: Whole | None) -> Floats:
    """Validate the positions of rows; of columns with counts they are those of first rows."""
    follow = np.arange(size, dtype=np.float64)
    if counts is not None:
        follow = (np.cumsum(counts) - counts).astype(np.float64)
        if given is not None and not np.array_equal(given, follow):
            raise UsageError(
                "positions are given together with counts.",
                allowed="positions of rows that are listed one by one, or counts of rows without an order",
                instead="leaving positions out",
            )
    if given is None or counts is not None:
        return follow
    allowed, instead = "one number for each row, growing", "positions=range(24)"
    read = _floats(given, "positions", allowed, instead)
    if read.shape != (size,):
        raise UsageError(
            f"positions has shape {read.shape} for {size} rows.", allowed=allowed, instead=instead
        )
    if not (np.diff(read) > 0).all():
        raise UsageError(
            "positions do not grow, or two rows have the same.", allowed=allowed, instead=instead
        )
    return read


class Kinds(NamedTuple):
    """The distinct columns of weights, the first row of each, which of them each column is, and their rows."""

    columns: Floats
    first: Array
    of_row: Array
    counts: Array

    @classmethod
    def of(cls, weights: Floats, counts: Array | None = None) -> "Kinds":
        """Return the kinds of the columns of an array of shape (answers, columns); each may stand for several rows.

        >>> Kinds.of(np.array([[1.0, 2.0, 1.0]])).of_row
        array([0, 1, 0])
        >>> Kinds.of(np.array([[1.0, 2.0, 1.0]]), np.array([5, 1, 3])).counts
        array([8, 1])
        """
        if len(weights) == 1:  # sorting numbers is much quicker than sorting columns
            values, *places = np.unique(
                weights[0], return_index=True, return_inverse=True, return_counts=True
            )
            kinds = cls(values[None], *places)
        else:
            columns, first, of_row, alike = np.unique(
                weights, axis=1, return_index=True, return_inverse=True, return_counts=True
            )
            kinds = cls(columns, first, of_row.reshape(-1), alike)
        return kinds if counts is None else kinds.standing_for(counts)

    def standing_for(self, counts: Array) -> "Kinds":
        """Return the same if column c stands for counts[c] rows; sums of whole numbers, never of floats."""
        rows = np.zeros(len(self.counts), dtype=np.int64)
        np.add.at(rows, self.of_row, counts)
        return self._replace(first=(np.cumsum(counts) - counts)[self.first], counts=rows)


def column_and_domain(prior: Prior, statistic: Statistic, secret: AnySecret) -> tuple[str, Domain]:
    """Return the column of a statistic and its domain, as prior or secret declare it.

    A statistic that names no column is about the one that a derived secret names, or the only one beside the secret.
    """
    known = dict(prior.columns)
    if secret.reads is not None and (not known or secret.reads[0] in known):
        known[secret.reads[0]] = secret.reads[1]
    if statistic.column is None:
        if isinstance(secret, Derived) and secret.reads is not None and secret.reads[0] in known:
            return secret.reads
        hidden = secret.name if isinstance(secret, Derived) else secret.reads and secret.reads[0]
        others = {name: domain for name, domain in known.items() if name != hidden} or known
        if len(others) == 1:
            return next(iter(others.items()))
    if statistic.column not in known:
        named = "no column" if statistic.column is None else f"the column {statistic.column!r}"
        raise UsageError(
            f"The statistic is about {named}, and secret and prior declare {sorted(known)}.",
            allowed="a statistic of a column that has a declared domain",
            instead="column= in the statistic, or a secret with a column and its domain",
        )
    return statistic.column, known[statistic.column]


_EXACT = 2.0**53
Size = Floats | None
"""The number of rows of each cell, where that is public; None where it is private (`pf.Presence`)."""


@dataclass(frozen=True)
class Query:
    """Base of the queries: `measures` are summed in every cell; None among them is the number of its rows.

    To add one, write a frozen dataclass in `aggregates` that overrides what differs from a noisy sum below, and a
    method of `pf.Batch`.
    """

    name: str
    measures: tuple[Values | None, ...]
    words: str
    """The query in words."""

    linear: ClassVar[bool] = True
    """Whether each output is one measure times a public factor, so that its error is known before any release."""
    whole: ClassVar[bool] = False
    """Whether every output is a number of rows."""

    exclusive: ClassVar[bool] = False
    """Whether no row moves more than one of the measures, which is the output of the row's cell (`measure_in`)."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the columns that the answer has."""
        return (self.name,)

    @property
    def counts_values(self) -> bool:
        """Whether a private number, such as that of present values, takes the place of the number of rows."""
        return False

    def size_in(self, tally: Tally, *, counts_are_public: bool) -> Size:
        """Return the size of each cell: its number of rows, if that is public."""
        return (
            tally.rows.astype(np.float64) if counts_are_public and not self.counts_values else None
        )

    @property
    def no_rows(self) -> Size:
        """The size of a cell without rows, if that is public."""
        return np.zeros(1)

    def measure_in(self, size: Size) -> Whole | None:
        """Return which of the measures the output is in each cell; None if outputs are measures one by one."""
        return None

    @property
    def value_handling(self) -> str:
        """Describe how values are read beyond what their domain says; empty if they are read unchanged."""
        return ""

    def factor(self, size: Size) -> Any:
        """Return the factor from sum to output: one number, or one for each cell."""
        return 1.0

    def finish(self, sums: Floats, size: Size) -> Floats:
        """Return the outputs, of shape (cells, outputs), from noisy sums of shape (cells, measures): the sums here."""
        return sums

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        """Return the least and largest outputs if each measure is off by at most `half` of its own.

        This is for linear queries; others override it. If `running` names shares, `half` is for those sums instead.
        """
        reach = np.abs(np.atleast_1d(self.factor(size))[:, None] * half)
        outputs = self.finish(sums, size)
        return outputs - reach, outputs + reach

    def running(self, *, counts_are_public: bool) -> Floats | None:
        """Return the share of the total to subtract from each running sum; None where error bars need no such sums."""
        return None

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        """Return the least and largest outputs that are possible, whatever the rows: of shape (cells or 1, outputs).

        They follow from the range of φ and from the number of rows, if that is public. NaN means that nothing is
        possible, as for the mean of no rows. This is for sums; others override it.
        """
        steps = [
            (1, 1, 1) if one is None else (one.low, one.high, one.unit) for one in self.measures
        ]
        low, high, unit = np.array(steps, dtype=np.float64).T
        if size is None:
            return np.where(low < 0, -np.inf, 0.0)[None], np.where(high > 0, np.inf, 0.0)[None]
        return _outwards(size[:, None] * low, -np.inf) * unit, _outwards(
            size[:, None] * high, np.inf
        ) * unit


def within(low: float, high: float, size: Size) -> tuple[Floats, Floats]:
    """Return the limits of an output that lies in a range, NaN for cells that publicly have no rows."""
    rows = np.ones(1) if size is None else size
    limits = np.where(rows[:, None] > 0, np.array([[low, high]]), np.nan)
    return limits[:, :1], limits[:, 1:]


def widened(
    ends: tuple[Floats, Floats], no_rows: Any, low: float, high: float
) -> tuple[Floats, Floats]:
    """Return the ends of bars; they are those of the whole range if there are no rows, or may be none."""
    return np.where(no_rows[:, None], low, ends[0]), np.where(no_rows[:, None], high, ends[1])


def _outwards(products: Floats, towards: float) -> Floats:
    """Return products of whole numbers, rounded outwards if floats may not hold them."""
    return np.where(np.abs(products) < _EXACT, products, np.nextafter(products, towards))


def quotient(low: Floats, high: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return the ends of x/n for x in [low, high] and n in [least, most], which is above 0."""
    corners = np.stack([low / least, low / most, high / least, high / most])
    return corners.min(axis=0), corners.max(axis=0)


def ends_of_count(sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
    """Return the ends of the number of rows: the public one, or a noisy one, which is the last of the sums."""
    return (sums[:, -1] - half[-1], sums[:, -1] + half[-1]) if size is None else (size, size)


def at_least_one(size: Floats) -> Floats:
    """Return sizes to divide by: an empty cell counts as one row, so that its answer is noise and not null."""
    return np.maximum(size, 1.0)
