"""Whether the numbers of a plan can say anything: noise against the difference that somebody looks for.

A number is *useless* if half its 95 % interval is wider than that difference, *weak* if it is wider than a quarter of
it, and *useful* otherwise. Where nobody says what is looked for, it is a quarter of the range that the answer can have:
of a mean a quarter of its domain, of a sum that times the number of rows, of a count a quarter of the rows; in a
histogram it is an equal share of the rows. Nothing private is read.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from pufferflow.arguments import finite_number, shown
from pufferflow.arrays import Floats
from pufferflow.errors import Misuse
from pufferflow.explain.compare import OutputErrors, group_names, output_errors
from pufferflow.planning import Decision
from pufferflow.queries import Histogram, Query, Request
from pufferflow.scenario import ValueSecret
from pufferflow.suggestions import did_you_mean

_WEAK: Final = 0.25
_PART_OF_RANGE: Final = 0.25
_MOST_WAYS: Final = 3
_UNKNOWN: Final = "Error or range depend on private numbers: give signal=, or see the error bars of the release."
Signal = float | Mapping[str, float] | None


def check(plan: Decision, signal: Signal = None) -> pl.DataFrame:
    """Return a row for each output and group: its noise, what it is compared with, a verdict, and a way on."""
    looked_for = _read(signal, [name for query in plan.request.queries for name in query.outputs])
    groups, rows = pl.Series("group", group_names(plan), dtype=pl.String), list[pl.DataFrame]()
    for errors in output_errors(plan):
        query = errors.output.query
        size = plan.facts.size_of(query)
        own = looked_for.get(errors.output.name)
        sought = _default(query, size, len(groups)) if own is None else np.full(len(groups), own)
        rows.append(_of_output(plan, errors, groups, sought, size))
    return pl.concat(rows)


def _read(signal: Signal, names: list[str]) -> dict[str, float]:
    """Return the difference that is looked for in each output, as far as it was given."""
    allowed, instead = "a number > 0, or one for some outputs by their names", f"signal={{{names[0]!r}: 2.0}}"
    if signal is None:
        return {}
    given: dict[Any, Any] = dict(signal) if isinstance(signal, Mapping) else dict.fromkeys(names, signal)
    if wrong := [name for name in given if name not in names]:
        said = f"No output is called {shown(wrong[0])}.{did_you_mean(wrong[0], names)}"
        raise Misuse(said, allowed=f"names of outputs: {', '.join(map(repr, names[:6]))}", instead=instead)
    return {
        name: finite_number(value, "signal", allowed=allowed, instead=instead, fits=lambda number: number > 0)
        for name, value in given.items()
    }


def _default(query: Query, size: Floats | None, cells: int) -> Floats:
    """Return the difference that an answer should show, in each cell; NaN where it is not known, or nothing varies."""
    if size is None:
        return np.full(cells, np.nan)
    if isinstance(query, Histogram):
        return np.broadcast_to(size / len(query.outputs), cells)
    low, high = query.limits(size)
    with np.errstate(invalid="ignore"):
        spread = np.where(np.isfinite(high - low), high - low, np.nan).max(axis=1)
    return np.broadcast_to(_PART_OF_RANGE * spread, cells)


def _half_widths(errors: OutputErrors, size: Floats | None) -> Floats:
    """Return half the 95 % intervals; of a variance that of its mean square, of a quantile NaN."""
    query = errors.output.query
    if query.linear or size is None or query.running(counts_are_public=True) is not None:
        return errors.half
    half = errors.output.noise.interval(0.95)[1]
    return np.broadcast_to(half / np.maximum(size, 1.0), len(errors.half))


def _of_output(
    plan: Decision, errors: OutputErrors, groups: pl.Series, sought: Floats, size: Floats | None
) -> pl.DataFrame:
    half = _half_widths(errors, size)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(sought > 0, half / sought, np.nan)
    frame = pl.DataFrame(
        {
            "query": pl.repeat(errors.output.name, len(groups), eager=True, dtype=pl.String),
            "group": groups,
            "interval_95": pl.Series(half.copy(), dtype=pl.Float64, nan_to_null=True),
            "signal": pl.Series(np.where(np.isnan(ratio), np.nan, sought), dtype=pl.Float64, nan_to_null=True),
            "ratio": pl.Series(ratio.copy(), dtype=pl.Float64, nan_to_null=True),
        }
    )
    useless, weak = pl.col("ratio") > 1, pl.col("ratio") > _WEAK
    verdict = pl.when(useless).then(pl.lit("useless")).when(weak).then(pl.lit("weak")).otherwise(pl.lit("useful"))
    known, (noise, difference) = pl.col("ratio").is_not_null(), (_short("interval_95"), _short("signal"))
    hidden = pl.format("Noise of ± {} hides a difference of {}: this number says nothing.", noise, difference)
    blurred = pl.format("Noise of ± {} blurs a difference of {}.", noise, difference)
    clear = pl.format("Noise of ± {} is small beside a difference of {}.", noise, difference)
    says = pl.when(useless).then(hidden).when(weak).then(blurred).otherwise(clear)
    times = (pl.col("ratio") / _WEAK).ceil().cast(pl.Int64, strict=False)
    ways = pl.when(weak).then(pl.format(f"{{}} times the epsilon{_further(plan.request)}", times))
    return frame.with_columns(
        pl.when(known).then(verdict).alias("verdict"),
        pl.when(known).then(says).otherwise(pl.lit(_UNKNOWN)).alias("finding"),
        ways.alias("way_on"),
    ).drop("ratio")


def _short(column: str) -> pl.Expr:
    """Return a number in three digits."""
    return pl.col(column).round_sig_figs(3).cast(pl.String)


def _further(request: Request) -> str:
    """Return what else helps, beside a larger ε."""
    secret = request.scenario.secret
    ways = [
        *(["fewer groups", "longer periods"] if request.by else []),
        *(["fewer queries"] if len(request.queries) > 1 else []),
        *(["pairs that are nearer"] if isinstance(secret, ValueSecret) and secret.pairs == "all" else []),
        "another prior",
    ]
    return ", or " + ", ".join(ways[:_MOST_WAYS])
