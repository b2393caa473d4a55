"""Profiles that an account reserves before its first answer: totals with a δ, by the laws of losses (M26).

A profile bounds what one release may reveal: (ε, δ) for several ε at once, so also its total variation, the δ at ε = 0.
Along one coupling of the data each release is then a random function of a draw from the profile's dominating pair,
whatever the earlier answers. So all answers are a function of one draw for each reserved profile, in whatever order
releases take them and however many they take. That is why the total is that of all reserved profiles, from the first
release on: profiles that are chosen by earlier answers have no such total.

Each profile serves one release about a unit; releases that no unit shares may have the same one (M25, M27).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, final

import msgspec
import numpy as np

from pufferflow.accounting.rules.additive import CouplingRule, GranularityRule, unseen_rows_move_farther
from pufferflow.accounting.rules.base import UnitReleases
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import LimitReached, Refused, UsageError
from pufferflow.core.roots import smallest
from pufferflow.core.rounding import SMALLEST, UNIT
from pufferflow.core.validate import whole_number
from pufferflow.models.scenario import Scenario
from pufferflow.noise.base import Noise
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, Pure
from pufferflow.privacy.tradeoff import TradeOff
from pufferflow.published.cost import Cost, Shape
from pufferflow.tradeoff.composed import compose
from pufferflow.tradeoff.profile import Profile

RESERVED = "profiles reserved beforehand, by the laws of their losses (M26)"
_POINTS = 16
"""The number of points (ε, δ) that describe what a plan may reveal."""
_RTOL = 1e-6
"""The relative margin of profiles, above the difference of calibrations of one batch for other rows."""
_RARE = 2.0**-20
"""If losses are unbounded, those beyond the last ε of a profile have this share of the limit's δ."""
_RAREST = 1e-290
"""The computed δ of Gaussian noise is at least 1e-300."""
_MOST = 1 << 17


@final
class NoneReserved(Refused, LimitReached):
    """The account has no reserved profile left that covers a release."""


