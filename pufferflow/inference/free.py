"""Rows that may do anything: every prior is bounded by the movement of all rows of its groups (M7).

It is also what is left of other priors where rows are too many to be listed one by one.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from pufferflow.bounds import Laws
from pufferflow.errors import Misuse
from pufferflow.inference.implied import asked
from pufferflow.inference.moved import Moved, Movement
from pufferflow.inference.movement import group_movement
from pufferflow.inference.presence import PRESENCE, columns_of, with_nothing
from pufferflow.inference.question import Floats
from pufferflow.priors.prior import Prior
from pufferflow.queries import Statistic
from pufferflow.secrets import AnySecret, Initial, Presence, Secret
from pufferflow.transport import Certainty

Method = Callable[[Any, Statistic, AnySecret], Laws]


def free(prior: Prior, statistic: Statistic, secret: AnySecret, certainty: Certainty) -> Laws:
    """Return the movement of all rows over all values; `certainty` tells whether the prior allows it."""
    tables = tables_of(prior, statistic, secret)
    tables = with_nothing(tables) if isinstance(secret, Presence) else tables
    columns, counts = columns_of(statistic.weights, statistic.counts)

    def length(norm: float) -> float:
        return group_movement(columns, counts, tables, norm)

    if len(tables) == 1:
        return Moved(prior, Movement.of_one(length(1), certainty, values_of(secret)))
    steps = [group_movement(columns[[o]], counts, tables[[o]], 1) for o in range(len(tables))]
    return Moved(prior, Movement(np.array(steps), length, Certainty.UPPER_BOUND, values_of(secret)))


def row_by_row(method: Method) -> Method:
    """Let a method see every row by itself; where they are too many for that, all of them may change (M7)."""

    @wraps(method)
    def laws(prior: Any, statistic: Statistic, secret: AnySecret) -> Laws:
        listed = statistic.listed()
        if listed is None:
            return free(prior, statistic, secret, Certainty.UPPER_BOUND)
        return method(prior, listed, secret)

    return laws


def values_of(secret: AnySecret) -> tuple[Any, Any]:
    """Return two values of a secret that stand for all."""
    if isinstance(secret, Presence):
        return PRESENCE
    return secret.value_pairs()[0] if isinstance(secret, Secret | Initial) else ("any value", "any other")


def tables_of(prior: Prior, statistic: Statistic, secret: AnySecret) -> Floats:
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
