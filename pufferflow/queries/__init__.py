"""What is asked: queries come down to additive statistics."""

from pufferflow.queries.kinds import Kinds
from pufferflow.queries.statistic import Statistic

__all__ = ["Kinds", "Statistic"]
