"""What may be asked of one sensitive column, and what of public ones: Polars expressions, read and checked."""

from pufferflow.expressions.column import named, unsorted
from pufferflow.expressions.comparisons import fitting, like, moment_source
from pufferflow.expressions.indicators import classes, indicators
from pufferflow.expressions.lined import Lined
from pufferflow.expressions.literals import Kept, kept, values_kept
from pufferflow.expressions.public import identity, public_words, read_public
from pufferflow.expressions.reader import read_values
from pufferflow.expressions.tabled import Tabled
from pufferflow.expressions.values import Values

__all__ = [
    "Kept",
    "Lined",
    "Tabled",
    "Values",
    "classes",
    "fitting",
    "identity",
    "indicators",
    "kept",
    "like",
    "moment_source",
    "named",
    "public_words",
    "read_public",
    "read_values",
    "unsorted",
    "values_kept",
]
