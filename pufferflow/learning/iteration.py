"""A noisy iteration, and the largest shift or loss under a guarantee that its noise is calibrated for.

The last iterate of a descent is equivalent to one Gaussian shift (M34). So are sums with Gaussian noise (M10).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Final, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import largest
from pufferflow.core.validate import instance, set_fields
from pufferflow.learning.displacements import listed, read_count, read_sizes
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.privacy.tradeoff import Gdp

_APART = 1e100
_INSTEAD = "pf.learning.Iteration(steps=100, noise=pf.Gaussian(1.0))"


@final
@dataclass(frozen=True, eq=False, init=False)
class Iteration(InNotebooks):
    """The steps W_t = ψ_t(W_{t−1}, x_t) + N_t, t = 1 … T, of which the last iterate alone is published (RPP Def. 5.1).

    Each ψ_t is `contraction`-Lipschitz in the iterate. Give one number, or one per step; `math.inf` is for a step
    without a known bound. N_t is fresh noise, independent in each of the `dimension` coordinates: one noise, or one per
    step. Distances between iterates and Lipschitz constants are in the norm of the noise: 2 for Gaussian, 1 for Laplace
    noise. In one dimension both are the same. The first iterate does not depend on the data.

    >>> import pufferflow as pf
    >>> pf.learning.Iteration(steps=100, noise=pf.Gaussian(0.5), contraction=0.99)
    <Iteration of 100 steps with Gaussian(scale=0.5), contraction 0.99>
    """

    steps: int
    noises: tuple[Noise, ...]
    """The distinct noises."""
    noise_of: Indices
    """The index in `noises` for each step; of one element if all have the same."""
    contractions: Floats
    """The Lipschitz constant of each step; of one element if all have the same."""
    dimension: int

    def __init__(
        self, steps: int, noise: Noise | Iterable[Noise], contraction: Any = 1.0, dimension: int = 1
    ) -> None:
        count = read_count(steps, "steps")
        noises, noise_of = _read_noises(noise, count)
        set_fields(self, steps=count, noises=noises, noise_of=noise_of)
        set_fields(self, contractions=_read_contractions(contraction, count))
        set_fields(self, dimension=read_count(dimension, "dimension"))

    @property
    def gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        return all(isinstance(noise, Gaussian) for noise in self.noises)

    @property
    def uniform(self) -> bool:
        """Whether all steps have the same noise and the same contraction."""
        return len(self.noise_of) == 1 and len(self.contractions) == 1

    @cached_property
    def scales(self) -> Floats:
        """The scale of each step's noise; of one element if all have the same."""
        return np.array([noise.scale for noise in self.noises])[self.noise_of]

    def __repr__(self) -> str:
        noise = f"{self.noises[0]!r}" if len(self.noises) == 1 else f"{len(self.noises)} noises"
        low, high = float(self.contractions.min()), float(self.contractions.max())
        contraction = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        return f"<Iteration of {self.steps} steps with {noise}, contraction {contraction}>"


def _read_noises(given: object, steps: int) -> tuple[tuple[Noise, ...], Indices]:
    allowed = "a noise with a scale above 0, as pf.Gaussian(1.0), or one for each step"
    if isinstance(given, Noise):
        noises, places = [given], [0]
    else:
        each = listed(given, "noise", allowed, _INSTEAD)
        for one in each:
            instance(one, Noise, "A noise", allowed=allowed, instead=_INSTEAD)
        if len(each) != steps:
            raise UsageError(
                f"{len(each)} noises for {steps} steps.", allowed=allowed, instead=_INSTEAD
            )
        place_of: dict[Noise, int] = {}
        places = [place_of.setdefault(noise, len(place_of)) for noise in each]
        noises = list(place_of)
    scales = [noise.scale for noise in noises]
    if min(scales) == 0:
        raise UsageError(
            "A step has no noise.",
            allowed=allowed,
            instead="joining it to the next step that has noise, as one ψ",
        )
    if max(scales) / _APART > min(scales):
        raise UsageError(
            "The scales of the noises are too far apart for floats.",
            allowed="scales within 1e100 of each other",
        )
    return tuple(noises), np.array(places if len(noises) > 1 else [0], dtype=np.intp)


def _read_contractions(given: object, steps: int) -> Floats:
    allowed = "a number >= 0, or one for each step; math.inf for an unknown one"
    read = np.atleast_1d(read_sizes(given, "The contractions", allowed, "contraction=1.0"))
    if read.shape not in ((1,), (steps,)):
        raise UsageError(
            f"contraction has shape {read.shape} for {steps} steps.",
            allowed=allowed,
            instead="contraction=1",
        )
    return read[:1] if (read == read[0]).all() else read


_MOST = 1e6
FINE: Final = 2.0**24
"""The steps of a grid in the scale of its noise, or half as many: finer ones would take long to draw."""
DRAWN: Final = 1 + 2.0**-27
"""The relative increase of noise over the charged one, so that roundings of many releases never exceed a limit."""


def fine_grid(scale: float) -> Fraction:
    """Return the grid on which noise of a scale is drawn: a power of two."""
    _, exponent = math.frexp(scale / FINE)
    return Fraction(2) ** exponent


@cache
def deviations_of(promise: Guarantee) -> float:
    """Return the largest shift of one Gaussian under a guarantee, in standard deviations.

    >>> import pufferflow as pf
    >>> round(deviations_of(pf.Zcdp(0.5)), 6), round(deviations_of(pf.Approx(1.0, 1e-6)), 3)
    (1.0, 0.237)
    """
    if isinstance(promise, Pure):
        raise Refused(
            "Gaussian noise cannot keep a pure guarantee.",
            allowed="guarantees with a delta, pf.Zcdp, pf.Gdp or Rényi orders",
            instead=f"epsilon={promise.epsilon:g}, delta=1e-6, which is pf.Approx({promise.epsilon:g}, 1e-6); or "
            "pf.learning.PrivateRidge, of sums with Laplace noise",
        )
    return _not_zero(largest(lambda shift: promise.follows_from(Gdp(shift)), _MOST), promise)


@cache
def pure_of(promise: Guarantee) -> float:
    """Return the largest pure loss from which a guarantee follows (M29).

    >>> import pufferflow as pf
    >>> pure_of(pf.Pure(1.5))
    1.5
    """
    if isinstance(promise, Pure):
        return _not_zero(promise.epsilon, promise)
    return _not_zero(largest(lambda epsilon: promise.follows_from(Pure(epsilon)), _MOST), promise)


def _not_zero(budget: float, promise: Guarantee) -> float:
    if budget > 0:
        return budget
    raise Refused(
        f"The guarantee {promise!r} allows no loss: a model would be noise alone.",
        allowed="guarantees with an epsilon above 0",
        instead="pf.Approx(1.0, 1e-6)",
    )
