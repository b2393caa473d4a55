"""Several profiles of one release: all of them true, or one for each pair of secrets; and averages under a coupling.

Bounds that hold at once leave the intersection of their regions of errors, the convex hull below the least δ(ε). It has
to be taken before releases are composed: composing each of two bounds by itself and taking the better one afterwards
is weaker. Bounds of different secrets leave the union of regions, the largest δ(ε), which is convex in e^ε as each is;
its trade-off is the convex hull below all of them. Under one coupling of whole data sets, releases are composed for
each (x, x') and the δ(ε) are averaged afterwards (M1). The reverse fails: of two releases of X₁ and X₂ = X₁ ⊕ S for a
fair coin X₁ each averages to one that reveals nothing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.core.validate import finite_number, instance
from pufferflow.tradeoff.curve import TradeOffCurve
from pufferflow.tradeoff.hulls import of_deltas
from pufferflow.tradeoff.losses import Atoms
from pufferflow.tradeoff.profile import Profile

_COMPOSED, _COMPOSE = "what pf.tradeoff.compose or mixture returns", "pf.tradeoff.compose(profile, 5)"
_NODES = 1025
_FAINT = 1e-15


def intersection(profiles: Iterable[Profile]) -> Profile:
    """Return the profile of a release of which several profiles are true at once.

    >>> two = intersection([Profile(1.0, tv=0.3), Profile(0.5, 0.05)])
    >>> round(two.epsilon, 6), round(two.tv, 6)
    (1.0, 0.282673)
    """
    return _merged(_read(profiles, "intersection"), np.min)


def union(profiles: Iterable[Profile]) -> Profile:
    """Return the profile of a release that has one of several profiles, another one for each pair of secrets.

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
        whole = min(math.fsum(weight for weight, _ in self.parts), 1.0)  # a sum just below 1, by rounding, is complete
        return min(upwards(math.fsum(terms) / whole, 4 * UNIT), 1.0)


def as_profile(together: TradeOffCurve) -> Profile:
    """Return releases together as the profile of one release, to be sampled or met with other profiles.

    δ(ε) is taken at a thousand ε; the chords between them lie above it.

    >>> import pufferflow as pf
    >>> five = pf.tradeoff.compose(pf.tradeoff.Profile(0.1, tv=0.02), 5)
    >>> abs(as_profile(five).tv - five.tv) < 1e-9
    True
    """
    instance(together, TradeOffCurve, "What is taken as one release", allowed=_COMPOSED, instead=_COMPOSE)
    end, faint = together.largest, together.revealed + _FAINT
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
    corners = np.unique(np.concatenate([[0.0], *(_corners(atoms) for way in ways for atoms in way)]))
    if choose is np.max:
        corners = np.unique(np.concatenate([corners, *(_crossings(way, corners) for way in ways)]))
    orders: list[Floats] = [choose([atoms.hockey_sticks(corners) for atoms in way], axis=0) for way in ways]
    atoms = of_deltas(corners, orders[0], None if len(orders) == 1 else orders[1])
    tv = float(choose([profile.tv for profile in profiles]))
    return Profile.with_loss(atoms, min(tv, atoms.hockey_stick(0.0)))


def _corners(atoms: Atoms) -> Floats:
    """Return the losses ≥ 0 at which the hockey stick has corners."""
    return atoms.losses[atoms.losses >= 0]


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
    weight = finite_number(pair[0], "A weight", allowed=allowed, instead=instead, fits=lambda number: 0 <= number <= 1)
    return weight, pair[1]


def _bad_mixture(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="pairs of a probability and what pf.tradeoff.compose returns, the probabilities adding up to 1",
        instead="pf.tradeoff.mixture([(0.5, pf.tradeoff.compose(one)), (0.5, pf.tradeoff.compose(other))])",
    )
