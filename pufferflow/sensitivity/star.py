"""A hidden class with the laws of its rows, and the losses of releases about rows that share it (M20, M21, M59, M63).

The secret is a row's value, or the class itself: then it belongs to the whole group.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.calibration.differing_rows import DifferingRowsLoss
from pufferflow.calibration.latent_mixture import HiddenClassLoss, OtherRows
from pufferflow.calibration.laws import DependentRows, Place
from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import InternalError, Refused
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.law_regions import LawRegions, region_log_ratio
from pufferflow.distributions.markov.star import (
    class_leak,
    others_class_leak,
    padded_log_ratio,
    total_class_leak,
)
from pufferflow.models.domain import Label
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.queries.statistic import Kinds
from pufferflow.sensitivity.markov import alike, shifts_of

_MOST_KINDS = 64
_FINE = 16
_MOST_STATES = 128


@final
@dataclass(frozen=True, eq=False)
class Given:
    """The laws given one value of the secret: of the class, and of its own row's point in each class.

    `own` has the shape (classes, points). It is None if the secret belongs to the whole group, not to a row.
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
    def laws_of_pairs(self) -> Sequence[tuple[tuple[Label, Label], Floats]]:
        """The laws of a row under every pair of secrets, once, if the secret is the class itself; none for others."""
        if not self.of_group or any((one.classes == 1).sum() != 1 for one in self.given.values()):
            return ()
        place = {value: int(one.classes.argmax()) for value, one in self.given.items()}
        return [((a, b), _floats(self.rows[[place[a], place[b]]])) for a, b in self.pairs]

    @cached_property
    def points(self) -> Indices | None:
        """The row's points for both secrets of every pair, of shape (pairs, 2); None if a secret leaves them open."""
        points = [(self.given[a].point, self.given[b].point) for a, b in self.both_orders]
        known = [(a, b) for a, b in points if a is not None and b is not None]
        return np.array(known) if len(known) == len(points) else None

    def loss_of_class(self, limits: Floats) -> Floats:
        """Return the loss about the secrets of every pair from limits D on that of the class, of shape (C, C) (M20)."""
        tops, bottoms = (
            np.array([self.given[pair[side]].classes for pair in self.both_orders])
            for side in (0, 1)
        )
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
                f"A shared class and a row's value have {len(used)} combinations, too many for messages.",
                allowed=f"at most {_MOST_STATES} of them",
                instead="bound=pf.GWM(), or a table with fewer values",
            )
        classes, points = np.divmod(used, losses.shape[0])
        limits = others[np.ix_(classes, classes)] + losses[np.ix_(points, points)]
        tops, bottoms = (
            np.array([laws[pair[side]][used] for pair in self.both_orders]) for side in (0, 1)
        )
        return padded_log_ratio(tops, bottoms, limits * (1 + UNIT))


@final
@dataclass(frozen=True, eq=False)
class RegionStar:
    """The same with regions of laws, any member of which may be the prior: losses are at least the largest of them.

    `classes` are the laws of the class and `own` those of the secret's row, one for each of the secret's `values`. With
    a single class the row's law is its own; `points` are the row's points, where a value fixes them. If neither is
    given, the secret belongs to the whole group.
    """

    rows: LawRegions
    values: Sequence[Label]
    classes: LawRegions
    own: LawRegions | None
    own_points: Indices | None
    pairs: Sequence[tuple[Label, Label]]
    prior: Any
    independent_rows: bool = False

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
            raise InternalError(
                "A row's law in several classes without its point.", instead="reporting it"
            )
        first, second = self._places.T
        return region_log_ratio(self.own.some(first), self.own.some(second), losses)


def _both_orders(pairs: Sequence[tuple[Label, Label]]) -> list[tuple[Label, Label]]:
    return [pair for a, b in pairs for pair in ((a, b), (b, a))]


