"""Several releases, one loss: which rule of composition applies, and what it totals (M20, M23–M27)."""

from pufferflow.composition.account_costs import Composed, Spent, asks_elsewhere, differential_privacy, group_privacy
from pufferflow.composition.additive import Coupling
from pufferflow.composition.chain import temporal_leakage
from pufferflow.composition.compose import compose
from pufferflow.composition.cost import Cost, Rows, Shape, canonical, digest_of
from pufferflow.composition.forecast import (
    Every,
    Forecast,
    Recurring,
    alike,
    forecast,
    forecast_of,
    read_every,
    recurring,
)
from pufferflow.composition.regions import Region

__all__ = [
    "Composed",
    "Cost",
    "Coupling",
    "Every",
    "Forecast",
    "Recurring",
    "Region",
    "Rows",
    "Shape",
    "Spent",
    "alike",
    "asks_elsewhere",
    "canonical",
    "compose",
    "differential_privacy",
    "digest_of",
    "forecast",
    "forecast_of",
    "group_privacy",
    "read_every",
    "recurring",
    "temporal_leakage",
]
