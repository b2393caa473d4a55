"""Independent parts: what is about different units adds nothing, the worst of them counts (M25, M27)."""

from collections.abc import Sequence

from pufferflow.composition.cost import Cost
from pufferflow.composition.regions import overlapping
from pufferflow.priors import Prior
from pufferflow.scenario import Scenario
from pufferflow.secrets import Presence


def columns_of(scenario: Scenario, prior: Prior) -> tuple[str, ...]:
    """Return the columns of which every unit has one value only, so that filters on them keep units apart."""
    if isinstance(scenario.secret, Presence):
        return (scenario.secret.within,)
    return scenario.public if prior.alone else scenario.within


def sets_of(scenario: Scenario, prior: Prior, costs: Sequence[Cost]) -> list[Sequence[Cost]]:
    """Return sets of releases, in one of which are all that may tell of one and the same unit.

    A unit is a row if rows tell nothing of each other and the secret is one row's; otherwise it is the rows that share
    `within`, the scenario's or that of `pf.Presence`. What filters on literals do not keep apart counts as overlapping.
    """
    columns = columns_of(scenario, prior)
    costs = [cost for cost in costs if not cost.silent]
    if not any(name in cost.apart for cost in costs for name in columns):
        return [costs]
    return [[costs[place] for place in places] for places in overlapping(costs, columns)]
