"""What is fixed when an account is opened: profiles, shares, their totals; and why an account refuses a release.

An account can reserve profiles before its first answer, for totals with a δ by the laws of losses (M26).

A profile bounds what one release may reveal: (ε, δ) for several ε at once, so also its total variation, the δ at ε = 0.
Along one coupling of the data each release is then a random function of a draw from the profile's dominating pair,
whatever the earlier answers. So all answers are a function of one draw for each reserved profile, in whatever order
releases take them and however many they take. That is why the total is that of all reserved profiles, from the first
release on: profiles that are chosen by earlier answers have no such total.

Each profile serves one release about a unit; releases that no unit shares may have the same one (M25, M27).

A part of δ is for keys that the data chooses; the sums of all releases keep the rest. Keys take the probability of an
event (`release.planning.key_threshold`). Outside this event all releases together are those of listed keys, whichever
keys appear. The part is fixed beforehand. Else answers could decide whether keys or sums take δ, and over all paths
they would take more than δ.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast, final

import msgspec
import numpy as np

from pufferflow.accounting.methods import COUNTED
from pufferflow.accounting.rules.additive import unseen_rows_move_farther
from pufferflow.accounting.rules.base import UnitReleases
from pufferflow.accounting.rules.choice import PAIR, PURE
from pufferflow.accounting.rules.release_movement import (
    MARGIN,
    ReleaseMovement,
    epsilon_within,
    movement_of,
)
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import LimitReached, Refused, UsageError
from pufferflow.core.rounding import SMALLEST, smallest
from pufferflow.core.validate import finite_number, whole_number
from pufferflow.models.priors.base import Prior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Presence
from pufferflow.noise.base import Noise
from pufferflow.noise.staircase import Staircase
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, Pure
from pufferflow.privacy.renyi import ApproxRenyi
from pufferflow.privacy.tradeoff import TradeOff
from pufferflow.published.cost import Cost, Shape
from pufferflow.tradeoff.composed import compose
from pufferflow.tradeoff.profile import Profile


class TotalVariationPassed(Refused):
    """The releases have an ε, but more than the total variation that was guaranteed with it."""


class KeyDeltaPassed(Refused):
    """The keys that releases chose from the data take more δ than the limit has."""


def keys_pass(taken: float, share: float, limit: Guarantee) -> KeyDeltaPassed:
    """Return the refusal of keys that take so much δ, where the account has a share for them."""
    listed = "listed keys"
    if limit.delta:
        listed += (
            "; or releases with a smaller delta, or an account opened with a larger keys_delta"
        )
    return KeyDeltaPassed(
        f'Keys from the data (keys="discover") would take delta {taken:.6g}, but the account with the limit '
        f"{limit!r} has keys_delta {share:g} for them.",
        allowed="limits with a delta, and keys that together take no more than keys_delta, fixed at the opening",
        instead=listed if limit.delta else f"limit=pf.Approx(3.0, 1e-5), or {listed}",
    )


def designed_too_late(methods: Sequence[str]) -> Refused:
    """Return the refusal of a designed release after others that are not counted by pure losses alone."""
    counted = " and ".join(COUNTED[method] for method in methods)
    return Refused(
        f"A designed release, but the account counts the releases about these rows by {counted} since the first.",
        allowed="a designed release as the first about these rows, or after releases counted by pure losses alone",
        instead='ledger.open(…, methods=["pure"]), or another account whose first release is account.design(…)',
    )


def total_unknown(
    priors: Sequence[Prior],
    count: int,
    methods: Sequence[str] | None = None,
    *,
    all_for_keys: bool = False,
) -> Refused:
    """Return the refusal of a total that no rule bounds, with the declaration or the noise that would help."""
    believed = ", ".join(dict.fromkeys(f"pf.{type(prior).__name__}" for prior in priors))
    problem = f"No composition rule bounds what {count} releases together reveal under {believed}"
    if methods:
        counted = " or ".join(COUNTED[method] for method in methods)
        noise = "pf.Laplace" if {*methods} <= {PURE, PAIR} else "pf.Laplace or pf.Gaussian"
        problem += f" by {counted}, the account's methods since its first release"
        if all_for_keys:
            problem += ", and keys_delta leaves the sums no delta"
        instead = (
            f"noise={noise} in every plan for this account, or another account for other noise"
        )
    else:
        problem += ", and losses of single releases do not add"
        instead = "putting all queries in one batch; or pf.AnyCorrelation() as the prior from the first release on"
    return Refused(
        f"{problem}.",
        allowed="noisy answers about rows of one chain, or about rows whose movements under one coupling are known",
        instead=instead,
    )


RESERVED = "profiles reserved beforehand, by the laws of their losses (M26)"
_POINTS = 16
"""The number of points (ε, δ) that describe what a plan may reveal."""
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
        """Return whether an account's profile has the same points, up to the relative margin of calibrations.

        Older versions described staircase noise by more points, up to a jump that no movement reaches.
        """
        count = len(self.points)
        older = 1 < count < len(other.points) == _POINTS
        if count != len(other.points) and not (older and other.epsilons[-1] >= self.epsilons[-1]):
            return False
        compared = 1 if older else count
        pairs = self.points[:compared], other.points[:compared]
        return bool(np.allclose(*pairs, rtol=10 * MARGIN, atol=0.0))

    def covers(self, release: "ReleaseMovement") -> bool:
        """Return whether a release with this movement reveals no more than the profile."""
        return bool((release.deltas(self.epsilons) <= self.deltas).all())


@final
class ReservedProfiles:
    """All profiles that an account reserved, for a limit with a δ."""

    def __init__(self, profiles: Sequence[ReservedProfile], limit: Guarantee) -> None:
        self.profiles, self.limit = sorted(profiles, key=lambda one: one.size), limit

    @cached_property
    def epsilon(self) -> float:
        """The ε of the limit's kind that all profiles have together; ∞ where they pass its total variation."""
        composed = compose([compose(one.profile, one.times) for one in self.profiles])
        return epsilon_within(composed, self.limit)

    def within_limit(self) -> "ReservedProfiles":
        """Return the profiles; refuse them if together they pass the limit."""
        if self.epsilon <= self.limit.epsilon:
            return self
        total = (
            f"epsilon {self.epsilon:.6g}" if math.isfinite(self.epsilon) else "a total variation"
        )
        raise LimitReached(
            f"The {self.releases} reserved releases would reach {total} together, above the limit {self.limit!r}.",
            allowed="profiles that together keep the limit",
            instead="fewer releases, or plans with a smaller epsilon; pf.compare_accounting shows each way's total",
        )

    def agrees(self, other: "ReservedProfiles | None") -> bool:
        """Return whether the others are as many releases, each as private up to the relative margin."""
        if other is None or [one.times for one in self.profiles] != [
            one.times for one in other.profiles
        ]:
            return False
        pairs = zip(self.profiles, other.profiles, strict=True)
        return all(one.near(two) for one, two in pairs)

    @property
    def releases(self) -> int:
        """The number of releases that there may be about a unit."""
        return sum(one.times for one in self.profiles)

    def check(self, releases: UnitReleases, count: int) -> None:
        """Refuse the last of `count` releases unless each about a unit has a profile of its own.

        In the order of releases, each takes the first free profile that covers it, by what was known when it was made.
        No later release changes this choice, so it depends on earlier answers only. If a unit were in fewer releases,
        the others would have profiles too: if one is left over, it goes to a later release, which leaves another one
        over. Rows that a release did not see may move it farther. A later release about such rows is refused if the
        earlier one would reveal more about them than its profile allows.
        """
        left, early = [one.times for one in self.profiles], _number_before_unseen_rows(releases)
        views = {True: releases.first(early), False: releases}
        covering = dict[tuple[int, bool], list[int]]()

        def covered(shape: Shape, *, then: bool) -> list[int]:
            key = id(shape), then
            if key not in covering:
                movement = movement_of(views[then], shape)
                covering[key] = [
                    place for place, profile in enumerate(self.profiles) if profile.covers(movement)
                ]
            return covering[key]

        for number, cost in enumerate(releases.costs):
            place = next((at for at in covered(cost.shape, then=number < early) if left[at]), None)
            if place is None:
                raise self._none_left(count)
            then = (
                [at for at in covered(cost.shape, then=True) if at <= place]
                if number < early
                else []
            )
            if not set(then) <= set(
                covered(cost.shape, then=False)
            ):  # a unit in fewer releases may have one before
                raise _profile_outgrown(number + 1, count)
            left[place] -= 1

    def _none_left(self, count: int) -> NoneReserved:
        return NoneReserved(
            f"The account reserved profiles of {self.releases} releases; of {count} releases the last has none: all "
            "are taken, or those left allow less loss.",
            allowed="at most as many releases about a unit as reserved, each within its profile",
            instead="a plan with more noise; nothing was read or charged",
        )


