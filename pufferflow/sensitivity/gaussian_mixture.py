"""Gaussian rows in hidden classes: the translation in each class, and the loss about the class (M54).

Given the class the secret's value translates the other rows, and answers lose ε_c. The value also makes one class more
likely than another, by π_a(c)/π_b(c). That ratio is charged once, for any number of queries. Let v_c be the probability
of an output given class c and value b. Then P(S|a) ≤ Σ π_a(c)·e^{ε_c}·v_c and P(S|b) = Σ π_b(c)·v_c. Here v_c ≤
e^{D(c,c')}·v_c', by the most that the other rows can do. All of them are replaced (M7), or translated by the difference
where two classes differ in their means alone. With Gaussian noise the class counts as revealed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, final

import numpy as np

from pufferflow.calibration.laws import DependentRows, Laws, Place
from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, lifted, products_above
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.markov.law_regions import LawRegions, region_log_ratio_of_few
from pufferflow.models.domain import Interval
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.secret import AnySecret, Initial, Secret
from pufferflow.noise.base import Noise
from pufferflow.queries.statistic import Statistic
from pufferflow.sensitivity.movement import Length, Movement, reach_of
from pufferflow.sensitivity.row_query import Question, norms_above

_MOST_FACTORS = 4_000_000
_GIVEN_AWAY = (
    "Two values of the secret are so far apart that the value itself reveals the class of a pf.GaussianMixture. Then "
    "noise without a pure loss is not enough."
)
OfMember = Callable[[GaussianPrior, Statistic, AnySecret], Laws]


def of_mixture(
    prior: GaussianMixture, statistic: Statistic, secret: Secret | Initial, of_member: OfMember
) -> Laws:
    """Return the laws of a mixture from those of its classes; `of_member` returns the movement of one class."""
    prior.check(secret)
    question = Question.of(prior, statistic, secret)
    for one in prior.members:
        one.covariance.check(question.known_positions)
    walks: list[MixtureRows] = []
    between = _between(prior, question)
    for pairs in prior.pairs(secret):
        apart = _apart(secret, pairs.distance)
        lengths = [partial(_length, of_member(one, statistic, apart)) for one in prior.members]
        place = Place(question.answers, prior, pairs.values[0], 0)
        # how far one row alone moves each answer at most, from one value of a pair to the other
        own = products_above(np.abs(question.weights).max(axis=1), question.differences.max(axis=1))
        walks.append(
            MixtureRows(
                question.answers,
                own,
                lengths,
                between,
                pairs.tops,
                pairs.bottoms,
                pairs.values,
                place,
            )
        )
    moved = partial(reach_of, question.group, Certainty.UPPER_BOUND, walks[0].place)
    dependence = partial(list[DependentRows], walks)
    return Movement(
        question.answers, moved, moved, _unlisted, dependence=dependence, movement_only=False
    )


def _unlisted() -> NoReturn:
    raise Refused(
        "Laws of clamped sums under a pf.GaussianMixture cannot be listed.",
        allowed="bound=pf.Messages(), which counts movements and the loss about the class, or pf.Group()",
        instead='bound="auto"',
    )


def _apart(secret: Secret | Initial, distance: float) -> Secret | Initial:
    """Return the secret with pairs at this distance: a movement depends only on their distance."""
    if not isinstance(secret.pairs, tuple):
        return secret
    named = [pair for pair in secret.pairs if abs(float(pair[0]) - float(pair[1])) == distance]
    return type(secret)(secret.column, secret.domain, named, secret.missing)


def _length(laws: Laws, norm: float) -> float:
    return laws.winf(norm).length


def _between(prior: GaussianMixture, question: Question) -> Callable[[float], Floats]:
    """Return, for a norm, how far answers move at most from the other rows of one class to those of another one.

    Between classes with different covariances only the movement of all rows is known.
    """
    classes, least = range(len(prior.members)), _least_row(prior, question)
    shifted = {
        (c, d): _shifted(prior.members[c], prior.members[d], question)
        for c in classes
        for d in classes[c + 1 :]
    }
    return partial(_lengths_between, question, len(classes), least, shifted)


def _lengths_between(
    question: Question,
    classes: int,
    least: float,
    shifted: Mapping[tuple[int, int], Floats | None],
    norm: float,
) -> Floats:
    """Return how far answers move if every row but a secret one changes; in the sum of sizes without the `least` row.

    On an interval all answers of a row move from end to end together, so that their sizes add up.
    """
    whole = question.group(norm)
    others = max(whole - least, 0.0) * (1 + 4 * UNIT) if norm == 1 else whole
    far = np.full((classes, classes), others)
    for (c, d), steps in shifted.items():
        if steps is not None:
            far[c, d] = far[d, c] = min(others, float(norms_above(steps, norm).max()))
    return far


def _least_row(prior: GaussianMixture, question: Question) -> float:
    """Return the least movement of all answers by a secret row alone, rounded down; 0 if it may not be queried."""
    positions, rises = question.positions, np.ptp(question.tables, axis=1)
    places = (
        [np.array([question.start])]
        if question.first
        else [one.covariance.places(positions) for one in prior.members]
    )
    if not all(np.isin(known, positions).all() for known in places):
        return 0.0
    rows = question.weights[:, question.starts] if question.first else question.kinds.columns
    return float((np.abs(rows) * rises[:, None]).sum(axis=0).min()) * (1 - 16 * len(rises) * UNIT)


def _shifted(one: GaussianPrior, other: GaussianPrior, question: Question) -> Floats | None:
    """Return how far each answer moves by the difference of two classes that differ in their means alone.

    Given a value of row t row r differs by (μ' − μ)(1 − c_r), clamped as every translation is (M15). The sizes are
    returned, without signs: of shape (answers, places). None where classes differ in more, or there are too many rows
    to compare in pairs.
    """
    same = (
        one.covariance == other.covariance
        and one.variance == other.variance
        and one.covariance.known
    )
    positions = question.positions
    places = np.array([question.start]) if question.first else one.covariance.places(positions)
    if (
        not same
        or len(places) * len(positions) > _MOST_FACTORS
        or not isinstance(question.domain, Interval)
    ):
        return None
    above, below = one.covariance.toward(places, positions)
    factors = np.where(places[:, None] == positions[None, :], 1.0, above - below)
    shares = (
        np.abs(other.mean - one.mean) * np.abs(1 - factors) * (1 + 8 * UNIT) / question.domain.width
    )
    rises = np.abs(question.weights) * np.ptp(question.tables, axis=1)[:, None]
    return lifted(rises @ np.minimum(shares, 1.0).T, (2 * len(positions) + 8) * UNIT)


@final
@dataclass(frozen=True, eq=False)
class MixtureRows(DependentRows):
    """The rows of a group in its classes: movements of each, and the class given every pair of the secret's values."""

    answers: int
    own: Floats
    lengths: Sequence[Length]
    between: Callable[[float], Floats]
    tops: LawRegions
    bottoms: LawRegions
    values: Sequence[tuple[float, float]]
    place: Place
    given_away = _GIVEN_AWAY

    @property
    def shifts(self) -> Floats:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How far the secret's row alone moves each answer."""
        return self.own[None, :, None, None]

    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the largest log Σ π_a·e^{ε_c}·v_c / Σ π_b·v_c over v_c ≤ e^{D(c,c')}·v_c' and all pairs (M54)."""
        gains = np.array([noise.pure_within(one(noise.norm), self.answers) for one in self.lengths])
        far = self.between(noise.norm)
        np.fill_diagonal(far, 0.0)
        limits = np.array(
            [[noise.pure_within(float(length), self.answers) for length in row] for row in far]
        )
        ratios = region_log_ratio_of_few(self.tops, self.bottoms, limits, gains)
        return float(ratios.max()), self._place(ratios)

    def renyi(self, noise: Noise, alpha: float) -> tuple[float, Place]:
        """Return the largest Rényi loss of class and answers: log Σ π_a^α π_b^{1−α} e^{(α−1)ρ_c} / (α − 1) (M54)."""
        costs = np.array(
            [noise.renyi_within(one(noise.norm), alpha, self.answers) for one in self.lengths]
        )
        losses = renyi_of_classes(self.tops, self.bottoms, costs, alpha)
        return float(losses.max()), self._place(losses)

    def grown(self, growth: Length, group: Length) -> "MixtureRows":
        """Return the same with every movement increased by rounding, except that of all rows together."""
        lengths = [partial(_grown, length, growth, group) for length in self.lengths]
        return replace(self, lengths=lengths, between=partial(_grown, self.between, growth, group))

    def _place(self, losses: Floats) -> Place:
        worst = self.values[int(losses.argmax()) % len(self.values)]
        return replace(self.place, secrets=worst, dimension=self.answers)


def _grown(lengths: Callable[[float], Any], growth: Length, group: Length, norm: float) -> Any:
    return np.minimum((lengths(norm) + growth(norm)) * (1 + UNIT), group(norm))


def renyi_of_classes(tops: LawRegions, bottoms: LawRegions, costs: Floats, alpha: float) -> Floats:
    """Return an upper bound on the Rényi loss of every pair of class laws whose members also lose `costs`."""
    if not np.isfinite(costs).all():
        return np.full(len(tops), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = alpha * np.log(tops.high) + (1 - alpha) * np.log(bottoms.low) + (alpha - 1) * costs
    terms = np.where(
        tops.high > 0, np.nan_to_num(terms, nan=np.inf, posinf=np.inf, neginf=-np.inf), -np.inf
    )
    padded = log_sum(terms) + 64 * alpha * UNIT * (
        1 + np.abs(np.where(np.isfinite(terms), terms, 0.0)).max()
    )
    return np.maximum(padded / (alpha - 1) * (1 + 4 * UNIT), 0.0)
