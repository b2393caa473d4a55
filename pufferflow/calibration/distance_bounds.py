"""Bounds that use one number of a pair of laws, how far the answer can move: GWM (M3), GAWM (M4) and Group (M7)."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from pufferflow.calibration.bound import BallLoss, Bound
from pufferflow.calibration.laws import Laws, Pair, Place, Reach, as_laws
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import probability_below_one
from pufferflow.distributions.coupling import Certainty
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.guarantee import Divergence, Guarantee


def ball(reach: Reach, unbounded: Refused) -> BallLoss:
    """Return the ball of a reach; refuse an infinite one."""
    if reach.length == math.inf:
        raise unbounded
    return BallLoss(reach.length, reach.certainty, reach.witness)


def least_scale(laws: Laws, family: Family, guarantee: Guarantee, delta: float) -> float:
    """Return the scale for the least movement of all mass but δ; 0 where that is not quick to find."""
    length = laws.least(delta, family(1.0).norm)
    if length in (0.0, math.inf):
        return 0.0
    nowhere = Place(laws.dimension, None, (None, None), 0)
    own = probability_below_one(delta, "delta")
    return BallLoss(length, Certainty.UPPER_BOUND, nowhere, own).least_scale(family, guarantee)


def compared_values(laws: Laws) -> float:
    """Return how many numbers a comparison of all laws takes; vectors take all pairs of their values."""
    vectors = laws.dimension > 1
    return laws.size.laws * laws.size.atoms ** (2 if vectors else 1) + 500 * laws.size.pairs


def norm_for(noise: Noise, norm: float | None, dimension: int) -> float:
    """Return the norm in which movements are measured: the noise's own; refuse a given one that differs."""
    if norm is None or dimension == 1:
        return noise.norm
    if norm != noise.norm:
        name = type(noise).__name__
        raise Refused(
            f"The loss of {name} noise is not known for movements in the norm {norm:g}.",
            allowed=f"norm={noise.norm:g} for {name} noise",
            instead="noise=pf.Gaussian for the norm 2, noise=pf.Laplace for the norm 1, or leaving norm out",
        )
    return norm


def read_norm(norm: object) -> float | None:
    """Return a norm, None for the noise's own."""
    if norm is None:
        return None
    if isinstance(norm, bool) or not isinstance(norm, numbers.Real) or norm not in (1, 2):
        raise UsageError(
            f"norm is {norm!r}.",
            allowed="1 or 2, or None for the noise's own",
            instead="leaving norm out",
        )
    return float(norm)


@final
@suggests_arguments
@dataclass(frozen=True)
class GWM(Bound):
    """The general Wasserstein mechanism (RPP Theorem 3.3, M3): noise for movements up to max W_∞(mu, nu).

    `norm` is the norm of movements in R^d; left out, it is the noise's own (1 for Laplace, 2 for the others).

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=GWM()).noise
    Laplace(scale=49.0)
    """

    name = "gwm"
    rank = 3

    norm: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", read_norm(self.norm))

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        return compared_values(laws)

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallLoss]:
        laws = as_laws(pairs)
        return [ball(laws.winf(norm_for(noise, self.norm, laws.dimension)), _unbounded())]

    def least(self, pairs: Sequence[Pair], family: Family, guarantee: Guarantee) -> float:
        return least_scale(as_laws(pairs), family, guarantee, 0.0)


def _unbounded() -> Refused:
    return Refused(
        "W_∞ of a pair is infinite: no bounded movement takes one law to the other.",
        allowed="laws that a bounded movement connects",
        instead="bound=pf.GAWM(delta) for a guarantee with a delta, or bound=pf.Exact() for Gaussian laws and noise",
    )


@final
@suggests_arguments
@dataclass(frozen=True)
class GAWM(Bound):
    """The general approximate Wasserstein mechanism (RPP Theorem 4.3, tightened, M4): it leaves out a share `delta`.

    All pairs are (z, delta)-near, and the loss is that of the noise over movements up to z.

    It needs a guarantee whose δ is at least `delta`: `pf.ApproxRenyi` or `pf.Approx`. For `pf.Approx` the noise spends
    the rest of δ. The paper adds α/(α−1)·log(1/(1−delta)) to the loss. That term is not needed; `as_printed=True` adds
    it for comparison.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
    >>> pf.calibrate([pair], pf.Approx(1.0, 0.003), noise=pf.Laplace, bound=GAWM(delta=0.003)).noise
    Laplace(scale=1.0)
    """

    name = "gawm"
    takes_delta = True
    rank = 2

    delta: float
    norm: float | None = None
    as_printed: bool = False

    def __post_init__(self) -> None:
        probability_below_one(self.delta, "delta")
        object.__setattr__(self, "norm", read_norm(self.norm))

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> Sequence[Bound]:
        """Return bounds that leave out all of δ, or half of it where the noise itself needs some."""
        shared = guarantee.divergence is Divergence.HOCKEY_STICK and math.isinf(noise.pure(1.0))
        return [cls(guarantee.delta / 2 if shared else guarantee.delta)] if guarantee.delta else []

    @classmethod
    def named(cls, guarantee: Guarantee, noise: Noise) -> Bound:
        """Return the bound with the guarantee's δ, or half of it where the noise itself needs some."""
        for bound in cls.automatic(guarantee, noise):
            return bound
        raise UsageError(
            f'bound is "gawm", and {guarantee!r} has no δ to leave out.',
            allowed="a guarantee with a δ: pf.Approx or pf.ApproxRenyi",
            instead='pf.Approx(epsilon, 1e-6), or bound="gwm"',
        )

    @classmethod
    def compared(cls, guarantee: Guarantee, noise: Noise) -> Bound | None:
        return next(iter(cls.automatic(guarantee, noise)), None)

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        return 1.5 * compared_values(laws)

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallLoss]:
        laws = as_laws(pairs)
        own = probability_below_one(self.delta, "delta")
        unbounded = Refused(
            f"Even without a share {own:g}, the laws of a pair are infinitely far apart.",
            allowed="a share beyond which movement is bounded",
            instead="a larger delta",
        )
        extra = -math.log1p(-own) * (1 + 4 * UNIT) if self.as_printed else 0.0
        reach = laws.near(self.delta, norm_for(noise, self.norm, laws.dimension))
        return [replace(ball(reach, unbounded), own_delta=own, extra=extra)]

    def least(self, pairs: Sequence[Pair], family: Family, guarantee: Guarantee) -> float:
        return least_scale(as_laws(pairs), family, guarantee, self.delta)


@final
@suggests_arguments
@dataclass(frozen=True)
class Group(Bound):
    """Group privacy, the fallback that is always valid (M7): noise for the largest distance of two answers.

    It uses only the supports of the laws, and holds for every prior with these supports.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 9], [0.9, 0.1])
    >>> pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=Group()).noise
    Laplace(scale=9.0)
    """

    name = "group"
    rank = 5
    supports_only = True
    for_constants = False

    norm: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", read_norm(self.norm))

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        return 0.0

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallLoss]:
        laws = as_laws(pairs)
        unbounded = Refused(
            "The answers of a pair are unbounded, so there is no largest movement.",
            allowed="laws with finitely many atoms",
            instead="bound=pf.GWM(), or clipping the answers",
        )
        return [ball(laws.span(norm_for(noise, self.norm, laws.dimension)), unbounded)]
