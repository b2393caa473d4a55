"""Several releases, one loss: the rules of composition, the choice among them, and totals (M20, M23–M27)."""

from pufferflow.composition.account_costs import (
    AccountCosts,
    Composed,
    asks_elsewhere,
    differential_privacy,
    group_privacy,
)
from pufferflow.composition.additive import CouplingRule, is_understated
from pufferflow.composition.chain import temporal_leakage
from pufferflow.composition.compose import compose
from pufferflow.composition.cost import COST_NAMES, Cost, Part, Rows, Shape, canonical, digest_of
from pufferflow.composition.exact_answers import ExactRelease, JointAnswers, table_of
from pufferflow.composition.exact_rule import exact_release
from pufferflow.composition.exact_sums import Answered, ExactSum, ExactSums
from pufferflow.composition.forecast import (
    AccountForecast,
    Every,
    RecurringRelease,
    ScheduledReleases,
    alike,
    forecast,
    read_every,
    recurring,
)
from pufferflow.composition.gaussian_mixture import class_digest
from pufferflow.composition.next_release import NextRelease, Past, design_next
from pufferflow.composition.opening import LEAST_KEYS_DELTA, Opening, read_keys_delta
from pufferflow.composition.refusals import KeyDeltaPassed, TotalVariationPassed
from pufferflow.composition.regions import Region
from pufferflow.composition.reserved import ReservedProfile, ReservedProfiles, read_reserved
from pufferflow.composition.single_rows import chained_rows
from pufferflow.composition.ways import compare_accounting

__all__ = [
    "COST_NAMES",
    "LEAST_KEYS_DELTA",
    "AccountCosts",
    "AccountForecast",
    "Answered",
    "Composed",
    "Cost",
    "CouplingRule",
    "Every",
    "ExactRelease",
    "ExactSum",
    "ExactSums",
    "JointAnswers",
    "KeyDeltaPassed",
    "NextRelease",
    "Opening",
    "Part",
    "Past",
    "RecurringRelease",
    "Region",
    "ReservedProfile",
    "ReservedProfiles",
    "Rows",
    "ScheduledReleases",
    "Shape",
    "TotalVariationPassed",
    "alike",
    "asks_elsewhere",
    "canonical",
    "chained_rows",
    "class_digest",
    "compare_accounting",
    "compose",
    "design_next",
    "differential_privacy",
    "digest_of",
    "exact_release",
    "forecast",
    "group_privacy",
    "is_understated",
    "read_every",
    "read_keys_delta",
    "read_reserved",
    "recurring",
    "table_of",
    "temporal_leakage",
]
