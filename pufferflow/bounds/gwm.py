"""The general Wasserstein mechanism: hide the farthest movement, W_∞ (M3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.bounds.ball import ball, norm_for, read_norm
from pufferflow.bounds.bound import BallPart, Bound
from pufferflow.bounds.laws import Work, as_laws
from pufferflow.bounds.pairs import Pair
from pufferflow.errors import Refused
from pufferflow.guarantees import Guarantee
from pufferflow.noise import Family, Noise
from pufferflow.suggestions import explained


@final
@explained
@dataclass(frozen=True)
class GWM(Bound):
    """RPP Theorem 3.3 (M3): the loss is that of the noise over a ball of radius max W_∞(mu, nu).

    `norm` is the norm of movements in R^d; left out, it is the noise's own (1 for Laplace, 2 for the others).

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=GWM()).noise
    Laplace(scale=49.0)
    """

    norm: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", read_norm(self.norm))

    def work(self, sizes: Work, guarantee: Guarantee) -> float:
        """Return the work of W_∞."""
        del guarantee
        return sizes.winf

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallPart]:
        """Return the ball of the pair farthest apart."""
        laws = as_laws(pairs)
        return [ball(laws.winf(norm_for(noise, self.norm, laws.dimension)), _unbounded())]

    def least(self, pairs: Sequence[Pair], family: Family, guarantee: Guarantee) -> float:
        """Return the scale that hides the least movement there can be."""
        laws = as_laws(pairs)
        movement = laws.least_winf(family(1.0).norm)
        if movement.length == 0:
            return 0.0
        return ball(movement, _unbounded()).least_scale(family, guarantee)


def _unbounded() -> Refused:
    return Refused(
        "W_∞ of a pair is infinite: no bounded movement takes one law to the other.",
        allowed="laws that a bounded movement connects",
        instead="bound=pf.GAWM(delta) for a promise with a delta, or bound=pf.Exact() for Gaussian laws and noise",
    )
