"""What is asked: queries come down to sums of one function per cell, and those to additive statistics."""

from pufferflow.queries.count import Count
from pufferflow.queries.histogram import Histogram
from pufferflow.queries.kinds import Kinds
from pufferflow.queries.mean import Mean, MeanOfUnknown
from pufferflow.queries.measure import Measure
from pufferflow.queries.pattern import Pattern
from pufferflow.queries.quantile import Quantile
from pufferflow.queries.query import Query
from pufferflow.queries.statistic import Statistic
from pufferflow.queries.total import Sum
from pufferflow.queries.variance import Variance

__all__ = [
    "Count",
    "Histogram",
    "Kinds",
    "Mean",
    "MeanOfUnknown",
    "Measure",
    "Pattern",
    "Quantile",
    "Query",
    "Statistic",
    "Sum",
    "Variance",
]
