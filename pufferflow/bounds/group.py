"""Group privacy: hide every movement between two possible answers (M7)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.bounds.ball import Radius, farthest, norm_for, read_norm
from pufferflow.bounds.bound import BallPart, Bound
from pufferflow.bounds.pairs import Pair
from pufferflow.errors import Refused
from pufferflow.law import GaussianLaw, Law
from pufferflow.noise import Noise
from pufferflow.rounding import UNIT, upwards
from pufferflow.transport import Certainty, footing
from pufferflow.transport.line import longest

_ROWS = 1 << 20


@final
@dataclass(frozen=True)
class Group(Bound):
    """The fallback that is always valid (M7): the loss is that of a ball as wide as the answers can lie apart.

    It uses no more of the laws than which answers they allow; it holds for every prior with these supports.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 9], [0.9, 0.1])
    >>> pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=Group()).noise
    Laplace(scale=9.0)
    """

    norm: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", read_norm(self.norm))

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallPart]:
        """Return the ball of the pair with the farthest answers."""
        norm = norm_for(noise, self.norm, pairs[0].dimension)
        unbounded = Refused(
            "The answers of a pair are not bounded, so no movement is the farthest.",
            allowed="laws with finitely many atoms",
            instead="bound=pf.GWM(), or clipping the answers",
        )
        return [farthest(pairs, lambda pair: _span(pair, norm), unbounded)]


def _span(pair: Pair, norm: float) -> Radius:
    """Return the largest distance between an atom of either law."""
    mu, nu = pair
    if isinstance(mu, GaussianLaw) or isinstance(nu, GaussianLaw):
        same = mu == nu and not mu.covariance.any() if isinstance(mu, GaussianLaw) else False
        return Radius(0.0 if same else math.inf, Certainty.EXACT)
    left, right = footing.values(mu, nu)
    if mu.dimension == 1:
        return Radius(longest(left[[0, -1]], right[[-1, 0]]), Certainty.EXACT)
    return Radius(_span_of_vectors(mu, nu, norm), Certainty.UPPER_BOUND)


def _span_of_vectors(mu: Law, nu: Law, norm: float) -> float:
    left, right = (np.asarray(values, dtype=np.float64) for values in (mu.values, nu.values))
    rows = max(_ROWS // len(right), 1)
    widest = 0.0
    for start in range(0, len(left), rows):
        steps = np.abs(left[start : start + rows, None, :] - right[None, :, :])
        widest = max(widest, float(footing.norms(np.moveaxis(steps, -1, 0), norm).max()))
    size = float(max(np.abs(left).max(), np.abs(right).max()))
    rounded = size * UNIT * mu.dimension if object in (mu.values.dtype, nu.values.dtype) else 0.0
    return upwards(widest, 8 * mu.dimension * UNIT) + rounded
