"""What a batch reads of every cell: a sum of one function of a sensitive column over the cell's rows."""

from dataclasses import dataclass
from typing import final

from pufferflow.expressions import Values
from pufferflow.secrets.domain import Label


@final
@dataclass(frozen=True)
class Measure:
    """Σ φ(x) over the rows of a cell, in whole steps of `values.unit`; null, NaN and unknown labels are `missing`."""

    values: Values
    missing: Label
