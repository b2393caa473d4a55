"""Priors whose rows move together or alone: independent, nearly so, Gaussian, or with any correlation.

Each movement comes from one coupling of whole data sets under the two values of a secret. So losses of several releases
add, for any queries (M1, M24).
"""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial, singledispatch

import numpy as np

from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import InternalError
from pufferflow.core.rounding import (
    UNIT,
    distances_above,
    float_above,
    lifted,
    products_above,
    quotient_above,
    sums_above,
)
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.domain import Product
from pufferflow.models.priors.base import Prior, wrong_secret
from pufferflow.models.priors.gaussian import (
    GaussianPrior,
    check_rows,
    hidden_direction,
    widths_in_deviations,
)
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.simple import AnyCorrelation, Diffusion, Independent, WeaklyDependent
from pufferflow.models.secret import AnySecret, Initial, Presence, Secret
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.sensitivity.cells import SingleRow, departure, free, row_by_row, tables_of
from pufferflow.sensitivity.gaussian_mixture import of_mixture
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.movement import Movement
from pufferflow.sensitivity.row_query import Question, row_norms
from pufferflow.sensitivity.translation import ColumnTranslation, Translation, by_shares


@implied.register
def _(prior: AnyCorrelation, statistic: Statistic, secret: AnySecret) -> Laws:
    return free(prior, statistic, secret, Certainty.EXACT)


@implied.register
def _(prior: Independent, statistic: Statistic, secret: AnySecret) -> Laws:
    if isinstance(secret, Presence):
        return departure(
            prior, statistic.weights, tables_of(prior, statistic, secret), statistic.counts
        )
    if not isinstance(secret, Secret | Initial):
        raise wrong_secret(
            "pf.Independent",
            secret,
            allowed="pf.Secret, pf.Initial or pf.Presence",
            instead="pf.Table or pf.LatentClass, which model what is behind the data",
        )
    question = Question.of(prior, statistic, secret)
    return SingleRow(prior, question).laws()


@implied.register(GaussianPrior)
@row_by_row
def _(prior: GaussianPrior, statistic: Statistic, secret: AnySecret) -> Laws:
    return _translated(prior, statistic, secret, open_cells=False)


@implied.register(GaussianMixture)
@row_by_row
def _(prior: GaussianMixture, statistic: Statistic, secret: AnySecret) -> Laws:
    return _mixed(prior, statistic, secret, open_cells=False)


def _mixed(
    prior: GaussianMixture, statistic: Statistic, secret: AnySecret, *, open_cells: bool
) -> Laws:
    if not isinstance(secret, Secret | Initial):
        raise wrong_secret(
            "pf.GaussianMixture", secret, allowed="pf.Secret or pf.Initial", instead="pf.Secret"
        )
    return of_mixture(prior, statistic, secret, partial(_translated, open_cells=open_cells))


def _translated(
    prior: GaussianPrior, statistic: Statistic, secret: AnySecret, *, open_cells: bool
) -> Laws:
    if secret.tuples is not None:
        return _of_columns(prior, statistic, secret, open_cells=open_cells).movement()
    question = _of_one_row(prior, statistic, secret)
    prior.covariance.check(question.known_positions)
    return Translation(question, prior.covariance, open_cells).movement(prior)


def _of_columns(
    prior: GaussianPrior, statistic: Statistic, secret: AnySecret, *, open_cells: bool
) -> ColumnTranslation:
    """Return the translation of rows of several columns."""
    _, domain = column_and_domain(prior, statistic, secret)
    if not isinstance(domain, Product):
        raise InternalError("Several columns have no product of domains.", instead="reporting it")
    check_rows(prior.covariance, prior.across, domain, statistic.positions)
    return ColumnTranslation(prior, statistic, secret, domain, open_cells)


@singledispatch
def scattered(prior: Prior, statistic: Statistic, secret: AnySecret) -> Laws | None:
    """Return a movement of a sum that also bounds every split of its rows into cells; None if none is known.

    The sum has all cells at once, and adds up sizes of movements of rows. A row's vector has the same length in the
    norms 1 and 2 in any cell. So by the triangle inequality cells together move at most as far as the sum of lengths.
    They also move at most as far as the norm of the sums of sizes, taken answer by answer.
    """
    return (
        implied(prior, statistic, secret) if prior.coupled or isinstance(secret, Presence) else None
    )


@scattered.register(GaussianPrior)
@row_by_row
def _(prior: GaussianPrior, statistic: Statistic, secret: AnySecret) -> Laws:
    return _translated(prior, statistic, secret, open_cells=True)


@scattered.register(GaussianMixture)
@row_by_row
def _(prior: GaussianMixture, statistic: Statistic, secret: AnySecret) -> Laws:
    return _mixed(prior, statistic, secret, open_cells=True)