@final
class ReservedProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Bounds on what each of the releases may reveal: at every point (ε, δ), P(S) ≤ e^ε·Q(S) + δ in both orders."""

    points: tuple[tuple[float, float], ...]
    times: int

    @cached_property
    def epsilons(self) -> Floats:
        """The ε of all points."""
        return np.array([epsilon for epsilon, _ in self.points])

    @cached_property
    def deltas(self) -> Floats:
        """The δ of all points."""
        return np.array([delta for _, delta in self.points])

    @property
    def profile(self) -> Profile:
        """The pair of laws that dominates all pairs that keep the points."""
        return Profile.of_points(self.points)

    @property
    def size(self) -> tuple[float, ...]:
        """The order of profiles, those that reveal less first."""
        return (*(delta for _, delta in self.points), *(epsilon for epsilon, _ in self.points))

    def near(self, other: "ReservedProfile") -> bool:
        """Return whether another profile has the same points, up to the relative margin of calibrations."""
        same = len(self.points) == len(other.points)
        return same and bool(np.allclose(self.points, other.points, rtol=10 * _RTOL, atol=0.0))

    def covers(self, release: "ReleaseMovement") -> bool:
        """Return whether a release with this movement reveals no more than the profile."""
        return bool((release.deltas(self.epsilons) <= self.deltas).all())


@final
@dataclass(frozen=True)
class ReleaseMovement:
    """The movement of one release along one coupling of the data, in the norm of its noise, and its dimensions."""

    noise: Noise
    moved: float
    dimension: int
    row_by_row: bool = False
    """Whether the noise only represents the pure loss of a channel, of which no more is known."""

    @property
    def pure(self) -> float:
        """The pure loss."""
        return self.noise.pure_within(self.moved, self.dimension) if self.moved else 0.0

    def deltas(self, epsilons: Floats) -> Floats:
        """Return δ at every ε, an upper bound."""
        if self.moved == 0:
            return np.zeros(len(epsilons))
        chord = self._chord(epsilons)
        if self.row_by_row:
            return chord
        known = [self.noise.delta_within(self.moved, float(epsilon), self.dimension) for epsilon in epsilons]
        return np.array([line if delta is None else delta for delta, line in zip(known, chord, strict=True)])

    def _chord(self, epsilons: Floats) -> Floats:
        """Return the line from the total variation at ε = 0 to 0 at the pure loss: δ is convex in e^ε; rounded up.

        Of Laplace noise the total variation is at most 1 − Π(1 − tv_j) = 1 − e^{−u/2}, u the sum of all movements.
        """
        loss = self.pure
        if not math.isfinite(loss) or loss > 500:
            return np.ones(len(epsilons))
        spread = isinstance(self.noise, Laplace) and not self.row_by_row
        variation = -math.expm1(-loss / 2) if spread else math.tanh(loss / 2)
        line = variation * np.exp(np.minimum(epsilons, loss)) * np.expm1(loss - epsilons) / math.expm1(loss)
        return np.where(epsilons < loss, line * (1 + 16 * UNIT), 0.0)


@final
class ReservedProfiles:
    """All profiles that an account reserved, for a limit with a δ."""

    def __init__(self, profiles: Sequence[ReservedProfile], limit: Guarantee) -> None:
        self.profiles, self.limit = sorted(profiles, key=lambda one: one.size), limit

    @cached_property
    def epsilon(self) -> float:
        """The ε of the limit's kind that all profiles have together; ∞ where they pass its total variation."""
        composed = compose([compose(one.profile, one.times) for one in self.profiles])
        allowed = self.limit.tv if isinstance(self.limit, TradeOff) else 1.0
        return composed.epsilon(self.limit.delta) if composed.tv <= allowed else math.inf

    def within_limit(self) -> "ReservedProfiles":
        """Return the profiles; refuse them if together they pass the limit."""
        if self.epsilon <= self.limit.epsilon:
            return self
        total = f"epsilon {self.epsilon:.6g}" if math.isfinite(self.epsilon) else "a total variation"
        raise LimitReached(
            f"The {self.releases} releases to reserve come to {total} together, above the limit {self.limit!r}.",
            allowed="profiles that keep to the limit together",
            instead="fewer releases, or plans with a smaller epsilon; pf.compare_accounting shows each way's total",
        )

    def agrees(self, other: "ReservedProfiles | None") -> bool:
        """Return whether the others are as many releases, each as private up to the relative margin."""
        if other is None or [one.times for one in self.profiles] != [one.times for one in other.profiles]:
            return False
        pairs = zip(self.profiles, other.profiles, strict=True)
        return all(one.near(two) for one, two in pairs)

    @property
    def releases(self) -> int:
        """The number of releases that there may be about a unit."""
        return sum(one.times for one in self.profiles)

    def check(self, releases: UnitReleases, count: int) -> None:
        """Refuse the last of `count` releases unless each about a unit has a profile of its own.

        Each has the first one that covers it and is left, in the order of releases and by what was known when it was
        made. No later release changes this choice, so it depends on earlier answers only. If a unit were in fewer
        releases, the others would have profiles too: if one is left over, it goes to a later release, which leaves
        another one over. Rows that a release did not see may move it farther; a later release about such rows is
        refused if the earlier one would reveal more of them than its profile.
        """
        left, early = [one.times for one in self.profiles], _number_before_unseen_rows(releases)
        views = {True: releases.first(early), False: releases}
        covering = dict[tuple[int, bool], list[int]]()

        def covered(shape: Shape, *, then: bool) -> list[int]:
            key = id(shape), then
            if key not in covering:
                movement = movement_of(views[then], shape)
                covering[key] = [place for place, profile in enumerate(self.profiles) if profile.covers(movement)]
            return covering[key]

        for number, cost in enumerate(releases.costs):
            place = next((at for at in covered(cost.shape, then=number < early) if left[at]), None)
            if place is None:
                raise self._none_left(count)
            then = [at for at in covered(cost.shape, then=True) if at <= place] if number < early else []
            if not set(then) <= set(covered(cost.shape, then=False)):  # a unit in fewer releases may have one before
                raise _profile_outgrown(number + 1, count)
            left[place] -= 1

    def _none_left(self, count: int) -> NoneReserved:
        return NoneReserved(
            f"The account reserved profiles of {self.releases} releases; of {count} releases the last has none: all "
            "are taken, or those left are more private than it is.",
            allowed="as many releases about a unit as were reserved, each no less private than its profile",
            instead="a plan with more noise; nothing was read or charged",
        )


def _number_before_unseen_rows(releases: UnitReleases) -> int:
    """Return the number of releases before the one that saw other rows, which may move the earlier ones farther."""
    low, high = 0, len(releases.costs)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if unseen_rows_move_farther(releases.first(middle)) else (middle, high)
    return low


def _profile_outgrown(number: int, count: int) -> NoneReserved:
    return NoneReserved(
        f"Release {count} is about rows that earlier ones did not see. About them release {number} may reveal more "
        "than the profile that it took.",
        allowed="releases that all see the same rows, where correlations do not fall off with the distance",
        instead="one file for all releases, or an account without reserve; nothing was read or charged",
    )


def keys_not_reserved() -> Refused:
    """Return the refusal of keys that the data chooses, which profiles of movements do not cover."""
    return Refused(
        'Keys that the data chooses (keys="discover") beside profiles that were reserved: these are of sums alone.',
        allowed="listed keys, or an account without reserve, whose limit has a delta",
        instead='group_by(…, keys=["a", "b"])',
    )


def movement_of(releases: UnitReleases, shape: Shape) -> ReleaseMovement:
    """Return the movement of a release along the coupling that moves it least; ∞ if none is known."""
    lengths = [rule.movement(releases, shape) for rule in (CouplingRule(), GranularityRule())]
    return ReleaseMovement(shape.noise, min(lengths), shape.dimension, shape.row_by_row)


