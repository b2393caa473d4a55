"""What all releases keep together if a belief is wrong: ordinary differential privacy of a row, and group privacy.

Both are totals of the same noises under other beliefs. If rows tell nothing of each other, a row's own change is all
that answers tell of it (M27): that is differential privacy, over the pairs of values that the scenario hides. If they
may have anything to do with each other, all rows of a group may change (M7).
"""

from collections.abc import Sequence

from pufferflow.composition.cost import Cost
from pufferflow.composition.spent import Spent
from pufferflow.composition.timeline import window_of
from pufferflow.errors import Refused
from pufferflow.guarantees import Guarantee
from pufferflow.priors import AnyCorrelation, Independent
from pufferflow.secrets import Initial
from pufferflow.secrets.secret import ValueSecret


def differential_privacy(spent: Spent) -> Guarantee | None:
    """Return what releases keep together as differential privacy of one row's value; None where that is not known.

    It is that of the first row of a sequence where that is the secret. Nothing is said of the presence of units, of
    secrets that are derived, nor where another column than the secret's was asked about.
    """
    secret = spent.scenario.secret
    if not isinstance(secret, ValueSecret) or asks_elsewhere(spent.costs, secret.column):
        return None
    costs = spent.costs
    if isinstance(secret, Initial):
        costs = tuple(cost for cost in costs if not _begins_later(cost))
    return _total(spent.under(Independent(), costs))


def group_privacy(spent: Spent) -> Guarantee | None:
    """Return what releases keep together whatever the rows of one group have to do with each other; None if unknown."""
    return _total(spent.under(AnyCorrelation()))


def _total(spent: Spent) -> Guarantee | None:
    try:
        return spent.total().guarantee
    except Refused:
        return None


def asks_elsewhere(costs: Sequence[Cost], column: str) -> bool:
    """Say whether a release asked about another column."""
    return any(cost.shape.column not in {None, column} for cost in costs)


def _begins_later(cost: Cost) -> bool:
    """Say whether a release asks about no row at the beginning of its sequence, as far as places are known."""
    known = cost.start is not None and cost.shape.rows is not None and cost.shape.rows.runs is not None
    return known and cost.start is not None and window_of(cost)[0] > cost.start
