"""The joint guarantee of an account's releases if its priors are wrong: of one row alone, and of a whole group.

If rows are independent of each other, the loss is that of a row's own change (M27). This is differential privacy, over
the pairs of values that the scenario hides. If they depend on each other in any way, all rows of a group may change
(M7).
"""

from collections.abc import Sequence

from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.models.priors.simple import AnyCorrelation, Independent
from pufferflow.models.secret import Initial, ValueSecret
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.cost import Cost


def differential_privacy(account: AccountCosts) -> Guarantee | None:
    """Return the joint differential privacy of one row's value under all releases; None if unknown.

    It is that of the first row of a sequence if the secret is that row's value. It is unknown for the presence of
    units, for derived secrets, and for queries on another column than the secret's.
    """
    secret, costs = account.scenario.secret, account.costs
    if not isinstance(secret, ValueSecret) or asks_elsewhere(costs, secret.column):
        return None
    if isinstance(secret, Initial):
        costs = [cost for cost in costs if not _begins_later(cost)]
    total = account.under(Independent(), costs).proven()
    return None if total is None else total.guarantee


def group_privacy(account: AccountCosts) -> Guarantee | None:
    """Return the joint guarantee of releases under any dependence of the rows of one group; None if unknown."""
    total = account.under(AnyCorrelation()).proven()
    return None if total is None else total.guarantee


def asks_elsewhere(costs: Sequence[Cost], column: str) -> bool:
    """Return whether a release reads another column than the secret's."""
    return any(cost.shape.column not in {None, column} for cost in costs)


def _begins_later(cost: Cost) -> bool:
    """Return whether a release selects no first row of a sequence, as far as places are known."""
    placed = cost.shape.rows is not None and cost.shape.rows.runs is not None
    return placed and cost.start is not None and cost.window[0] > cost.start
