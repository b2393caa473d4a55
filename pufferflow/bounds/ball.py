"""Bounds that see one number of a pair of laws: how far the answer can move (M3, M4, M7)."""

import math
import numbers

from pufferflow.bounds.bound import BallPart
from pufferflow.bounds.laws import Reach
from pufferflow.errors import Misuse, Refused
from pufferflow.noise import Noise


def ball(reach: Reach, unbounded: Refused) -> BallPart:
    """Return the ball of a reach; refuse an infinite one."""
    if reach.length == math.inf:
        raise unbounded
    return BallPart(reach.length, reach.certainty, reach.witness)


def norm_for(noise: Noise, asked: float | None, dimension: int) -> float:
    """Return the norm to measure movements in: the noise's own, which is the one asked for if any was."""
    if asked is None or dimension == 1:
        return noise.norm
    if asked != noise.norm:
        name = type(noise).__name__
        raise Refused(
            f"{name} noise for movements measured in the norm {asked:g}.",
            allowed=f"norm={noise.norm:g} for {name} noise: the only one its loss follows",
            instead="noise=pf.Gaussian for the norm 2, noise=pf.Laplace for the norm 1, or leaving norm out",
        )
    return asked


def read_norm(norm: object) -> float | None:
    """Return the norm asked for, None for the noise's own."""
    if norm is None:
        return None
    if isinstance(norm, bool) or not isinstance(norm, numbers.Real) or norm not in (1, 2):
        raise Misuse(f"norm is {norm!r}.", allowed="1 or 2, or None for the noise's own", instead="leaving norm out")
    return float(norm)
