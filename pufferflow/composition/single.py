"""One release about a unit costs what it promises (M3–M6)."""

import math
from typing import final

from pufferflow.composition.rule import Asked, Rule
from pufferflow.guarantees import Pure


def beyond(asked: Asked) -> bool:
    """Say whether there are rows whose secrets a release's promise does not speak of, and another pair's may cost more.

    A row that a release did not see is told of by those that it saw: at most as much as the costliest two states of
    these, which are a pair of the secret if all states are.
    """
    secret = asked.scenario.secret
    return (asked.wider or asked.left_out) and not asked.prior.alone and getattr(secret, "pairs", "all") != "all"


@final
class Single(Rule):
    """A release that is the only one about its unit, whose pure promise was made for this belief."""

    name = "one release alone, its own promise"

    def pure(self, asked: Asked) -> float:
        """Return what the release promises."""
        if len(asked.costs) != 1:
            return math.inf
        shape = asked.costs[0].shape
        known = asked.digest in shape.priors and isinstance(shape.promise, Pure) and not beyond(asked)
        return shape.promise.approx_epsilon(0.0) if known else math.inf
