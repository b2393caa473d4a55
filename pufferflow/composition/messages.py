"""Lipschitz messages for Markov chains: exposures of all releases add up step by step, and then travel (M20)."""

import math
from typing import final

from pufferflow.composition.rule import Asked, Rule
from pufferflow.composition.timeline import Timeline
from pufferflow.errors import Refused
from pufferflow.messages import leak

MOST = 1e6
_MOST_STEPS = 8_000_000


@final
class Messages(Rule):
    """Windows of one sequence may overlap, weigh what they like, and be chosen after seeing earlier answers.

    What is told of one step travels along the chain, which forgets; so windows that lie far apart hardly add up.
    """

    name = "messages along the chain (M20)"

    def pure(self, asked: Asked) -> float:
        """Return the largest of B_t + ℓ_t + F_t over all steps and pairs."""
        if not Timeline.fits(asked.scenario, asked.prior, asked.costs):
            return math.inf
        line = Timeline(asked.scenario, asked.prior, asked.costs, asked.hull)  # pyright: ignore[reportArgumentType] - it fits
        if line.hull[1] - line.hull[0] >= _MOST_STEPS:
            return math.inf
        try:
            chain, first = line.chain(*line.hull)
            exposures = line.exposures(first, line.hull[1])
        except Refused:  # too many steps
            return math.inf
        if not (exposures.losses < MOST).all():  # so little noise tells a row's value, but for rounding
            return math.inf
        return leak(chain, exposures, line.secrets(first, len(exposures.kinds))).value
