"""Which groups look alike to the public: laws are worked out once for each pattern, not once for each group (M2)."""

from pufferflow.patterns.found import found
from pufferflow.patterns.patterns import PLACED, Order, Patterns

__all__ = ["PLACED", "Order", "Patterns", "found"]
