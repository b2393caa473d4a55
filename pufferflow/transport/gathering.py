"""Laws on R^d with too many atoms for a matrix of distances: gather atoms in cells, and count the way they were moved.

Moving every atom by at most r changes W_∞, W_p and nearness by at most r (triangle inequality), so the distance of the
gathered laws plus both ways is an upper bound.
"""

import math
from collections.abc import Callable

import numpy as np

from pufferflow.errors import Refused
from pufferflow.law import Law
from pufferflow.rounding import SMALLEST, UNIT, upwards
from pufferflow.transport.distance import Certainty, Coupling, Distance

MOST_PAIRS = 16_000_000
_MOST_ATOMS = 2_000
_INSIDE = 1 - 2.0**-53


def needed(mu: Law, nu: Law) -> bool:
    """Say whether the distances between all pairs of atoms are too many to be listed."""
    return len(mu) * len(nu) > MOST_PAIRS


def bound(
    mu: Law, nu: Law, norm: float, distance: Callable[[Law, Law], Distance[Coupling]], *, coupling: bool
) -> Distance[Coupling]:
    """Return an upper bound of a distance of two large laws."""
    if coupling:
        raise Refused(
            f"{len(mu)} × {len(nu)} pairs of atoms are too many for a coupling on R^{mu.dimension}.",
            allowed=f"at most {MOST_PAIRS} pairs",
            instead="law.map(...) to gather atoms first, or leaving coupling out",
        )
    (left, left_way), (right, right_way) = _gathered(mu, norm), _gathered(nu, norm)
    between = distance(left, right)
    return Distance(
        upwards(upwards(float(between) + left_way) + right_way),
        Certainty.UPPER_BOUND,
        rounding=between.rounding,
        note=f"atoms were gathered in cells, which adds up to {left_way + right_way:.3g}; fewer atoms make it exact",
    )


def _gathered(law: Law, norm: float) -> tuple[Law, float]:
    """Return the law with its atoms moved to the centres of cells, few enough of them, and the longest move."""
    if len(law) <= _MOST_ATOMS:
        return law, 0.0
    if law.values.dtype == object:
        raise Refused(
            f"{len(law)} atoms with numbers that no float holds are too many on R^{law.dimension}.",
            allowed=f"at most {MOST_PAIRS} pairs of such atoms",
            instead="law.map(lambda x: x.astype(float)), if rounding the atoms is acceptable",
        )
    values = law.values
    _, exponent = math.frexp(float(np.abs(values).max()))
    values = np.ldexp(values, -exponent)  # within [-1, 1], where nothing over- or underflows
    origin = values.min(axis=0)
    width = float((values.max(axis=0) - origin).max()) / _MOST_ATOMS ** (1 / law.dimension)
    while True:
        centres = np.clip(origin + (np.floor((values - origin) / width) + 0.5) * width, -_INSIDE, _INSIDE)
        gathered = law.map(lambda _, centres=centres: np.ldexp(centres, exponent))
        if len(gathered) <= _MOST_ATOMS:
            break
        width *= 1.25
    longest = float(np.linalg.norm(values - centres, norm, axis=1).max())
    rounding = 8 * law.dimension * UNIT  # of atoms to floats, of centres, and of the norm
    way = math.ldexp(upwards(longest, rounding) + rounding, exponent)
    return gathered, way + 8 * law.dimension * SMALLEST  # subnormal atoms round absolutely
