"""The Pufferfish triple: the secret, the prior, and the order and groups of rows."""

from pufferflow.scenario.domain import Bins, Domain, Interval, Label, Listed
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
    read_name,
)
from pufferflow.scenario.secret_pairs import Closer, windows
from pufferflow.scenario.steps import UNITS, read_step, step_in_words

__all__ = [
    "ONE_COLUMN",
    "ROW",
    "TIMES",
    "UNITS",
    "AnySecret",
    "Bins",
    "Closer",
    "DeclaredColumns",
    "Derived",
    "Domain",
    "Initial",
    "Interval",
    "Label",
    "Listed",
    "Presence",
    "Product",
    "Scenario",
    "Secret",
    "ValueSecret",
    "read_name",
    "read_step",
    "step_in_words",
    "windows",
]
