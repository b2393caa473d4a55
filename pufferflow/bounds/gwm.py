"""The general Wasserstein mechanism: hide the farthest movement, W_∞ (M3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.bounds.ball import farthest, norm_for, read_norm, winf_of
from pufferflow.bounds.bound import BallPart, Bound
from pufferflow.bounds.pairs import Pair
from pufferflow.errors import Refused
from pufferflow.noise import Noise


@final
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

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallPart]:
        """Return the ball of the pair farthest apart."""
        norm = norm_for(noise, self.norm, pairs[0].dimension)
        unbounded = Refused(
            "W_∞ of a pair is infinite: no bounded movement takes one law to the other.",
            allowed="laws that a bounded movement connects",
            instead="bound=pf.GAWM(delta) for a promise with a delta, or bound=pf.Exact() for Gaussian laws and noise",
        )
        return [farthest(pairs, lambda pair: winf_of(pair, norm), unbounded)]
