"""How long rows are remembered under each prior of a scenario, as plain values for a picture."""

import numpy as np

from pufferflow.priors import Prior
from pufferflow.priors.forgetting import forgotten_after, longest_memory, measure_of_memory, memory_after
from pufferflow.priors.prior import belief_in_words
from pufferflow.report.evidence import Memory
from pufferflow.scenario import Scenario

_POINTS = 100
_LEAST_STEPS = 4
_BEYOND = 1.25
"""The picture goes a quarter further than to where a row is forgotten."""


def memories(scenario: Scenario) -> tuple[Memory, ...]:
    """Return how long a row is remembered, for each prior of which that is one number after every step."""
    found = (_memory(prior, scenario.step_in_words) for prior in scenario.priors)
    return tuple(one for one in found if one is not None)


def _memory(prior: Prior, step: str) -> Memory | None:
    measure = measure_of_memory(prior)
    if measure is None:
        return None
    forgotten, longest = forgotten_after(prior), longest_memory(prior)
    last = longest if forgotten is None else min(max(round(_BEYOND * forgotten), _LEAST_STEPS), longest)
    steps = np.unique(np.linspace(0, last, _POINTS + 1).round().astype(np.int64)).tolist()
    left = tuple(memory_after(prior, one) or 0.0 for one in steps)
    return Memory(belief_in_words(prior), measure, step, tuple(steps), left, forgotten)
