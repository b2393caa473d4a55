"""The general approximate Wasserstein mechanism: hide all movement but a share δ (M4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from pufferflow.bounds.ball import ball, norm_for, read_norm
from pufferflow.bounds.bound import BallPart, Bound
from pufferflow.bounds.laws import Work, as_laws
from pufferflow.bounds.pairs import Pair
from pufferflow.errors import Refused
from pufferflow.guarantees import Guarantee
from pufferflow.noise import Family, Noise
from pufferflow.reading import probability_below_one
from pufferflow.rounding import UNIT
from pufferflow.suggestions import explained


@final
@explained
@dataclass(frozen=True)
class GAWM(Bound):
    """RPP Theorem 4.3, tightened (M4): all pairs are (z, delta)-near, and the loss is that of a ball of radius z.

    It needs a promise with room for `delta`: `pf.ApproxRenyi`, or `pf.Approx`, where what the noise's own hockey stick
    takes of the rest is counted too. The paper adds α/(α−1)·log(1/(1−delta)) to the loss; that term is not needed, and
    `as_printed=True` adds it for comparison.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> pf.calibrate([pair], pf.Approx(1.0, 0.003), noise=pf.Laplace, bound=GAWM(delta=0.003)).noise
    Laplace(scale=1.0)
    """

    delta: float
    norm: float | None = None
    as_printed: bool = False

    def __post_init__(self) -> None:
        probability_below_one(self.delta, "delta")
        object.__setattr__(self, "norm", read_norm(self.norm))

    def work(self, sizes: Work, guarantee: Guarantee) -> float:
        """Return the work of nearness."""
        del guarantee
        return sizes.near

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallPart]:
        """Return the ball of the pair that is least near."""
        laws = as_laws(pairs)
        own = probability_below_one(self.delta, "delta")
        unbounded = Refused(
            f"All but a share {own:g} of a pair is still infinitely far apart.",
            allowed="a share beyond which movement is bounded",
            instead="a larger delta",
        )
        extra = -math.log1p(-own) * (1 + 4 * UNIT) if self.as_printed else 0.0
        reach = laws.near(self.delta, norm_for(noise, self.norm, laws.dimension))
        return [replace(ball(reach, unbounded), own_delta=own, extra=extra)]

    def least(self, pairs: Sequence[Pair], family: Family, guarantee: Guarantee) -> float:
        """Return the scale that hides the movement of the pairs that are quickly looked at."""
        reach = as_laws(pairs).least_near(self.delta, family(1.0).norm)
        if reach.length in (0.0, math.inf):
            return 0.0
        own = probability_below_one(self.delta, "delta")
        part = BallPart(reach.length, reach.certainty, reach.witness, own)
        return part.least_scale(family, guarantee)