def _number_before_unseen_rows(releases: UnitReleases) -> int:
    """Return the number of releases before the one that saw other rows, which may move the earlier ones farther."""
    low, high = 0, len(releases.costs)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (low, middle - 1)
            if unseen_rows_move_farther(releases.first(middle))
            else (middle, high)
        )
    return low


def _profile_outgrown(number: int, count: int) -> NoneReserved:
    return NoneReserved(
        f"Release {count} is about rows that earlier releases did not read. About these release {number} may reveal "
        "more than its profile allows.",
        allowed="releases that all read the same rows, if correlations do not decay with distance",
        instead="one file for all releases, or an account without reserve; nothing was read or charged",
    )


def keys_not_reserved() -> Refused:
    """Return the refusal of keys that the data chooses, which profiles of movements do not cover."""
    return Refused(
        'Keys that the data chooses (keys="discover") together with reserved profiles: profiles cover sums only.',
        allowed="listed keys, or an account without reserve, whose limit has a delta",
        instead='group_by(…, keys=["a", "b"])',
    )


def read_reserved(given: object, scenario: Scenario, limit: Guarantee) -> ReservedProfiles:
    """Return profiles given as pairs: a plan or a guarantee, and the number of releases that are to be as private."""
    if limit.divergence is not Divergence.HOCKEY_STICK or limit.delta == 0:
        raise Refused(
            f"Profiles are reserved under the limit {limit!r}.",
            allowed="a limit with a delta; without a delta losses add without profiles",
            instead="limit=pf.Approx(3.0, 1e-6)",
        )
    pairs = read_pairs(given)
    if sum(times for _, times in pairs) > _MOST:
        raise UsageError(
            f"{sum(times for _, times in pairs)} profiles are reserved.",
            allowed=f"at most {_MOST} releases",
            instead="an account for fewer releases",
        )
    return ReservedProfiles(
        [ReservedProfile(_points(one, scenario, limit), times) for one, times in pairs], limit
    )


