"""Independent parts: what is about different units adds nothing, the worst of them counts (M25, M27)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.composition.cost import Cost
from pufferflow.composition.regions import Region, overlapping
from pufferflow.composition.timeline import window_of
from pufferflow.priors import Prior
from pufferflow.scenario import Scenario
from pufferflow.secrets import Presence
from pufferflow.secrets.secret import ValueSecret


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
    if prior.alone and isinstance(scenario.secret, ValueSecret):
        return _about_one_row(costs, columns)
    if not any(name in cost.apart for cost in costs for name in columns):
        return [costs]
    return [[costs[place] for place in places] for places in overlapping(costs, columns)]


@final
@dataclass(frozen=True, eq=False)
class _Placed:
    """Where the rows of a release are, by column and by step."""

    apart: Mapping[str, Region]


def _about_one_row(costs: Sequence[Cost], columns: Sequence[str]) -> list[Sequence[Cost]]:
    """Return sets that may touch one row; rows at other steps of the same clock are other rows.

    Of sets that are the same but for where they lie one is enough, since rows tell nothing of each other.
    """
    steps = [_step(cost) for cost in costs]
    columns = [*columns, *dict.fromkeys(name for found in steps for name in found)]
    placed = [_Placed({**cost.apart, **found}) if found else cost for cost, found in zip(costs, steps, strict=True)]
    if not any(name in one.apart for one in placed for name in columns):
        return [costs]
    found = [[costs[place] for place in places] for places in overlapping(placed, columns)]
    return list({frozenset(Counter(id(cost.shape) for cost in some).items()): some for some in found}.values())


def _step(cost: Cost) -> dict[str, Region]:
    """Return between which steps rows are asked about, under the name of the clock that counts them; {} if unknown."""
    if cost.hull is None or cost.shape.rows is None or cost.shape.rows.runs is None:
        return {}
    low, high = window_of(cost)
    return {f"\0step {cost.clock}": Region("number", low=int(low), high=int(high), high_open=True)}
