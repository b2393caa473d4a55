"""The loss of one release: an (ε, δ) and a total variation, or the whole trade-off of a noise or two laws (M26)."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, lifted, quotient_above, upwards
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import (
    finite_number,
    finite_number_above,
    finite_number_at_least_zero,
    instance,
    set_fields,
)
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.conversions import tv_limit
from pufferflow.tradeoff.hulls import of_deltas
from pufferflow.tradeoff.losses import Atoms, Loss, ThreePoint
from pufferflow.tradeoff.noise_losses import GaussianLoss, LaplaceLoss

_NOISE_NODES = 1025
_LAW_NODES = 129
_FAINT, _FAINT_EXACT = 1e-17, 1e-11
_HUGE = 600.0
_LEAST = 1e-30
_ALL_TOLD = 1e100
"""Answers that move by this many scales of their noise count as revealed."""


@final
@suggests_arguments
@dataclass(frozen=True, init=False)
class Profile:
    """The privacy profile of one release, whatever the outputs before it: its dominating pair of laws (M26).

    `Profile(epsilon, delta, tv)` is a release that is (ε, δ)-private with total variation at most `tv`; the worst such
    release, which all others can be made from, has a loss of ε, 0, −ε or ∞. Bounds are cut where others say more: tv to
    its largest value δ + (1 − δ)·tanh(ε/2) (so 1 means that it is not known), and δ to tv. `Profile.of` is the profile
    of a noise, with the whole of its trade-off; `epsilon`, `delta` and `tv` are then its largest loss, what it reveals
    with no finite loss, and its total variation.

    Profiles compose (`pf.tradeoff.compose`) where the secret fixes the data, as in ordinary and group differential
    privacy, for conditionally independent releases, or for one (x, x') of a coupling. Losses of single releases about
    correlated rows do not compose.

    >>> Profile(1.0, tv=0.3)
    Profile(epsilon=1.0, delta=0.0, tv=0.3)
    >>> Profile(0.0, 0.2, tv=0.1), round(Profile(1.0).tv, 6)
    (Profile(epsilon=0.0, delta=0.1, tv=0.1), 0.462117)
    """

    epsilon: float
    delta: float
    tv: float
    loss: Loss = field(repr=False)

    def __init__(self, epsilon: float, delta: float = 0.0, tv: float = 1.0) -> None:
        read = _epsilon(epsilon)
        total = _share(tv, "tv")
        out = min(_share(delta, "delta"), total)
        most = tv_limit(read, out)
        total = min(total, most)
        if read > _HUGE:  # overflow: the loss counts as unbounded
            out = total
        loss = ThreePoint(read if out < total else 0.0, _share_of(read, out, total, most), out)
        set_fields(self, epsilon=read, delta=out, tv=total, loss=loss)

    @classmethod
    def with_loss(cls, loss: Loss, tv: float, epsilon: float | None = None) -> Self:
        """Return the profile of a pair of laws whose loss is known."""
        profile = object.__new__(cls)
        largest = loss.largest if epsilon is None else epsilon
        set_fields(profile, epsilon=largest, delta=loss.revealed, tv=min(tv, 1.0), loss=loss)
        return profile

    @classmethod
    def of(cls, noise: Noise, shift: float = 1.0) -> Self:
        """Return the profile of an answer with noise that moves by at most `shift`: the exact trade-off of the noise.

        Gaussian, Laplace and (for shifts of up to a step) staircase noise have closed forms. Of other noises the
        hockey stick is taken at a thousand ε, whose chords lie above it.

        >>> import pufferflow as pf
        >>> profile = Profile.of(pf.Laplace(1.0), 1.0)
        >>> profile.epsilon, round(profile.tv, 6)
        (1.0, 0.393469)
        """
        instance(
            noise,
            Noise,
            "The noise",
            allowed="a noise with its scale, as pf.Laplace(1.0)",
            instead="pf.tradeoff.Profile.of(pf.Laplace(1.0), shift=1.0)",
        )
        radius = _shift(shift)
        units = (
            float(quotient_above(np.asarray(radius), noise.scale)) if noise.scale and radius < math.inf else math.inf
        )
        if units > _ALL_TOLD:
            return cls(0.0, 1.0 if radius else 0.0)
        tv = cast(float, noise.delta_within(radius, 0.0))
        match noise:
            case Gaussian():
                return cls.with_loss(GaussianLoss(units), tv)
            case Laplace():
                return cls.with_loss(LaplaceLoss(units), tv)
            case Staircase() if units <= 1:
                return cls(noise.epsilon if units else 0.0, 0.0, tv)
            case _:
                return cls.with_loss(_of_noise(noise, radius), tv)

    @classmethod
    def of_laws(cls, mu: Law | GaussianLaw, nu: Law | GaussianLaw, noise: Noise) -> Self:
        """Return the profile of an answer with laws mu and nu under two secrets, and noise added: its exact ROC (M6).

        It serves both orders of the secrets. The hockey stick is that of `pf.Exact`, at a hundred ε.

        >>> import pufferflow as pf
        >>> profile = Profile.of_laws(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1], [0.4, 0.6]), pf.Laplace(1.0))
        >>> round(profile.epsilon, 6), round(profile.tv, 6)
        (0.096977, 0.039347)
        """
        from pufferflow.calibration.exact.exact import Exact
        from pufferflow.calibration.law_pairs import Pair
        from pufferflow.calibration.laws import read_laws

        (laws,) = read_laws([(mu, nu)])
        (curve,) = Exact().parts([Pair(laws[0].mu, laws[0].nu)], noise)

        def delta(epsilon: float) -> float:
            return curve.delta(noise, epsilon).value

        epsilons, deltas = _curve(curve.pure(noise).value, delta, _LAW_NODES, _FAINT_EXACT)
        return cls.with_loss(of_deltas(epsilons, deltas), float(deltas[0]))

    @classmethod
    def of_outputs(cls, first: npt.ArrayLike | Sequence[Any], second: npt.ArrayLike | Sequence[Any]) -> Self:
        """Return the profile of finitely many outputs with these probabilities under two secrets, for both orders.

        >>> Profile.of_outputs([0.75, 0.25], [0.5, 0.5])
        Profile(epsilon=0.6931471805599461, delta=0.0, tv=0.25)
        """
        p, q = _probabilities(first), _probabilities(second)
        if len(p) != len(q):
            raise UsageError(
                f"{len(p)} and {len(q)} probabilities.",
                allowed="one probability for every output, under both secrets",
                instead="pf.tradeoff.Profile.of_outputs([0.7, 0.3], [0.4, 0.6])",
            )
        both = (p > 0) & (q > 0)
        ratios = np.abs(np.log(p[both] / q[both]))
        epsilons = lifted(np.unique(np.append(ratios, 0.0)), 4 * UNIT)
        deltas = np.array([max(_stick(p, q, epsilon), _stick(q, p, epsilon)) for epsilon in epsilons.tolist()])
        deltas[-1] = max(math.fsum(p[q == 0]), math.fsum(q[p == 0]))
        return cls.with_loss(of_deltas(epsilons, deltas), float(deltas[0]))

    @classmethod
    def of_points(cls, points: Iterable[tuple[float, float]]) -> Self:
        """Return the profile of a release that is (ε, δ)-private for each of these pairs at once.

        >>> Profile.of_points([(0.0, 0.02), (1.0, 0.0)])
        Profile(epsilon=1.0, delta=0.0, tv=0.02)
        """
        each = [cls(epsilon, delta) for epsilon, delta in _pairs(points)]
        if len(each) == 1:
            return each[0]
        top = min((one.tv for one in each), default=1.0)
        later = sorted((one.epsilon, one.delta) for one in each if 0 < one.epsilon < math.inf)
        epsilons, deltas = np.array([(0.0, top), *later]).T
        return cls.with_loss(of_deltas(epsilons, deltas), top)


def _stick(p: Floats, q: Floats, epsilon: float) -> float:
    """Return Σ (p − e^ε q)₊ rounded up."""
    scaled = math.exp(epsilon) * q
    doubt = 0.0 if epsilon == 0 else 4 * UNIT  # of e^ε·q
    parts = np.where(p > scaled * (1 - doubt), np.maximum(p - scaled, 0.0) + doubt * p, 0.0)
    return min(math.fsum(parts) if epsilon == 0 else upwards(math.fsum(parts)), 1.0)


def _of_noise(noise: Noise, radius: float) -> Atoms:
    """Return atoms that dominate a noise moved by up to a radius."""
    pure = noise.pure_within(radius)

    def delta(epsilon: float) -> float:
        return cast(float, noise.delta_within(radius, epsilon))

    if isinstance(noise, Staircase) and pure / noise.epsilon < _NOISE_NODES:
        epsilons: Floats = noise.epsilon * np.arange(round(pure / noise.epsilon) + 1, dtype=np.float64)
        epsilons[-1] = pure
        return of_deltas(epsilons, np.array([*map(delta, epsilons[:-1].tolist()), 0.0]))
    return of_deltas(*_curve(pure, delta, _NOISE_NODES, _FAINT))


def _curve(pure: float, delta: Callable[[float], float], count: int, faint: float) -> tuple[Floats, Floats]:
    """Return ε from 0 to the largest loss, or to where δ is negligible, and δ there."""
    if pure == 0:
        return np.zeros(1), np.zeros(1)
    high = 1.0
    while high < min(pure, _HUGE) and delta(high) > faint:
        high *= 2
    while high / 2 > _LEAST and (high / 2 >= pure or delta(high / 2) <= faint):
        high /= 2
    epsilons = np.linspace(0.0, min(high, pure), count)
    deltas = np.array([*map(delta, epsilons.tolist())])
    if epsilons[-1] >= pure:
        deltas[-1] = 0.0
    return epsilons, deltas


def _epsilon(given: object) -> float:
    """Return an ε: a number ≥ 0, ∞ included."""
    if isinstance(given, float) and given == math.inf:
        return given
    return (
        finite_number_above(
            given,
            "epsilon",
            allowed="a number >= 0 (math.inf if it is not known)",
            instead="epsilon=1.0",
            fits=lambda number: number >= 0 and cast(float, given) >= 0,
        )
        + 0.0
    )


def _shift(given: object) -> float:
    """Return the length of a movement: a number ≥ 0, ∞ included."""
    if isinstance(given, float) and given == math.inf:
        return given
    return finite_number_at_least_zero(given, "shift")


def _share(given: object, name: str) -> float:
    """Return a probability: a number from 0 to 1."""
    number = finite_number_above(
        given,
        name,
        allowed="a number from 0 to 1",
        instead=f"{name}=0.1",
        fits=lambda number: number >= 0 and 0 <= cast(float, given) <= 1,
    )
    return min(number, 1.0) + 0.0


def _share_of(epsilon: float, delta: float, tv: float, most: float) -> float:
    """Return 1 − α of M26, (η − δ)/((1 − δ)·tanh(ε/2)), rounded up."""
    if tv <= delta:
        return 0.0
    steep = (1 - delta) * math.tanh(epsilon / 2)
    return 1.0 if tv >= most or steep <= 0 else min(max(upwards((tv - delta) / steep, 4 * UNIT), _LEAST), 1.0)


def _pairs(given: object) -> list[tuple[Any, Any]]:
    """Return pairs of an ε and a δ."""
    listed: list[Any] = list(cast(Iterable[Any], given)) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, tuple | list) and len(cast(Any, one)) == 2 for one in listed):
        raise UsageError(
            "The points of a profile are no pairs.",
            allowed="pairs of an epsilon and a delta",
            instead="pf.tradeoff.Profile.of_points([(0.0, 0.02), (1.0, 0.0)])",
        )
    return listed


def _probabilities(given: object) -> Floats:
    """Return the probabilities of outputs: numbers ≥ 0 with sum 1."""
    allowed, instead = "numbers >= 0 with sum 1", "pf.tradeoff.Profile.of_outputs([0.7, 0.3], [0.4, 0.6])"
    plain: object = np.asarray(given, dtype=object).tolist()
    listed = cast(list[Any], instance(plain, list, "The list of probabilities", allowed=allowed, instead=instead))
    floats = [
        finite_number(one, "A probability of an output", allowed=allowed, instead=instead, fits=lambda p: p >= 0)
        for one in listed
    ]
    if abs(math.fsum(floats) - 1) > 1e-9:
        raise UsageError(
            f"The probabilities of outputs have the sum {math.fsum(floats):.12g}.", allowed=allowed, instead=instead
        )
    return np.array(floats)
