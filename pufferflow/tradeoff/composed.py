"""The composition of several releases, equal or different, by the law of their total privacy loss (M26).

The loss of k releases that are ε, 0 or −ε is ε·(N₊ − N₋). Let g² = p₊p₋ and m = p₀. The law has the coefficients of
(g/x + m + g·x)^k, times e^(dε/2) for N₊ − N₋ = d. They follow from Miller's recurrence for powers of polynomials:

    n·c_n = (k + 1 − n)(m/g)·c_{n−1} + (2k + 2 − n)·c_{n−2}.

Its terms are all positive up to the middle n = k, so each step adds a relative error of a few roundings. The other half
is the mirror image. No FFT, no subtraction.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, cast, final

import numpy as np

from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import SMALLEST, UNIT, float_above, upwards
from pufferflow.core.validate import finite_number_at_least_zero, whole_number
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.tradeoff.curve import TradeOffCurve
from pufferflow.tradeoff.dominating_pairs import GaussianLoss, LaplaceLoss
from pufferflow.tradeoff.inversion import Inversion, Moments
from pufferflow.tradeoff.losses import SLOP, Atoms, Loss, ThreePoint
from pufferflow.tradeoff.profile import Profile

_RESCALED = 2.0**300
MOST_ATOMS = 1 << 19


class Total(Protocol):
    """The total of finite losses in one order of the secrets: E(1 − e^(ε − S))₊, rounded up."""

    def delta(self, epsilon: float) -> float:
        """Return the total at epsilon."""
        ...

    def near(self, delta: float) -> Callable[[float], float]:
        """Return the total as a function of ε, quick and accurate where it is about `delta`."""
        return self.delta


@final
@dataclass(frozen=True, eq=False)
class FiniteTotal(Total):
    """The law of a total loss: atoms with masses under P, right to a relative `error`, losses to an absolute one."""

    losses: Floats
    masses: Floats
    error: float
    blur: float

    def times(self, other: "FiniteTotal") -> "FiniteTotal":
        """Return the law of the sum of two independent losses."""
        return FiniteTotal(
            np.add.outer(self.losses, other.losses).ravel(),
            np.multiply.outer(self.masses, other.masses).ravel(),
            self.error + other.error + 2 * UNIT,
            self.blur + other.blur + 2 * UNIT * (self.reach + other.reach),
        )

    @cached_property
    def reach(self) -> float:
        """The largest loss, of either sign."""
        return float(np.abs(self.losses).max()) if len(self.losses) else 0.0

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats]:
        order = np.argsort(self.losses)
        return self.losses[order], self.masses[order]

    @property
    def largest(self) -> float:
        """The largest loss."""
        return float(self._sorted[0][-1]) + self.blur if len(self.losses) else 0.0

    def delta(self, epsilon: float) -> float:
        """Return Σ p(1 − e^(ε − ℓ))₊, summed at this very ε, rounded up."""
        losses, masses = self._sorted
        start = int(
            np.searchsorted(losses, epsilon - self.blur - 4 * UNIT * abs(epsilon), side="right")
        )
        above = losses[start:]
        # losses are raised by their rounding error
        gaps = epsilon - above - self.blur - UNIT * (abs(epsilon) + np.abs(above))
        with np.errstate(under="ignore"):
            total = float((masses[start:] * -np.expm1(np.minimum(gaps, 0.0))).sum())
        return total * (1 + self.error + (64 + len(above) ** 0.5) * UNIT) * (1 + 8 * UNIT)


def finite_total(classes: Mapping[Loss, int]) -> FiniteTotal | None:
    """Return the law of the total loss of releases, given the number of each; None if it has too many atoms."""
    size = 1.0
    for loss, count in classes.items():
        size *= _size(loss, count)
    if size > MOST_ATOMS and not (
        len(classes) == 1 and isinstance(next(iter(classes)), ThreePoint)
    ):
        return None
    total = FiniteTotal(np.zeros(1), np.ones(1), 0.0, 0.0)
    for loss, count in classes.items():
        total = total.times(_repeated(loss, count))
    return total


def _size(loss: Loss, count: int) -> float:
    """Return how many atoms a class has."""
    if isinstance(loss, ThreePoint):
        return 2.0 * count + 1
    if loss.finite is None:
        return math.inf
    return math.exp(min(count * math.log(max(len(loss.finite.losses), 1)), 700.0))


def _repeated(loss: Loss, count: int) -> FiniteTotal:
    if isinstance(loss, ThreePoint):
        return _three_point(loss, count)
    atoms = loss.discretised()
    once = _once(atoms)
    total = once
    for _ in range(count - 1):
        total = total.times(once)
    return total


def _once(atoms: Atoms) -> FiniteTotal:
    return FiniteTotal(atoms.losses, atoms.first, SLOP, SLOP * (1 + atoms.reach))


def _three_point(loss: ThreePoint, count: int) -> FiniteTotal:
    """Return the law of ε·(N₊ − N₋)."""
    low, middle, high = loss.masses
    whole = math.exp(count * math.log1p(-loss.out)) if loss.out < 1 else 0.0
    rounding = SLOP * count * (1 + abs(math.log1p(-loss.out)) if loss.out < 1 else 1)
    if loss.share == 0 or whole == 0:
        return FiniteTotal(np.zeros(1), np.array([whole]), rounding, 0.0)
    if count == 1:
        return _once(loss.finite)
    logs = _powers(middle / math.sqrt(low * high), count)
    steps = np.arange(-count, count + 1, dtype=np.float64)
    logs = np.concatenate([logs, logs[-2::-1]]) + steps * (loss.epsilon / 2)
    size = float(np.abs(logs[logs > -math.inf]).max()) + count * loss.epsilon
    with np.errstate(under="ignore"):
        masses = np.exp(logs - float(log_sum(logs))) * whole
    return FiniteTotal(
        steps * loss.epsilon,
        masses,
        rounding + (16 * count + 8 * size) * UNIT,
        2 * UNIT * count * loss.epsilon,
    )


def _powers(ratio: float, count: int) -> Floats:
    """Return the logs of the first half of the coefficients of (1/x + ratio + x)^count, the middle one included."""
    before, now, rescaled = 0.0, 1.0, 0
    logs = [0.0]
    for n in range(1, count + 1):
        before, now = now, ((count + 1 - n) * ratio * now + (2 * count + 2 - n) * before) / n
        if now > _RESCALED:
            before, now, rescaled = before / _RESCALED, now / _RESCALED, rescaled + 1
        logs.append(math.log(now) + rescaled * _LOG_RESCALED if now > 0 else -math.inf)
    return np.array(logs)


_LOG_RESCALED = math.log(_RESCALED)


MOST_RELEASES = 1_000_000
MOST_PROFILES = 100_000
_EXACTLY = 1000


@final
@dataclass(frozen=True)
class NoiseTotal(Total):
    """Gaussian releases alone, whose μ² add, or one with Laplace noise: the hockey stick of a moved noise."""

    noise: Noise
    shift: float

    def delta(self, epsilon: float) -> float:
        return self.noise.delta(self.shift, epsilon)


@final
@dataclass(frozen=True, eq=False)
class Composed(TradeOffCurve):
    """Several releases together: the number of each profile. All bounds are rounded up, the curve down.

    >>> import pufferflow as pf
    >>> five = pf.tradeoff.compose(pf.tradeoff.Profile(1.0, tv=0.32348), 5)
    >>> round(five.tv, 5), round(five.delta(2.0), 5), round(five.epsilon(1e-6), 5)
    (0.63109, 0.23934, 4.99997)
    """

    profiles: Mapping[Profile, int]

    def delta(self, epsilon: float) -> float:
        """Return δ(epsilon), summed at this very ε: between the corners of the curve it is below every chord in ε.

        >>> import pufferflow as pf
        >>> round(pf.tradeoff.compose(pf.tradeoff.Profile(1.0, tv=0.32348), 5).delta(2.5), 3)
        0.185
        """
        at = finite_number_at_least_zero(epsilon, "epsilon")
        if at >= self.largest or self.revealed >= 1:
            return self.revealed
        found = max(
            self._with_revealed(total.delta(at), order) for order, total in enumerate(self._totals)
        )
        return max(found, SMALLEST)  # an underflow is not 0

    def near(self, delta: float) -> Callable[[float], float]:
        curves = [
            total.near(max(delta - self._revealed[order], delta * 1e-3))
            for order, total in enumerate(self._totals)
        ]
        return lambda epsilon: max(
            self._with_revealed(one(epsilon), order) for order, one in enumerate(curves)
        )

    @cached_property
    def largest(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The sum of the largest finite losses, rounded up."""
        return max(_sum_above(losses) for losses in self._orders)

    @property
    def revealed(self) -> float:
        """The probability that one of the releases has no finite loss, rounded up."""
        return max(self._revealed)

    @property
    def gaussian_limit(self) -> float:
        """The μ of the Gaussian trade-off that many small releases tend to: μ²/2 = Σ εη (M26). A limit, not a bound.

        >>> import pufferflow as pf
        >>> round(pf.tradeoff.compose(pf.tradeoff.Profile(0.01), 10_000).gaussian_limit, 4)
        1.0
        """
        if self.revealed:
            raise Refused(
                "Releases that may reveal everything have no Gaussian limit.",
                allowed="profiles with delta=0",
                instead=".delta(epsilon) or .epsilon(delta), which are bounds for any number of releases",
            )
        return math.sqrt(
            2
            * math.fsum(
                count * _divergence(profile.loss) for profile, count in self.profiles.items()
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the profiles alone."""
        return Composed, (self.profiles,)

    @cached_property
    def _orders(self) -> tuple[Mapping[Loss, int], ...]:
        """The losses in one order of the secrets, and in the other if it differs."""
        orders = [Counter[Loss](), Counter[Loss]()]
        for profile, count in self.profiles.items():
            orders[0][profile.loss] += count
            orders[1][profile.loss.swapped()] += count
        return tuple(orders[:1]) if all(loss.symmetric for loss in orders[0]) else tuple(orders)

    @cached_property
    def _totals(self) -> tuple[Total, ...]:
        return tuple(_total(losses) for losses in self._orders)

    @cached_property
    def _revealed(self) -> tuple[float, ...]:
        return tuple(map(_revealed, self._orders))

    def _with_revealed(self, finite: float, order: int) -> float:
        return min(upwards(finite + self._revealed[order]), 1.0)


def compose(
    releases: "Profile | Composed | Iterable[Profile | Composed]", times: int = 1
) -> Composed:
    """Return the composition of releases, which may be adaptive if their profiles are fixed before the first.

    `releases` is a profile, or any number of them (and of compositions), all repeated `times` times. The numbers are
    upper bounds, exact up to rounding: equal profiles by the law of N₊ − N₋, few different ones by enumeration,
    Gaussian noise in closed form. Up to 10⁵ different profiles are composed by a Fourier series with a known error.
    That is an upper bound too, about 10⁻⁶ above the exact δ, relatively.

    >>> import pufferflow as pf
    >>> each = [pf.tradeoff.Profile(*numbers) for numbers in [(1.0, 0.0, 0.3), (0.5, 0.01, 0.15), (2.0, 0.0, 0.5)]]
    >>> round(compose(each).delta(1.5), 6)
    0.300092
    """
    number = whole_number(
        times, "times", allowed="a whole number >= 1", instead="pf.tradeoff.compose(profile, 5)"
    )
    counts = Counter[Profile]()
    for one in _listed(releases):
        if isinstance(one, Composed):
            counts.update({profile: count * number for profile, count in one.profiles.items()})
        else:
            counts[one] += number
        if len(counts) > MOST_PROFILES:
            break
    if not counts:
        raise _no_profiles("No profiles were given.")
    if len(counts) > MOST_PROFILES or counts.total() > MOST_RELEASES:
        raise Refused(
            f"More than {MOST_PROFILES} different profiles, or more than {MOST_RELEASES} releases.",
            allowed=f"at most {MOST_PROFILES} different profiles, and {MOST_RELEASES} releases",
            instead="epsilons and tvs rounded up to a few digits, so that equal profiles are counted together",
        )
    return Composed(counts)


def _listed(releases: object) -> "Iterable[Profile | Composed]":
    if isinstance(releases, Profile | Composed):
        return (releases,)
    if not isinstance(releases, Iterable):
        raise _no_profiles(f"Releases are of type {type(releases).__name__}.")
    return map(_read, cast(Iterable[Any], releases))


def _read(given: object) -> "Profile | Composed":
    if not isinstance(given, Profile | Composed):
        raise _no_profiles(f"A release is of type {type(given).__name__}.")
    return given


def _no_profiles(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="a pf.tradeoff.Profile, or a list of them",
        instead="pf.tradeoff.compose([pf.tradeoff.Profile(1.0, tv=0.3), pf.tradeoff.Profile(0.5)])",
    )


def _total(losses: Mapping[Loss, int]) -> Total:
    """Return the total of losses by the most exact method available."""
    known = {loss: count for loss, count in losses.items() if loss.largest or loss.revealed}
    match list(known.items()):
        case [(LaplaceLoss(units), 1)]:
            return NoiseTotal(Laplace(1.0), units)
        case items:
            squares = [
                count * loss.mu**2 for loss, count in items if isinstance(loss, GaussianLoss)
            ]
    if squares and len(squares) == len(known):
        return NoiseTotal(Gaussian(1.0), math.sqrt(math.fsum(squares)) * (1 + 4 * UNIT))
    finite = finite_total(known)
    return Inversion(Moments.of(known), _sum_above(known)) if finite is None else finite


def _sum_above(losses: Mapping[Loss, int]) -> float:
    """Return the sum of the largest losses, rounded up."""
    terms = [count * loss.largest for loss, count in losses.items()]
    if len(terms) > _EXACTLY or math.inf in terms:
        return upwards(math.fsum(terms), UNIT)
    exact = float_above(
        sum((count * Fraction(loss.largest) for loss, count in losses.items()), Fraction(0))
    )
    return upwards(exact, SLOP) if any(isinstance(loss, Atoms) for loss in losses) else exact


def _revealed(losses: Mapping[Loss, int]) -> float:
    """Return 1 − Π(1 − δ), rounded up."""
    shares = [(loss.revealed, count) for loss, count in losses.items() if loss.revealed]
    if any(share >= 1 for share, _ in shares):
        return 1.0
    if len(losses) == 1 and sum(losses.values()) == 1:
        return shares[0][0] if shares else 0.0
    logs = [count * math.log1p(-share) for share, count in shares]
    slop = SLOP * sum(losses.values())
    return min(upwards(-math.expm1(math.fsum(logs)), 8 * UNIT + slop), 1.0) if shares else 0.0


def _divergence(loss: Loss) -> float:
    """Return the Kullback–Leibler divergence of the pair: ε·η for three points, μ²/2 for Gaussian noise."""
    if isinstance(loss, GaussianLoss):
        return loss.mu * loss.mu / 2
    atoms = loss.discretised()
    return math.fsum(atoms.first * atoms.losses)
