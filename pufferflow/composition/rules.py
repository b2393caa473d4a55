"""All rules of composition, and the least total that they prove of releases about one unit under one belief."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, final

from pufferflow.composition.additive import CouplingRule, GranularityRule, SingleRule, TranslationRule
from pufferflow.composition.autoregression import Movements
from pufferflow.composition.chain import MessagesRule
from pufferflow.composition.rule import CompositionRule, UnitReleases, from_pure
from pufferflow.composition.star import StarRule
from pufferflow.composition.table import ConditionalRule, JointRule
from pufferflow.errors import Refused
from pufferflow.guarantees import Divergence, Kind
from pufferflow.noise import Gaussian
from pufferflow.roots import smallest
from pufferflow.rounding import UNIT

RULES: tuple[CompositionRule, ...] = (
    *(
        SingleRule(),
        CouplingRule(),
        GranularityRule(),
        TranslationRule(),
        MessagesRule(),
        StarRule(),
        ConditionalRule(),
        JointRule(),
    ),
)
_TRANSLATION = TranslationRule()
RARE = f"{TranslationRule.name}, but those so far away that they hardly ever cross a step (M4)"
_SPARE = 2.0**-16
_PURE, _RENYI, _GAUSSIAN = "pure", "renyi", "gaussian"
_METERS_OF: dict[Divergence, tuple[str, ...]] = {
    Divergence.LOG_RATIO: (),
    Divergence.HOCKEY_STICK: (_GAUSSIAN,),
    Divergence.RENYI: (_RENYI,),
}
_TOLERANCE = 1e-9


@final
class RuleTotal(NamedTuple):
    """A total, and the rule that carries it."""

    value: float
    rule: str
    adaptive: bool = True


def meters_of(kind: Kind) -> list[str]:
    """Return the ways to count towards a kind of promise: by pure losses, or by what adds up along one coupling."""
    return [_PURE, *_METERS_OF[kind.example.divergence]]


def least(asked: UnitReleases, kind: Kind, meter: str, *, fixed: bool) -> RuleTotal:
    """Return the least total of a kind that a rule proves by one meter; ∞ if none does."""
    totals, counted = [RuleTotal(math.inf, "no rule")], _without_spare(asked, kind)
    for rule in RULES:
        value = _told(partial(_METERS[meter], rule, asked, counted))
        totals.append(RuleTotal(value, rule.name))
        if fixed and kind.example.divergence is not Divergence.LOG_RATIO:
            totals.append(RuleTotal(_told(partial(rule.fixed, asked, kind)), rule.name, adaptive=False))
        if value == 0:
            break
    return min([*totals, _but_for_rare(asked, kind, meter)], key=lambda found: found.value)


def along(asked: UnitReleases, kind: Kind, meter: str) -> RuleTotal:
    """Return the total of movements along one sequence, which takes no longer the more releases there were."""
    value = _told(partial(_METERS[meter], _TRANSLATION, asked, _without_spare(asked, kind)))
    return min(RuleTotal(value, _TRANSLATION.name), _but_for_rare(asked, kind, meter), key=lambda found: found.value)


def _spare(asked: UnitReleases, kind: Kind) -> float:
    """Return the part of δ for rows far away that cross a step of the grid; 0 where none is put by."""
    fits = Movements.fit(asked.scenario, asked.prior)
    return kind.example.delta * _SPARE if fits else 0.0


def _without_spare(asked: UnitReleases, kind: Kind) -> Kind:
    """Return the kind of promise without that part of δ, for all rules: which one holds may hang on the answers."""
    spare = _spare(asked, kind)
    return kind.with_delta(math.nextafter(kind.example.delta - spare, 0.0)) if spare else kind


def _but_for_rare(asked: UnitReleases, kind: Kind, meter: str) -> RuleTotal:
    """Return a total that holds but for a small part of δ, with which a row far away may cross a step of the grid (M4).

    With orders both laws are cut down to transcripts without such a row, which may have different probabilities.
    """
    alpha, spare, more = kind.example.alpha, _spare(asked, kind), 0.0
    if not spare:
        return RuleTotal(math.inf, RARE)
    if kind.example.divergence is Divergence.RENYI:
        more = -alpha / (alpha - 1) * math.log1p(-spare) * (1 + 8 * UNIT)
    counted = _without_spare(asked, kind)
    value = _told(partial(_METERS[meter], _TRANSLATION, replace(asked, spare=spare), counted))
    return RuleTotal((value + more) * (1 + UNIT), RARE)


def _told(total: Callable[[], float]) -> float:
    """Return what a rule says; ∞ where it refuses, or the numbers are beyond floats."""
    try:
        value = total()
    except Refused:
        return math.inf
    return math.inf if math.isnan(value) else value


def _pure(rule: CompositionRule, asked: UnitReleases, kind: Kind) -> float:
    return from_pure(rule.pure(asked), kind)


def _renyi(rule: CompositionRule, asked: UnitReleases, kind: Kind) -> float:
    return rule.renyi(asked, kind.example.alpha) if kind.example.divergence is Divergence.RENYI else math.inf


def _gaussian(rule: CompositionRule, asked: UnitReleases, kind: Kind) -> float:
    deviations = rule.gaussian(asked)
    if kind.example.divergence is not Divergence.HOCKEY_STICK or math.isinf(deviations):
        return math.inf
    return hockey_stick_epsilon(deviations, kind.example.delta)


_METERS: dict[str, Callable[[CompositionRule, UnitReleases, Kind], float]] = {
    _PURE: _pure,
    _RENYI: _renyi,
    _GAUSSIAN: _gaussian,
}


def hockey_stick_epsilon(deviations: float, delta: float) -> float:
    """Return the ε at which Gaussian noise hides a movement of so many standard deviations but for δ; rounded up.

    >>> round(hockey_stick_epsilon(1.0, 1e-5), 3)
    4.377
    """
    noise = Gaussian(1.0)
    if deviations == 0 or noise.delta(deviations, 0.0) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    high = 1.0
    while noise.delta(deviations, high) > delta:
        high *= 2
    return smallest(lambda epsilon: math.log(max(noise.delta(deviations, epsilon), 5e-324) / delta), high, _TOLERANCE)
