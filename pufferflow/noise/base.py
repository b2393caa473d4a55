"""The interface of a noise: its losses when the answer moves, its width, and its sampler.

A noise is a law ζ on R, symmetric around 0, used independently in every coordinate of an answer. A loss of a shift z is
a divergence between ζ_z and ζ, and every loss is rounded up. A family of noises is closed under stretching, so each
file states the losses at scale 1 and this one does the rest.
"""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self, cast, overload

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import InternalError, PufferflowError, Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import SMALLEST, float_below, quotient_above
from pufferflow.core.validate import (
    confidence_level,
    finite_number_above,
    finite_number_at_least_zero,
    order_above_one,
)
from pufferflow.noise import sampler
from pufferflow.noise.sampler import Noisy
from pufferflow.privacy.conversions import pure_to_gdp, pure_to_zcdp
from pufferflow.privacy.guarantee import Guarantee

Many = Array | Sequence[Any]
_WHOLE = 2.0**53
Family = Callable[[float], "Noise"]
"""A noise without its scale: `pf.Laplace` itself, or `pf.GeneralizedCauchy.of(k=4)`; given a scale it is a noise."""


class Noise(InNotebooks, abc.ABC):
    """Base class of the noises.

    To add one, write a frozen dataclass with the abstract methods below. One field is `scale`; or the first one has
    another name, and a property `scale` returns it. Methods work in units of the scale, for shifts ≥ 0. Ledgers store
    the name and the fields, which are numbers, and reports draw the noise from them.
    """

    norm: ClassVar[float]
    """The norm on R^d in which the loss of a ball is known: 1 or 2."""
    symmetric: ClassVar[bool] = True
    """Whether ζ is symmetric; if not, the losses of z and −z differ, and bounds compute both."""
    monotone: ClassVar[bool] = True
    """Whether the exact loss of any two laws falls as the scale grows: so if ζ is self-decomposable (M6)."""

    scale: float

    _by_name: ClassVar[dict[str, type["Noise"]]] = {}

    def __init_subclass__(cls) -> None:
        """Register the noise by its name; no two noises have one name, since ledgers store it."""
        known = Noise._by_name.get(cls.__name__, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise UsageError(
                f"Two noises are called {cls.__name__}.",
                allowed="a different name for each noise",
                instead=f"class Own{cls.__name__}(pf.Noise)",
            )
        Noise._by_name[cls.__name__] = cls

    @classmethod
    def named(cls, name: str) -> type["Noise"]:
        """Return the class of noises with this name."""
        if name not in Noise._by_name:
            raise InternalError(
                f"No noise is called {name!r}.",
                instead="a newer pufferflow, or importing the module that defines it",
            )
        return Noise._by_name[name]

    def at(self, scale: float) -> Self:
        """Return the noise of this family with another scale."""
        return replace(cast(Any, self), **{_fields_of(type(self))[0]: scale})

    @classmethod
    def family(cls, guarantee: Guarantee) -> Family:
        """Return the family that is calibrated for a guarantee if only the class is given."""
        return cls

    def convex(self, alpha: float) -> bool:
        """Return whether exp((α−1)·D_α) is convex in the shift, so that on R the quantile coupling is optimal (M5)."""
        return False

    # As plain values

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the noise beside its scale, by name."""
        return {name: getattr(self, name) for name in _fields_of(type(self))[1:]}

    def stored(self) -> dict[str, str | int | float]:
        """Return the noise as plain values, which `restored` reads.

        >>> import pufferflow as pf
        >>> pf.GeneralizedCauchy(2.0, k=4).stored()
        {'family': 'GeneralizedCauchy', 'scale': 2.0, 'k': 4.0}
        """
        return {"family": type(self).__name__, "scale": self.scale, **self.parameters}

    @staticmethod
    def restored(stored: Mapping[str, str | int | float]) -> "Noise":
        """Return the noise that `stored` described.

        >>> import pufferflow as pf
        >>> pf.Noise.restored(pf.Laplace(2.0).stored())
        Laplace(scale=2.0)
        """
        others: dict[str, Any] = dict(stored)
        family = Noise.named(others.pop("family", ""))
        try:
            return family(**{_fields_of(family)[0]: others.pop("scale")}, **others)
        except (KeyError, TypeError, PufferflowError) as error:
            raise InternalError(
                f"Stored {family.__name__} noise does not have the fields that this version reads.",
                instead="a newer pufferflow",
            ) from error

    @property
    def shape(self) -> float:
        """The first parameter, 0 if there is none; with name and scale it is enough for a report to draw the noise."""
        return next(iter(self.parameters.values()), 0.0)

    @classmethod
    def shaped(cls, scale: float, shape: float, epsilon: float | None) -> "Noise":
        """Return the noise of this class with such a `shape` (0 if not known), drawn for a guarantee of epsilon."""
        values = (scale, shape) if shape else (scale,)
        return cls(**dict(zip(_fields_of(cls), values, strict=False)))

    # Losses of a shift

    @overload
    def renyi(self, shift: float, alpha: float) -> float: ...
    @overload
    def renyi(self, shift: Many, alpha: float) -> Floats: ...
    @overload
    def renyi(self, shift: float | Many, alpha: Many) -> Floats: ...
    def renyi(self, shift: float | Many, alpha: float | Many) -> float | Floats:
        """Return D_α(ζ_shift ‖ ζ), the Rényi divergence of order alpha between the noise around two answers.

        >>> import pufferflow as pf
        >>> round(pf.Laplace(1.0).renyi(1.0, alpha=2), 9)
        0.61912363
        """
        if np.ndim(alpha) == 0:
            order = order_above_one(alpha)
            return self._loss_of(shift, lambda units: self._renyi(units, order), math.inf)
        shifts, orders = _broadcast(_numbers(shift, "shift"), _numbers(alpha, "alpha"))
        losses = np.empty(orders.shape)
        for order in np.unique(orders).tolist():
            losses[orders == order] = self.renyi(shifts[orders == order], order)
        return losses

    @overload
    def pure(self, shift: float) -> float: ...
    @overload
    def pure(self, shift: Many) -> Floats: ...
    def pure(self, shift: float | Many) -> float | Floats:
        """Return D_∞(ζ_shift ‖ ζ), the largest log ratio of the densities around two answers.

        >>> import pufferflow as pf
        >>> pf.Laplace(2.0).pure([0, 1, 3])
        array([0. , 0.5, 1.5])
        """
        return self._loss_of(shift, self._pure, math.inf)

    @overload
    def delta(self, shift: float, epsilon: float) -> float: ...
    @overload
    def delta(self, shift: Many, epsilon: float) -> Floats: ...
    @overload
    def delta(self, shift: float | Many, epsilon: Many) -> Floats: ...
    def delta(self, shift: float | Many, epsilon: float | Many) -> float | Floats:
        """Return the least δ with which the noise around two answers is (epsilon, δ)-close: the hockey stick.

        >>> import pufferflow as pf
        >>> round(pf.Gaussian(1.0).delta(1.0, epsilon=0.0), 6)
        0.382925
        """
        if np.ndim(epsilon) == 0:
            value = finite_number_at_least_zero(epsilon, "epsilon")
            if isinstance(epsilon, Fraction | Decimal):
                value = float_below(Fraction(epsilon))  # a smaller ε has the larger δ
            free = value > 0  # up to some shift nothing is lost
            return self._loss_of(
                shift, lambda units: np.minimum(self._delta(units, value), 1.0), 1.0, free=free
            )
        shifts, epsilons = _broadcast(_numbers(shift, "shift"), _numbers(epsilon, "epsilon"))
        losses = np.empty(epsilons.shape)
        for value in np.unique(epsilons).tolist():
            losses[epsilons == value] = self.delta(shifts[epsilons == value], value)
        return losses

    @overload
    def tv(self, shift: float) -> float: ...
    @overload
    def tv(self, shift: Many) -> Floats: ...
    def tv(self, shift: float | Many) -> float | Floats:
        """Return the total variation between ζ_shift and ζ: the hockey stick at ε = 0.

        >>> import pufferflow as pf
        >>> round(pf.Laplace(1.0).tv(2.0), 6)
        0.632121
        """
        return self.delta(shift, np.float64(0.0))

    @overload
    def zcdp(self, shift: float) -> float: ...
    @overload
    def zcdp(self, shift: Many) -> Floats: ...
    def zcdp(self, shift: float | Many) -> float | Floats:
        """Return the least known ρ with D_α ≤ ρα for the noise around two answers, for all orders α > 1.

        >>> import pufferflow as pf
        >>> pf.Gaussian(1.0).zcdp(2.0), round(pf.Laplace(1.0).zcdp(1.0), 4)
        (2.0..., 0.3679)
        """
        return self._loss_of(shift, self._zcdp, math.inf)

    @overload
    def gdp(self, shift: float) -> float: ...
    @overload
    def gdp(self, shift: Many) -> Floats: ...
    def gdp(self, shift: float | Many) -> float | Floats:
        """Return the least known μ: two answers are at least as hard to distinguish as N(0, 1) and N(μ, 1).

        >>> import pufferflow as pf
        >>> pf.Gaussian(2.0).gdp(1.0), round(pf.Laplace(1.0).gdp(1.0), 4)
        (0.5, 1.0301)
        """
        return self._loss_of(shift, self._gdp, math.inf)

    # Losses of a ball: the largest over all shifts of norm `radius` or less

    def renyi_within(self, radius: float, alpha: float, dimension: int = 1) -> float:
        """Return the largest Rényi loss over shifts in R^dimension of norm (see `norm`) at most `radius`."""
        return self.renyi(read_radius(radius), alpha)

    def pure_within(self, radius: float, dimension: int = 1) -> float:
        """Return the largest pure loss over shifts in R^dimension of norm at most `radius`."""
        return self.pure(read_radius(radius))

    def zcdp_within(self, radius: float, dimension: int = 1) -> float:
        """Return a ρ for all shifts in R^dimension of norm at most `radius`; here, of the largest pure loss (M29)."""
        return pure_to_zcdp(self.pure_within(radius, dimension))

    def gdp_within(self, radius: float, dimension: int = 1) -> float:
        """Return a μ for all shifts in R^dimension of norm at most `radius`; here, of the largest pure loss (M29)."""
        return pure_to_gdp(self.pure_within(radius, dimension))

    def delta_within(self, radius: float, epsilon: float, dimension: int = 1) -> float | None:
        """Return the largest hockey stick over shifts of norm at most `radius`; None where it is not known."""
        return self.delta(read_radius(radius), epsilon) if dimension == 1 else None

    # The law itself

    @overload
    def logpdf(self, x: float) -> float: ...
    @overload
    def logpdf(self, x: Many) -> Floats: ...
    def logpdf(self, x: float | Many) -> float | Floats:
        """Return the logarithm of the density at x.

        >>> import pufferflow as pf
        >>> pf.Laplace(0.5).logpdf([0.0, 1.0])
        array([ 0., -2.])
        """
        at = _numbers(x, "x")
        if self.scale == 0:
            return _unwrap(np.where(at == 0, math.inf, -math.inf))
        with np.errstate(over="ignore"):
            return _unwrap(self._logpdf(at / self.scale) - math.log(self.scale))

    @overload
    def tail(self, x: float) -> float: ...
    @overload
    def tail(self, x: Many) -> Floats: ...
    def tail(self, x: float | Many) -> float | Floats:
        """Return P(noise > x), exact to about 13 digits however far out x is.

        >>> import pufferflow as pf
        >>> pf.Laplace(1.0).tail(0.0)
        0.5
        """
        at = _numbers(x, "x")
        if self.scale == 0:
            return _unwrap(np.where(at < 0, 1.0, 0.0))
        with np.errstate(over="ignore"):
            units = at / self.scale
        tails = self._tail(np.abs(units))
        return _unwrap(np.where(units >= 0, tails, 1.0 - tails))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval around 0 that holds the noise with this probability, rounded outwards.

        >>> import pufferflow as pf
        >>> low, high = pf.Laplace(1.0).interval(0.95)
        >>> round(high, 4)
        2.9957
        """
        share = confidence_level(confidence, "interval(0.95)")
        if self.scale == 0:
            return 0.0, 0.0
        half, outside = float(self._reach(np.asarray((1 - share) / 2))), 1 - share
        for growth in (1e-15, 1e-12, 1e-9, 1e-6, 1e-3):  # the quantile has a relative error
            if 2 * float(self._tail(np.asarray(half))) <= outside:
                break
            half = half * (1 + growth) + growth
        return -half * self.scale, half * self.scale

    @property
    def expected_error(self) -> float:
        """The expected absolute value of the noise; infinite where it does not exist."""
        return self._mean_size() * self.scale if self.scale else 0.0

    @property
    def variance(self) -> float:
        """The variance of the noise; infinite where there is none."""
        return self._mean_square() * self.scale * self.scale if self.scale else 0.0

    # Drawing

    def sample(
        self, size: int | tuple[int, ...] = 1, rng: np.random.Generator | None = None
    ) -> Floats:
        """Return independent draws of the noise, on the grid of `noise.grid`.

        Without `rng` they come from the operating system's randomness. A seeded Generator is for tests and simulations:
        whoever has the seed can repeat its draws. To publish an answer use `release`, whose result says whether it may
        be published. The sampler is described in `pufferflow.noise.sampler`.

        >>> import pufferflow as pf
        >>> pf.Laplace(1.0).sample(3).shape
        (3,)
        """
        self.check_drawable()
        return sampler.sample(self, size, rng)

    def release(
        self, answers: npt.ArrayLike, rng: np.random.Generator | None = None, grid: Any = None
    ) -> Noisy:
        """Return the answers with noise added, all on one grid that does not depend on them (M13).

        The grid is the power of two next below scale/1024, or the width given as `grid` (at most scale/1024). Rounding
        to it moves each answer by up to half its width, and two answers up to one width further apart. The calibration
        has to count that, unless all answers are multiples of the width.

        >>> import pufferflow as pf
        >>> noisy = pf.Laplace(1.0).release([10, 20])
        >>> noisy.values.shape, noisy.for_release, noisy.grid
        ((2,), True, Fraction(1, 1024))
        """
        self.check_drawable()
        return sampler.release(self, answers, rng, grid)

    def check_drawable(self) -> None:
        """Refuse to draw where draws are useless, such as those beyond all floats."""

    # Methods of a family, in units of its scale, for u ≥ 0

    @abc.abstractmethod
    def _renyi(self, units: Floats, alpha: float) -> Floats:
        """Return D_α of shifts, rounded up."""

    @abc.abstractmethod
    def _pure(self, units: Floats) -> Floats:
        """Return D_∞ of shifts, rounded up."""

    @abc.abstractmethod
    def _delta(self, units: Floats, epsilon: float) -> Floats:
        """Return the hockey stick of shifts, rounded up."""

    def _zcdp(self, units: Floats) -> Floats:
        """Return a ρ of shifts, rounded up; here, that of their pure losses (M29)."""
        return np.array([pure_to_zcdp(loss) for loss in self._pure(units).tolist()])

    def _gdp(self, units: Floats) -> Floats:
        """Return a μ of shifts, rounded up; here, that of their pure losses (M29)."""
        return np.array([pure_to_gdp(loss) for loss in self._pure(units).tolist()])

    def steepness(self, units: float) -> float | None:
        """Return a bound on how fast the log density falls up to a place, both in units; None if it jumps."""
        return None

    @abc.abstractmethod
    def _logpdf(self, units: Floats) -> Floats:
        """Return the log density (of either sign of x)."""

    @abc.abstractmethod
    def _tail(self, units: Floats) -> Floats:
        """Return P(noise > u) for u ≥ 0, to a relative 1e-13."""

    @abc.abstractmethod
    def _reach(self, tails: Floats) -> Floats:
        """Return the u ≥ 0 with P(noise > u) = tail ≤ 1/2, to a relative 1e-12 or so."""

    @abc.abstractmethod
    def precise_tail(self, units: Any, mp: Any) -> Any:
        """Return P(noise > u) for u ≥ 0 in mpmath's numbers, at its current precision; for draws beyond floats."""

    @abc.abstractmethod
    def _mean_size(self) -> float:
        """Return E|noise|."""

    @abc.abstractmethod
    def _mean_square(self) -> float:
        """Return E noise²."""

    def reach(self, tails: Floats) -> Floats:
        """Return the points, in units, beyond which a given share of the noise lies; a starting point for draws."""
        return self._reach(tails)

    def _loss_of(
        self,
        shift: float | Many,
        loss: Callable[[Floats], Floats],
        far: float,
        *,
        free: bool = False,
    ) -> Any:
        """Return the losses of shifts of any shape, sign and size; without noise all but 0 have the largest loss.

        Unless small movements may be `free`, what underflows is rounded up.
        """
        moves = np.abs(_numbers(shift, "shift"))
        if self.scale == 0:
            return _unwrap(np.where(moves > 0, far, 0.0))
        units = np.atleast_1d(quotient_above(moves, self.scale))
        losses = np.where(units > 0, far, 0.0)
        near = np.isfinite(units) & (units > 0)
        if near.any():
            losses[near] = np.maximum(loss(units[near]), 0.0 if free else SMALLEST)
        return _unwrap(losses.reshape(moves.shape))


def _fields_of(family: type[Noise]) -> list[str]:
    """Return the names of a noise's fields: the scale first, whatever its name and position."""
    names = [field.name for field in fields(cast(Any, family))]
    return sorted(names, key=lambda name: name != "scale")


def read_scale(value: object) -> float:
    """Return a scale: a finite number ≥ 0, not below what was given."""
    allowed, instead = "a finite number >= 0 (0 is no noise at all)", "scale=1.0"
    return (
        finite_number_above(
            value, "scale", allowed=allowed, instead=instead, fits=lambda scale: scale >= 0
        )
        + 0.0
    )


def one_dimensional(noise: Noise, dimension: int) -> None:
    """Refuse vectors for a noise whose loss of a ball is known on R only."""
    if dimension > 1:
        raise Refused(
            f"{type(noise).__name__} noise needs an answer of one coordinate, and this one has {dimension}.",
            allowed="an answer of one coordinate",
            instead="noise=pf.Laplace or noise=pf.Gaussian",
        )


def read_radius(value: object) -> float:
    """Return the radius of a ball: a number ≥ 0, ∞ included, not below what was given."""
    radius = float(_numbers(value, "radius"))
    if radius < 0:
        raise UsageError(f"radius is {radius}.", allowed="a number >= 0", instead="radius=1.0")
    return radius


def _numbers(values: object, name: str) -> Floats:
    """Return numbers as floats; those that no float holds are rounded away from 0."""
    allowed, instead = "a number, or an array of numbers", f"{name}=1.0"
    try:
        array: Array = np.asarray(values)
    except ValueError as error:
        raise UsageError(
            f"{name} has rows of different lengths.", allowed=allowed, instead=instead
        ) from error
    if array.dtype.kind == "O" and all(
        isinstance(x, Fraction | Decimal | int | float) for x in array.flat
    ):
        sizes = [
            finite_number_above(abs(x), name, allowed=allowed, instead=instead) for x in array.flat
        ]
        return np.array(
            [math.copysign(*pair) for pair in zip(sizes, array.flat, strict=True)]
        ).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        raise UsageError(f"{name} is not a number.", allowed=allowed, instead=instead)
    floats = array.astype(np.float64)
    if np.isnan(floats).any():
        raise UsageError(f"{name} is NaN.", allowed=allowed, instead=instead)
    if array.dtype != np.float64 and (np.abs(floats) >= _WHOLE).any():
        floats = np.where(
            np.abs(floats) >= _WHOLE, np.nextafter(floats, np.copysign(math.inf, floats)), floats
        )
    elif array.dtype.itemsize > floats.itemsize:
        floats = np.where(
            np.abs(floats) < np.abs(array),
            np.nextafter(floats, np.copysign(math.inf, floats)),
            floats,
        )
    return floats


def _broadcast(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    try:
        first, second = np.broadcast_arrays(left, right)
    except ValueError as error:
        raise UsageError(
            f"Arrays of shapes {left.shape} and {right.shape} do not broadcast.",
            allowed="arrays of the same shape, or that NumPy broadcasts",
            instead="one number for the second",
        ) from error
    return first, second


def _unwrap(values: Array) -> Any:
    return float(values) if values.ndim == 0 else values
