"""Rows that share a hidden class: its law given the secret, the sum of the others, and losses (M20, M21).

Rows are correlated through the class. Given the secret the class has its posterior law, which moves the sum of the
other rows: leaving them out, or taking the class's marginal law, would miss that.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.calibration.laws import (
    DependentRows,
    Laws,
    LawsSize,
    Pair,
    Place,
    Reach,
    Witness,
    longest_reach,
)
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import InternalError, Refused
from pufferflow.core.rounding import float_above
from pufferflow.core.validate import decimal_reading, probability_below_one
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.distances import near, winf
from pufferflow.distributions.finite_law import Law
from pufferflow.models.domain import Domain, Label
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.secret import AnySecret, Derived, Secret
from pufferflow.queries.statistic import Kinds, Statistic, column_and_domain
from pufferflow.sensitivity.convolution import AnySum, Dense, RowTerms, added, mixed, rounding
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.movement import group_movement
from pufferflow.sensitivity.star import AnyStar, DependentStar, Given, RegionStar, Star

_SLIGHT = 1e-9
_MOST_ATOMS = 10**6
_Measure = Callable[["AnySum", "AnySum"], tuple[float, bool]]
"""A distance of two sums in steps, and whether it is exact."""


@implied.register
def _(prior: LatentClass, statistic: Statistic, secret: AnySecret) -> Laws:
    prior.check(secret)
    _, domain = column_and_domain(prior, statistic, secret)
    return StarLaws(_star(prior, secret), statistic, domain)


def _star(prior: LatentClass, secret: AnySecret) -> Star:
    """Return the classes that occur and, for each secret value, their posterior law."""
    weights, rows = prior.arrays
    occurs = weights > 0
    weights, rows = weights[occurs], rows[occurs]
    if isinstance(secret, Derived):
        names = prior.classes(secret)
        points = np.eye(len(weights), dtype=np.intp).astype(rows.dtype)
        given = {name: Given(points[c], None) for c, name in enumerate(names)}
        return Star(rows, given, secret.value_pairs(list(names)), prior)
    if not isinstance(secret, Secret):
        raise InternalError(
            "A latent class was given a secret that it had refused.", instead="reporting it"
        )
    given = dict[Label, Given]()
    for place, value in enumerate(secret.domain.points):
        joint = weights * rows[:, place]
        own = np.zeros(rows.shape, dtype=rows.dtype)
        own[:, place] = 1
        given[value] = Given(joint / joint.sum(), own)
    return Star(rows, given, secret.value_pairs(), prior)


@final
class StarLaws(Laws):
    """The laws of sums over rows that share a class, whose pairs are listed only when they are iterated over.

    Those of every member of a class of priors, given by a `RegionStar`, are never listed.
    """

    def __init__(self, star: AnyStar, statistic: Statistic, domain: Domain) -> None:
        self._any_star, self._statistic, self._domain = star, statistic, domain
        self._tables = statistic.on(domain)
        self._kinds, self._in_regions = (
            Kinds.of(statistic.weights, statistic.counts),
            isinstance(star, RegionStar),
        )
        self.dimension = statistic.answers
        self.certainty = Certainty.UPPER_BOUND if self._in_regions else Certainty.EXACT

    @property
    def _star(self) -> Star:
        """The star of known laws; refused of a class of priors."""
        if isinstance(self._any_star, Star):
            return self._any_star
        raise Refused(
            "The laws of a class of priors cannot be listed: it has infinitely many members.",
            allowed="bound=pf.Messages(), which bounds all members at once, or bound=pf.Group()",
            instead="slack=None, which fits a single prior without any allowance for chance",
        )

    @cached_property
    def _terms(self) -> RowTerms:
        return RowTerms.of(self._statistic, self._domain)

    def least(self, delta: float, norm: float) -> float:
        """Return a lower bound from expectations, which differ by at most z plus δ times the movement of the group."""
        if self.dimension > 1 or self._in_regions:
            return 0.0
        mean = _largest_difference(self._means, self._star.pairs) * (1 - _SLIGHT)
        return (
            max(mean - delta * self.span(norm).length, 0.0) * (1 - _SLIGHT)
            if delta and mean
            else mean
        )

    @property
    def _means(self) -> dict[Label, Floats]:
        """The expected sum given each value of the secret, by kind of its row."""
        star, counts = self._star.as_floats(), self._terms.counts
        added = self._terms.exact.sum(axis=1).astype(np.float64).T
        by_kind = star.rows @ added  # classes by kinds
        rest = (
            np.zeros_like(by_kind)
            if star.independent_rows
            else (by_kind * counts).sum(axis=1)[:, None] - by_kind
        )
        return {
            value: given.classes @ (rest + (by_kind if given.own is None else given.own @ added))
            for value, given in star.given.items()
        }

    def least_loss(self, rate: float, witness: Witness) -> float:
        """Return a lower bound from the tails of any pair, given the secret of any kind of row."""
        if self._in_regions:
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tails = [
                _largest_difference(self._log_moments(sign * rate), self._star.pairs)
                for sign in (1, -1)
            ]
        return max(tails) * (1 - _SLIGHT) if np.isfinite(tails).all() else 0.0

    def _log_moments(self, rate: float) -> dict[Label, Floats]:
        """Return log E[e^{rate·sum} | secret] for each value of it, by kind of its row."""
        star, counts = self._star.as_floats(), self._terms.counts
        added = rate * self._terms.exact.sum(axis=1).astype(np.float64)
        by_kind = np.log(star.rows[:, None, :] @ np.exp(added)[None].swapaxes(1, 2))[
            :, 0
        ]  # classes by kinds
        rest = (
            np.zeros_like(by_kind)
            if star.independent_rows
            else (by_kind * counts).sum(axis=1)[:, None] - by_kind
        )
        log_moments = dict[Label, Floats]()
        for value, given in star.given.items():
            own = (
                by_kind
                if given.own is None
                else np.log(given.own[:, None, :] @ np.exp(added)[None].swapaxes(1, 2))[:, 0]
            )
            log_moments[value] = np.logaddexp.reduce(
                np.log(given.classes)[:, None] + rest + own, axis=0
            )
        return log_moments

    def at(self, witness: Witness) -> Pair | None:
        kinds = np.flatnonzero(self._kinds.first == (witness.row or 0))
        secrets = None if self._in_regions else witness.secrets
        if secrets is None or secrets not in self._star.pairs or not len(kinds):
            return None
        own, sums = (
            (int(kinds[0]) if self._star.independent_rows else None),
            self._sums[int(kinds[0]) % len(self._sums)],
        )
        a, b = secrets
        mu, nu = (self._terms.lattice.placed(_as_law(sums[value]), own) for value in (a, b))
        return self._pair(mu, nu, int(kinds[0]), (a, b))

    @cached_property
    def size(self) -> LawsSize:
        """The sizes of the sums of the rows of each class and kind; laws of a class of priors are not listed."""
        kinds, star = len(self._kinds.counts), self._any_star
        if isinstance(star, RegionStar):
            pairs = len(star.both_orders) + len(star.rows) ** 2
            return LawsSize(
                float(len(star.pairs) * kinds),
                atoms=math.inf,
                messages=10.0 * kinds * pairs * star.states**3,
            )
        classes, values = len(star.rows), len(star.given)
        atoms = float(min(self._terms.lattice.volume, _MOST_ATOMS))
        messages = 10.0 * len(star.pairs) * classes**4
        return LawsSize(float(len(self)), float(kinds * (classes + values)), atoms, messages)

    def walks(self) -> Sequence[DependentRows]:
        star = self._any_star.as_floats() if isinstance(self._any_star, Star) else self._any_star
        return [DependentStar.of(star, self._kinds, self._tables)]

    def winf(self, norm: float) -> Reach:
        """Return the largest W_∞ of a pair, also of sums with tail masses too small for floats."""
        if self.dimension == 1:
            return self._farthest(self._gap)
        return super().winf(norm) if self.small else self.span(norm)

    @cached_property
    def small(self) -> bool:
        """Whether laws of vectors can be listed and compared in a few seconds; otherwise all rows may change (M7)."""
        # those on a line that are too long to list refuse to be, and so do all of a class of priors
        return self.dimension == 1 or self._in_regions or self._comparable()

    def near(self, delta: float, norm: float) -> Reach:
        """Return the largest z at which a pair is (z, delta)-near.

        Where tail masses are too small for floats, their total and the rounding error are first subtracted from δ.
        """
        if self.dimension > 1:
            return super().near(delta, norm) if self.small else self.span(norm)
        probability_below_one(delta, "delta")
        share = decimal_reading(delta)
        if any(
            isinstance(law, Dense) and law.faint for sums in self._sums for law in sums.values()
        ):
            share -= Fraction(rounding(self._terms.lattice.error(self._star.rows)))
        return (
            self._farthest(lambda mu, nu: _near(mu, nu, share), self._gap)
            if share > 0
            else self.winf(norm)
        )

    def _farthest(self, measure: _Measure, ceiling: _Measure | None = None) -> Reach:
        """Return the longest distance on the line, measured in steps; of pairs whose ceiling is shorter none is."""
        places = [(kind, pair) for kind in range(len(self._sums)) for pair in self._star.pairs]
        laws = [(self._sums[kind][a], self._sums[kind][b]) for kind, (a, b) in places]
        most = [math.inf if ceiling is None else ceiling(mu, nu)[0] for mu, nu in laws]
        reaches, longest = dict[int, Reach](), 0.0
        for place in sorted(range(len(places)), key=most.__getitem__, reverse=True):
            if most[place] < longest:
                break
            steps, exact = measure(*laws[place])
            longest, certainty = (
                max(longest, steps),
                Certainty.EXACT if exact else Certainty.UPPER_BOUND,
            )
            reaches[place] = Reach(
                self._terms.lattice.length(steps), certainty, self._place(*places[place])
            )
        return longest_reach(
            [reach for _, reach in sorted(reaches.items(), key=lambda one: one[0])]
        )

    def _gap(self, mu: AnySum, nu: AnySum) -> tuple[float, bool]:
        """Return W_∞ in steps, and whether it is exact."""
        if isinstance(mu, Dense) and isinstance(nu, Dense):
            gap = mu.winf(nu, self._terms.lattice.error(self._star.rows))
            return gap.length, gap.least == gap.most
        distance = winf(_as_law(mu), _as_law(nu))
        return float(distance), distance.certainty == Certainty.EXACT

    def span(self, norm: float) -> Reach:
        """Return the largest distance of answers that two secrets allow (M7): exact for one answer, else a bound."""
        if self.dimension > 1 or self._in_regions:
            return self._span_of_rows(norm)
        ends = {value: self._ends(given) for value, given in self._star.given.items()}
        reaches: list[Reach] = []
        for a, b in self._star.pairs:
            (low, high), (least, most) = ends[a], ends[b]
            lengths = np.maximum(high - least, most - low)
            kind = max(range(len(lengths)), key=lengths.__getitem__)
            reaches.append(
                Reach(float_above(lengths[kind]), Certainty.EXACT, self._place(kind, (a, b)))
            )
        return max(reaches, key=lambda reach: reach.length)

    def _span_of_rows(self, norm: float) -> Reach:
        parts = [(self._kinds.columns, self._kinds.counts)]
        if self._any_star.independent_rows:
            parts = [
                (column[:, None], np.ones(1, dtype=np.intp)) for column in self._kinds.columns.T
            ]
        length = max(
            group_movement(weights, counts, self._tables, norm) for weights, counts in parts
        )
        place = self._place(0, self._any_star.pairs[0])
        return Reach(
            length, Certainty.UPPER_BOUND, replace(place, row=0) if self._in_regions else place
        )

    def _ends(self, given: Given) -> tuple[Array, Array]:
        """Return the least and the largest answer that a secret value allows, for each kind of its row; exactly."""
        least, most = list[Array](), list[Array]()
        for c in np.flatnonzero(given.classes > 0).tolist():
            reached = self._terms.exact[:, 0, self._star.rows[c] > 0]
            own = reached if given.own is None else self._terms.exact[:, 0, given.own[c] > 0]
            for bounds, others, end in (
                (least, reached.min(axis=1), own.min(axis=1)),
                (most, reached.max(axis=1), own.max(axis=1)),
            ):
                total = (others * self._terms.counts).sum()
                bounds.append(end if self._star.independent_rows else total - others + end)
        return np.min(least, axis=0), np.max(most, axis=0)

    def __len__(self) -> int:
        return len(self._star.pairs) * (1 if self._star.of_group else len(self._terms.counts))

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        """The pairs, once for all rows of one weight."""
        pairs: list[Pair] = []
        for kind, sums in enumerate(self._sums):
            own = kind if self._star.independent_rows else None
            laws = {
                value: self._terms.lattice.placed(_as_law(law), own) for value, law in sums.items()
            }
            pairs += [self._pair(laws[a], laws[b], kind, (a, b)) for a, b in self._star.pairs]
        return pairs

    @cached_property
    def _sums(self) -> list[dict[Label, AnySum]]:
        """The laws of the whole numbers behind the answers, by kind of the secret's row and by secret value.

        Rational masses too long to carry become floats.
        """
        star, lattice = self._star, self._terms.lattice
        if star.independent_rows:
            given = {
                value: conditional.own[0]
                for value, conditional in star.given.items()
                if conditional.own is not None
            }
            kinds = range(len(self._terms.counts))
            return [
                {value: lattice.row_law(kind, own) for value, own in given.items()}
                for kind in kinds
            ]
        if star.rows.dtype == object and lattice.work(star.rows, every_row=not star.of_group) > 1:
            star = star.as_floats()
        lattice.check(star.rows, every_row=not star.of_group)
        if star.of_group:
            totals = [lattice.total(masses) for masses in star.rows]
            used = {
                value: np.flatnonzero(conditional.classes > 0).tolist()
                for value, conditional in star.given.items()
            }
            return [
                {
                    v: mixed([totals[c] for c in used[v]], conditional.classes[used[v]])
                    for v, conditional in star.given.items()
                }
            ]
        others = [lattice.others(masses) for masses in star.rows]
        return [
            {
                value: self._given_row(conditional, [sums[kind] for sums in others], kind)
                for value, conditional in star.given.items()
            }
            for kind in range(len(self._terms.counts))
        ]

    def _given_row(self, given: Given, others: Sequence[AnySum], kind: int) -> AnySum:
        """Return the law of the sum given a value of the secret of a row of one kind."""
        if given.own is None:
            raise InternalError("The secret of a row, and no row given.", instead="reporting it")
        used = np.flatnonzero(given.classes > 0).tolist()
        own = [self._terms.lattice.row(kind, given.own[c]) for c in used]
        return mixed(
            [added(others[c], row) for c, row in zip(used, own, strict=True)], given.classes[used]
        )

    def _pair(self, mu: Law, nu: Law, kind: int, values: tuple[Label, Label]) -> Pair:
        return Pair(mu, nu, self._star.prior, values, int(self._kinds.first[kind]))

    def _place(self, kind: int, values: tuple[Label, Label]) -> Place:
        return Place(self.dimension, self._any_star.prior, values, int(self._kinds.first[kind]))


def _largest_difference(
    numbers: Mapping[Label, Floats], pairs: Sequence[tuple[Label, Label]]
) -> float:
    return max(float(np.abs(numbers[a] - numbers[b]).max()) for a, b in pairs)


def _as_law(law: AnySum) -> Law:
    return law.law() if isinstance(law, Dense) else law


def _near(mu: AnySum, nu: AnySum, share: Fraction) -> tuple[float, bool]:
    """Return the smallest z in steps, and whether it is exact."""
    laws = [law.most() if isinstance(law, Dense) else law for law in (mu, nu)]
    distance = near(laws[0], laws[1], share)
    lost = any(isinstance(law, Dense) and law.faint for law in (mu, nu))
    return float(distance), distance.certainty == Certainty.EXACT and not lost