def lengths_along(  # noqa: PLR0913 - a movement and what is left out of it
    prior: GaussianPrior,
    statistic: Statistic,
    secret: AnySecret,
    norm: float,
    *,
    open_cells: bool,
    least: float,
    fades: bool,
) -> Floats:
    """Return how far all answers move together for a secret at each of the rows, whichever row a scenario hides.

    Rows with a domain of classes may have a correlation below `least` with the secret. They do not move if movements
    fade. Otherwise they may cross a border as rows of the least correlation do. `open_cells`: rows may be in any cells.
    """
    if secret.tuples is not None:
        return _of_columns(prior, statistic, secret, open_cells=open_cells).lengths(norm)[
            : len(statistic.positions)
        ]
    question = replace(_of_one_row(prior, statistic, secret), first=False)
    prior.covariance.check(statistic.positions)
    translation = Translation(question, prior.covariance, open_cells, least, fades)
    return translation.lengths(norm)[: len(statistic.positions)]


def farthest(prior: GaussianPrior, secret: AnySecret) -> float:
    """Return the largest distance between two values of the secret, in standard deviations of a row; ∞ if unknown.

    Of several columns it is the sum of such distances, each in deviations of its column given the others.
    """
    if secret.tuples is not None:
        direction = hidden_direction(secret, secret.tuples)
        return (
            np.inf
            if prior.across is None
            else widths_in_deviations(prior.across, direction, secret.tuples)
        )
    if prior.variance is None:
        return np.inf
    return (
        _of_one_row(prior, Statistic([1.0]), secret).farthest[0]
        / np.sqrt(prior.variance)
        * (1 + 4 * UNIT)
    )


@implied.register(Diffusion)
@row_by_row
def _(prior: Diffusion, statistic: Statistic, secret: AnySecret) -> Laws:
    question = _of_one_row(prior, statistic, secret)
    return by_shares(prior, question, prior.shares(_since(statistic)))


@implied.register(WeaklyDependent)
@row_by_row
def _(prior: WeaklyDependent, statistic: Statistic, secret: AnySecret) -> Laws:
    return _nearby(prior, _of_one_row(prior, statistic, secret))


def _of_one_row(prior: Prior, statistic: Statistic, secret: AnySecret) -> Question:
    """Return the query under a secret that is a row's value; priors refuse others."""
    prior.check(secret)
    if not isinstance(secret, Secret | Initial):
        raise wrong_secret(
            type(prior).__name__, secret, allowed="pf.Secret", instead="pf.Secret(column, domain=…)"
        )
    return Question.of(prior, statistic, secret)


def _since(statistic: Statistic) -> Floats:
    """Return the time since the start of the sequence, rounded down."""
    since = statistic.positions - statistic.start
    last = max(abs(statistic.start), float(np.abs(statistic.positions).max()))
    whole = (since == np.rint(since)) & (last < 2.0**52)
    return np.where(
        whole | (statistic.positions == statistic.start), since, np.nextafter(since, 0.0)
    )


def _nearby(prior: WeaklyDependent, question: Question) -> Movement:
    """Return Δ_own + 2·distance·(the most that moving one value by 1 does), at most the movement of the group (M17)."""
    single, slopes = SingleRow(prior, question), _slopes(question)
    length = partial(_length_nearby, prior.distance, single, slopes)
    certainty = Certainty.EXACT if prior.distance == 0 else Certainty.UPPER_BOUND
    spreads = lifted(
        2
        * prior.distance
        * products_above(np.abs(question.weights).max(axis=1), slopes.max(axis=1)),
        2 * UNIT,
    )
    steps = np.array([length(1)]) if question.answers == 1 else sums_above(single.steps, spreads)
    return Movement.of(prior, steps, length, certainty, *single.witness, question.group)


def _length_nearby(distance: float, single: SingleRow, slopes: Floats, norm: float) -> float:
    question = single.question
    ranges = question.tables.max(axis=1) - question.tables.min(axis=1)
    within = (
        float((np.abs(question.weights).sum(axis=1) * ranges).max()) / 2
    )  # clearly below the movement of the group
    spread = row_norms(question.kinds.columns, slopes, norm)[0].max()
    moved = Fraction(2 * distance) * Fraction(float(spread))
    total = float_above(Fraction(single.length(norm)) + moved)
    return total if total < within else min(total, question.group(norm))


def _slopes(question: Question) -> Floats:
    """Return |φ(p) − φ(q)|/|p − q| for neighbouring values of the domain, rounded up: no other two are steeper."""
    numbers = question.domain.numbers
    order = np.argsort(numbers, kind="stable")
    values, tables = numbers[order].tolist(), question.tables[:, order]
    rises = distances_above(tables[:, 1:], tables[:, :-1])
    runs = [
        -float_above(Fraction(low) - Fraction(high)) for low, high in itertools.pairwise(values)
    ]
    return np.stack([quotient_above(rises[:, at], run) for at, run in enumerate(runs)], axis=1)
