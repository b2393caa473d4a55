"""Exact sums: what a plan reads of rows that are draws from a table, which accounts compose exactly (M23).

A batch has exact sums if all its rows are in one cell, each an independent draw from a table, and every row adds whole
steps that follow from a value of a finite domain. Other batches are counted by the exposures of their costs alone.
"""

import hashlib
from collections.abc import Sequence

from pufferflow.accounting.exact_answers import table_of
from pufferflow.models.domain import Product
from pufferflow.noise.base import Noise
from pufferflow.published.cost import ExactSum, ExactSums
from pufferflow.queries.request import Request
from pufferflow.release.planning.sum_tables import SumFunctions, on_interval


def reads_exactly(request: Request) -> bool:
    """Return whether a batch adds up functions of rows that are draws from tables, all rows in one cell."""
    scenario, functions = request.scenario, [one.values for one in request.measures if one is not None]
    return (
        not request.by
        and not on_interval(request)
        and not isinstance(request.domain, Product)
        and all(values.weight is None for values in functions)
        and all(table_of(prior, scenario.secret) is not None for prior in scenario.priors)
    )


def exact_sums(request: Request, rows: int, noises: Sequence[Noise]) -> ExactSums | None:
    """Return the sums of a batch about so many rows, and the noise on their steps; None if they are not of this kind.

    Noises are left out for sums that a channel reads.
    """
    if not reads_exactly(request):
        return None
    terms = SumFunctions.of(request).at_values.tolist()
    stored = [own.stored() for own in noises] or [{}] * len(terms)
    sums = tuple(
        ExactSum(tuple(int(one) for one in row), str(unit), noise)
        for row, unit, noise in zip(terms, request.units, stored, strict=True)
    )
    return ExactSums(rows, selected_by(request), request.column, sums)


def selected_by(request: Request) -> str:
    """Return a digest of how rows are selected; empty if all are.

    Releases of an account with the same digest and number of rows are taken to be about the same rows.
    """
    if not request.filters:  # then derived columns select nothing
        return ""
    return hashlib.sha256(repr(request.conditions).encode()).hexdigest()[:32]