AnyStar = Star | RegionStar
AnyLoss = Any
"""A loss about a row and the class of the others, or about the class of all rows."""


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
            limits = np.array(
                [self.star.loss_of_row(losses[j], others[j]) for j in range(len(losses))]
            )
        kind, pair = np.unravel_index(int(limits.argmax()), limits.shape)
        return float(limits[kind, pair]), self._place(int(kind), self.star.both_orders[int(pair)])

    def delta(self, noise: Noise, epsilon: float) -> tuple[float, Place] | None:
        """Return the largest δ of a row under Gaussian noise (M63), or of the class under Laplace noise too (M59)."""
        if self.star.of_group and (exposures := self.exposures(noise)) is not None:
            most = float(exposures.max(initial=0.0))
            return self._largest(lambda loss: loss.delta_of_pure(most, epsilon), self._whole)
        return self._worst_class(noise, lambda loss, at: loss.delta(at, epsilon))

    def renyi(self, noise: Noise, alpha: float) -> tuple[float, Place] | None:
        """Return the largest Rényi loss of a row under Gaussian noise (M63)."""
        return self._worst_class(noise, lambda loss, at: loss.renyi(at, alpha))

    def gdp(self, noise: Noise) -> tuple[float, Place] | None:
        """Return the largest μ of a row under Gaussian noise (M63)."""
        return self._worst_class(noise, lambda loss, at: loss.gaussian(at))

    def zcdp(self, noise: Noise) -> tuple[float, Place] | None:
        """Return the largest ρ of a row under Gaussian noise (M63)."""
        return self._worst_class(noise, lambda loss, at: loss.concentrated(at))

    def _worst_class(
        self, noise: Noise, of: Callable[[AnyLoss, float], float]
    ) -> tuple[float, Place] | None:
        if not isinstance(noise, Gaussian):
            return None
        moved = self.farthest / noise.scale if noise.scale else math.inf
        at = moved * moved * (1 + 8 * UNIT)
        of_row = self._largest(lambda loss: of(loss, at), self._classes)
        return of_row or self._largest(lambda loss: of(loss, at), self._whole)

    def _largest(
        self, of: Callable[[AnyLoss], float], pairs: Sequence[tuple[tuple[Label, Label], AnyLoss]]
    ) -> tuple[float, Place] | None:
        """Return the largest loss of a pair, and the pair; None if there are none."""
        found = [(of(loss), pair) for pair, loss in pairs]
        value, pair = max(found, key=lambda one: one[0], default=(0.0, None))
        return None if pair is None else (value, self._place(0, pair))

    @cached_property
    def _whole(self) -> Sequence[tuple[tuple[Label, Label], DifferingRowsLoss]]:
        """The losses about the class, by how many rows differ between two of them; none if the secret is a row's."""
        star, moving = self.star, self.shifts.any(axis=(1, 2, 3))
        laws = star.laws_of_pairs if isinstance(star, Star) else ()
        selected = int(self.counts[moving].sum())
        return [(pair, DifferingRowsLoss(two, selected)) for pair, two in laws]

    @cached_property
    def _classes(self) -> Sequence[tuple[tuple[Label, Label], HiddenClassLoss]]:
        """The losses of a row's secret about the class of the others, for every pair; none if laws are unknown.

        The secret fixes the row's point. Otherwise the point reveals more about the class than the secret does.
        """
        star, moving = self.star, self.shifts.any(axis=(1, 2, 3))
        if not isinstance(star, Star) or star.of_group or star.independent_rows:
            return ()
        if star.points is None:
            return ()
        selected, rows = int(self.counts[moving].sum()), star.rows.astype(np.float64)
        few = len(rows) == 2
        settings = [OtherRows.differing(rows, selected - 1)] if few and selected else []
        settings += [OtherRows.beside(rows, selected)] if few and not moving.all() else []
        settings = settings or [OtherRows.at_most(selected)]
        law = {value: given.as_floats().classes for value, given in star.given.items()}
        return [
            (pair, HiddenClassLoss(law[pair[0]], law[pair[1]], others))
            for pair in star.both_orders
            for others in settings
        ]

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
