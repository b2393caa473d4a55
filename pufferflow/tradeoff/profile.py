"""The loss of one release: an (ε, δ) and a total variation, a whole trade-off, or several that hold (M26).

If several bounds hold at once, the regions of errors intersect: δ(ε) is the convex hull below the least one. This
intersection has to be taken before releases are composed. Composing each bound by itself and taking the better result
afterwards is weaker. Bounds of different secrets leave the union of regions, with the largest δ(ε). That is convex in
e^ε as each is; its trade-off is the convex hull below all of them. Under one coupling of whole data sets, releases are
composed for each (x, x') and the δ(ε) are averaged afterwards (M1). Averaging first fails. Publish X₁ and X₂ = X₁ ⊕ S
for a fair coin X₁: each release alone averages to one that reveals nothing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
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
from pufferflow.tradeoff.curve import TradeOffCurve
from pufferflow.tradeoff.dominating_pairs import GaussianLoss, LaplaceLoss, of_deltas
from pufferflow.tradeoff.losses import Atoms, Loss, ThreePoint

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
class Profile(InNotebooks):
    """The privacy profile of one release, whatever the outputs before it: its dominating pair of laws (M26).

    `Profile(epsilon, delta, tv)` is a release that is (ε, δ)-private with total variation at most `tv`. All such
    releases can be made from the worst one, whose loss is ε, 0, −ε or ∞. A tv above its largest value δ + (1 −
    δ)·tanh(ε/2) is lowered to that, so 1 means that it is unknown. A δ above tv is lowered to tv. `Profile.of` is the
    profile of a noise, with the whole of its trade-off. Then `epsilon` is its largest loss, `delta` the probability of
    an infinite loss, and `tv` its total variation.

    Profiles compose (`pf.tradeoff.compose`) if the secret fixes the data, as in ordinary and group differential
    privacy. They also compose for conditionally independent releases, or for one (x, x') of a coupling. Losses of
    single releases about correlated rows do not compose.

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
            float(quotient_above(np.asarray(radius), noise.scale))
            if noise.scale and radius < math.inf
            else math.inf
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
        """Return the profile of an answer with laws mu and nu under two secrets, after noise: its exact ROC (M6).

        It holds for both orders of the secrets. The hockey stick is that of `pf.Exact`, at a hundred ε.

        >>> import pufferflow as pf
        >>> profile = Profile.of_laws(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1], [0.4, 0.6]), pf.Laplace(1.0))
        >>> round(profile.epsilon, 6), round(profile.tv, 6)
        (0.096977, 0.039347)
        """
        from pufferflow.calibration.exact.exact import Exact
        from pufferflow.calibration.laws import Pair, read_laws

        (laws,) = read_laws([(mu, nu)])
        (curve,) = Exact().parts([Pair(laws[0].mu, laws[0].nu)], noise)

        def delta(epsilon: float) -> float:
            return curve.delta(noise, epsilon).value

        epsilons, deltas = _curve(curve.pure(noise).value, delta, _LAW_NODES, _FAINT_EXACT)
        return cls.with_loss(of_deltas(epsilons, deltas), float(deltas[0]))

    @classmethod
    def of_outputs(
        cls, first: npt.ArrayLike | Sequence[Any], second: npt.ArrayLike | Sequence[Any]
    ) -> Self:
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
        deltas = np.array(
            [max(_stick(p, q, epsilon), _stick(q, p, epsilon)) for epsilon in epsilons.tolist()]
        )
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
        if len(later) == 1:
            return cls(*later[0], top)
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
        epsilons: Floats = noise.epsilon * np.arange(
            round(pure / noise.epsilon) + 1, dtype=np.float64
        )
        epsilons[-1] = pure
        return of_deltas(epsilons, np.array([*map(delta, epsilons[:-1].tolist()), 0.0]))
    return of_deltas(*_curve(pure, delta, _NOISE_NODES, _FAINT))


def _curve(
    pure: float, delta: Callable[[float], float], count: int, faint: float
) -> tuple[Floats, Floats]:
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
    return (
        1.0
        if tv >= most or steep <= 0
        else min(max(upwards((tv - delta) / steep, 4 * UNIT), _LEAST), 1.0)
    )


def _pairs(given: object) -> list[tuple[Any, Any]]:
    """Return pairs of an ε and a δ."""
    listed: list[Any] = list(cast(Iterable[Any], given)) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, tuple | list) and len(cast(Any, one)) == 2 for one in listed):
        raise UsageError(
            "The points of a profile are not pairs.",
            allowed="pairs of an epsilon and a delta",
            instead="pf.tradeoff.Profile.of_points([(0.0, 0.02), (1.0, 0.0)])",
        )
    return listed


