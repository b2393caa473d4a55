"""Laws by enumeration: from a finite joint law of secrets and data to the law of an answer under each secret (M22).

Rows are independent draws, so all but the one that holds the secret cancel (M2), unless the table draws some columns
once for the whole group: those are then a hidden class that the rows share (M21).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.models.domain import Domain, Label
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.empirical import Empirical
from pufferflow.models.priors.table import Table, Values
from pufferflow.models.secret import AnySecret, hidden_column
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.latent_class import StarLaws
from pufferflow.sensitivity.star import Given, Star


@implied.register
def _(prior: Table, statistic: Statistic, secret: AnySecret) -> Laws:
    return _laws(prior, prior, statistic, secret)


@implied.register
def _(prior: Empirical, statistic: Statistic, secret: AnySecret) -> Laws:
    if statistic.column is None:
        statistic = replace(statistic, column=prior.released)
    return _laws(prior, prior.table, statistic, secret)


def _laws(prior: Prior, table: Table, statistic: Statistic, secret: AnySecret) -> Laws:
    """Return the laws of a statistic of one column of a table, given a secret that is one of its columns."""
    prior.check(secret)
    column, domain = column_and_domain(prior, statistic, secret)
    hidden, pairs = hidden_column(secret, table.values)
    return StarLaws(_star(prior, table, hidden, column, domain, pairs), statistic, domain)


def _star(  # noqa: PLR0913, PLR0917 - a table, its shared class, and the query
    prior: Prior, table: Table, hidden: str, column: str, domain: Domain, pairs: Sequence[tuple[Label, Label]]
) -> Star:
    """Return the shared columns as a class: the law of a row given them, and both given each value of the secret.

    Where no column is shared there is one class, and rows are independent.
    """
    (_, points), joint = table.joint(table.shared, [column])
    rows = _place_on_domain(joint, points, domain)
    (_, values, points), joint = table.joint(table.shared, [hidden], [column])
    whole = _place_on_domain(joint, points, domain)
    given: dict[Label, Given] = {}
    for place, (value,) in enumerate(values):
        part = whole[:, place]
        mass = part.sum(axis=1)
        own = None if hidden in table.shared else _normalise_rows(part)
        given[value] = Given(mass / mass.sum(), own)
    return Star(_normalise_rows(rows), given, pairs, prior, independent_rows=not table.shared)


def _normalise_rows(masses: Array) -> Array:
    """Return rows divided by their sums; a row of zeros, which is never used, stays as it is."""
    total = masses.sum(axis=1, keepdims=True)
    return masses / np.where(total > 0, total, 1)


def _place_on_domain(joint: Array, values: Sequence[Values], domain: Domain) -> Array:
    """Return masses with the points of the domain along the last axis."""
    place = {point: at for at, point in enumerate(domain.points)}
    missing = [value for (value,) in values if value not in place]
    if missing:
        raise UsageError(
            f"The prior produces {len(missing)} values that the domain of the statistic does not list.",
            allowed="a domain with all values that have a probability above 0",
            instead=f"a domain with {missing[0]!r}",
        )
    masses = np.zeros((*joint.shape[:-1], len(place)), dtype=joint.dtype)
    masses[..., [place[value] for (value,) in values]] = joint
    return masses
