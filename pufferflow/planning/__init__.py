"""From a request and a promise to a decision: public facts, laws, the share of each sum, noise, cost."""

from pufferflow.planning.certificate import ERROR_BARS, AskedQuery, Certificate, NoisySum
from pufferflow.planning.cost import cost_of
from pufferflow.planning.decide import Planned, Terms, noises_at, planned, read_promise, read_seconds
from pufferflow.planning.facts import Facts
from pufferflow.planning.floor import impossible_values
from pufferflow.planning.identity import as_reserved, name_of
from pufferflow.planning.outputs import Ready, error_bars, expected_error, half_width, in_units, unit_of
from pufferflow.planning.public_facts import changed_source
from pufferflow.planning.tables import Tables, on_interval

__all__ = [
    "ERROR_BARS",
    "AskedQuery",
    "Certificate",
    "Facts",
    "NoisySum",
    "Planned",
    "Ready",
    "Tables",
    "Terms",
    "as_reserved",
    "changed_source",
    "cost_of",
    "error_bars",
    "expected_error",
    "half_width",
    "impossible_values",
    "in_units",
    "name_of",
    "noises_at",
    "on_interval",
    "planned",
    "read_promise",
    "read_seconds",
    "unit_of",
]
