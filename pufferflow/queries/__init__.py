"""Queries on a frame: aggregates reduce to sums of one function per cell, and those to additive statistics."""

from pufferflow.queries.aggregates import Count, Counted, Histogram, Mean, MeanOfUnknown, Quantile, Sum, Variance
from pufferflow.queries.bounded import Bounded, BoundedMean, BoundedSum, bounded
from pufferflow.queries.covariance import Covariance
from pufferflow.queries.examples import examples_of
from pufferflow.queries.names import answer_name, column_name, named_columns, one_by_one, read_name
from pufferflow.queries.query import Query
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Kinds, Statistic
from pufferflow.queries.weighted import WeightedMean, WeightedSum

__all__ = [
    "Bounded",
    "BoundedMean",
    "BoundedSum",
    "Count",
    "Counted",
    "Covariance",
    "Histogram",
    "Kinds",
    "Mean",
    "MeanOfUnknown",
    "Quantile",
    "Query",
    "Request",
    "Statistic",
    "Sum",
    "Variance",
    "WeightedMean",
    "WeightedSum",
    "answer_name",
    "bounded",
    "column_name",
    "examples_of",
    "named_columns",
    "one_by_one",
    "read_name",
]
