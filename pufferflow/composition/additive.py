"""One coupling of whole data sets, chosen before anything is asked: losses along it add, adaptively (M1, M24).

Under a Gaussian prior, a diffusion or weak dependence data under two secrets are coupled once and for all, row by row;
where nothing is known of how rows hang together, or no better coupling is, every row of the group may change (M7).

Releases about rows that tell nothing of each other: what they tell of one row's value adds up (M24, M27).

Then only releases about one and the same row add, those about disjoint rows do not: sets of the former are made
beforehand. Between two values of the row every sum moves by a known step, so losses are those of this pair of values,
not of the worst pair of each release, and they add whatever made somebody ask. A row's public values are taken to stay
what they are: one that is later filed under another of them may meet releases that were thought disjoint.

There is no such refinement for `pf.Presence` with at most so many rows: each release leaves rows out after its own
filters, so a unit may be in any number of disjoint ones.

Independent parts: what is about different units adds nothing, the worst of them counts (M25, M27).

One release about a unit costs what it promises (M3–M6).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.arrays import Floats
from pufferflow.composition.autoregression import FAMILIES, Movements
from pufferflow.composition.cost import Cost, Shape
from pufferflow.composition.regions import Region, overlapping
from pufferflow.composition.rule import CompositionRule, UnitReleases, added
from pufferflow.composition.timeline import window_of
from pufferflow.guarantees import Pure
from pufferflow.inference import rounded_up
from pufferflow.noise import Gaussian, Noise
from pufferflow.rounding import UNIT
from pufferflow.scenario import Initial, Presence, Scenario, Secret, ValueSecret
from pufferflow.scenario.priors import GaussianPrior, Independent, Prior


def beyond(asked: UnitReleases) -> bool:
    """Say whether there are rows whose secrets a release's promise does not speak of, and another pair's may cost more.

    A row that a release did not see is told of by those that it saw: at most as much as the costliest two states of
    these, which are a pair of the secret if all states are.
    """
    secret = asked.scenario.secret
    return (
        (asked.wider or asked.left_out)
        and not asked.prior.independent_rows
        and getattr(secret, "pairs", "all") != "all"
    )


@final
class SingleRule(CompositionRule):
    """A release that is the only one about its unit, whose pure promise was made for this belief."""

    name = "one release alone, its own promise"

    def pure(self, asked: UnitReleases) -> float:
        """Return what the release promises."""
        if len(asked.costs) != 1:
            return math.inf
        shape = asked.costs[0].shape
        known = asked.digest in shape.priors and isinstance(shape.promise, Pure) and not beyond(asked)
        return shape.promise.approx_epsilon(0.0) if known else math.inf


@final
class CouplingRule(CompositionRule):
    """Every release moves by what it moves farthest; the movements of all are those of one coupling."""

    name = "one coupling of the data, along which losses add (M24)"

    def pure(self, asked: UnitReleases) -> float:
        """Return the sum of pure losses over the balls of movements."""
        return added((_loss(shape, asked, None) for shape in asked.shapes), asked.times)

    def renyi(self, asked: UnitReleases, alpha: float) -> float:
        """Return the sum of Rényi losses over the balls of movements."""
        return added((_loss(shape, asked, alpha) for shape in asked.shapes), asked.times)

    def gaussian(self, asked: UnitReleases) -> float:
        """Return the root of the sum of squared movements, each over its noise's standard deviation."""
        if not all(isinstance(shape.noise, Gaussian) for shape in asked.shapes):
            return math.inf
        squares = added((_deviations(shape, asked) ** 2 * (1 + UNIT) for shape in asked.shapes), asked.times)
        return math.sqrt(squares) * (1 + UNIT)


