"""One release about a unit costs what it promises (M3–M6)."""

import math
from typing import final

from pufferflow.composition.rule import Asked, Rule
from pufferflow.guarantees import Pure


@final
class Single(Rule):
    """A release that is the only one about its unit, whose pure promise was made for this belief."""

    name = "one release alone, its own promise"

    def pure(self, asked: Asked) -> float:
        """Return what the release promises."""
        if len(asked.costs) != 1:
            return math.inf
        shape = asked.costs[0].shape
        known = asked.digest in shape.priors and isinstance(shape.promise, Pure)
        return shape.promise.approx_epsilon(0.0) if known else math.inf
