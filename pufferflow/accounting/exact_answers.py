"""The joint law of exact answers given one row's secret, and of the outputs published in their place (M22, M23, M31).

Rows are independent draws from a table, all with the same law, and releases are about the same rows. So the law of the
answers, given one row's secret, convolves the contribution of this row with those of all others. The ratio at an output
involves only what is on its path (M23). So a published output is one outcome of known likelihoods. An output that is
not published yet may be any outcome. All computations are in whole numbers. Likelihoods of noise, which are not
rational, have a relative error that is added to the losses.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import takewhile
from typing import cast, final

import numpy as np

from pufferflow.confounding.joint_law import ProjectedTable, see
from pufferflow.confounding.law_pairs import ExactPair
from pufferflow.confounding.target import PastOutcomes, bin_edges
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, float_above
from pufferflow.models.domain import Domain
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.table import Table, Values, released_column, table_of_rows
from pufferflow.models.secret import AnySecret, Derived, Secret
from pufferflow.noise.base import Noise
from pufferflow.noise.channel import Channel, cell_masses
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.sampler import grid_of
from pufferflow.published.cost import ExactSum, ExactSums
from pufferflow.queries.statistic import Statistic, column_and_domain

_MOST_POINTS = 20_000
_MOST_PRODUCTS = 2_000_000
_LARGEST_ERROR = 1e-7
"""The relative error of the likelihood of noise: a cell is some thousandth of the tails it is computed from."""
Law = dict[tuple[int, ...], int]


@final
@dataclass(frozen=True)
class ExactRelease:
    """The exact sums of a release, and what was published in their place; None if nothing is published yet."""

    exact_sums: ExactSums
    outputs: tuple[str, ...] | None = None


def table_of(prior: Prior, secret: AnySecret) -> Table | None:
    """Return the table that each row is an independent draw from; None if there is none."""
    return table_of_rows(prior) if isinstance(secret, Secret | Derived) else None


@final
@dataclass(frozen=True, eq=False)
class JointAnswers:
    """Exact answers of releases about the same rows, given the secret of one of them, under one prior.

    Sums to which every row adds the same are one answer. `answers` has for every release the places of its sums.
    """

    seen: ProjectedTable
    releases: tuple[ExactRelease, ...]
    answers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls, priors: Sequence[Prior], secret: AnySecret, releases: Sequence[ExactRelease]
    ) -> "JointAnswers":
        """Return the joint law of releases about the same rows, under each of the given tables."""
        known: dict[tuple[str | None, tuple[int, ...]], int] = {}
        every = [
            [(one.exact_sums.column, own.terms) for own in one.exact_sums.sums] for one in releases
        ]
        places = tuple(tuple(known.setdefault(own, len(known)) for own in some) for some in every)
        return cls(
            _seen(priors, secret, list(known), releases[0].exact_sums.rows), tuple(releases), places
        )

    @property
    def steps(self) -> Iterator[PastOutcomes]:
        """The likelihoods of the outcomes of each sum of each release at all answers; none if it is to be designed."""
        for release, places in zip(self.releases, self.answers, strict=True):
            outputs = release.outputs or (None,) * len(places)
            for own, at, output in zip(release.exact_sums.sums, places, outputs, strict=True):
                if own.noise or own.channel:
                    yield _outcomes(
                        own, [cast(int, point[at]) for point in self.seen.points], output
                    )

    @property
    def steps_before_designed(self) -> int:
        """The number of `steps` before the first designed release."""
        before = takewhile(lambda one: not one.exact_sums.designed, self.releases)
        return sum(1 for one in before for own in one.exact_sums.sums if own.noise)

    @property
    def unpublished(self) -> "JointAnswers":
        """The same answers, as if no output were known yet."""
        return replace(self, releases=tuple(ExactRelease(one.exact_sums) for one in self.releases))

    @cached_property
    def past(self) -> PastOutcomes:
        """The likelihoods of every outcome of all releases at all answers."""
        outcomes = PastOutcomes.of_nothing(len(self.seen.points))
        for step in self.steps:
            outcomes, _ = outcomes.followed_by(step, len(self.seen.values))
        if not outcomes.masses.size:
            raise Refused(
                "The published outputs are impossible under the table.",
                allowed="releases of rows that are draws from it",
                instead="ledger.replace_prior(name, scenario), with a table under which they are possible",
            )
        return outcomes

    @cached_property
    def pairs(self) -> list[ExactPair]:
        """The laws of all outcomes under both secrets of every pair, up to the relative error of the likelihoods."""
        found: list[ExactPair] = []
        for laws, total in self.seen.laws:
            joint, unit = laws @ self.past.masses, total * self.past.unit
            found += [
                ExactPair(joint[first], joint[second], unit) for first, second in self.seen.pairs
            ]
        return found

    @property
    def pure(self) -> float:
        """The largest log ratio of likelihoods at any outcome, rounded up."""
        loss = max(pair.pure for pair in self.pairs)
        return loss + float_above(4 * self.past.off) if self.past.off else loss


def _seen(
    priors: Sequence[Prior],
    secret: AnySecret,
    sums: Sequence[tuple[str | None, tuple[int, ...]]],
    rows: int,
) -> ProjectedTable:
    """Return sums over rows seen from the secret of one row, under each of some tables."""
    tables = [_convolved(_row(prior, secret, sums), prior, secret, sums, rows) for prior in priors]
    if any(
        (row.values, row.pairs) != (tables[0][0].values, tables[0][0].pairs) for row, _ in tables
    ):
        raise Refused(
            "The tables give the secret different values.",
            allowed="tables in which the secret has the same values, with other probabilities",
            instead="one table, or tables with all values of the secret",
        )
    row, points = (
        tables[0][0],
        tuple(sorted({point for _, laws in tables for law in laws for point in law})),
    )
    masses = tuple(
        np.array([[law.get(point, 0) for point in points] for law in laws], dtype=object)
        for _, laws in tables
    )
    names = tuple(f"exact sum {place}" for place in range(len(sums)))
    return ProjectedTable(
        row.secret, row.values, row.pairs, names, cast(tuple[Values, ...], points), masses
    )


def _column(prior: Prior, secret: AnySecret, named: str | None) -> tuple[str, Domain]:
    name = released_column(prior) if named is None else named
    return column_and_domain(prior, Statistic.total(1, column=name), secret)


def _row(
    prior: Prior, secret: AnySecret, sums: Sequence[tuple[str | None, tuple[int, ...]]]
) -> ProjectedTable:
    """Return the columns that sums read of a row, seen from its secret."""
    read = [_column(prior, secret, column)[0] for column, terms in sums if len(set(terms)) > 1]
    return see(table_of(prior, secret), secret, list(dict.fromkeys(read)))


def _convolved(
    row: ProjectedTable,
    prior: Prior,
    secret: AnySecret,
    sums: Sequence[tuple[str | None, tuple[int, ...]]],
    rows: int,
) -> tuple[ProjectedTable, list[Law]]:
    """Return the joint laws of the secret of a row and the sums over all: other rows have the law of any row."""
    (masses,) = row.masses
    added = [_terms(prior, secret, column, terms, row) for column, terms in sums]
    moves = list(zip(*added, strict=True))  # what a row adds to every sum, at each of its points
    others = _power(_law(masses.sum(axis=0).tolist(), moves), rows - 1, len(sums))
    return row, [_convolution(_law(one.tolist(), moves), others) for one in masses]


def _terms(
    prior: Prior, secret: AnySecret, named: str | None, terms: tuple[int, ...], row: ProjectedTable
) -> tuple[int, ...]:
    """Return what a row adds to a sum at each of its points."""
    if len(set(terms)) == 1:
        return terms[:1] * len(row.points)
    column, domain = _column(prior, secret, named)
    at = row.columns.index(column)
    return tuple(terms[domain.place(point[at], "a value")] for point in row.points)


def _law(masses: Sequence[int], moves: Sequence[tuple[int, ...]]) -> Law:
    law: Law = {}
    for mass, move in zip(masses, moves, strict=True):
        if mass:
            law[move] = law.get(move, 0) + mass
    return law


def _power(law: Law, times: int, width: int) -> Law:
    """Return the law of the sum of so many independent draws."""
    result: Law = {(0,) * width: 1}
    while times:
        if times & 1:
            result = _convolution(result, law)
        times >>= 1
        law = _convolution(law, law) if times else law
    return result


def _convolution(first: Law, second: Law) -> Law:
    if len(first) * len(second) > _MOST_PRODUCTS:
        raise too_large(len(first) * len(second))
    law: Law = {}
    for one, mass in first.items():
        for other, more in second.items():
            point = tuple(a + b for a, b in zip(one, other, strict=True))
            law[point] = law.get(point, 0) + mass * more
    if len(law) > _MOST_POINTS:
        raise too_large(len(law))
    return law


def too_large(points: int) -> Refused:
    """Return the refusal of answers that are too many to enumerate."""
    return Refused(
        f"The joint law of exact answers is too large: {points} points or products.",
        allowed=f"at most {_MOST_POINTS} points, and {_MOST_PRODUCTS} products of two of them",
        instead="fewer rows, wider classes of the column (pf.Bins), or fewer different sums about the same rows",
    )


def _outcomes(own: ExactSum, steps: Sequence[int], output: str | None) -> PastOutcomes:
    """Return how likely outcomes are at exact sums, in whole numbers of one unit, and their relative error."""
    places = {one: at for at, one in enumerate(sorted(set(steps)))}
    if own.channel:
        channel, off = Channel.from_json(own.channel), Fraction(0)
        rows = [list(channel.probabilities[channel.place(own.answer(one))]) for one in places]
        if output is not None:
            rows = [[row[int(output)]] for row in rows]
    elif output is not None:
        rows, off = _cell(own, list(places), Fraction(output))
    else:
        rows, off = _knots(own, list(places))
    unit = math.lcm(*(one.denominator for row in rows for one in row))
    whole = [[one.numerator * (unit // one.denominator) for one in row] for row in rows]
    return PastOutcomes(
        np.array([whole[places[one]] for one in steps], dtype=object).reshape(len(steps), -1),
        unit,
        off,
    )


def _cell(
    own: ExactSum, steps: Sequence[int], output: Fraction
) -> tuple[list[list[Fraction]], Fraction]:
    """Return how likely noise brings each exact sum to an output: the mass of the output's cell of the grid (M13)."""
    noise = own.drawn_noise
    if noise.scale == 0:
        return [[Fraction(int(one == output))] for one in steps], Fraction(0)
    scale = Fraction(noise.scale)
    away = np.array([float((output - one) / scale) for one in steps])
    half = float(min(grid_of(noise.scale), Fraction(1)) / 2 / scale)
    masses, off = (
        _laplace_cell(away, half) if isinstance(noise, Laplace) else _noisy_cell(noise, away, half)
    )
    if off > _LARGEST_ERROR or not masses.all():
        raise Refused(
            "A published number is too far from a possible answer, in scales of its noise.",
            allowed="noise whose scale is large enough to reach all possible answers",
            instead="an account of its own",
        )
    return [[Fraction(one)] for one in masses.tolist()], Fraction(off)


