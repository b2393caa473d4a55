"""Explanations of a plan: sentences, tables, and the plain values that reports show."""

from pufferflow.explain.check import check, useless_outputs
from pufferflow.explain.compare import ALL_ROWS, compare, summary
from pufferflow.explain.gather import evidence
from pufferflow.explain.one_number import Origin, at_place, origin_of
from pufferflow.explain.sensitivities import sensitivities
from pufferflow.explain.sentences import (
    assumptions,
    beliefs_in_words,
    notes,
    notes_on_missing,
    plan_in_words,
    queries_in_words,
    untried_bounds,
    value_handling,
    value_handling_together,
    witness_in_words,
)
from pufferflow.explain.what_if import under_group
from pufferflow.explain.worst_pair import NAMELESS, nameless

__all__ = [
    "ALL_ROWS",
    "NAMELESS",
    "Origin",
    "assumptions",
    "at_place",
    "beliefs_in_words",
    "check",
    "compare",
    "evidence",
    "nameless",
    "notes",
    "notes_on_missing",
    "origin_of",
    "plan_in_words",
    "queries_in_words",
    "sensitivities",
    "summary",
    "under_group",
    "untried_bounds",
    "useless_outputs",
    "value_handling",
    "value_handling_together",
    "witness_in_words",
]
