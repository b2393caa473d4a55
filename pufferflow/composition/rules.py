"""All rules of composition, and the least total that they prove of releases about one unit under one belief."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, final

from pufferflow.composition.additive import CouplingRule, GranularityRule, SingleRule, TranslationRule
from pufferflow.composition.autoregression import Movements
from pufferflow.composition.chain import MessagesRule
from pufferflow.composition.exact_rule import ExactRule
from pufferflow.composition.gaussian_mixture import MixtureRule
from pufferflow.composition.rule import CompositionRule, UnitReleases, from_gaussian, from_pure
from pufferflow.composition.single_rows import SingleRowsRule
from pufferflow.composition.star import StarRule
from pufferflow.composition.table import ConditionalRule, JointRule
from pufferflow.composition.tables_near import NearRule
from pufferflow.errors import Refused
from pufferflow.guarantees import Approx, ApproxRenyi, Divergence, Kind
from pufferflow.rounding import UNIT
from pufferflow.scenario.priors import ChainPrior

TRANSLATION = TranslationRule()
RULES: tuple[CompositionRule, ...] = (
    *(SingleRule(), CouplingRule(), GranularityRule(), TRANSLATION),
    *(MessagesRule(), SingleRowsRule(), StarRule()),
    *(ConditionalRule(), JointRule(), NearRule(), MixtureRule(), ExactRule()),
)
RARE = f"{TranslationRule.name}, but those so far away that they hardly ever cross a step (M4)"
_METERS: dict[Divergence, tuple[str, ...]] = {
    Divergence.LOG_RATIO: (),
    Divergence.HOCKEY_STICK: ("gaussian", "rows"),
    Divergence.RENYI: ("renyi",),
    Divergence.CONCENTRATED: ("zcdp",),
    Divergence.GAUSSIAN: ("gaussian",),
}
_SPARE = 2.0**-16
"""The part of δ for rows far away that cross a step of the grid."""


@final
class RuleTotal(NamedTuple):
    """A total, and the rule that carries it."""

    value: float
    rule: str
    adaptive: bool = True


def meters_of(kind: Kind) -> list[str]:
    """Return the measures for a kind of promise: pure losses, losses along one coupling, or those of single rows."""
    return ["pure", *_METERS[kind.example.divergence]]


def least(
    releases: UnitReleases,
    kind: Kind,
    meter: str,
    *,
    fixed: bool = False,
    rules: Sequence[CompositionRule] = RULES,
) -> RuleTotal:
    """Return the least total of a kind that a rule proves by one meter; ∞ if none does.

    Beliefs without a chain count what a coupling moves where those with one count single rows.
    """
    if meter == "rows" and not isinstance(releases.prior, ChainPrior):
        meter = meters_of(kind)[1]
    but_for_keys = _but_for_keys(kind, releases.key_delta)
    if but_for_keys is None:
        return RuleTotal(math.inf, "no rule")
    kind = but_for_keys
    spare = kind.example.delta * _SPARE if Movements.fit(releases.scenario, releases.prior) else 0.0
    # without that part of δ for all rules: which one holds may hang on the answers
    counted = kind.sparing(spare) if spare else kind
    totals = [RuleTotal(math.inf, "no rule")]
    row_by_row = any(shape.row_by_row for shape in releases.shapes)
    if row_by_row:  # of a channel only pure losses are known (M35)
        rules, fixed = (rules, False) if meter == "pure" else ((), False)
    for rule in rules:
        value = _by(meter, rule, releases, counted)
        totals.append(RuleTotal(value, rule.name))
        if fixed and kind.example.divergence is not Divergence.LOG_RATIO:
            fixed_value = _or_infinite(lambda rule=rule: rule.fixed(releases, kind))
            totals.append(RuleTotal(fixed_value, rule.name, adaptive=False))
        if value == 0:
            break
    if spare and not row_by_row:
        totals.append(RuleTotal(_but_for_rare(replace(releases, spare=spare), counted, meter), RARE))
    return min(totals, key=lambda total: total.value)


def _but_for_keys(kind: Kind, delta: float) -> Kind | None:
    """Return the kind that sums have to keep where keys of the answers take so much δ; None if it has not so much.

    Whatever the noise of the numbers of rows makes appear, all releases together are those of listed keys but for an
    event of this probability (`planning.key_threshold`).
    """
    if not delta:
        return kind
    carries = isinstance(kind.example, Approx | ApproxRenyi) and delta <= kind.example.delta
    return kind.sparing(delta) if carries else None


def _but_for_rare(releases: UnitReleases, kind: Kind, meter: str) -> float:
    """Return a total that holds but for a small part of δ, with which a row far away may cross a step of the grid (M4).

    With orders both laws are cut down to transcripts without such a row, which may have different probabilities.
    """
    alpha, more = kind.example.alpha, 0.0
    if kind.example.divergence is Divergence.RENYI:
        more = -alpha / (alpha - 1) * math.log1p(-releases.spare) * (1 + 8 * UNIT)
    return (_by(meter, TRANSLATION, releases, kind) + more) * (1 + UNIT)


def _by(meter: str, rule: CompositionRule, releases: UnitReleases, kind: Kind) -> float:
    """Return the total that a rule proves by one meter."""
    if meter not in meters_of(kind):
        return math.inf
    if meter == "renyi":
        return _or_infinite(lambda: rule.renyi(releases, kind.example.alpha))
    if meter == "zcdp":
        return _or_infinite(lambda: rule.zcdp(releases))
    if meter == "rows":
        return _or_infinite(lambda: rule.by_rows(releases, kind))
    if meter == "gaussian":
        return _or_infinite(lambda: from_gaussian(rule.gaussian(releases), kind))
    return _or_infinite(lambda: from_pure(rule.pure(releases), kind))


def _or_infinite(total: Callable[[], float]) -> float:
    """Return a total; ∞ where a rule refuses it, or the numbers are beyond floats."""
    try:
        value = total()
    except Refused:
        return math.inf
    return math.inf if math.isnan(value) else value
