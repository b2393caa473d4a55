"""A hidden class and the rows that share it: the loss of outputs about a secret, for any noise (M20 on a star)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.calibration.dependent_rows import DependentRows
from pufferflow.calibration.law_pairs import Place
from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import InternalError, Refused
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.law_regions import LawRegions, region_log_ratio
from pufferflow.distributions.markov.star import class_leak, others_class_leak, padded_log_ratio, total_class_leak
from pufferflow.models.domain import Label
from pufferflow.noise.base import Noise
from pufferflow.queries.statistic import Kinds
from pufferflow.sensitivity.markov_rows import alike, shifts_of

_MOST_KINDS = 64
_FINE = 16
_MOST_STATES = 128


@final
@dataclass(frozen=True, eq=False)
class Given:
    """The laws given one value of the secret: of the class, and of its own row's point in each class.

    `own` has the shape (classes, points); it is None if the secret is no row's, but the whole group's.
    """

    classes: Array
    own: Array | None

    @property
    def point(self) -> int | None:
        """The point that the secret's row then has with probability 1, if there is one."""
        if self.own is None:
            return None
        possible = np.flatnonzero((self.own[self.classes > 0] > 0).any(axis=0))
        return int(possible[0]) if len(possible) == 1 else None

    def as_floats(self) -> "Given":
        """Return the same with floats."""
        return Given(_floats(self.classes), None if self.own is None else _floats(self.own))


@final
@dataclass(frozen=True, eq=False)
class Star:
    """A hidden class, with the laws of a row given each class, of shape (classes, points), and given each secret value.

    With a single class there may be `independent_rows`: then all but the secret's own row cancel (M2).
    """

    rows: Array
    given: Mapping[Label, Given]
    pairs: Sequence[tuple[Label, Label]]
    prior: Any
    independent_rows: bool = False

    @property
    def of_group(self) -> bool:
        """Whether the secret is the whole group's."""
        return next(iter(self.given.values())).own is None

    @property
    def states(self) -> int:
        """How many points a row can have."""
        return self.rows.shape[1]

    def as_floats(self) -> "Star":
        """Return the same with floats."""
        given = {value: conditional.as_floats() for value, conditional in self.given.items()}
        return Star(_floats(self.rows), given, self.pairs, self.prior, self.independent_rows)

    @cached_property
    def both_orders(self) -> Sequence[tuple[Label, Label]]:
        """All pairs of secret values, both ways round."""
        return _both_orders(self.pairs)

    @cached_property
    def points(self) -> Indices | None:
        """The row's points for both secrets of every pair, of shape (pairs, 2); None if a secret leaves them open."""
        points = [(self.given[a].point, self.given[b].point) for a, b in self.both_orders]
        known = [(a, b) for a, b in points if a is not None and b is not None]
        return np.array(known) if len(known) == len(points) else None

    def loss_of_class(self, limits: Floats) -> Floats:
        """Return the loss about the secrets of every pair from limits D on that of the class, of shape (C, C) (M20)."""
        tops, bottoms = (np.array([self.given[pair[side]].classes for pair in self.both_orders]) for side in (0, 1))
        return padded_log_ratio(tops, bottoms, limits)

    def loss_of_row(self, losses: Floats, others: Floats) -> Floats:
        """Return the loss about a row's secret: by itself, if its points are known, and by the others."""
        if self.points is None:
            return self._jointly(losses, others)
        return (losses[*self.points.T] + self.loss_of_class(others)) * (1 + UNIT)

    def _jointly(self, losses: Floats, others: Floats) -> Floats:
        """Return the same with class and point as one state, whose limits are sums."""
        laws = {
            v: (conditional.classes[:, None] * conditional.own).ravel()
            for v, conditional in self.given.items()
            if conditional.own is not None
        }
        used = np.flatnonzero(np.any(list(laws.values()), axis=0))
        if len(used) > _MOST_STATES:
            raise Refused(
                f"Messages between {len(used)} combinations of a shared class and a row's value.",
                allowed=f"at most {_MOST_STATES} of them",
                instead="bound=pf.GWM(), or a table with fewer values",
            )
        classes, points = np.divmod(used, losses.shape[0])
        limits = others[np.ix_(classes, classes)] + losses[np.ix_(points, points)]
        tops, bottoms = (np.array([laws[pair[side]][used] for pair in self.both_orders]) for side in (0, 1))
        return padded_log_ratio(tops, bottoms, limits * (1 + UNIT))


