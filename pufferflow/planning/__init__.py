"""From a request and its terms to a decision: public facts, laws, the share of each sum, noise, cost."""

from pufferflow.planning.certificate import ERROR_BARS, AskedQuery, Certificate, NoisySum, QuieterGroups
from pufferflow.planning.decide import make_decision
from pufferflow.planning.decision import SURELY, AnswerColumn, CellsAlike, Decision, noises_at
from pufferflow.planning.decision_cost import cost_of
from pufferflow.planning.error_bars import error_bars, expected_error, half_width
from pufferflow.planning.facts import PublicFacts, SourceDigest, changed_source
from pufferflow.planning.floor import impossible_values
from pufferflow.planning.sum_tables import Tables, known_values, on_interval, tables_of
from pufferflow.planning.terms import Terms, Within, read_per_group, read_promise, read_seconds

__all__ = [
    "ERROR_BARS",
    "SURELY",
    "AnswerColumn",
    "AskedQuery",
    "CellsAlike",
    "Certificate",
    "Decision",
    "NoisySum",
    "PublicFacts",
    "QuieterGroups",
    "SourceDigest",
    "Tables",
    "Terms",
    "Within",
    "changed_source",
    "cost_of",
    "error_bars",
    "expected_error",
    "half_width",
    "impossible_values",
    "known_values",
    "make_decision",
    "noises_at",
    "on_interval",
    "read_per_group",
    "read_promise",
    "read_seconds",
    "tables_of",
]
