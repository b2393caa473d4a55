"""Movements instead of laws: rows that are independent, nearly so, translated together, or free to do anything.

What is known here is one coupling of whole data sets under the two values of a secret, so losses of several releases
add, whatever was asked (M1, M24).
"""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np

from pufferflow.bounds import Laws
from pufferflow.errors import Misuse
from pufferflow.inference.alone import Alone
from pufferflow.inference.implied import asked, implied
from pufferflow.inference.moved import Moved, Movement
from pufferflow.inference.movement import group_movement
from pufferflow.inference.presence import PRESENCE, columns_of, departure, with_nothing
from pufferflow.inference.question import Floats, Question, products, rounded_up, row_norms
from pufferflow.inference.translation import Translation, by_shares, plus
from pufferflow.priors.any_correlation import AnyCorrelation
from pufferflow.priors.diffusion import Diffusion
from pufferflow.priors.gaussian import GaussianPrior
from pufferflow.priors.independent import Independent
from pufferflow.priors.prior import Prior, wrong_secret
from pufferflow.priors.weakly_dependent import WeaklyDependent
from pufferflow.queries import Statistic
from pufferflow.rounding import UNIT, float_above, lifted, quotient_above
from pufferflow.secrets import AnySecret, Initial, Presence, Secret
from pufferflow.transport import Certainty


@implied.register
def _(prior: AnyCorrelation, statistic: Statistic, secret: AnySecret) -> Laws:
    tables = _tables(prior, statistic, secret)
    values: tuple[Any, Any] = PRESENCE
    if isinstance(secret, Presence):
        tables = with_nothing(tables)
    elif isinstance(secret, Secret | Initial):
        values = secret.value_pairs()[0]
    else:
        values = ("any value", "any other")
    columns, counts = columns_of(statistic.weights)

    def length(norm: float) -> float:
        return group_movement(columns, counts, tables, norm)

    if len(tables) == 1:
        return Moved(prior, Movement.of_one(length(1), Certainty.EXACT, values))
    steps = [group_movement(columns[[o]], counts, tables[[o]], 1) for o in range(len(tables))]
    return Moved(prior, Movement(np.array(steps), length, Certainty.UPPER_BOUND, values))


@implied.register
def _(prior: Independent, statistic: Statistic, secret: AnySecret) -> Laws:
    if isinstance(secret, Presence):
        return Moved(prior, departure(statistic.weights, _tables(prior, statistic, secret)))
    if not isinstance(secret, Secret | Initial):
        raise wrong_secret(
            "pf.Independent",
            secret,
            allowed="pf.Secret, pf.Initial or pf.Presence",
            instead="pf.Table or pf.LatentClass, which know what is behind the data",
        )
    question = Question.of(prior, statistic, secret)
    return Alone(prior, question).laws()


@implied.register
def _(prior: GaussianPrior, statistic: Statistic, secret: AnySecret) -> Laws:
    question = _of_one_row(prior, statistic, secret)
    prior.covariance.check(statistic.positions)
    return Moved(prior, Translation(question, prior.covariance).movement(), question.group)


@implied.register
def _(prior: Diffusion, statistic: Statistic, secret: AnySecret) -> Laws:
    question = _of_one_row(prior, statistic, secret)
    return Moved(prior, by_shares(question, prior.shares(_since(statistic))), question.group)


@implied.register
def _(prior: WeaklyDependent, statistic: Statistic, secret: AnySecret) -> Laws:
    question = _of_one_row(prior, statistic, secret)
    return Moved(prior, _nearby(prior, question), question.group)


def _of_one_row(prior: Prior, statistic: Statistic, secret: AnySecret) -> Question:
    """Return the question under a secret that is a row's value; priors refuse others."""
    prior.check(secret)
    if not isinstance(secret, Secret | Initial):
        raise wrong_secret(type(prior).__name__, secret, allowed="pf.Secret", instead="pf.Secret(column, domain=…)")
    return Question.of(prior, statistic, secret)


def _since(statistic: Statistic) -> Floats:
    """Return the time since the start of the sequence, rounded down."""
    since = statistic.positions - statistic.start
    whole = (since == np.rint(since)) & (statistic.positions < 2.0**52)
    return np.where(whole | (statistic.positions == statistic.start), since, np.nextafter(since, 0.0))


def _tables(prior: Prior, statistic: Statistic, secret: AnySecret) -> Floats:
    """Return φ at all points; where no column is named, the numbers that a row may add, 1 if none are given."""
    if secret.reads is not None or prior.columns or statistic.column is not None:
        _, domain = asked(prior, statistic, secret)
        return statistic.on(domain)
    given = statistic.values
    if given is None:
        if not isinstance(secret, Presence):
            raise Misuse(
                "The statistic adds up values of a column, and neither secret nor prior say what they can be.",
                allowed="a secret with a column and its domain, or the numbers that a row may add",
                instead="pf.Derived(name, column=..., domain=...), or pf.Statistic(weights, values=[0, 1])",
            )
        given = np.ones((1, 1))
    elif not isinstance(given, np.ndarray):
        given = np.array([[float(value) for value in given.values()]])
    table = np.atleast_2d(given)
    return np.broadcast_to(table, (statistic.answers, table.shape[1]))


def _nearby(prior: WeaklyDependent, question: Question) -> Movement:
    """Return Δ_own + 2·distance·(the most that moving one value by 1 does), at most the movement of the group (M17)."""
    alone, slopes = Alone(prior, question), _slopes(question)
    largest = np.abs(question.weights).max(axis=1)
    ranges = question.tables.max(axis=1) - question.tables.min(axis=1)
    within = float((np.abs(question.weights).sum(axis=1) * ranges).max()) / 2  # well below the movement of the group

    def length(norm: float) -> float:
        spread = row_norms(question.kinds.columns, slopes, norm)[0].max()
        total = _sum(alone.length(norm), 2 * prior.distance, float(spread))
        return total if total < within else min(total, question.group(norm))

    found = alone.movement()
    certainty = Certainty.EXACT if prior.distance == 0 else Certainty.UPPER_BOUND
    if question.answers == 1:
        return Movement.of_one(length(1), certainty, found.secrets, found.row)
    spreads = lifted(2 * prior.distance * products(largest, slopes.max(axis=1)), 2 * UNIT)
    return Movement(plus(found.steps, spreads), length, certainty, found.secrets, found.row)


def _sum(own: float, factor: float, spread: float) -> float:
    return float_above(Fraction(own) + Fraction(factor) * Fraction(spread))


def _slopes(question: Question) -> Floats:
    """Return |φ(p) − φ(q)|/|p − q| for neighbouring values of the domain, rounded up: no other two are steeper."""
    numbers = question.domain.numbers
    order = np.argsort(numbers, kind="stable")
    values, tables = numbers[order].tolist(), question.tables[:, order]
    rises = rounded_up(lambda a, b: abs(a - b), tables[:, 1:], tables[:, :-1])
    runs = [-float_above(Fraction(low) - Fraction(high)) for low, high in itertools.pairwise(values)]
    return np.stack([quotient_above(rises[:, at], run) for at, run in enumerate(runs)], axis=1)
