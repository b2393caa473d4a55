"""A dozen kinds of batches, each with a guarantee, noise and bound of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl
from scenarios import Question

import pufferflow as pf

CURVE = pf.RenyiCurve([2, 4, 16], [0.5, 1.0, 3.0])


class BatchCase(NamedTuple):
    """A batch of a protected frame, and the arguments of its plan."""

    ask: Callable[[Any, Question], Any]
    plan: dict[str, Any]


def _sum(batch: Any, of: Question) -> Any:
    return batch.private_sum(of.column, name="load")


def _by_day(batch: Any, of: Question) -> Any:
    return batch.group_by("day", keys=[0, 1]).private_mean(of.column)


def _by_expression(batch: Any, of: Question) -> Any:
    part = (pl.col("hour") // 2).alias("part")
    return (
        batch.group_by(part, keys=[0, 1])
        .private_sum(of.column)
        .private_count(of.property, name="peaks")
    )


def _two(batch: Any, of: Question) -> Any:
    return (
        batch.private_sum(of.column, name="load")
        .private_count(of.property, name="peaks")
        .private_mean(of.column, name="mean")
    )


def _half(batch: Any, of: Question) -> Any:
    return batch.filter(pl.col("hour") >= 2).private_sum(of.column, name="half")


def _columns(batch: Any, of: Question) -> Any:
    late = pl.col("hour") >= 3
    found = batch.with_columns(late=late).filter(pl.col("district") == "north").group_by("late")
    return found.private_sum(of.cut, name="cut")


BATCHES: dict[str, BatchCase] = {
    "count": BatchCase(
        lambda batch, of: batch.private_count(of.property, name="peaks"),
        {"guarantee": pf.Pure(1.0)},
    ),
    "cut sum": BatchCase(
        lambda batch, of: batch.private_sum(of.cut, name="cut"),
        {"guarantee": pf.Pure(0.5), "noise": pf.Laplace, "bound": "gwm"},
    ),
    "mean by day": BatchCase(_by_day, {"guarantee": pf.Approx(1.0, 1e-6)}),
    "variance": BatchCase(
        lambda batch, of: batch.private_variance(of.column),
        {"guarantee": pf.Renyi(4, 1.0), "noise": "gaussian"},
    ),
    "histogram": BatchCase(
        lambda batch, of: batch.private_histogram(of.column, bins=of.bins),
        {"epsilon": 1.0, "bound": pf.GWM()},
    ),
    "quantiles": BatchCase(
        lambda batch, of: batch.private_quantile(of.column, 0.9, bins=of.bins).private_median(
            of.column, bins=of.bins
        ),
        {"guarantee": pf.ApproxRenyi(4, 1.0, 1e-5), "noise": pf.Laplace},
    ),
    "by expression": BatchCase(_by_expression, {"guarantee": pf.Pure(1.0)}),
    "cauchy": BatchCase(
        _sum, {"guarantee": pf.Renyi(2, 0.5), "noise": pf.GeneralizedCauchy.of(k=4)}
    ),
    "staircase": BatchCase(_half, {"guarantee": pf.Pure(2.0), "noise": pf.Staircase}),
    "shares": BatchCase(
        _two,
        {
            "guarantee": pf.Approx(2.0, 1e-5),
            "noise": pf.Gaussian,
            "shares": {"load": 3, "peaks": 1, "mean": 2},
            "bound": pf.Group(),
        },
    ),
    "within": BatchCase(_half, {"accuracy": pf.Within(30, confidence=0.9)}),
    "no floor": BatchCase(_columns, {"guarantee": pf.Pure(1.0), "row_privacy": False}),
    "curve": BatchCase(_sum, {"guarantee": CURVE, "bound": [pf.DAGWM(), pf.GWM()]}),
    "exact": BatchCase(
        _half, {"guarantee": pf.Approx(0.5, 1e-4), "bound": [pf.Exact(), pf.GAWM(5e-5)]}
    ),
}

DEAR: dict[str, tuple[str, ...]] = {
    "mean by day": (
        "independent",
        "chain",
        "chains between",
        "gaussian, ar1",
        "table",
        "empirical",
        "diffusion",
        "presence",
    ),
    "staircase": (
        "any",
        "chain",
        "gaussian, matrix",
        "class",
        "independent, interval",
        "presence, few",
        "diffusion",
    ),
    "exact": (
        "gaussian, first",
        "chain",
        "gaussian, ar1",
        "class",
        "table",
        "independent, classes",
        "any",
        "weak, first",
    ),
}
"""Kinds of batches that take long, with the scenarios that they are recorded for."""
TURNS: tuple[tuple[str, str], ...] = (("variance", "cauchy"), ("quantiles", "curve"))
"""Kinds of batches of which every scenario has the one or the other, by turns."""


def recorded(name: str, place: int) -> list[str]:
    """Return the kinds of batches that are recorded for a scenario in its place."""
    left_out = {pair[place % 2] for pair in TURNS} | {
        batch for batch, names in DEAR.items() if name not in names
    }
    return [batch for batch in BATCHES if batch not in left_out]
