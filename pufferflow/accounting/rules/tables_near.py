"""Releases about one row that is a draw from some table of a class: their losses under every member (M22, M23).

As under one table, the losses of the noises bound the ratio of likelihoods of an output path at two points of all
columns read. The laws of these points under two secrets lie in regions, and the loss is the largest over all pairs of
members, or more: the two members may come from different tables of the class.
"""

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.accounting.rules.table import columns_read, limits_of, readings_of
from pufferflow.core.arrays import Floats
from pufferflow.distributions.markov.law_regions import LawRegions, region_log_ratio
from pufferflow.models.priors.table import TablesNear, Values
from pufferflow.models.secret import Derived, Secret

_MOST_POINTS = 2000


@final
class NearRule(CompositionRule):
    """A row that is one draw of all columns read, from a table that is known up to a region."""

    name = "the joint laws of all answers about a row, near those counted (M23)"
    why = "only pure totals, which bound the ratio of likelihoods on each path under every table of the class (M23)"

    def pure(self, releases: UnitReleases) -> float:
        prior, secret = releases.prior, releases.scenario.secret
        if not isinstance(prior, TablesNear) or not isinstance(secret, Secret | Derived):
            return math.inf
        readings = readings_of(releases)
        if readings is None:
            return math.inf
        hidden = secret.column if isinstance(secret, Secret) else secret.name
        values = prior.values_of(hidden)
        points, laws = _laws(prior, hidden, columns_read(readings))
        if len(points) > _MOST_POINTS:
            return math.inf
        limits = limits_of(readings, points)
        if not np.isfinite(limits).all():
            return math.inf
        place = {value: at for at, value in enumerate(values)}
        listed = secret.value_pairs() if isinstance(secret, Secret) else secret.value_pairs(values)
        both = np.array([[place[a], place[b]] for a, b in [*listed, *((b, a) for a, b in listed)]], dtype=np.intp)
        return float(region_log_ratio(laws.some(both[:, 0]), laws.some(both[:, 1]), limits).max())


def _laws(prior: TablesNear, hidden: str, columns: Sequence[str]) -> tuple[list[Values], LawRegions]:
    """Return the points of the columns read, and the regions of their laws given each value of the secret.

    If a column is the secret itself, it has the given value.
    """
    others = [name for name in columns if name != hidden]
    size = len(prior.values_of(hidden))
    if not others:
        return [(value,) for value in prior.values_of(hidden)], LawRegions.known(np.eye(size))
    points, laws = prior.given(hidden, others)
    if hidden not in columns:
        return points, laws
    at = list(columns).index(hidden)
    whole = [(*point[:at], value, *point[at:]) for value in prior.values_of(hidden) for point in points]

    def spread(masses: Floats) -> Floats:
        return (np.eye(size)[:, :, None] * masses[:, None, :]).reshape(size, -1)

    return whole, LawRegions(spread(laws.centre), spread(laws.low), spread(laws.high), laws.radius)
