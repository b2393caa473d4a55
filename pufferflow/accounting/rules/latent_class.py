"""Releases about rows that share a hidden class: losses about the class and about one row (M20, M21, M54).

Which rows of the group a release selects is not stored. So two releases may have all rows in common, some, or none.
Rows are independent given the class, hence their losses about it add. However touches are spread over rows, all
together have no more loss than every touch at its rate. Some releases touch the secret's own row; all other touches are
about other rows. The total is that of the worst set of such releases.

Releases under a mixture of Gaussians: a value's class is revealed and charged once, movements add (M54).

Given the class all rows are translated once, so losses ε_c of releases add, adaptively, as they do under one Gaussian
(M24). The losses of the whole group, which add too (M7), bound what the other rows reveal about the class. The class
given the secret's value is the same in all releases: its ratio is charged once for all of them.

Rényi totals couple data sets within a class, which is revealed first. Group privacy couples them differently, so an
account uses one of the two from its first release on.
"""

import math
from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases, added
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.law_regions import region_log_ratio_of_few
from pufferflow.distributions.markov.star import Rates, Touches
from pufferflow.models.population import Population
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.secret import Derived, Initial, Secret
from pufferflow.privacy.guarantee import GuaranteeFamily
from pufferflow.published.cost import Shape
from pufferflow.queries.statistic import Statistic
from pufferflow.sensitivity.gaussian_mixture import renyi_of_classes
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.star import AnyStar, DependentStar

_MOST_RELEASES = 16
_MOST_SETS = 16


@final
class StarRule(CompositionRule):
    """Rows of a group that share a class, touched by any number of releases."""

    name = "messages between rows and the class they share (M20)"
    why = "only pure totals, which bound the ratio of likelihoods on each path (M20)"

    def pure(self, releases: UnitReleases) -> float:
        touches = _touches(releases)
        star = None if touches is None else star_of(releases)
        if star is None or touches is None or touches.exposures.shape[1] != star.states:
            return math.inf
        if not len(touches.times):
            return 0.0
        rates = Rates.of(touches, star.rows)
        every = not releases.unseen_rows and all(
            shape.rows and shape.rows.others == 0 for shape in releases.shapes
        )
        if star.of_group:
            return float(
                star.loss_of_class(
                    rates.of_others(np.zeros((1, len(touches.times)), np.int64))[0]
                ).max()
            )
        try:
            return float(_of_row(star, rates, every=every).max())
        except Refused:  # too many combinations of classes and values
            return math.inf


def _touches(releases: UnitReleases) -> Touches | None:
    """Return the touches of all releases with a loss; None if they are unknown, or some loss is infinite.

    Releases that expose a row to the same loss and select as many rows are of one kind, whatever else they guarantee.
    """
    if any(shape.rows is None or shape.values is None for shape in releases.shapes):
        return None
    if len({shape.exposure.shape for shape in releases.shapes}) != 1:
        return None
    kinds: dict[tuple[int, bytes], int] = {}
    for shape, times in zip(releases.shapes, releases.times, strict=True):
        if shape.rows is not None and shape.rows.selected and shape.exposure.any():
            key = shape.rows.selected, shape.exposure.tobytes()
            kinds[key] = kinds.get(key, 0) + times
    keys = sorted(kinds)
    exposures = np.array([np.frombuffer(exposure) for _, exposure in keys])
    exposures = exposures.reshape(len(keys), *releases.shapes[0].exposure.shape)
    times = np.array([kinds[key] for key in keys], dtype=np.int64)
    touches = Touches(
        exposures, times, times * np.array([rows for rows, _ in keys], dtype=np.int64)
    )
    return touches if np.isfinite(touches.whole).all() else None


def _of_row(star: AnyStar, rates: Rates, *, every: bool) -> Floats:
    """Return the largest loss about a row, for every pair of its values, whichever releases touch it.

    With `every` at least one release touches it.
    """
    touches = rates.touches
    if touches.combinations <= _MOST_SETS:
        own = touches.sets()[int(every) :]
        return _worst(star, [touches.sum(one) for one in own], rates.of_others(own))
    largest, certain = _of_any_number(star, rates)
    if not certain and (total := int(touches.times.sum())) <= _MOST_RELEASES:
        counts = range(int(every), total + 1)
        others = [rates.without_least(count) for count in counts]
        largest = np.minimum(
            largest, _worst(star, [touches.at_most(count) for count in counts], others)
        )
    return largest


def _worst(star: AnyStar, own: Sequence[Floats], others: Sequence[Floats] | Floats) -> Floats:
    return np.max([star.loss_of_row(*one) for one in zip(own, others, strict=True)], axis=0)