def _probabilities(given: object) -> Floats:
    """Return the probabilities of outputs: numbers ≥ 0 with sum 1."""
    allowed, instead = (
        "numbers >= 0 with sum 1",
        "pf.tradeoff.Profile.of_outputs([0.7, 0.3], [0.4, 0.6])",
    )
    plain: object = np.asarray(given, dtype=object).tolist()
    listed = cast(
        list[Any],
        instance(plain, list, "The list of probabilities", allowed=allowed, instead=instead),
    )
    floats = [
        finite_number(
            one,
            "A probability of an output",
            allowed=allowed,
            instead=instead,
            fits=lambda p: p >= 0,
        )
        for one in listed
    ]
    if abs(math.fsum(floats) - 1) > 1e-9:
        raise UsageError(
            f"The probabilities of outputs have the sum {math.fsum(floats):.12g}.",
            allowed=allowed,
            instead=instead,
        )
    return np.array(floats)


_COMPOSED, _COMPOSE = (
    "what pf.tradeoff.compose or mixture returns",
    "pf.tradeoff.compose(profile, 5)",
)
_NODES = 1025
_FAINT_REGION = 1e-15


def intersection(profiles: Iterable[Profile]) -> Profile:
    """Return the profile of a release for which several profiles hold at once.

    >>> two = intersection([Profile(1.0, tv=0.3), Profile(0.5, 0.05)])
    >>> round(two.epsilon, 6), round(two.tv, 6)
    (1.0, 0.282673)
    """
    return _merged(_read(profiles, "intersection"), np.min)


def union(profiles: Iterable[Profile]) -> Profile:
    """Return the profile of a release with a different profile for each pair of secrets.

    >>> either = union([Profile(1.0, tv=0.3), Profile(0.5, 0.05)])
    >>> round(either.epsilon, 6), round(either.delta, 6), round(either.tv, 6)
    (1.0, 0.05, 0.3)
    """
    return _merged(_read(profiles, "union"), np.max)


def mixture(parts: Iterable[tuple[float, TradeOffCurve]]) -> "Mixture":
    """Return the average of compositions, each for one (x, x') of a coupling, weighted by its probability (M1).

    >>> import pufferflow as pf
    >>> told = pf.tradeoff.compose(pf.tradeoff.Profile(1.0), 2)
    >>> nothing = pf.tradeoff.compose(pf.tradeoff.Profile(0.0))
    >>> round(mixture([(0.25, told), (0.75, nothing)]).tv / told.tv, 9)
    0.25
    """
    read = [_part(one) for one in _iterated(parts, "mixture")]
    total = math.fsum(weight for weight, _ in read)
    if not read or abs(total - 1) > 1e-9:
        raise _bad_mixture(f"The weights of the parts add up to {total:g}.")
    return Mixture(tuple(read))


@final
@dataclass(frozen=True, eq=False)
class Mixture(TradeOffCurve):
    """The average of compositions: δ(ε) ≤ Σ w·δ_{x,x'}(ε)."""

    parts: tuple[tuple[float, TradeOffCurve], ...]

    @property
    def largest(self) -> float:
        """The largest loss of all parts that happen."""
        return max(curve.largest for weight, curve in self.parts if weight > 0)

    @property
    def revealed(self) -> float:
        return self._average([curve.revealed for _, curve in self.parts])

    def delta(self, epsilon: float) -> float:
        return self._average([curve.delta(epsilon) for _, curve in self.parts])

    def _average(self, deltas: Sequence[float]) -> float:
        terms = [weight * delta for (weight, _), delta in zip(self.parts, deltas, strict=True)]
        whole = min(
            math.fsum(weight for weight, _ in self.parts), 1.0
        )  # a sum just below 1, by rounding, is complete
        return min(upwards(math.fsum(terms) / whole, 4 * UNIT), 1.0)


