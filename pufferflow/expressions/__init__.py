"""What may be asked of one sensitive column, and what of public ones: Polars expressions, read and checked."""

from pufferflow.expressions.comparisons import Kept, fitting, kept, like, values_kept
from pufferflow.expressions.finite import Tabled
from pufferflow.expressions.indicators import classes, indicators
from pufferflow.expressions.interval import Lined
from pufferflow.expressions.public import identity, public_words, read_public
from pufferflow.expressions.reader import read_values
from pufferflow.expressions.refusals import short
from pufferflow.expressions.tree import named, read_tree, unsorted
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
    "named",
    "public_words",
    "read_public",
    "read_tree",
    "read_values",
    "short",
    "unsorted",
    "values_kept",
]
