"""Where the worst pair of a plan comes from: which prior, seen through which functions, and which public pattern."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.bounds import Laws, Pair, Witness
from pufferflow.bounds.laws import Together
from pufferflow.calibration.ways import Way
from pufferflow.errors import InternalError, PufferflowError
from pufferflow.law import Law
from pufferflow.plan.planned import Planned
from pufferflow.plan.tables import Tables
from pufferflow.queries import Pattern

_SECONDS = 0.5
_CLOSE = 1e-9


@final
@dataclass(frozen=True, eq=False)
class Origin:
    """The laws that a witness is of: the weighted sums on one pattern, under one prior."""

    tables: Tables
    pattern: Pattern
    laws: Laws


def origin_of(plan: Planned) -> Origin:
    """Return where the witness comes from: of several patterns the one that costs most, as far as that is quick.

    Patterns with many rows are tried first, and are the ones that cost most if all else is equal.
    """
    possible = _matching(_origins(plan), plan.calibration.witness)
    possible.sort(key=lambda one: one.pattern.asked, reverse=True)
    if len(possible) == 1:
        return possible[0]
    best, most, end = possible[0], -math.inf, time.monotonic() + _SECONDS
    for one in possible:
        excess = _excess(plan, one)
        if excess > most:
            best, most = one, excess
        if most >= -_CLOSE or time.monotonic() > end:
            break
    return best


def _origins(plan: Planned) -> list[Origin]:
    """Return all that the plan was calibrated for, in the order in which its facts put them together."""
    laws: Sequence[Laws] = plan.laws.pieces if isinstance(plan.laws, Together) else [plan.laws]
    where = [
        (of_prior[0], pattern)
        for of_prior in plan.ways
        for pattern in plan.facts.windows(of_prior[0].prior, of_prior[0].secret)
    ]
    return [Origin(tables, pattern, piece) for (tables, pattern), piece in zip(where, laws, strict=True)]


def _matching(origins: list[Origin], witness: Witness) -> list[Origin]:
    """Return those that may have the witness: of its prior and its number of answers; not a movement if it has laws."""
    found = [one for one in origins if one.tables.prior is witness.prior] or origins
    found = [one for one in found if one.laws.dimension == witness.dimension] or found
    if isinstance(witness, Pair):
        spread = any(not isinstance(law, Law) or len(law) > 1 for law in witness)
        found = [one for one in found if not (spread and one.laws.movement_only)] or found
    if not found:
        raise InternalError("The plan has no laws.", instead="reporting it")
    return found


def _excess(plan: Planned, one: Origin) -> float:
    """Return how close one of them comes to what is promised, as a log ratio; 0 or a little less if it decides."""
    found = plan.calibration
    try:
        parts = found.bound.parts(one.laws, found.noise)
        excess, _ = Way(found.bound, one.laws, parts).worst(found.noise, found.guarantee)
    except PufferflowError:
        return -math.inf
    return excess
