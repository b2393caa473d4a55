"""Classes of tables and of latent classes: laws in regions around what a public reference counted (M21, M22).

Their laws are never listed: messages hold for every member at once, and so does group privacy.
"""

from functools import cached_property
from typing import NoReturn, final

import numpy as np

from pufferflow.calibration.dependent_rows import DependentRows
from pufferflow.calibration.law_pairs import Place
from pufferflow.calibration.laws import Laws, Reach, WorkEstimate
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import InternalError, Refused
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.domain import Domain, Label
from pufferflow.models.priors.latent_class import LatentClassesNear
from pufferflow.models.priors.table import TablesNear
from pufferflow.models.secret import AnySecret, Derived, Secret, hidden_column
from pufferflow.queries.statistic import Kinds, Statistic, column_and_domain
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.movement import group_movement
from pufferflow.sensitivity.star import DependentStar, RegionStar

_EVALUATIONS = 40


@implied.register
def _(prior: TablesNear, statistic: Statistic, secret: AnySecret) -> Laws:
    prior.check(secret)
    column, domain = column_and_domain(prior, statistic, secret)
    return RegionLaws(_of_table(prior, secret, column, domain), statistic, domain, independent_rows=True)


def _of_table(prior: TablesNear, secret: AnySecret, column: str, domain: Domain) -> RegionStar:
    """Return the regions of a row given each value of the secret, as one class; and its points, if it is the secret."""
    hidden, pairs = hidden_column(secret, prior.values_of)
    values = prior.values_of(hidden)
    one_class = LawRegions.known(np.ones((len(values), 1)))
    places = _places(prior.values_of(column), domain)
    if hidden == column:
        rows = LawRegions.known(np.full((1, len(domain.points)), 1 / len(domain.points)))
        return RegionStar(rows, values, one_class, None, places, pairs, prior)
    own = _placed(prior.given(hidden, [column])[1], places, len(domain.points))
    return RegionStar(own.some(np.zeros(1, dtype=np.intp)), values, one_class, own, None, pairs, prior)


def _places(values: tuple[Label, ...], domain: Domain) -> Indices:
    place = {point: at for at, point in enumerate(domain.points)}
    return np.array([place[value] for value in values], dtype=np.intp)


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
    return RegionLaws(_of_classes(prior, secret), statistic, domain)


def _of_classes(prior: LatentClassesNear, secret: AnySecret) -> RegionStar:
    """Return the regions of rows in each class, and of the class given each value of the secret."""
    weights, rows = prior.regions
    if isinstance(secret, Derived):
        names = list(prior.classes(secret))
        certain = LawRegions.known(np.eye(len(names)))
        return RegionStar(rows, names, certain, None, None, secret.value_pairs(names), prior)
    if not isinstance(secret, Secret):
        raise InternalError("A latent class was given a secret that it had refused.", instead="reporting it")
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
        (getattr(weights, part)[0][:, None] * getattr(rows, part)).T for part in ("centre", "low", "high")
    )
    others, error = 1 - np.eye(len(rows)), 1 + 2.0**-44  # products and sums of a few floats, rounded outwards
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.nan_to_num(low / (low + high @ others), nan=0.0) / error
        most = np.nan_to_num(high / (high + low @ others), nan=1.0) * error
    middle = centre / centre.sum(axis=1, keepdims=True)
    return LawRegions.of(middle, np.minimum(least, middle), np.minimum(np.maximum(most, middle), 1.0))


@final
class RegionLaws(Laws):
    """The laws of sums under every member of a class; they are never listed."""

    def __init__(
        self, star: RegionStar, statistic: Statistic, domain: Domain, *, independent_rows: bool = False
    ) -> None:
        self._star, self._statistic, self._domain = star, statistic, domain
        self._independent = independent_rows
        self._kinds = Kinds.of(statistic.weights, statistic.counts)

    @property
    def dimension(self) -> int:
        return self._statistic.answers

    @cached_property
    def pairs(self) -> NoReturn:
        raise Refused(
            "The laws of a class of priors one by one: it has infinitely many members.",
            allowed="bound=pf.Messages(), which bounds all members at once, or bound=pf.Group()",
            instead="slack=None, which fits a single prior without any allowance for chance",
        )

    def __len__(self) -> int:
        return len(self._star.pairs) * len(self._kinds.counts)

    @property
    def certainty(self) -> Certainty:
        return Certainty.UPPER_BOUND

    def walks(self) -> list[DependentRows]:
        return [DependentStar.of(self._star, self._kinds, self._statistic.on(self._domain))]

    @cached_property
    def work(self) -> WorkEstimate:
        """The work of messages: one pair of laws after the other."""
        star, kinds = self._star, len(self._kinds.counts)
        pairs = len(star.both_orders) + len(star.rows) ** 2
        walk = _EVALUATIONS * kinds * (1e6 + pairs * 1e3 * float(star.states) ** 3)
        return WorkEstimate(walk, pairs=np.inf, pair=np.inf, number=float(len(self)))

    def span(self, norm: float) -> Reach:
        tables, parts = self._statistic.on(self._domain), [(self._kinds.columns, self._kinds.counts)]
        if self._independent:
            parts = [(column[:, None], np.ones(1, dtype=np.int64)) for column in self._kinds.columns.T]
        length = max(group_movement(weights, counts, tables, norm) for weights, counts in parts)
        return Reach(length, Certainty.UPPER_BOUND, Place(self.dimension, self._star.prior, self._star.pairs[0], 0))
