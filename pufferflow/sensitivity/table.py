"""Laws of answers from a finite joint law of secrets and data, by enumeration (M22), and from classes of such laws.

Rows are independent draws, so all but the one that holds the secret cancel (M2). But a table may draw some columns once
for the whole group: those are a hidden class that the rows share (M21).

Classes of tables and of latent classes hold all laws near the counts of a public reference (M21, M22). Their laws are
never listed: messages hold for every member at once, and so does group privacy.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import InternalError, UsageError
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.domain import Domain, Label
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.latent_class import LatentClassesNear
from pufferflow.models.priors.table import Empirical, Table, TablesNear, Values
from pufferflow.models.secret import AnySecret, Derived, Secret, hidden_column
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.latent_class import StarLaws
from pufferflow.sensitivity.star import Given, RegionStar, Star


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
    prior: Prior,
    table: Table,
    hidden: str,
    column: str,
    domain: Domain,
    pairs: Sequence[tuple[Label, Label]],
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


@implied.register
def _(prior: TablesNear, statistic: Statistic, secret: AnySecret) -> Laws:
    prior.check(secret)
    column, domain = column_and_domain(prior, statistic, secret)
    return StarLaws(_of_table(prior, secret, column, domain), statistic, domain)


def _of_table(prior: TablesNear, secret: AnySecret, column: str, domain: Domain) -> RegionStar:
    """Return the regions of a row given each value of the secret, as one class; and its points, if it is the secret."""
    hidden, pairs = hidden_column(secret, prior.values_of)
    values = prior.values_of(hidden)
    one_class = LawRegions.known(np.ones((len(values), 1)))
    place = {point: at for at, point in enumerate(domain.points)}
    places = np.array([place[value] for value in prior.values_of(column)], dtype=np.intp)
    if hidden == column:
        rows = LawRegions.known(np.full((1, len(domain.points)), 1 / len(domain.points)))
        return RegionStar(
            rows, values, one_class, None, places, pairs, prior, independent_rows=True
        )
    own = _placed(prior.given(hidden, [column])[1], places, len(domain.points))
    return RegionStar(
        own.some(np.zeros(1, dtype=np.intp)),
        values,
        one_class,
        own,
        None,
        pairs,
        prior,
        independent_rows=True,
    )


def _placed(laws: LawRegions, places: Indices, points: int) -> LawRegions:
    """Return regions with the points of a domain as states; points that are not among the values never occur."""

    def spread(masses: Floats) -> Floats:
        wide = np.zeros((len(masses), points))
        wide[:, places] = masses
        return wide

    return LawRegions(spread(laws.centre), spread(laws.low), spread(laws.high), laws.radius)


@implied.register
def _(prior: LatentClassesNear, statistic: Statistic, secret: AnySecret) -> Laws:
    prior.check(secret)
    _, domain = column_and_domain(prior, statistic, secret)
    return StarLaws(_of_classes(prior, secret), statistic, domain)


def _of_classes(prior: LatentClassesNear, secret: AnySecret) -> RegionStar:
    """Return the regions of rows in each class, and of the class given each value of the secret."""
    weights, rows = prior.regions
    if isinstance(secret, Derived):
        names = list(prior.classes(secret))
        certain = LawRegions.known(np.eye(len(names)))
        return RegionStar(rows, names, certain, None, None, secret.value_pairs(names), prior)
    if not isinstance(secret, Secret):
        raise InternalError(
            "A latent class was given a secret that it had refused.", instead="reporting it"
        )
    points = np.arange(rows.states, dtype=np.intp)
    given = posteriors(weights, rows)
    return RegionStar(rows, secret.domain.points, given, None, points, secret.value_pairs(), prior)


def posteriors(weights: LawRegions, rows: LawRegions) -> LawRegions:
    """Return the regions of the class given each value of a row, with weights ω_c·p_c(x).

    >>> weights = LawRegions.of(np.array([[0.5, 0.5]]), np.array([[0.4, 0.4]]), np.array([[0.6, 0.6]]))
    >>> posteriors(weights, LawRegions.known(np.array([[0.9, 0.1], [0.1, 0.9]]))).high.round(6)
    array([[0.931034, 0.142857],
           [0.142857, 0.931034]])
    """
    centre, low, high = (
        (getattr(weights, part)[0][:, None] * getattr(rows, part)).T
        for part in ("centre", "low", "high")
    )
    others, error = (
        1 - np.eye(len(rows)),
        1 + 2.0**-44,
    )  # products and sums of a few floats, rounded outwards
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.nan_to_num(low / (low + high @ others), nan=0.0) / error
        most = np.nan_to_num(high / (high + low @ others), nan=1.0) * error
    middle = centre / centre.sum(axis=1, keepdims=True)
    return LawRegions.of(
        middle, np.minimum(least, middle), np.minimum(np.maximum(most, middle), 1.0)
    )
