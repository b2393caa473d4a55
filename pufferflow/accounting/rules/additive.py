"""Losses that add, as those of Gaussian releases of the same rows: along one coupling or translation, or at one row.

Under a Gaussian prior, a diffusion or weak dependence, data under two secrets are coupled once, row by row, before the
first query. Losses along this coupling add, adaptively (M1, M24). If the dependence of rows is unknown, or no better
coupling is known, every row of the group may change (M7).

If rows are independent, only releases about the same row add; those about disjoint rows do not (M27). The sets of
releases about one row are formed beforehand. Between two values of the row every sum moves by a known step. So losses
add for the same pair of values, not for the worst pair of each release. A row's public values are assumed not to
change: a row that is later filed under another one may be in releases that were counted as disjoint.

Under `pf.Presence` an account may be about several tables, or one that grows, where other rows of a unit come first. So
a unit may be in any number of disjoint releases. This changes if all releases are declared to be about one table
(`once`). Then each of the R rows of a unit is in releases about one place only. The sum is largest if all rows are at
one place (M27). The loss of a release with r of the rows is at most r/R of its loss with all of them: pure losses of
Laplace noise, squares of μ and Rényi losses of Laplace and Gaussian noise are convex in the movement, and 0 at 0. So
the sum is at most a mean of those of single places. For other noises this is not known, and δ and total variations are
not convex: these count all releases about a unit.

Releases about different units add nothing, the worst unit counts (M25, M27). One release about a unit costs what it
guarantees (M3–M6).
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import final

import numpy as np

from pufferflow.accounting.overlapping_regions import overlapping
from pufferflow.accounting.rules.autoregression import FAMILIES, Movements
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases, added
from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT, distances_above
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial, Presence, Secret, ValueSecret
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Pure
from pufferflow.published.cost import Cost, Region, Shape


@final
class SingleRule(CompositionRule):
    """A release that is the only one about its unit, whose pure guarantee was made for this prior."""

    name = "one release alone, its own guarantee"
    why = "a unit that is in one release only has its pure guarantee on every path"

    def pure(self, releases: UnitReleases) -> float:
        if len(releases.costs) != 1:
            return math.inf
        shape = releases.costs[0].shape
        known = (
            releases.digest in shape.priors
            and isinstance(shape.promise, Pure)
            and not releases.beyond_promises
        )
        return shape.promise.approx_epsilon(0.0) if known else math.inf


@final
class CouplingRule(CompositionRule):
    """Each release moves by its largest movement; all movements are along one coupling.

    Losses over the balls of movements add. So do the squares of μ: those of Gaussian noise, of movements in units of
    its standard deviation.
    """

    name = "one coupling of the data, along which losses add (M24)"
    why = (
        "each release counts by its farthest movement along one coupling. "
        "That bounds what it loses between every two data sets of that coupling, and these losses are added (M1, M24)"
    )
    adds_up = True

    def pure(self, releases: UnitReleases) -> float:
        return self._added(
            releases, lambda shape, moved: shape.noise.pure_within(moved, shape.dimension)
        )

    def renyi(self, releases: UnitReleases, alpha: float) -> float:
        return self._added(
            releases, lambda shape, moved: shape.noise.renyi_within(moved, alpha, shape.dimension)
        )

    def zcdp(self, releases: UnitReleases) -> float:
        return self._added(
            releases, lambda shape, moved: shape.noise.zcdp_within(moved, shape.dimension)
        )

    def gaussian(self, releases: UnitReleases) -> float:
        if not all(isinstance(shape.noise, Laplace | Gaussian) for shape in releases.shapes):
            return math.inf
        return math.sqrt(self._added(releases, squared_deviations)) * (1 + UNIT)

    def movement(self, releases: UnitReleases, shape: Shape) -> float:
        """Return how far a release moves along the coupling, in the norm of its noise; ∞ if that is unknown."""
        unseen = unseen_rows_move_farther(releases)
        known = [
            None if unseen else coupled_movement(releases.prior, releases.digest, shape),
            shape.group_movement,
        ]
        known += [shape.row_movement] if releases.prior.independent_rows else []
        return min((length for length in known if length is not None), default=math.inf)

    def _added(self, releases: UnitReleases, loss: Callable[[Shape, float], float]) -> float:
        """Return the sum of losses, each a convex function of the movement of its release; ∞ if that is unknown.

        It is the largest sum over the places where rows of a unit that are chosen once may be.
        """
        sums = list[float]()
        for some in _about_one_place(releases):
            moves = [self.movement(some, shape) for shape in some.shapes]
            sums.append(
                math.inf if math.inf in moves else added(map(loss, some.shapes, moves), some.times)
            )
        return max(sums)


def coupled_movement(prior: Prior, digest: str, shape: Shape) -> float | None:
    """Return the stored movement of a release along one coupling under a prior; None if there is none.

    A row may be a draw from a table with another column as the secret. Then the movement is at least that between any
    two values of the row. Older versions stored less for sums with public weights, so the stored movement is not used
    alone.
    """
    stored = shape.coupled_movements.get(digest)
    if stored is None or not prior.independent_rows or prior.any_law:
        return stored
    return None if shape.values is None else max(stored, any_two_values(shape))


def is_understated(prior: Prior, digest: str, shape: Shape) -> bool:
    """Return whether an older version stored a movement of a release that is, or may be, too small."""
    stored = shape.coupled_movements.get(digest)
    known = coupled_movement(prior, digest, shape)
    if stored is None or shape.row_movement is not None:
        return False
    return known is None or stored < known * (1 - 64 * UNIT)


def any_two_values(shape: Shape) -> float:
    """Return how far a row moves all sums between any two of its values, in the norm of the noise, rounded up."""
    moves = distances_above(shape.table[:, :, None], shape.table[:, None, :])
    if len(moves) == 1:
        return float(moves.max(initial=0.0))
    powers = moves if shape.noise.norm == 1 else moves**2
    total = float(shape.of_one_row(powers).max(initial=0.0)) * (1 + (len(moves) + 2) * UNIT)
    return total if shape.noise.norm == 1 else math.sqrt(total) * (1 + UNIT)


def _about_one_place(releases: UnitReleases) -> list[UnitReleases]:
    """Return the releases that rows at one place may be in, for all places, if rows of a unit are chosen once."""
    scenario, convex = (
        releases.scenario,
        all(isinstance(shape.noise, Laplace | Gaussian) for shape in releases.shapes),
    )
    secret = scenario.secret
    if not (isinstance(secret, Presence) and secret.once and convex and len(releases.costs) > 1):
        return [releases]
    if (
        secret.groups is not None
    ):  # a release about few groups may have all rows that a unit has in these
        return [releases]
    places = overlapping([cost.regions for cost in releases.costs], scenario.public)
    return [replace(releases, costs=[releases.costs[at] for at in some]) for some in places]


def squared_deviations(shape: Shape, moved: float) -> float:
    """Return the square of μ for a movement of all sums of a release; ∞ if there is movement without noise."""
    scale = shape.noise.scale
    if scale == 0:
        return 0.0 if moved == 0 else math.inf
    if isinstance(shape.noise, Laplace):
        return shape.noise.gdp_within(moved, shape.dimension) ** 2 * (1 + UNIT)
    return (moved / scale * (1 + UNIT)) ** 2 * (1 + UNIT)


def unseen_rows_move_farther(releases: UnitReleases) -> bool:
    """Return whether rows that a release did not see may move it farther than those that it saw.

    They may not where correlations are the same for all rows, or decay with the distance (M16), nor for first values:
    there the value of one row is hidden, whichever rows are seen. Bounds on the influence of one column on others have
    limits, their widths, under which a row between two others may move them farther.
    """
    prior, secret = releases.prior, releases.scenario.secret
    falls_off = (
        isinstance(prior, GaussianPrior)
        and prior.covariance.falls_off
        and not isinstance(secret, Derived)
    )
    alike = isinstance(secret, Initial) or not isinstance(prior, GaussianPrior) or falls_off
    return releases.beyond_promises or (releases.wider and not alike)


@final
class TranslationRule(CompositionRule):
    """Movements of an autoregressive prior, each secret row's own: distant windows hardly move (M15, M16).

    A movement that all answers make together in the noise's norm, plus what rounding values to their grids may add: to
    every release or, outside an event of a probability covered by δ, to those about rows near the secret one only.
    """

    name = "one translation of all rows, along which losses add (M15, M16)"
    why = "for each secret row the movements of all releases along its own translation are added (M1, M15)"

    def pure(self, releases: UnitReleases) -> float:
        return self._length(releases, 1)

    def renyi(self, releases: UnitReleases, alpha: float) -> float:
        return self._least(releases, lambda noise, length: noise.renyi_within(length, alpha))

    def zcdp(self, releases: UnitReleases) -> float:
        return self._least(releases, lambda noise, length: noise.zcdp_within(length))

    def gaussian(self, releases: UnitReleases) -> float:
        return self._length(releases, 2)

    def _least(self, releases: UnitReleases, loss: Callable[[Noise, float], float]) -> float:
        """Return the least loss of a movement in one of the norms."""
        lengths = [(family, self._length(releases, norm)) for norm, family in FAMILIES.items()]
        known = [loss(family(1.0), length) for family, length in lengths if math.isfinite(length)]
        return min(known, default=math.inf)

    def _length(self, releases: UnitReleases, norm: int) -> float:
        if not Movements.fit(releases.scenario, releases.prior):
            return math.inf
        if releases.movements is None:
            movements = Movements(releases.scenario, releases.prior, releases.costs)
            return movements.length(norm, spare=releases.spare)
        return releases.movements.length(
            norm, releases.more, spare=releases.spare, schedule=releases.schedule
        )


@final
class GranularityRule(CompositionRule):
    """A row with two possible values: for each pair, the losses of all sums it adds to, or squared movements."""

    name = "disjoint groups of independent rows (M27)"
    why = (
        "for each two values of a row, all else being equal, what releases lose is added (M1, M27)"
    )
    adds_up = True

    def pure(self, releases: UnitReleases) -> float:
        return _largest(releases, lambda noise, moves: np.asarray(noise.pure(moves)))

    def renyi(self, releases: UnitReleases, alpha: float) -> float:
        return _largest(releases, lambda noise, moves: np.asarray(noise.renyi(moves, alpha)))

    def zcdp(self, releases: UnitReleases) -> float:
        return _largest(releases, lambda noise, moves: np.asarray(noise.zcdp(moves)))

    def gaussian(self, releases: UnitReleases) -> float:
        squares = _largest(releases, squares_of)
        return math.sqrt(squares) * (1 + UNIT) if squares else squares

    def movement(self, releases: UnitReleases, shape: Shape) -> float:
        """Return how far one row moves all sums of a release, in the norm of its noise; ∞ if that is unknown."""
        secret = releases.scenario.secret
        if not releases.prior.any_law or not isinstance(secret, Secret | Initial):
            return math.inf
        moves = _moves(shape, secret)
        if moves is None:
            return math.inf
        lengths = moves.sum(axis=0) if shape.noise.norm == 1 else np.sqrt((moves**2).sum(axis=0))
        return float(lengths.max(initial=0.0)) * (1 + (len(moves) + 2) * UNIT)


def squares_of(noise: Noise, moves: Floats) -> Floats:
    """Return the squares of μ: D_2 of Gaussian noise; of Laplace noise its own (M9); else ∞ where a sum moves."""
    if isinstance(noise, Laplace):
        return np.asarray(noise.gdp(moves)) ** 2 * (1 + UNIT)
    if noise.scale > 0 and not isinstance(noise, Gaussian):
        return np.where(moves > 0, math.inf, 0.0)
    return np.asarray(noise.renyi(moves, 2.0))


def squares_of_one_row(shape: Shape) -> Floats:
    """Return the squares of the deviations that a row moves a release between every two values, rounded up."""
    moves = np.abs(shape.table[:, :, None] - shape.table[:, None, :]) * (1 + 4 * UNIT)
    return shape.of_one_row(squares_of(shape.noise, moves)) * (1 + (len(shape.table) + 1) * UNIT)


def _largest(releases: UnitReleases, loss: Callable[[Noise, Floats], Floats]) -> float:
    """Return the largest total over the pairs of values, rounded up; ∞ if movements are unknown."""
    secret = releases.scenario.secret
    if not releases.prior.any_law or not isinstance(secret, Secret | Initial):
        return math.inf
    shapes = {cost.shape.digest: cost.shape for cost in releases.costs}
    often = Counter(cost.shape.digest for cost in releases.costs)
    totals, terms = np.zeros(1), 0
    for digest, shape in shapes.items():
        moves = _moves(shape, secret)
        if moves is None:
            return math.inf
        totals = totals + often[digest] * shape.of_one_row(loss(shape.noise, moves))
        terms += len(moves) + (often[digest] > 1)
    return float(totals.max()) * (1 + max(terms - 1, 0) * UNIT)


def _moves(shape: Shape, secret: Secret | Initial) -> Floats | None:
    """Return how far every sum moves between the values of each pair, rounded up: of shape (sums, pairs).

    On an interval, or of very many values, there is one pair, of two values that stand for all.
    """
    finite = secret.domain.finite and shape.values is not None
    table = shape.values if finite else shape.independent_moves
    points = len(secret.domain.points) if finite else 2
    if (
        table is None
        or shape.column not in {None, secret.column}
        or any(len(row) != points for row in table)
    ):
        return None
    sums = np.array(table, dtype=np.float64).reshape(-1, points)
    first, second = secret.pair_places.T if finite else ([0], [1])
    return distances_above(sums[:, first], sums[:, second])


def columns_of(scenario: Scenario, prior: Prior) -> tuple[str, ...]:
    """Return the columns that have one value for each unit, so that filters on them separate units."""
    if isinstance(scenario.secret, Presence):
        return (scenario.secret.within,)
    return scenario.public if prior.independent_rows else scenario.within


def sets_of(scenario: Scenario, prior: Prior, costs: Sequence[Cost]) -> list[Sequence[Cost]]:
    """Return sets of releases such that all releases about one and the same unit are in one of them.

    A unit is a row if rows are independent and the secret is one row's: rows at other steps of the same clock are then
    other rows. Otherwise it is the rows that share `within`, the scenario's or that of `pf.Presence`. Releases that
    filters on literals do not separate count as overlapping.
    """
    columns: Sequence[str] = columns_of(scenario, prior)
    costs = [cost for cost in costs if not cost.selects_nothing]
    regions: list[dict[str, Region]] = [cost.regions for cost in costs]
    of_rows = prior.independent_rows and isinstance(scenario.secret, ValueSecret)
    if of_rows:
        steps = [_steps(cost) for cost in costs]
        columns = [*columns, *dict.fromkeys(name for step in steps for name in step)]
        regions = [
            {**known, **step} if step else known for known, step in zip(regions, steps, strict=True)
        ]
    if not any(name in known for known in regions for name in columns):
        return [costs]
    sets: list[Sequence[Cost]] = [
        [costs[place] for place in places] for places in overlapping(regions, columns)
    ]
    if of_rows:  # of sets that differ in their position only, one is enough
        sets = list({tuple(id(cost.shape) for cost in some): some for some in sets}.values())
    return sets


def _steps(cost: Cost) -> dict[str, Region]:
    """Return the first and last selected step, under the name of the clock that counts them; {} if unknown."""
    if cost.steps_seen is None or cost.shape.rows is None or cost.shape.rows.runs is None:
        return {}
    low, high = cost.window
    return {f"\0step {cost.clock}": Region("number", low=int(low), high=int(high), high_open=True)}
