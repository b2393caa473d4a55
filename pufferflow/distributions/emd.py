"""W_p of two finite laws on R^d, and cheapest plans, by POT's exact network simplex: the only file that imports POT.

Any coupling gives an upper bound, so the result is the cost of a coupling. POT's dual potentials bound the gap to the
optimum. POT compares costs with an absolute tolerance, so it fails for the huge costs of a high p: at p=40 it returned
three times W_∞. Where the gap is wide, costs are cut off at twice W_∞ and solved again.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import InternalError
from pufferflow.core.rounding import SMALLEST, UNIT, upwards
from pufferflow.distributions import common_units, wasserstein_nd
from pufferflow.distributions.coupling import (
    Certainty,
    Coupling,
    Distance,
    Matching,
    TransportPlan,
    plan_of_coupling,
)
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.wasserstein_1d import upper_power

_MOST_ITERATIONS = 50_000_000
_MOST_PIVOTS = 1_000_000
_WIDE = 1e-6


def wasserstein(
    mu: Law, nu: Law, p: float, norm: float, *, coupling: bool = False
) -> Distance[Coupling]:
    """Return W_p on R^d, rounded up, or an upper bound with its gap in the note."""
    matrix = wasserstein_nd.costs(mu, nu, norm)
    farthest = float(matrix.max())
    if not np.isfinite(farthest):
        return Distance(np.inf, Certainty.UPPER_BOUND, note="a movement is too long for a float")
    best, least = _solve_powers(mu, nu, p, matrix, farthest)
    value = _price(best, matrix, p)
    if least < value * (1 - _WIDE):
        bottleneck = wasserstein_nd.winf(mu, nu, norm, coupling=True)
        clipped, at_least = _solve_powers(mu, nu, p, matrix, 2 * float(bottleneck))
        best = min(best, clipped, bottleneck.coupling, key=lambda c: _price(c, matrix, p))
        value, least = _price(best, matrix, p), max(least, at_least)
    gap = 1 - least / value if value else 0.0
    exact = common_units.rational(mu, nu) is not None
    return Distance(
        value,
        Certainty.EXACT if exact and value == 0 else Certainty.UPPER_BOUND,
        rounding=0.0 if exact else (len(mu) + len(nu)) * UNIT,
        note=f"above the true distance by at most {gap:.2g} of the result"
        if gap > _WIDE
        else "the true distance up to float rounding",
        coupling=best if coupling else None,
    )


def cheapest(mu: Law, nu: Law, costs: Floats) -> TransportPlan:
    """Return a plan with a small E cost, for a cost in [0, 1] per pair of atoms: POT's optimum with exact marginals."""
    return plan_of_coupling(_solve(mu, nu, costs, costs)[0])


def _solve_powers(
    mu: Law, nu: Law, p: float, matrix: Floats, longest: float
) -> tuple[Coupling, float]:
    """Solve the problem with distances cut off at `longest`; return a coupling and a lower bound of W_p."""
    powers = upper_power(np.minimum(matrix / (longest or 1.0), 1.0), p)
    coupling, least = _solve(mu, nu, powers, matrix)
    return coupling, least ** (1 / p) * longest


def _solve(mu: Law, nu: Law, powers: Floats, matrix: Floats) -> tuple[Coupling, float]:
    """Solve a transport problem; return a coupling and a lower bound of its cost.

    POT's plan is right to float rounding only, which may be as large as the result where costs differ in size. So it is
    rounded to whole numbers, and the remaining mass is matched with partners that are near by `matrix`.
    """
    left, right = mu.probabilities, nu.probabilities
    plan, log = _call_pot(left, right, powers)
    if not np.isfinite(plan).all():
        raise InternalError(
            "POT found no coupling.", instead="reporting the two laws to the maintainers"
        )
    least = _dual_value(left, right, powers, log["u"], log["v"])
    matching = Matching(mu, nu)
    rows, columns = np.nonzero(plan > 0)
    shares = zip(rows.tolist(), columns.tolist(), plan[rows, columns].tolist(), strict=True)
    matching.take_shares(shares, min(sum(matching.left), sum(matching.right)))
    matching.match_in_order()
    matching.match_slivers(lambda i: matrix[i], lambda j: matrix[:, j])
    return matching.coupling(), least


def _dual_value(left: Floats, right: Floats, powers: Floats, u: Floats, v: Floats) -> float:
    """Return a lower bound of the optimum: the value of the duals, made feasible, less its rounding error."""
    slack = powers - u[:, None] - v[None, :]
    size = float(left @ np.abs(u) + right @ np.abs(v)) + float(np.abs(u).max() + np.abs(v).max())
    return max(float(left @ u + right @ v) + min(float(slack.min()), 0.0) - 16 * UNIT * size, 0.0)


def _call_pot(left: Floats, right: Floats, matrix: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Call POT, which has no types."""
    import ot  # pyright: ignore[reportMissingTypeStubs]  # takes longer to import than everything else here together

    return cast(Any, ot).emd(left, right, matrix, numItermax=_MOST_ITERATIONS, log=True)


def _price(coupling: Coupling, matrix: Floats, p: float) -> float:
    """Return (E‖X − Y‖^p)^(1/p) under a coupling, rounded up."""
    steps = matrix[coupling.rows, coupling.columns]
    longest = float(steps.max())
    if longest == 0:
        return 0.0
    moment = upwards(math.fsum(coupling.masses * upper_power(steps / longest, p)), 8 * UNIT)
    moment += len(steps) * SMALLEST
    return upwards(min(moment, 1.0) ** (1 / p) * longest, 16 * coupling.left.dimension * UNIT)


def small_plans(a: Floats, b: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Return cheapest plans from a to b, and their dual functions; mass common to both stays.

    The plans solve many small problems with one matrix of costs. They are not proven optimal: the caller proves what
    it derives from a plan.
    """
    import ot  # pyright: ignore[reportMissingTypeStubs]  # see `_pot`

    solve = cast(
        Callable[..., tuple[Floats, float, Floats, Floats, int]], cast(Any, ot).lp.emd_wrap.emd_c
    )
    plans, heights = np.zeros((*a.shape, a.shape[1])), np.zeros(a.shape)
    common = np.minimum(a, b)
    for row, (surplus, deficit) in enumerate(zip(a - common, b - common, strict=True)):
        sources, targets = np.flatnonzero(surplus), np.flatnonzero(deficit)
        if not len(sources) or not len(targets):
            continue
        between = np.ascontiguousarray(costs[np.ix_(sources, targets)])
        supply, demand = surplus[sources], deficit[targets]
        plan, _, _, potential, _ = solve(
            supply, demand * (supply.sum() / demand.sum()), between, _MOST_PIVOTS, 1
        )
        plans[row, sources[:, None], targets] = plan
        heights[row] = (costs[:, targets] - potential).min(axis=1)
    states = np.arange(len(costs))
    plans[:, states, states] += common
    return plans, heights
