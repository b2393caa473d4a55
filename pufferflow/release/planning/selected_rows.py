"""The rows that a release selects, by its filters and keys, those of one unit that may be absent, and their exact sums.

A unit of r rows moves a cell by r at most. Let it have r rows in each of g groups, and let no cell of the answer have
rows of two groups. Then it moves g cells by r each: ‖(r, …, r)‖ is r·g in the norm 1, and r·√g in the norm 2. Splitting
the rows of a group further makes no vector longer. With a limit on groups alone all rows may be in one group, so that
nothing is gained.

Accounts compose exact sums exactly (M23). A batch has them if all its rows are in one cell and each is an independent
draw from a table. Every row also has to add whole steps that follow from a value of a finite domain. Other batches are
counted by the exposures of their costs alone.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from pufferflow.accounting.exact_answers import table_of
from pufferflow.core.errors import Refused, UsageError
from pufferflow.models.domain import Product
from pufferflow.models.secret import Presence
from pufferflow.noise.base import Noise
from pufferflow.published.cost import ExactSum, ExactSums, Region
from pufferflow.queries.engine_interface import Pattern
from pufferflow.queries.expressions.public import conditions, is_one_of
from pufferflow.queries.request import Request
from pufferflow.release.planning.sum_functions import SumFunctions, on_interval

ONE_ROW: Final = Pattern(np.zeros(1, dtype=np.intp), np.ones(1, dtype=np.intp), np.zeros(1))
"""The pattern of a row that is independent of all others."""


def regions(request: Request) -> dict[str, Region]:
    """Return the region of selected rows, as far as filters and keys give literal values of declared columns."""
    types = {name: request.schema[name] for name in request.scenario.public}
    limits = [
        condition for predicate in request.filters for condition in conditions(predicate, types)
    ]
    if request.keys is not None:
        labelled = (
            () if request.others is None else request.others.labelled
        )  # their rows have any values
        named = [name for name in request.by if name in types and name not in labelled]
        limits += [condition for name in named for condition in is_one_of(name, request.keys[name])]
    regions: dict[str, Region] = {}
    for limit in limits:
        region = Region(
            limit.kind, limit.labels, limit.low, limit.high, limit.low_open, limit.high_open
        )
        known = regions.get(limit.column)
        regions[limit.column] = region if known is None else known.both(region)
    return regions


def present(request: Request, secret: Presence) -> Pattern:
    """Return the pattern of a unit that may be absent: as many rows as it may have, in one cell if that may be."""
    if secret.rows is None:
        raise UsageError(
            f"The number of rows of one {secret.within!r} is private too, so it needs a declared limit.",
            allowed="the largest number of rows of a unit; further ones are not read",
            instead=f"pf.Presence({secret.within!r}, ..., rows=10)",
        )
    if secret.groups is None:
        return Pattern(np.zeros(1, dtype=np.intp), np.array([secret.rows]))
    groups = int(min(secret.groups, _most_groups(request, secret.by)))
    if request.others is None and set(secret.by) <= set(request.by):
        return Pattern(np.arange(groups, dtype=np.intp), np.full(groups, secret.rows))
    return Pattern(np.zeros(1, dtype=np.intp), np.array([secret.rows * groups]))


def _most_groups(request: Request, by: Sequence[str]) -> float:
    """Return how many groups of equal values there can be in the selected rows, at least 1; ∞ if that is not known."""
    selected, most = regions(request), math.inf
    labels = [selected[name].labels for name in by if name in selected]
    if len(labels) == len(by) and None not in labels:
        most = math.prod(len(some or ()) for some in labels)
    if request.keys is not None and request.others is None and set(by) <= set(request.by):
        most = min(most, request.keys.select(by).n_unique())
    return max(most, 1)


def more_may_leave(unit: str, within: Sequence[str]) -> Refused:
    """Return the error for units that may come and go together with an unlimited number of others in their group."""
    together = ", ".join(map(repr, within))
    return Refused(
        f"The secret is whether rows of one {unit!r} exist, but rows of several are correlated within {together}.",
        allowed=f"pf.AnyCorrelation() with within={unit!r}, or pf.Independent()",
        instead=f"pf.Presence({within[0]!r}, rows=...), which hides all rows that depend on each other",
    )


def reads_exactly(request: Request) -> bool:
    """Return whether a batch adds up functions of rows that are draws from tables, all rows in one cell."""
    scenario, functions = (
        request.scenario,
        [one.values for one in request.measures if one is not None],
    )
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
