"""Polars expressions: of one sensitive column as a function φ of its value, of public columns row by row."""

from pufferflow.expressions.compiler import read_values
from pufferflow.expressions.conditions import Condition, conditions, is_one_of
from pufferflow.expressions.formula import ROUNDER, Formula, Segment
from pufferflow.expressions.hints import fitting, like
from pufferflow.expressions.indicators import classes, indicators
from pufferflow.expressions.interval import OnInterval
from pufferflow.expressions.on_points import OnPoints
from pufferflow.expressions.pieces import Line
from pufferflow.expressions.public import identity, public_words, read_public
from pufferflow.expressions.refusals import short
from pufferflow.expressions.tree import named, read_tree, unsorted
from pufferflow.expressions.values import Values, Weight, fitting_unit
from pufferflow.expressions.weight_bounds import bounds_of_product
from pufferflow.expressions.weighted import factors_of, has_weight, multiplied, ones_like, split_weight, with_weight

__all__ = [
    "ROUNDER",
    "Condition",
    "Formula",
    "Line",
    "OnInterval",
    "OnPoints",
    "Segment",
    "Values",
    "Weight",
    "bounds_of_product",
    "classes",
    "conditions",
    "factors_of",
    "fitting",
    "fitting_unit",
    "has_weight",
    "identity",
    "indicators",
    "is_one_of",
    "like",
    "multiplied",
    "named",
    "ones_like",
    "public_words",
    "read_public",
    "read_tree",
    "read_values",
    "short",
    "split_weight",
    "unsorted",
    "with_weight",
]
