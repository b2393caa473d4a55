"""All rules of composition, and the least total that they prove for releases about one unit under one prior."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

from pufferflow.accounting.rules.additive import (
    CouplingRule,
    GranularityRule,
    SingleRule,
    TranslationRule,
)
from pufferflow.accounting.rules.autoregression import Movements
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases, from_gaussian, from_pure
from pufferflow.accounting.rules.dominating_pair import PairRule
from pufferflow.accounting.rules.exact import ExactRule
from pufferflow.accounting.rules.hidden_class import HiddenClassRule
from pufferflow.accounting.rules.latent_class import MixtureRule, StarRule
from pufferflow.accounting.rules.markov import MessagesRule
from pufferflow.accounting.rules.single_answers import SingleAnswersRule
from pufferflow.accounting.rules.single_rows import SingleRowsRule
from pufferflow.accounting.rules.table import ConditionalRule, JointRule, NearRule
from pufferflow.accounting.rules.windows import WindowsRule
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.priors.markov import ChainPrior, SequencePrior
from pufferflow.models.priors.population import IndependentGiven
from pufferflow.privacy.guarantee import Divergence, GuaranteeFamily

TRANSLATION = TranslationRule()
RULES: tuple[CompositionRule, ...] = (
    *(SingleRule(), CouplingRule(), GranularityRule(), TRANSLATION),
    *(MessagesRule(), WindowsRule(), SingleRowsRule(), SingleAnswersRule(), StarRule()),
    *(HiddenClassRule(), ConditionalRule(), JointRule(), NearRule(), MixtureRule(), ExactRule()),
    PairRule(),
)
RARE = f"{TranslationRule.name}, but those so far away that they hardly ever cross a step (M4)"
PURE = "pure"
PAIR = "pair"
_METHODS: dict[Divergence, tuple[str, ...]] = {
    Divergence.LOG_RATIO: (),
    Divergence.HOCKEY_STICK: ("gaussian", "rows", "answers", "latent", PAIR),
    Divergence.RENYI: ("renyi", "rows", "answers", "classes", "latent"),
    Divergence.CONCENTRATED: ("zcdp", "answers", "latent"),
    Divergence.GAUSSIAN: ("gaussian", "latent"),
}
_OWN: dict[str, type[CompositionRule]] = {
    "rows": SingleRowsRule,
    "answers": SingleAnswersRule,
    "latent": HiddenClassRule,
    "classes": MixtureRule,
    PAIR: PairRule,
}
"""The methods that one rule alone has."""
_SPARE = 2.0**-16
"""The part of δ for distant rows that cross a step of the grid."""


@final
class RuleTotal(NamedTuple):
    """A total, and the rule that proves it."""

    value: float
    rule: str
    adaptive: bool = True


def methods_of(kind: GuaranteeFamily) -> list[str]:
    """Return the accounting methods for a kind of guarantee.

    They count pure losses, losses along one coupling, what single rows reveal, or losses within hidden classes.
    """
    return [PURE, *_METHODS[kind.example.divergence]]


def methods_for(kind: GuaranteeFamily, priors: Iterable[Prior]) -> list[str]:
    """Return the accounting methods that differ from each other under some priors."""
    needed: dict[str, Any] = {
        "rows": SequencePrior,
        "answers": ChainPrior,
        "classes": GaussianMixture,
        "latent": LatentClass | IndependentGiven,
    }
    believed = list(priors)
    return [
        method
        for method in methods_of(kind)
        if method not in needed or any(isinstance(prior, needed[method]) for prior in believed)
    ]


def least(
    releases: UnitReleases,
    kind: GuaranteeFamily,
    method: str,
    *,
    fixed: bool = False,
    rules: Sequence[CompositionRule] = RULES,
) -> RuleTotal:
    """Return the least total of a kind that a rule proves by one accounting method; ∞ if none does.

    Priors without a chain, or without hidden classes, count movements along one coupling in place of these.
    """
    if method not in methods_for(kind, [releases.prior]) and method in methods_of(kind):
        method = methods_of(kind)[1]
    spare = kind.example.delta * _SPARE if Movements.fit(releases.scenario, releases.prior) else 0.0
    # without that part of δ for all rules: which one holds may depend on the answers
    counted, more = (kind.reserve_delta(spare), _of_cutting(spare, kind)) if spare else (kind, 0.0)
    totals = [RuleTotal(math.inf, "no rule")]
    row_by_row = any(shape.row_by_row for shape in releases.shapes)
    if row_by_row:  # of a channel only pure losses are known (M35)
        rules, fixed = (rules, False) if method == PURE else ((), False)
    for rule in rules:
        if not (fixed or rule.adaptive):
            continue
        value = _by(method, rule, releases, counted)
        if value == 0:
            return RuleTotal(0.0, rule.name)
        totals.append(RuleTotal(_sum(value, more), rule.name, adaptive=rule.adaptive))
        if fixed and kind.example.divergence is not Divergence.LOG_RATIO:
            fixed_value = _or_infinite(lambda rule=rule: rule.fixed(releases, kind))
            totals.append(RuleTotal(fixed_value, rule.name, adaptive=False))
    if spare and not row_by_row:
        totals.append(
            RuleTotal(
                _sum(_by(method, TRANSLATION, replace(releases, spare=spare), counted), more), RARE
            )
        )
    return min(totals, key=lambda total: total.value)


def _of_cutting(spare: float, kind: GuaranteeFamily) -> float:
    """Return the increase of Rényi losses if a small part of δ covers distant rows that cross a step (M4).

    Both laws are restricted to transcripts without such a row, which may have different probabilities. The increase
    counts for all rules of an account, since answers may decide by which of them a path is counted.
    """
    if kind.example.divergence is not Divergence.RENYI:
        return 0.0
    alpha = kind.example.alpha
    return -alpha / (alpha - 1) * math.log1p(-spare) * (1 + 8 * UNIT)


def _sum(value: float, more: float) -> float:
    return (value + more) * (1 + UNIT) if more else value


def _by(method: str, rule: CompositionRule, releases: UnitReleases, kind: GuaranteeFamily) -> float:
    """Return the total that a rule proves by one method."""
    if method not in methods_of(kind):
        return math.inf
    alpha = kind.example.alpha
    totals: dict[str, Callable[[], float]] = {
        PURE: lambda: from_pure(rule.pure(releases), kind),
        "gaussian": lambda: from_gaussian(rule.gaussian(releases), kind),
        "renyi": lambda: rule.renyi(releases, alpha),
        "zcdp": lambda: rule.zcdp(releases),
    }
    if method not in totals:
        known = isinstance(rule, _OWN[method])
        return _or_infinite(lambda: rule.by_own(releases, kind)) if known else math.inf
    return _or_infinite(totals[method])


def _or_infinite(total: Callable[[], float]) -> float:
    """Return a total; ∞ if a rule refuses it, or the numbers are beyond floats."""
    try:
        value = total()
    except Refused:
        return math.inf
    return math.inf if math.isnan(value) else value
