"""What is asked of a frame: aggregates come down to sums of one function per cell, and those to additive statistics."""

from pufferflow.queries.aggregates import Count, Histogram, Mean, MeanOfUnknown, Quantile, Sum, Variance
from pufferflow.queries.keys import plain, unsigned_zero
from pufferflow.queries.query import Measure, Query
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Kinds, Pattern, Statistic

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
    "Request",
    "Statistic",
    "Sum",
    "Variance",
    "plain",
    "unsigned_zero",
]
