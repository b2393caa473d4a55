"""Releases about rows that share a hidden class: the loss of all about the class, and about one row (M20, M21).

The group's rows that a release selects are not stored, so two releases may be about the same rows, about some, or about
none in common. Rows are independent given the class, hence their losses about it add. However touches are spread over
rows, all together have no more loss than every touch at its rate. Some of the releases touch the secret's own row, the
other touches are about other rows: the total is that of the worst set of them.
"""

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.star import Rates, Touches
from pufferflow.models.secret import Derived, Secret
from pufferflow.queries.statistic import Statistic
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
        star = None if touches is None else _star(releases)
        if star is None or touches is None or touches.exposures.shape[1] != star.states:
            return math.inf
        if not len(touches.times):
            return 0.0
        rates = Rates.of(touches, star.rows)
        every = not releases.unseen_rows and all(shape.rows and shape.rows.others == 0 for shape in releases.shapes)
        if star.of_group:
            return float(star.loss_of_class(rates.of_others(np.zeros((1, len(touches.times)), np.int64))[0]).max())
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
    touches = Touches(exposures, times, times * np.array([rows for rows, _ in keys], dtype=np.int64))
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
        largest = np.minimum(largest, _worst(star, [touches.at_most(count) for count in counts], others))
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
        return star.loss_of_row(touches.whole, rates.of_others(np.zeros((1, len(touches.times)), np.int64))[0]), False
    most = rates.increments.max(axis=(1, 2)) * max(len(star.rows) - 1, 1) * (1 + UNIT)
    exposed = touches.exposures[:, star.points[:, 0], star.points[:, 1]].T
    own = exposed >= most
    patterns, which = np.unique(own, axis=0, return_inverse=True)
    losses = np.array([star.loss_of_row(touches.whole, one) for one in rates.of_others(patterns * touches.times)])
    return losses[which.reshape(-1), np.arange(len(own))], bool(own.all())


def _star(releases: UnitReleases) -> AnyStar | None:
    """Return the class with its rows; None if there is none, or releases read several columns."""
    prior, secret = releases.prior, releases.scenario.secret
    columns = {shape.column for shape in releases.shapes if shape.exposure.any()} or {releases.shapes[0].column}
    if not prior.shared_class or not isinstance(secret, Secret | Derived) or len(columns) != 1:
        return None
    try:
        (walk,) = implied(prior, Statistic.total(1, column=columns.pop()), secret).walks()
    except UsageError:  # a column that the prior does not have
        return None
    return walk.star if isinstance(walk, DependentStar) else None