@final
class TranslationRule(CompositionRule):
    """Movements of an autoregressive prior, each secret row's own: far windows hardly move (M15, M16).

    A movement that all answers make together in the noise's norm, plus what bringing values onto their grids may add:
    to every release or, with a probability to spare, to those about rows near the secret one only.
    """

    name = "one translation of all rows, along which losses add (M15, M16)"

    def pure(self, asked: UnitReleases) -> float:
        """Return the movement of all sums in units of their Laplace noise."""
        return self._length(asked, 1)

    def renyi(self, asked: UnitReleases, alpha: float) -> float:
        """Return the Rényi loss of the movement of all sums in units of their noise."""
        lengths = [(family, self._length(asked, norm)) for norm, family in FAMILIES.items()]
        known = [family(1.0).renyi_within(length, alpha) for family, length in lengths if math.isfinite(length)]
        return min(known, default=math.inf)

    def gaussian(self, asked: UnitReleases) -> float:
        """Return the movement of all sums in standard deviations."""
        return self._length(asked, 2)

    def _length(self, asked: UnitReleases, norm: int) -> float:
        if not Movements.fit(asked.scenario, asked.prior):
            return math.inf
        if asked.movements is not None:
            return asked.movements.length(norm, asked.more, spare=asked.spare, schedule=asked.schedule)
        return Movements(asked.scenario, asked.prior, asked.costs).length(norm, spare=asked.spare)


def _loss(shape: Shape, asked: UnitReleases, alpha: float | None) -> float:
    """Return the loss of one release, ∞ where its movement is not known."""
    moved = _moved(shape, asked)
    noise = shape.noise
    if math.isinf(moved):
        return math.inf
    if alpha is None:
        return noise.pure_within(moved, shape.dimension)
    return noise.renyi_within(moved, alpha, shape.dimension)


def _moved(shape: Shape, asked: UnitReleases) -> float:
    known = [None if _unseen(asked) else shape.coupled_movements.get(asked.digest), shape.group_movement]
    return min((length for length in known if length is not None), default=math.inf)


def _unseen(asked: UnitReleases) -> bool:
    """Say whether rows that a release did not see may move it farther than those that it saw.

    Not so where correlations are the same for all rows, or fall off with the distance (M16), nor of first values: there
    is one row whose value is hidden, whichever rows are seen.
    """
    if beyond(asked):
        return True
    prior, first = asked.prior, isinstance(asked.scenario.secret, Initial)
    known = first or not isinstance(prior, GaussianPrior) or prior.covariance.falls_off
    return asked.wider and not known


def _deviations(shape: Shape, asked: UnitReleases) -> float:
    moved, scale = _moved(shape, asked), shape.noise.scale
    if scale == 0:
        return 0.0 if moved == 0 else math.inf
    return moved / scale * (1 + UNIT)


Loss = Callable[[Noise, Floats], Floats]
Places = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


@final
class GranularityRule(CompositionRule):
    """A row known but for two of its values: losses of all sums it adds to, pair by pair."""

    name = "disjoint groups of independent rows (M27)"

    def pure(self, asked: UnitReleases) -> float:
        """Return the largest sum of pure losses over the pairs of values."""
        return _largest(asked, lambda noise, moves: np.asarray(noise.pure(moves)))

    def renyi(self, asked: UnitReleases, alpha: float) -> float:
        """Return the largest sum of Rényi losses over the pairs of values."""
        return _largest(asked, lambda noise, moves: np.asarray(noise.renyi(moves, alpha)))

    def gaussian(self, asked: UnitReleases) -> float:
        """Return the root of the largest sum of squared movements, each over its noise's standard deviation."""
        squares = _largest(asked, _squares)
        return math.sqrt(squares) * (1 + UNIT) if squares else squares


def _squares(noise: Noise, moves: Floats) -> Floats:
    """Return the squared movements in standard deviations, D_2 of Gaussian noise; ∞ for others that are moved (M10)."""
    if noise.scale > 0 and not isinstance(noise, Gaussian):
        return np.where(moves > 0, math.inf, 0.0)
    return np.asarray(noise.renyi(moves, 2.0))


