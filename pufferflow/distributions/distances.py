"""Distances of two laws of answers: W_∞, W_p and (z, δ)-nearness, never below the true value (M3, M4, M8).

Where laws on R^d have too many atoms for a matrix of distances, the atoms are gathered in cells. Moving every atom by
at most r changes W_∞, W_p and nearness by at most r (triangle inequality). So the distance of the gathered laws plus
both movements is an upper bound.
"""

import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, overload

import numpy as np

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import SMALLEST, UNIT, float_below, upwards
from pufferflow.core.validate import decimal_reading, finite_number, instance, probability_below_one
from pufferflow.distributions import emd, wasserstein_1d, wasserstein_gaussian, wasserstein_nd
from pufferflow.distributions.coupling import AffineCoupling, Certainty, Coupling, Distance
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw

MOST_PAIRS = 16_000_000
_MOST_ATOMS = 2_000
_INSIDE = 1 - 2.0**-53
Number = float | Fraction | Decimal


@overload
def winf(mu: Law, nu: Law, norm: float = 2, *, coupling: bool = False) -> Distance[Coupling]: ...
@overload
def winf(
    mu: GaussianLaw, nu: GaussianLaw, norm: float = 2, *, coupling: bool = False
) -> Distance[AffineCoupling]: ...
@overload
def winf(
    mu: Law | GaussianLaw, nu: Law | GaussianLaw, norm: float = 2, *, coupling: bool = False
) -> Distance[Coupling] | Distance[AffineCoupling]: ...
def winf(
    mu: Law | GaussianLaw, nu: Law | GaussianLaw, norm: float = 2, *, coupling: bool = False
) -> Distance[Coupling] | Distance[AffineCoupling]:
    """Return W_∞(mu, nu), the least distance within which all mass of one law can be moved onto the other.

    `norm` is 1, 2 or math.inf, for laws on R^d. `coupling=True` also returns the joint law found. The result is a float
    whose `certainty` is exact or upper bound. It is an upper bound for laws on R^d with more than 16 million pairs of
    atoms, and for float weights that tie.

    >>> import pufferflow as pf
    >>> pf.winf(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003]))
    49.0
    """
    norm = _norm(norm)
    if isinstance(mu, GaussianLaw) or isinstance(nu, GaussianLaw):
        return wasserstein_gaussian.winf(*_gaussians(mu, nu), norm, coupling=coupling)
    if _on_a_line(mu, nu):
        return wasserstein_1d.winf(mu, nu, coupling=coupling)
    if len(mu) * len(nu) > MOST_PAIRS:
        return _bound_by_gathering(
            mu, nu, norm, lambda a, b: wasserstein_nd.winf(a, b, norm), coupling=coupling
        )
    return wasserstein_nd.winf(mu, nu, norm, coupling=coupling)


@overload
def wasserstein(
    mu: Law, nu: Law, p: Number = 2, norm: float = 2, *, coupling: bool = False
) -> Distance[Coupling]: ...
@overload
def wasserstein(
    mu: GaussianLaw, nu: GaussianLaw, p: Number = 2, norm: float = 2, *, coupling: bool = False
) -> Distance[AffineCoupling]: ...
@overload
def wasserstein(
    mu: Law | GaussianLaw,
    nu: Law | GaussianLaw,
    p: Number = 2,
    norm: float = 2,
    *,
    coupling: bool = False,
) -> Distance[Coupling] | Distance[AffineCoupling]: ...
def wasserstein(
    mu: Law | GaussianLaw,
    nu: Law | GaussianLaw,
    p: Number = 2,
    norm: float = 2,
    *,
    coupling: bool = False,
) -> Distance[Coupling] | Distance[AffineCoupling]:
    """Return W_p(mu, nu) itself, not its p-th power; p=math.inf is W_∞.

    `norm` and `coupling` are as for `winf`. The result is the true distance rounded up. On R^d it may be an upper
    bound, which its `note` explains.

    >>> import pufferflow as pf
    >>> pf.wasserstein(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1], [0.25, 0.75]), p=2)
    0.500000000000...
    """
    norm = _norm(norm)
    if not (isinstance(p, float) and p == math.inf):
        allowed = "a number >= 1, or math.inf"
        p = finite_number(p, "p", allowed=allowed, instead="p=2", fits=lambda p: p >= 1, digits="")
    if isinstance(mu, GaussianLaw) or isinstance(nu, GaussianLaw):
        left, right = _gaussians(mu, nu)
        if p == math.inf:
            return wasserstein_gaussian.winf(left, right, norm, coupling=coupling)
        return wasserstein_gaussian.wasserstein(left, right, p, norm, coupling=coupling)
    if p == math.inf:
        return winf(mu, nu, norm, coupling=coupling)
    if _on_a_line(mu, nu):
        return wasserstein_1d.wasserstein(mu, nu, p, coupling=coupling)
    if len(mu) * len(nu) > MOST_PAIRS:
        return _bound_by_gathering(
            mu, nu, norm, lambda a, b: emd.wasserstein(a, b, p, norm), coupling=coupling
        )
    return emd.wasserstein(mu, nu, p, norm, coupling=coupling)


