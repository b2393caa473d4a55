"""Releases about rows that share a hidden class, up to one information (M63).

A group of rows has a hidden class. Group privacy counts as if all of them moved with the secret's one. But the class
has a law given the secret's value, and releases reveal it only slowly. `calibration.latent_mixture` bounds both.

The bounds hold for all adversaries whose releases have no more *information*, one number, on any path. What it counts
is fixed by the account's first request, before any answer. Information is the larger of two sums over the releases. One
has the squares of what a single row moves, in deviations of the noise. The other has prices, which are higher for
releases that reach more rows than the first one. So totals of one path never replace those of another.

Which rows of a group a release selects is not stored, nor how many rows of a group there are in all tables. So every
release is taken to be about the secret's row or not, whichever is worse, and all other rows that it selects may move.
How many rows differ between two classes is used only where rows are fixed, in no account.

If the secret is the law that all rows are drawn from, the scenario says how many rows there are in all tables. Then a
binomial number of rows differs between two laws, and moves every release at most as often as far as one row (M59).

Thinning is for Gaussian noise on sums. If the first request is of this kind, others have no total afterwards. Otherwise
the two bounds without thinning count all releases.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from pufferflow.accounting.rules.additive import squared_deviations, squares_of_one_row
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.accounting.rules.latent_class import star_of
from pufferflow.calibration.differing_rows import DifferingRowsLoss
from pufferflow.calibration.latent_mixture import HiddenClassLoss, OtherRows
from pufferflow.core.rounding import UNIT
from pufferflow.models.population import Population
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.priors.population import IndependentGiven
from pufferflow.noise.gaussian import Gaussian
from pufferflow.privacy.guarantee import Approx, Divergence, GuaranteeFamily
from pufferflow.published.cost import Shape
from pufferflow.sensitivity.star import Star


@final
class HiddenClassRule(CompositionRule):
    """One row and the class of all others, both moved at most by one information."""

    name = "one row and the class of the others, up to one information (M63)"
    why = (
        "one number bounds what answers hold about a row, and about the other selected rows in units that the first "
        "request fixed. Its bounds hold for every adversary who is stopped at that number (M63)"
    )

    def by_own(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        counted, delta = _counted(releases), kind.example.delta
        if counted is None:
            return math.inf
        information = counted.information
        match kind.example.divergence:
            case Divergence.RENYI:
                alpha = kind.example.alpha
                return max(loss.renyi(information, alpha) for loss in counted.losses)
            case Divergence.GAUSSIAN:
                return max(loss.gaussian(information) for loss in counted.losses)
            case Divergence.CONCENTRATED:
                return max(loss.concentrated(information) for loss in counted.losses)
            case _:
                pass
        if not 0 < delta < 1:
            return math.inf
        epsilon = 0.0
        for loss in counted.losses:
            epsilon = loss.epsilon(information, delta, epsilon)
        return kind.loss_from(Approx(epsilon, delta)) if math.isfinite(epsilon) else math.inf


class _Counted(NamedTuple):
    """The information of some releases, and the loss between every two secret values up to it."""

    information: float
    losses: Sequence[HiddenClassLoss | DifferingRowsLoss]


def _counted(releases: UnitReleases) -> _Counted | None:
    """Return what is counted of releases; None if that is unknown, or has no limit."""
    opening = releases.opening.shape
    shapes = [opening, *releases.shapes]
    if not isinstance(releases.prior, LatentClass | IndependentGiven):
        return None
    star, thinned = star_of(releases), isinstance(opening.noise, Gaussian)
    if not isinstance(star, Star) or not all(map(_has_terms, shapes)):
        return None
    if star.of_group:
        return _of_population(releases, star)
    if thinned and not all(isinstance(shape.noise, Gaussian) for shape in shapes):
        return None
    information = _information(releases, star.states)
    if not math.isfinite(information):
        return None
    others = _others(opening, float(squares_of_one_row(opening).max()))
    given = {value: law.as_floats().classes for value, law in star.given.items()}
    different = {
        (given[a].tobytes(), given[b].tobytes()): HiddenClassLoss(
            given[a], given[b], others, thinned
        )
        for a, b in star.both_orders
    }  # those that are farthest apart first, which mostly lose most
    losses = sorted(different.values(), key=lambda loss: loss.apart, reverse=True)
    return _Counted(information, losses)


def _of_population(releases: UnitReleases, star: Star) -> _Counted | None:
    """Return the same for the law of all rows, of which there are so many; None if their number is not declared."""
    secret, own = releases.scenario.secret, np.zeros((star.states, star.states))
    rows = secret.rows if isinstance(secret, Population) else None
    if rows is None or any(shape.rows and shape.rows.all > rows for shape in releases.shapes):
        return None
    for shape, times in zip(releases.shapes, releases.times, strict=True):
        own = own + times * squares_of_one_row(shape)
    information = float(own.max()) * (1 + (2 * len(releases.shapes) + 4) * UNIT)
    if not math.isfinite(information):
        return None
    losses = [DifferingRowsLoss(laws, rows) for _, laws in star.laws_of_pairs]
    return _Counted(information, losses) if losses else None


def _has_terms(shape: Shape) -> bool:
    """Return whether a release is of sums whose terms are known, with noise on them."""
    known = shape.values is not None and shape.rows is not None
    return known and not shape.row_by_row and shape.exact_sums is None


def _information(releases: UnitReleases, states: int) -> float:
    """Return the larger of what one row moves and what all releases are priced, rounded up."""
    opening, own, priced = releases.opening.shape, np.zeros((states, states)), 0.0
    unit = _others(opening, float(squares_of_one_row(opening).max()))
    for shape, times in zip(releases.shapes, releases.times, strict=True):
        squares = squares_of_one_row(shape)
        if squares.shape != own.shape or not np.isfinite(squares).all():
            return math.inf
        most = float(squares.max())
        own = own + times * squares
        priced += times * most * unit.price(_others(shape, most)) if most else 0.0
    return max(float(own.max()), priced) * (1 + (2 * len(releases.shapes) + 4) * UNIT)


def _others(shape: Shape, most: float) -> OtherRows:
    """Return what the other rows move a release, in units of the most that one row moves it."""
    selected = 0 if shape.rows is None else shape.rows.selected
    if shape.group_movement is None or not 0 < most < math.inf:
        return OtherRows.at_most(selected)
    ratio = squared_deviations(shape, shape.group_movement) / most
    return OtherRows.at_most(selected, math.sqrt(ratio) * (1 + 4 * UNIT))