def _largest(asked: UnitReleases, loss: Loss) -> float:
    """Return the largest total over the pairs of values, rounded up; ∞ where movements are not known."""
    secret = asked.scenario.secret
    if not isinstance(asked.prior, Independent) or not isinstance(secret, Secret | Initial):
        return math.inf
    known = {cost.shape.digest: cost.shape for cost in asked.costs}
    often = Counter(cost.shape.digest for cost in asked.costs)
    ends, totals, terms = _ends(secret), np.zeros(1), 0
    for digest, shape in known.items():
        moves = _moves(shape, secret, ends)
        if moves is None:
            return math.inf
        totals = totals + often[digest] * loss(shape.noise, moves).sum(axis=0)
        terms += len(moves) + (often[digest] > 1)
    return float(totals.max()) * (1 + max(terms - 1, 0) * UNIT)


def _ends(secret: Secret | Initial) -> Places:
    """Return the places of both values of every pair; of an interval's, those of the two that stand for all."""
    if not secret.domain.finite:
        return np.array([0]), np.array([1])
    return secret.pair_places[:, 0], secret.pair_places[:, 1]


def _moves(shape: Shape, secret: Secret | Initial, ends: Places) -> Floats | None:
    """Return how far every sum moves between the values of each pair, rounded up: of shape (sums, pairs)."""
    table = shape.values if secret.domain.finite else shape.independent_moves
    points = len(secret.domain.points) if secret.domain.finite else 2
    if table is None or shape.column not in {None, secret.column} or any(len(row) != points for row in table):
        return None
    found = np.array(table, dtype=np.float64).reshape(-1, points)
    return rounded_up(lambda a, b: abs(a - b), found[:, ends[0]], found[:, ends[1]])


def columns_of(scenario: Scenario, prior: Prior) -> tuple[str, ...]:
    """Return the columns of which every unit has one value only, so that filters on them keep units apart."""
    if isinstance(scenario.secret, Presence):
        return (scenario.secret.within,)
    return scenario.public if prior.independent_rows else scenario.within


def sets_of(scenario: Scenario, prior: Prior, costs: Sequence[Cost]) -> list[Sequence[Cost]]:
    """Return sets of releases, in one of which are all that may tell of one and the same unit.

    A unit is a row if rows tell nothing of each other and the secret is one row's; otherwise it is the rows that share
    `within`, the scenario's or that of `pf.Presence`. What filters on literals do not keep apart counts as overlapping.
    """
    columns = columns_of(scenario, prior)
    costs = [cost for cost in costs if not cost.silent]
    if prior.independent_rows and isinstance(scenario.secret, ValueSecret):
        return _about_one_row(costs, columns)
    if not any(name in cost.regions for cost in costs for name in columns):
        return [costs]
    return [[costs[place] for place in places] for places in overlapping(costs, columns)]


@final
@dataclass(frozen=True, eq=False)
class _Placed:
    """Where the rows of a release are, by column and by step."""

    regions: Mapping[str, Region]


def _about_one_row(costs: Sequence[Cost], columns: Sequence[str]) -> list[Sequence[Cost]]:
    """Return sets that may touch one row; rows at other steps of the same clock are other rows.

    Of sets that are the same but for where they lie one is enough, since rows tell nothing of each other.
    """
    steps = [_step(cost) for cost in costs]
    columns = [*columns, *dict.fromkeys(name for found in steps for name in found)]
    placed = [_Placed({**cost.regions, **found}) if found else cost for cost, found in zip(costs, steps, strict=True)]
    if not any(name in one.regions for one in placed for name in columns):
        return [costs]
    found = [[costs[place] for place in places] for places in overlapping(placed, columns)]
    return list({frozenset(Counter(id(cost.shape) for cost in some).items()): some for some in found}.values())


def _step(cost: Cost) -> dict[str, Region]:
    """Return between which steps rows are asked about, under the name of the clock that counts them; {} if unknown."""
    if cost.steps_seen is None or cost.shape.rows is None or cost.shape.rows.runs is None:
        return {}
    low, high = window_of(cost)
    return {f"\0step {cost.clock}": Region("number", low=int(low), high=int(high), high_open=True)}