@overload
def near(
    mu: Law, nu: Law, delta: Number, norm: float = 2, *, coupling: bool = False
) -> Distance[Coupling]: ...
@overload
def near(
    mu: GaussianLaw, nu: GaussianLaw, delta: Number, norm: float = 2, *, coupling: bool = False
) -> Distance[AffineCoupling]: ...
@overload
def near(
    mu: Law | GaussianLaw,
    nu: Law | GaussianLaw,
    delta: Number,
    norm: float = 2,
    *,
    coupling: bool = False,
) -> Distance[Coupling] | Distance[AffineCoupling]: ...
def near(
    mu: Law | GaussianLaw,
    nu: Law | GaussianLaw,
    delta: Number,
    norm: float = 2,
    *,
    coupling: bool = False,
) -> Distance[Coupling] | Distance[AffineCoupling]:
    """Return the smallest z for which a coupling of the laws has P(‖X − Y‖ > z) ≤ delta: they are (z, delta)-near.

    `norm` and `coupling` are as for `winf`, which is the case delta=0. A float delta is read as the decimal it
    prints as.

    >>> import pufferflow as pf
    >>> pf.near(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003]), delta=0.003)
    1.0
    """
    norm, share = _norm(norm), _share(delta)
    if isinstance(mu, GaussianLaw) or isinstance(nu, GaussianLaw):
        if coupling:
            raise UsageError(
                "pf.near cannot return a coupling of Gaussian laws.",
                allowed="coupling=True for finite laws, or for winf and wasserstein",
                instead="near(mu, nu, delta) without it",
            )
        return wasserstein_gaussian.near(*_gaussians(mu, nu), float_below(share), norm)
    if _on_a_line(mu, nu):
        return wasserstein_1d.near(mu, nu, share, coupling=coupling)
    if len(mu) * len(nu) > MOST_PAIRS:
        return _bound_by_gathering(
            mu, nu, norm, lambda a, b: wasserstein_nd.near(a, b, share, norm), coupling=coupling
        )
    return wasserstein_nd.near(mu, nu, share, norm, coupling=coupling)


def _share(delta: Number) -> Fraction:
    """Return δ as a rational number: the one given, or the decimal that a float prints as."""
    if isinstance(delta, Fraction) and 0 <= delta < 1:
        return delta
    probability_below_one(delta, "delta")
    return decimal_reading(delta)


def _norm(norm: Any) -> float:
    if isinstance(norm, bool) or not isinstance(norm, numbers.Real) or norm not in (1, 2, math.inf):
        raise UsageError(f"norm is {norm!r}.", allowed="1, 2 or math.inf", instead="norm=2")
    return float(norm)


def _on_a_line(mu: Any, nu: Any) -> bool:
    for law in (mu, nu):
        instead = "pf.Law(values, weights), or pf.Law.empirical(column)"
        instance(law, Law, "A law", allowed="two pf.Law, or two pf.GaussianLaw", instead=instead)
    if mu.dimension != nu.dimension:
        raise _dimensions(mu.dimension, nu.dimension)
    return mu.dimension == 1


def _gaussians(mu: object, nu: object) -> tuple[GaussianLaw, GaussianLaw]:
    if not (isinstance(mu, GaussianLaw) and isinstance(nu, GaussianLaw)):
        raise UsageError(
            f"The laws have different types: {type(mu).__name__} and {type(nu).__name__}.",
            allowed="two pf.Law, or two pf.GaussianLaw",
            instead="two laws of the same type; a finite law is infinitely far from a Gaussian one",
        )
    if mu.dimension != nu.dimension:
        raise _dimensions(mu.dimension, nu.dimension)
    return mu, nu


def _dimensions(left: int, right: int) -> UsageError:
    return UsageError(
        f"Laws of dimension {left} and {right}.",
        allowed="two laws of one dimension",
        instead="law.map(...) on one of them",
    )


def _bound_by_gathering(
    mu: Law,
    nu: Law,
    norm: float,
    distance: Callable[[Law, Law], Distance[Coupling]],
    *,
    coupling: bool,
) -> Distance[Coupling]:
    """Return an upper bound of a distance of two large laws."""
    if coupling:
        raise Refused(
            f"{len(mu)} × {len(nu)} pairs of atoms are too many for a coupling on R^{mu.dimension}.",
            allowed=f"at most {MOST_PAIRS} pairs",
            instead="leaving coupling out, or rounding values with law.map(...) first",
        )
    (left, left_way), (right, right_way) = _gather(mu, norm), _gather(nu, norm)
    between = distance(left, right)
    return Distance(
        upwards(upwards(float(between) + left_way) + right_way),
        Certainty.UPPER_BOUND,
        rounding=between.rounding,
        note=f"values were gathered in cells, which adds at most {left_way + right_way:.3g}; fewer atoms make it exact",
    )


def _gather(law: Law, norm: float) -> tuple[Law, float]:
    """Return the law with its atoms moved to the centres of few enough cells, and the longest move."""
    if len(law) <= _MOST_ATOMS:
        return law, 0.0
    if law.values.dtype == object:
        raise Refused(
            f"{len(law)} atoms with numbers that floats cannot hold exactly are too many on R^{law.dimension}.",
            allowed=f"at most {MOST_PAIRS} pairs of such atoms",
            instead="law.map(lambda x: x.astype(float)), if rounding the atoms is acceptable",
        )
    values = law.values
    _, exponent = math.frexp(float(np.abs(values).max()))
    values = np.ldexp(values, -exponent)  # within [-1, 1], where nothing over- or underflows
    origin = values.min(axis=0)
    width = float((values.max(axis=0) - origin).max()) / _MOST_ATOMS ** (1 / law.dimension)
    while True:
        centres = np.clip(
            origin + (np.floor((values - origin) / width) + 0.5) * width, -_INSIDE, _INSIDE
        )
        gathered = law.map(lambda _, centres=centres: np.ldexp(centres, exponent))
        if len(gathered) <= _MOST_ATOMS:
            break
        width *= 1.25
    longest = float(np.linalg.norm(values - centres, norm, axis=1).max())
    rounding = 8 * law.dimension * UNIT  # of atoms to floats, of centres, and of the norm
    way = math.ldexp(upwards(longest, rounding) + rounding, exponent)
    return gathered, way + 8 * law.dimension * SMALLEST  # subnormal atoms round absolutely