def _laplace_cell(away: Floats, half: float) -> tuple[Floats, float]:
    """Return ∫ e^(−|x|)/2 within `half` of each point, and its relative error."""
    far, near = np.abs(away), np.minimum(np.abs(away), half)
    cells = np.where(
        far >= half,
        np.exp(-far) * math.sinh(half),
        -np.expm1(-half) - np.exp(-half) * (np.cosh(near) - 1),
    )
    return cells, 64 * UNIT * (1 + float(far.max()))


def _noisy_cell(noise: Noise, away: Floats, half: float) -> tuple[Floats, float]:
    """Return the mass of any noise within `half` of each point, and its relative error."""
    masses, off = cell_masses(noise.at(1.0), np.array([-half, half]), -away)
    return masses[:, 1], 2 * off


def _knots(own: ExactSum, steps: Sequence[int]) -> tuple[list[list[Fraction]], Fraction]:
    """Return a channel that reveals at least as much of exact sums as noise on them."""
    noise = own.drawn_noise
    if noise.scale == 0:
        return [[Fraction(int(one == other)) for other in steps] for one in steps], Fraction(0)
    if not isinstance(noise, Laplace):
        raise Refused(
            f"The outputs of {type(noise).__name__} noise cannot be listed together with those of a channel.",
            allowed="Laplace noise, or releases whose outputs are published",
            instead="noise=pf.Laplace in the plan",
        )
    rows, off = bin_edges([Fraction(one) for one in steps], noise)
    return rows, Fraction(off)
