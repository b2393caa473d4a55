"""Bounds that see one number of a pair of laws: how far the answer can move (M3, M4, M7)."""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pufferflow.bounds.bound import BallPart
from pufferflow.bounds.pairs import Pair
from pufferflow.errors import Misuse, Refused
from pufferflow.noise import Noise
from pufferflow.transport import Certainty, winf


@dataclass(frozen=True)
class Radius:
    """How far the laws of a pair are apart, and how sure that is."""

    length: float
    certainty: Certainty


def farthest(pairs: Sequence[Pair], radius: Callable[[Pair], Radius], unbounded: Refused) -> BallPart:
    """Return the ball of the pair that is farthest apart (both orders are equally far); refuse an infinite one."""
    found = [(radius(pair), pair) for pair in pairs]
    worst, pair = max(found, key=lambda item: item[0].length)
    if worst.length == math.inf:
        raise unbounded
    certain = all(item.certainty == Certainty.EXACT for item, _ in found)
    return BallPart(worst.length, Certainty.EXACT if certain else Certainty.UPPER_BOUND, pair)


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


def winf_of(pair: Pair, norm: float) -> Radius:
    """Return W_∞ of a pair."""
    distance = winf(pair.mu, pair.nu, norm)
    return Radius(float(distance), distance.certainty)