def read_pairs(given: object, name: str = "reserve") -> list[tuple[object, int]]:
    """Read pairs of what is reserved, or scheduled, and a number of times."""
    allowed, instead = (
        "pairs of a plan, or of a guarantee, and a number of releases",
        "[(plan, 365)]",
    )
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise UsageError(
            f"{name} is of type {type(given).__name__}.", allowed=allowed, instead=instead
        )
    pairs = list(cast(Iterable[Any], given))
    if not pairs or not all(
        isinstance(pair, tuple | list) and len(cast(Any, pair)) == 2 for pair in pairs
    ):
        raise UsageError(
            f"{name} contains something that is not a pair.", allowed=allowed, instead=instead
        )
    return [
        (
            one,
            whole_number(
                times,
                "The number of releases",
                allowed="a whole number of 1 or more",
                instead=instead,
            ),
        )
        for one, times in pairs
    ]


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


def _points_of_plan(
    movements: Sequence[ReleaseMovement], limit: Guarantee
) -> tuple[tuple[float, float], ...]:
    """Return points from ε = 0 to the largest loss, with the δ of the worst prior, both with the relative margin."""
    raised = [one.with_margin() for one in movements]
    if any(math.isinf(one.moved) for one in raised):
        raise Refused(
            "This plan has no profile: the movement of its answers under one coupling of the data is unknown.",
            allowed="plans about rows whose movements are known, by group privacy at least",
            instead="pf.AnyCorrelation() as the prior; or an account without reserve",
        )
    top = max(_last_epsilon(one, _rare(limit)) for one in raised)
    epsilons = np.linspace(0.0, top, _number_of_points(movements[0].noise, top))
    deltas = np.max([one.deltas(epsilons) for one in raised], axis=0)
    points = zip(epsilons.tolist(), deltas.tolist(), strict=True)
    return tuple(dict.fromkeys((epsilon, delta) for epsilon, delta in points if delta < 1)) or (
        (top, 1.0),
    )