def _of_any_number(star: AnyStar, rates: Rates) -> tuple[Floats, bool]:
    """Return the same for any number of releases, and whether certainly no touch was counted twice.

    Releases touch the row as well as others. Excepted are those whose loss about the row's pair of values exceeds that
    of their touch about any two classes: these lose more if they touch the row. Limits between C classes that grow by x
    let the results grow by (C − 1)·x.
    """
    touches = rates.touches
    if star.points is None:
        return star.loss_of_row(
            touches.whole, rates.of_others(np.zeros((1, len(touches.times)), np.int64))[0]
        ), False
    most = rates.increments.max(axis=(1, 2)) * max(len(star.rows) - 1, 1) * (1 + UNIT)
    exposed = touches.exposures[:, star.points[:, 0], star.points[:, 1]].T
    own = exposed >= most
    patterns, which = np.unique(own, axis=0, return_inverse=True)
    losses = np.array(
        [star.loss_of_row(touches.whole, one) for one in rates.of_others(patterns * touches.times)]
    )
    return losses[which.reshape(-1), np.arange(len(own))], bool(own.all())


def star_of(releases: UnitReleases) -> AnyStar | None:
    """Return the class with its rows; None if there is none, or releases read several columns."""
    prior, secret = releases.prior, releases.scenario.secret
    columns = {shape.column for shape in releases.shapes if shape.exposure.any()} or {
        releases.shapes[0].column
    }
    known = isinstance(secret, Secret | Derived | Population)
    if not prior.shared_class or not known or len(columns) != 1:
        return None
    try:
        (walk,) = implied(prior, Statistic.total(1, column=columns.pop()), secret).walks()
    except UsageError:  # a column that the prior does not have
        return None
    return walk.star if isinstance(walk, DependentStar) else None


def class_digest(digest: str, place: int) -> str:
    """Return the name under which a cost keeps the movement of a class.

    >>> class_digest("0a1b", 1)
    '0a1b/1'
    """
    return f"{digest}/{place}"


@final
class MixtureRule(CompositionRule):
    """Translations of each class, and the class given the secret, for any number of releases."""

    name = "one translation in each hidden class, whose law is charged once (M54)"
    why = (
        "pure totals bound the ratio of likelihoods on each path. Rényi totals are a method of their own, which "
        "charges the class once. It adds losses along the translation of the class that loses most (M54)"
    )

    def pure(self, releases: UnitReleases) -> float:
        prior, secret = releases.prior, releases.scenario.secret
        gains = _of_classes(
            releases, lambda shape, moved: shape.noise.pure_within(moved, shape.dimension)
        )
        if (
            gains is None
            or not isinstance(prior, GaussianMixture)
            or not isinstance(secret, Secret | Initial)
        ):
            return math.inf
        groups = [shape.group_movement for shape in releases.shapes]
        if None in groups:
            return math.inf
        between = added(
            [
                shape.noise.pure_within(moved, shape.dimension)
                for shape, moved in zip(releases.shapes, groups, strict=True)
                if moved is not None
            ],
            releases.times,
        )
        limits = (
            between * (1 - np.eye(len(gains)))
            if math.isfinite(between)
            else np.full((len(gains),) * 2, math.inf)
        )
        return max(
            float(region_log_ratio_of_few(pairs.tops, pairs.bottoms, limits, gains).max())
            for pairs in prior.pairs(secret)
        )

    def by_own(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        """Return the loss of the class alone, and the loss in the class that loses most.

        A mean over classes of the losses on the path of queries would be too small. An answer may reveal the class, and
        the next query may lose much in this class only (M54).
        """
        prior, secret, alpha = releases.prior, releases.scenario.secret, kind.example.alpha
        losses = _of_classes(
            releases,
            lambda shape, moved: shape.noise.renyi_within(moved, alpha, shape.dimension),
            with_groups=True,
        )
        if (
            losses is None
            or not isinstance(prior, GaussianMixture)
            or not isinstance(secret, Secret | Initial)
        ):
            return math.inf
        revealed = max(
            float(renyi_of_classes(pairs.tops, pairs.bottoms, np.zeros(len(losses)), alpha).max())
            for pairs in prior.pairs(secret)
        )
        return added([revealed, float(losses.max())])


def _of_classes(
    releases: UnitReleases, loss: Callable[[Shape, float], float], *, with_groups: bool = False
) -> Floats | None:
    """Return the sum of losses in each class, each a function of the movement of its release; None if unknown.

    Rows that a release did not see may move it farther, unless correlations decay with the distance in every class.
    Losses `with_groups` count by the movement of a whole group where it is shorter, or the only one that is known.
    """
    prior = releases.prior
    if not isinstance(prior, GaussianMixture):
        return None
    first = isinstance(releases.scenario.secret, Initial)
    no_farther = first or all(
        one.covariance.falls_off for one in prior.members
    )  # than rows that a release has seen
    known = not (releases.beyond_promises or (releases.wider and not no_farther))
    losses = list[float]()
    for place in range(len(prior.members)):
        key = class_digest(releases.digest, place)
        moves = list[float]()
        for shape in releases.shapes:
            ways = [
                shape.coupled_movements.get(key) if known else None,
                shape.group_movement if with_groups else None,
            ]
            moves.append(min((way for way in ways if way is not None), default=math.inf))
        if math.inf in moves:
            return None
        losses.append(added(map(loss, releases.shapes, moves), releases.times))
    return np.array(losses)
