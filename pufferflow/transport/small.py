"""Cheapest plans of many small transport problems with one matrix of costs, by POT's network simplex.

Nothing is promised of them: whoever uses a plan proves what it is worth.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_MOST_PIVOTS = 1_000_000


def small_plans(a: Floats, b: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Return cheapest plans from a to b, and functions that prove them so; what both have in common stays."""
    import ot  # pyright: ignore[reportMissingTypeStubs]  # takes a second to load

    solve = cast(Callable[..., tuple[Floats, float, Floats, Floats, int]], cast(Any, ot).lp.emd_wrap.emd_c)
    plans, heights = np.zeros((*a.shape, a.shape[1])), np.zeros(a.shape)
    common = np.minimum(a, b)
    for row, (more, less) in enumerate(zip(a - common, b - common, strict=True)):
        sources, targets = np.flatnonzero(more), np.flatnonzero(less)
        if not len(sources) or not len(targets):
            continue
        between = np.ascontiguousarray(costs[np.ix_(sources, targets)])
        supply, demand = more[sources], less[targets]
        plan, _, _, potential, _ = solve(supply, demand * (supply.sum() / demand.sum()), between, _MOST_PIVOTS, 1)
        plans[row, sources[:, None], targets] = plan
        heights[row] = (costs[:, targets] - potential).min(axis=1)
    states = np.arange(len(costs))
    plans[:, states, states] += common
    return plans, heights
