"""A bound that sees little of the laws: how far the answer can move, rounded up to a power of two."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.calibration.bound import BallLoss, Bound
from pufferflow.calibration.distance_bounds import compared_values, norm_for
from pufferflow.calibration.laws import Laws, Pair, as_laws
from pufferflow.core.errors import Refused
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions.coupling import Certainty
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import Guarantee


@final
@suggests_arguments
@dataclass(frozen=True)
class Coarse(Bound):
    """The loss is that of a ball of radius W_∞ (M3) rounded up to a power of two, at most that of group privacy (M7).

    Priors that differ a little mostly get the same noise, which then says less of them; it is up to twice that of GWM.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 7], [0.5, 0.5]), pf.Law([3, 10], [0.5, 0.5])
    >>> [pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=one).noise.scale for one in (pf.GWM(), Coarse())]
    [3.0, 4.0]
    """

    name = "coarse"

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        return compared_values(laws)

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallLoss]:
        laws = as_laws(pairs)
        norm = norm_for(noise, None, laws.dimension)
        shortest = laws.winf(norm)
        if math.isinf(shortest.length):
            raise Refused(
                "W_∞ of a pair is infinite: no bounded movement takes one law to the other.",
                allowed="laws that a bounded movement connects",
                instead="bound=pf.GAWM(delta) for a guarantee with a delta",
            )
        radius = min(_power_of_two_above(shortest.length), laws.span(norm).length)
        return [BallLoss(max(radius, shortest.length), Certainty.UPPER_BOUND, shortest.witness)]


def _power_of_two_above(length: float) -> float:
    """Return the least power of two that is not below a length; 0 for 0."""
    mantissa, exponent = math.frexp(length)
    return length if mantissa in {0.0, 0.5} else math.ldexp(1.0, exponent)
