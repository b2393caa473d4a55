"""Weights of sums of kinds of rows, such as groups with bounds of their own: each kind has the noise it needs.

A row moves the sums of its own kind only. Shares of the budget make equal noise of the range of each sum; but units of
one kind may have more rows than those of another, or depend on each other more closely. So the weights of each kind's
sums may be raised as far as its rows, were there no others, need the noise of the kind that needs most. What units of
several kinds need is found afterwards, by the calibration of all sums together; where there are many, equal shares may
be better, and the smaller error decides.
"""

from dataclasses import replace

import numpy as np

from pufferflow.core.arrays import Flags, Floats
from pufferflow.core.errors import Refused
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.release.planning.cell_noise import Demand
from pufferflow.release.planning.row_privacy import row_laws
from pufferflow.release.planning.shares import short_binary


def weights_by_kind(demand: Demand) -> Floats | None:
    """Return the weights of sums, raised for kinds that need less noise than another.

    None where rows are independent, since shares are by what one row moves; and where some sum is of all rows.
    """
    facts, promise = demand.facts, demand.terms.example
    kinds = None if None in facts.weights.of_sums else facts.weights.kinds
    dependent = any(not prior.independent_rows for prior in facts.request.scenario.priors)
    if kinds is None or not dependent or demand.terms.accuracy is not None:
        return None
    needs = np.array([_need(replace(demand, weights=demand.weights * kind), promise) for kind in kinds])
    if not (needs > 0).all():
        return None
    return np.array([short_binary(weight) for weight in (demand.weights * _rises(kinds, needs)).tolist()])


def _rises(kinds: Flags, needs: Floats) -> Floats:
    """Return by how much each sum may weigh more, so that no kind that moves it needs more noise than another did."""
    rises = np.where(kinds, (needs.max() / needs)[:, None], np.inf).min(axis=0)
    return np.where(np.isfinite(rises), rises, 1.0)  # sums that no row moves


def _need(demand: Demand, promise: Guarantee) -> float:
    """Return the scale of the noise of weighted sums that hides their rows, and one row alone; 0 if it is not known."""
    try:
        laws = demand.facts.laws(demand.tables, demand.weights)
        of_row = row_laws(demand.facts, demand.weights, laws) if demand.terms.row_privacy else None
        own = demand.scale(laws, promise)
        return own if of_row is None else max(own, demand.scale(of_row, promise, row=True))
    except Refused:
        return 0.0