def _number_of_points(noise: Noise, top: float) -> int:
    """Return how many points describe a profile: the corners of a staircase of few steps, else the usual number."""
    corners = round(top / noise.epsilon) + 1 if isinstance(noise, Staircase) else _POINTS
    return min(corners, _POINTS)


def _last_epsilon(release: ReleaseMovement, rare: float) -> float:
    """Return the pure loss; if it is infinite, an ε that losses hardly ever exceed."""
    if math.isfinite(release.pure):
        return release.pure
    high = 1.0
    while high < 1e4 and release.deltas(np.array([high]))[0] > rare:
        high *= 2
    return smallest(
        lambda epsilon: math.log(max(release.deltas(np.array([epsilon]))[0], SMALLEST) / rare),
        high,
        MARGIN,
    )


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


LEAST_KEYS_DELTA: Final = 1e-290
"""A smaller δ is not divided between keys and sums."""
_INSTEAD: Final = "keys_delta=0.0, for an account whose keys are all listed"


@final
@dataclass(frozen=True)
class Opening:
    """What an account was opened with beside its limit; the default part of δ if none is named."""

    reserved: ReservedProfiles | None = None
    keys_delta: float | None = None
    methods: tuple[str, ...] | None = ()
    """The accounting methods that may be counted by, () for all; None if the first release decides on one of them."""

    def share_of_keys(self, scenario: Scenario, limit: Guarantee) -> float:
        """Return the part of the limit's δ for keys: the named one, else the default; 0 with profiles."""
        if self.keys_delta is not None:
            return self.keys_delta
        return 0.0 if self.reserved is not None else default_keys_delta(scenario, limit)


def may_discover(scenario: Scenario, limit: Guarantee) -> bool:
    """Return whether releases under a scenario may take keys from the data, and a limit has a δ for them."""
    carries = isinstance(limit, Approx | ApproxRenyi | TradeOff) and limit.delta >= LEAST_KEYS_DELTA
    return carries and isinstance(scenario.secret, Presence)


def default_keys_delta(scenario: Scenario, limit: Guarantee) -> float:
    """Return half of the limit's δ if keys may be discovered, else 0; 0 for a total variation, too.

    A `pf.Tv` has no other number than δ: sums would have half of it only, for keys that are seldom requested.

    >>> import pufferflow as pf
    >>> visits = pf.Scenario(pf.Presence("person", "visits", domain=[0, 1, 2], rows=1), pf.Independent())
    >>> default_keys_delta(visits, pf.Approx(1.0, 1e-6)), default_keys_delta(visits, pf.Pure(1.0))
    (5e-07, 0.0)
    """
    return limit.delta / 2 if may_discover(scenario, limit) and limit.epsilon > 0 else 0.0


def read_keys_delta(given: object, scenario: Scenario, limit: Guarantee) -> float:
    """Return the given share, or the default; refuse a share that the limit does not have."""
    if given is None:
        return default_keys_delta(scenario, limit)
    share = finite_number(
        given,
        "keys_delta",
        allowed=f"a number from 0 to the delta {limit.delta:g} of the limit",
        instead=f"keys_delta={limit.delta / 2:g}",
        fits=lambda number: 0 <= number <= limit.delta,
    )
    if share and not may_discover(scenario, limit):
        raise UsageError(
            f"keys_delta is {share:g}, but no release of the account can take keys from the data.",
            allowed="a part of delta for keys under pf.Presence, and a limit with a delta",
            instead=_INSTEAD,
        )
    return share