def as_profile(together: TradeOffCurve) -> Profile:
    """Return the profile of several releases as of one, to be sampled or intersected with other profiles.

    δ(ε) is taken at a thousand ε; the chords between them lie above it.

    >>> import pufferflow as pf
    >>> five = pf.tradeoff.compose(pf.tradeoff.Profile(0.1, tv=0.02), 5)
    >>> abs(as_profile(five).tv - five.tv) < 1e-9
    True
    """
    instance(
        together, TradeOffCurve, "What is taken as one release", allowed=_COMPOSED, instead=_COMPOSE
    )
    end, faint = together.largest, together.revealed + _FAINT_REGION
    if faint >= 1:
        return Profile(0.0, 1.0)
    if end == math.inf or together.delta(end / 2) <= faint:
        end = min(together.epsilon(faint), end)
    epsilons = np.linspace(0.0, end, _NODES) if end > 0 else np.zeros(1)
    deltas = together.deltas(epsilons)
    return Profile.with_loss(of_deltas(epsilons, deltas), float(deltas[0]))


def _merged(profiles: Sequence[Profile], choose: Callable[..., Array]) -> Profile:
    """Return the profile with the least, or the largest, δ(ε) in both orders of the secrets; a single one as it is."""
    if len(profiles) == 1:
        return profiles[0]
    ways = [[profile.loss.discretised() for profile in profiles]]
    if not all(atoms.symmetric for atoms in ways[0]):
        ways.append([atoms.swapped() for atoms in ways[0]])
    corners = np.unique(
        np.concatenate([[0.0], *(atoms.losses[atoms.losses >= 0] for way in ways for atoms in way)])
    )
    if choose is np.max:
        corners = np.unique(np.concatenate([corners, *(_crossings(way, corners) for way in ways)]))
    orders: list[Floats] = [
        choose([atoms.hockey_sticks(corners) for atoms in way], axis=0) for way in ways
    ]
    atoms = of_deltas(corners, orders[0], None if len(orders) == 1 else orders[1])
    tv = float(choose([profile.tv for profile in profiles]))
    return Profile.with_loss(atoms, min(tv, atoms.hockey_stick(0.0)))


def _crossings(way: Sequence[Atoms], corners: Floats) -> Floats:
    """Return the ε between corners where the largest of the lines to the left meets the largest to the right."""
    values = np.array([atoms.hockey_sticks(corners) for atoms in way])
    left, right = values.argmax(axis=0)[:-1], values.argmax(axis=0)[1:]
    place = np.flatnonzero(left != right)
    one, other = left[place], right[place]
    start = values[one, place] - values[other, place]
    end = values[other, place + 1] - values[one, place + 1]
    share = start / np.maximum(start + end, np.finfo(float).tiny)
    widths = np.expm1(np.minimum(corners[place + 1] - corners[place], 700.0))
    return corners[place] + np.log1p(share * widths)


def _read(profiles: object, call: str) -> list[Profile]:
    """Return profiles, at least one."""
    read = list(_iterated(profiles, call))
    if not read or not all(isinstance(profile, Profile) for profile in read):
        raise UsageError(
            "Profiles are missing, or one of them is no profile.",
            allowed="a list of pf.tradeoff.Profile",
            instead=f"pf.tradeoff.{call}([pf.tradeoff.Profile(1.0, tv=0.3), pf.tradeoff.Profile(0.5, 0.05)])",
        )
    return read


def _iterated(given: object, call: str) -> Iterable[Any]:
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise UsageError(
            f"pf.tradeoff.{call} was given a {type(given).__name__}.",
            allowed="a list",
            instead=f"pf.tradeoff.{call}([...])",
        )
    return cast(Iterable[Any], given)


def _part(given: object) -> tuple[float, TradeOffCurve]:
    """Return a weight with a composition."""
    pair = tuple(cast(tuple[Any, ...], given)) if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or not isinstance(pair[1], TradeOffCurve):
        raise _bad_mixture("A part is no pair of a weight and a composition.")
    allowed, instead = "a probability", "pf.tradeoff.mixture([(0.5, one), (0.5, other)])"
    weight = finite_number(
        pair[0], "A weight", allowed=allowed, instead=instead, fits=lambda number: 0 <= number <= 1
    )
    return weight, pair[1]


def _bad_mixture(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="pairs of a probability and what pf.tradeoff.compose returns, the probabilities adding up to 1",
        instead="pf.tradeoff.mixture([(0.5, pf.tradeoff.compose(one)), (0.5, pf.tradeoff.compose(other))])",
    )
