"""Several releases, one loss: which rule of composition applies, and what it totals (M20, M23–M27)."""

from pufferflow.composition.compose import compose
from pufferflow.composition.cost import Cost, Drawn, Rows, Shape, digest_of
from pufferflow.composition.forecast import Forecast, forecast
from pufferflow.composition.regions import Region
from pufferflow.composition.spent import Composed, Spent
from pufferflow.composition.temporal import temporal_leakage

__all__ = [
    "Composed",
    "Cost",
    "Drawn",
    "Forecast",
    "Region",
    "Rows",
    "Shape",
    "Spent",
    "compose",
    "digest_of",
    "forecast",
    "temporal_leakage",
]