def read_reserved(given: object, scenario: Scenario, limit: Guarantee) -> ReservedProfiles:
    """Return profiles given as pairs: a plan or a guarantee, and the number of releases that are to be as private."""
    if limit.divergence is not Divergence.HOCKEY_STICK or limit.delta == 0:
        raise Refused(
            f"Profiles are reserved under the limit {limit!r}.",
            allowed="a limit with a delta; pure and Rényi losses add without profiles, whatever the next query",
            instead="limit=pf.Approx(3.0, 1e-6)",
        )
    pairs = read_pairs(given)
    if sum(times for _, times in pairs) > _MOST:
        raise UsageError(
            f"{sum(times for _, times in pairs)} profiles are reserved.",
            allowed=f"at most {_MOST} releases",
            instead="an account for fewer releases",
        )
    return ReservedProfiles([ReservedProfile(_points(one, scenario, limit), times) for one, times in pairs], limit)


def read_pairs(given: object, name: str = "reserve") -> list[tuple[object, int]]:
    """Read pairs of what is reserved, or scheduled, and a number of times."""
    allowed, instead = "pairs of a plan, or of a guarantee, and a number of releases", "[(plan, 365)]"
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise UsageError(f"{name} is of type {type(given).__name__}.", allowed=allowed, instead=instead)
    pairs = list(cast(Iterable[Any], given))
    if not pairs or not all(isinstance(pair, tuple | list) and len(cast(Any, pair)) == 2 for pair in pairs):
        raise UsageError(f"{name} holds something else than pairs.", allowed=allowed, instead=instead)
    return [(one, _times(times, instead)) for one, times in pairs]


def _times(given: object, instead: str) -> int:
    return whole_number(given, "The number of releases", allowed="a whole number of 1 or more", instead=instead)


def _points(given: object, scenario: Scenario, limit: Guarantee) -> tuple[tuple[float, float], ...]:
    """Return the points of a guarantee, or of what a plan may reveal under the scenario's worst prior."""
    if isinstance(given, Guarantee):
        return _points_of_promise(given, limit)
    cost = getattr(given, "cost", None)
    if not isinstance(cost, Cost):
        raise UsageError(
            f"A profile is reserved for something of type {type(given).__name__}.",
            allowed="a plan, pf.Pure or pf.Approx",
            instead="reserve=[(plan, 365)]",
        )
    if cost.shape.setting != scenario.setting:
        raise UsageError(
            "A profile is reserved for a plan of another scenario.",
            allowed="plans of the account's scenario",
            instead="pf.protect(frame, scenario)",
        )
    if cost.shape.key_delta:
        raise keys_not_reserved()
    units = [UnitReleases(scenario, prior, [cost], cost.steps_seen) for prior in scenario.priors]
    return _points_of_plan([movement_of(unit, cost.shape) for unit in units], limit)


def _points_of_plan(movements: Sequence[ReleaseMovement], limit: Guarantee) -> tuple[tuple[float, float], ...]:
    """Return points from ε = 0 to the largest loss, with the δ of the worst prior, both with the relative margin."""
    raised = [replace(one, moved=one.moved * (1 + _RTOL)) for one in movements]
    if any(math.isinf(one.moved) for one in raised):
        raise Refused(
            "A profile of this plan: how far its answers move along one coupling of the data is not known.",
            allowed="plans about rows whose movements are known, by group privacy at least",
            instead="pf.AnyCorrelation() as the prior; or an account without reserve",
        )
    top = max(_last_epsilon(one, _rare(limit)) for one in raised)
    epsilons = np.linspace(0.0, top, _POINTS)
    deltas = np.max([one.deltas(epsilons) for one in raised], axis=0)
    points = zip(epsilons.tolist(), deltas.tolist(), strict=True)
    return tuple(dict.fromkeys((epsilon, delta) for epsilon, delta in points if delta < 1)) or ((top, 1.0),)


def _last_epsilon(release: ReleaseMovement, rare: float) -> float:
    """Return the pure loss; if it is infinite, an ε that losses hardly ever exceed."""
    if math.isfinite(release.pure):
        return release.pure
    high = 1.0
    while high < 1e4 and release.deltas(np.array([high]))[0] > rare:
        high *= 2
    return smallest(lambda epsilon: math.log(max(release.deltas(np.array([epsilon]))[0], SMALLEST) / rare), high, _RTOL)


def _rare(limit: Guarantee) -> float:
    """Return the least δ that profiles distinguish from 0."""
    return max(limit.delta * _RARE, _RAREST)


def _points_of_promise(promise: Guarantee, limit: Guarantee) -> tuple[tuple[float, float], ...]:
    """Return the points that a guarantee states, or some that follow from it."""
    if all(isinstance(one, Pure | Approx) for one in promise.singles):
        return tuple((one.epsilon, one.delta) for one in promise.singles)
    deltas = np.geomspace(_rare(limit), 0.5, _POINTS).tolist()
    points = [(promise.approx_epsilon(delta), delta) for delta in deltas]
    return tuple(point for point in points if math.isfinite(point[0]))