@final
@dataclass(frozen=True, eq=False)
class RegionStar:
    """The same with regions of laws, any member of which may be the prior: losses are at least the largest of them.

    `classes` are the laws of the class and `own` those of the secret's row, one for each of the secret's `values`. With
    a single class the row's law is its own; `points` are the row's points, where a value fixes them. The secret is the
    whole group's if neither is given.
    """

    rows: LawRegions
    values: Sequence[Label]
    classes: LawRegions
    own: LawRegions | None
    own_points: Indices | None
    pairs: Sequence[tuple[Label, Label]]
    prior: Any

    @property
    def of_group(self) -> bool:
        """Whether the secret is the whole group's."""
        return self.own is None and self.own_points is None

    @property
    def states(self) -> int:
        """How many points a row can have."""
        return self.rows.states

    @cached_property
    def both_orders(self) -> Sequence[tuple[Label, Label]]:
        """All pairs of secret values, both ways round."""
        return _both_orders(self.pairs)

    @cached_property
    def _places(self) -> Indices:
        """The places of both values of all pairs, of shape (pairs, 2)."""
        place = {value: at for at, value in enumerate(self.values)}
        return np.array([[place[a], place[b]] for a, b in self.both_orders], dtype=np.intp)

    @property
    def points(self) -> Indices | None:
        """The row's points for both secrets of every pair, of shape (pairs, 2); None if a secret leaves them open."""
        return None if self.own_points is None else self.own_points[self._places]

    def loss_of_class(self, limits: Floats) -> Floats:
        """Return the loss about the secrets of every pair from limits D on that of the class, of shape (C, C) (M20)."""
        first, second = self._places.T
        return region_log_ratio(self.classes.some(first), self.classes.some(second), limits)

    def loss_of_row(self, losses: Floats, others: Floats) -> Floats:
        """Return the loss about a row's secret: by itself, if its points are known, and by the others."""
        if self.points is not None:
            return (losses[*self.points.T] + self.loss_of_class(others)) * (1 + UNIT)
        if self.own is None or len(self.rows) > 1:
            raise InternalError("A row's law in several classes without its point.", instead="reporting it")
        first, second = self._places.T
        return region_log_ratio(self.own.some(first), self.own.some(second), losses)


def _both_orders(pairs: Sequence[tuple[Label, Label]]) -> list[tuple[Label, Label]]:
    return [pair for a, b in pairs for pair in ((a, b), (b, a))]


AnyStar = Star | RegionStar


@final
@dataclass(frozen=True, eq=False)
class DependentStar(DependentRows):
    """Rows that share a hidden class: those of kind j move answers by `shifts[j, :, e, f]` between points e and f."""

    star: AnyStar
    shifts: Floats
    counts: Indices
    first: Indices
    answers: int

    @classmethod
    def of(cls, star: AnyStar, rows: Kinds, tables: Floats) -> "DependentStar":
        """Return the walk of some rows; where there are many weights, near ones count as the larger."""
        fewer = Kinds.of(_rounded_up(np.abs(rows.columns)))
        shifts, same = alike(shifts_of(fewer.columns, tables))
        kinds = same[fewer.of_row]
        counts = np.zeros(len(shifts), dtype=np.int64)
        np.add.at(counts, kinds, rows.counts)
        _, first = np.unique(kinds, return_index=True)
        return cls(star, shifts, counts, rows.first[first], len(tables))

    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the largest of ℓ_r + g_post(D), D what the other rows reveal about the class (M20).

        The worse order.
        """
        losses = self.exposures(noise)
        if losses is None:
            return math.inf, self._place(0, self.star.both_orders[0])
        messages = class_leak(self.star.rows, losses)
        if self.star.of_group:
            limits = self.star.loss_of_class(total_class_leak(messages, self.counts))[None]
        else:
            others = others_class_leak(messages, self.counts)
            limits = np.array([self.star.loss_of_row(losses[j], others[j]) for j in range(len(losses))])
        kind, pair = np.unravel_index(int(limits.argmax()), limits.shape)
        return float(limits[kind, pair]), self._place(int(kind), self.star.both_orders[int(pair)])

    def _place(self, kind: int, pair: tuple[Label, Label]) -> Place:
        return Place(self.answers, self.star.prior, pair, int(self.first[kind]))


def _floats(masses: Array) -> Floats:
    return masses.astype(np.float64)


def _rounded_up(weights: Floats) -> Floats:
    """Return weights of at most about 64 kinds; where there are more, each is raised by up to 4.5 %, never lowered."""
    if Kinds.of(weights).columns.shape[1] <= _MOST_KINDS:
        return weights
    with np.errstate(divide="ignore"):
        powers = np.exp2(np.ceil(np.log2(weights) * _FINE) / _FINE)
    return np.where(weights > 0, np.maximum(powers, weights), 0.0)
