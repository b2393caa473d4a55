"""The Pufferfish triple: the secret, the prior, and the order and groups of rows."""

from pufferflow.scenario.domain import MISSING, SKIP, Bins, Domain, Interval, Label, Listed, OrMissing, skipping
from pufferflow.scenario.missing_columns import DeclaredColumns
from pufferflow.scenario.product import ONE_COLUMN, TIMES, Product
from pufferflow.scenario.scenario import Scenario
from pufferflow.scenario.secret import (
    ROW,
    AnySecret,
    Derived,
    Initial,
    Presence,
    Secret,
    ValueSecret,
)
from pufferflow.scenario.secret_pairs import WithinDistance, windows
from pufferflow.scenario.steps import UNITS, read_step, step_in_words

__all__ = [
    "MISSING",
    "ONE_COLUMN",
    "ROW",
    "SKIP",
    "TIMES",
    "UNITS",
    "AnySecret",
    "Bins",
    "DeclaredColumns",
    "Derived",
    "Domain",
    "Initial",
    "Interval",
    "Label",
    "Listed",
    "OrMissing",
    "Presence",
    "Product",
    "Scenario",
    "Secret",
    "ValueSecret",
    "WithinDistance",
    "read_step",
    "skipping",
    "step_in_words",
    "windows",
]
