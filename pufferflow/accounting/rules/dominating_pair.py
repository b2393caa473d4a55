"""Releases of any noise as draws for the dominating pair of the first one: Theorem 2 of TV in an account (M26, M61).

The first release has a pure loss ε and a total variation η along one coupling of the data. They fix a pair of laws:
from a draw of it any release with no more of both can be made. An account counts draws. All answers are a function of
as many draws, whatever was requested and in whatever order. So the law of their total loss is that of equal releases.

Later releases need not be like the first one:

- **A louder release** takes as many draws as dominate it together.
- **Quieter releases** share a draw while their losses and total variations add up to at most those of the pair: then
  they are together one release that the pair dominates, however each was chosen.

Which draws a release takes depends on requests alone. More loss, or a further release, never lowers their number: a
state is the number of draws and what is used of the last one, and each release keeps the order of two states.

Gaussian and Laplace noise of any size are counted by squared deviations, so accounts that begin with them count so.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import final

import numpy as np

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.accounting.rules.release_movement import (
    STEEPEST,
    ReleaseMovement,
    chord,
    epsilon_within,
    movement_of,
)
from pufferflow.core.rounding import UNIT
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily
from pufferflow.tradeoff.composed import compose
from pufferflow.tradeoff.profile import Profile

_MOST = 1024
"""The most draws that one release may take."""
_BELOW, _FAINT = 1 - 1e-9, 1e-10
"""How far δ of equal pairs is above the true one, relatively and absolutely, is far less than this."""


@final
class PairRule(CompositionRule):
    """All releases are made from draws for one pair of laws, which the first release fixes."""

    name = "draws for the dominating pair of the first release (M26)"
    why = (
        "the first request fixes a pair of laws. Each release is a function of draws for it. Requests alone "
        "decide how many, and the account is stopped at a number of draws (M26, M61)"
    )

    def by_own(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        pair = _pair(releases)
        if pair is None or not kind.example.delta + pair.tv:
            return math.inf
        known = {id(shape): _numbers(movement_of(releases, shape)) for shape in releases.shapes}
        many = draws(pair, (known[id(cost.shape)] for cost in releases.costs))
        return _together(pair, int(many), kind.example) if math.isfinite(many) else math.inf


def _pair(releases: UnitReleases) -> Profile | None:
    """Return the pair of the account's first release, by what was known when it was made; None if it fixes none."""
    opening = releases.opening
    if isinstance(opening.shape.noise, Gaussian | Laplace) or opening.shape.row_by_row:
        return None
    then = replace(releases, costs=[opening]).first(1)
    return _fixed_by(movement_of(then, opening.shape))


@lru_cache(maxsize=256)
def _fixed_by(movement: ReleaseMovement) -> Profile | None:
    moved = movement.with_margin()
    loss, tv = _numbers(moved)
    return Profile(loss, tv=tv) if 0 < loss <= STEEPEST else None


@lru_cache(maxsize=256)
def _numbers(movement: ReleaseMovement) -> tuple[float, float]:
    """Return the pure loss and the total variation."""
    return movement.pure, movement.tv


@lru_cache(maxsize=4096)
def _together(pair: Profile, many: int, guarantee: Guarantee) -> float:
    """Return the ε of a guarantee's kind that so many draws have together."""
    return epsilon_within(compose(pair, many), guarantee) if many else 0.0


def draws(pair: Profile, releases: Iterable[tuple[float, float]]) -> float:
    """Return how many draws for a pair releases take, each with its loss and total variation; ∞ if one takes too many.

    >>> pair = Profile(1.0, tv=0.3)
    >>> draws(pair, [(1.0, 0.3)] * 3), draws(pair, [(0.3, 0.09)] * 3), draws(pair, [(1.0, 0.4)])
    (3, 1, 2)
    """
    used, loss_left, tv_left = 0.0, 0.0, 0.0
    for loss, tv in releases:
        if loss <= loss_left and tv <= tv_left:
            loss_left, tv_left = _left(loss_left, loss), _left(tv_left, tv)
            continue
        # of several draws nothing is left: they are for more loss, or more total variation, than one has
        used += draws_of_one(pair, loss, tv)
        loss_left, tv_left = _left(pair.epsilon, loss), _left(pair.tv, tv)
    return used if math.isinf(used) else int(used)


def _left(whole: float, part: float) -> float:
    """Return what is left, rounded down."""
    return whole - part if not part else max(math.nextafter(whole - part, -math.inf), 0.0)


@lru_cache(maxsize=4096)
def draws_of_one(pair: Profile, loss: float, tv: float) -> float:
    """Return how many draws dominate a release with this loss and total variation together; ∞ if it takes too many.

    >>> draws_of_one(Profile(1.0, tv=0.3), 2.0, 0.3), draws_of_one(Profile(1.0, tv=0.3), 2.0, 0.6)
    (3, 6)
    """
    if loss <= pair.epsilon and tv <= pair.tv:
        return 1
    if loss > STEEPEST or not _dominate(pair, _MOST, loss, tv):
        return math.inf
    low, high = 1, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _dominate(pair, middle, loss, tv) else (middle, high)
    return high


def _dominate(pair: Profile, many: int, loss: float, tv: float) -> bool:
    """Return whether so many draws dominate a release, whose δ is on or below a chord in e^ε.

    Theirs is convex in e^ε, with corners at whole multiples of the pair's ε. So it suffices to compare the corners.
    """
    if many * pair.epsilon * (1 - 4 * UNIT) < loss:
        return False
    corners = pair.epsilon * np.arange(math.ceil(loss / pair.epsilon) + 1, dtype=np.float64)
    allowed = compose(pair, many).deltas(corners) * _BELOW - _FAINT
    return bool((chord(loss, tv, corners) <= np.maximum(allowed, 0.0)).all())
