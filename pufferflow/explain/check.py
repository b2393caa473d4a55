"""Whether the numbers of a plan can say anything: noise against the difference that somebody looks for.

A number is *useless* if half its 95 % interval is wider than that difference, *weak* if it is wider than a quarter of
it, and *useful* otherwise. Where nobody says what is looked for, it is a quarter of the range that the answer can have:
of a mean a quarter of its domain, of a sum that times the number of rows, of a count a quarter of the rows; in a
histogram it is an equal share of the rows. Nothing private is read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
import polars as pl

from pufferflow.arguments import finite_number, shown
from pufferflow.arrays import Floats
from pufferflow.errors import Misuse
from pufferflow.explain.compare import OutputErrors, group_names, output_errors
from pufferflow.planning import Decision
from pufferflow.queries import Histogram, Query, Request
from pufferflow.report import counted
from pufferflow.scenario import ValueSecret
from pufferflow.suggestions import did_you_mean

_WEAK: Final = 0.25
_PART_OF_RANGE: Final = 0.25
_MOST_WAYS: Final = 3
_MOST_OUTPUTS: Final = 3
_UNKNOWN: Final = "Error or range depend on private numbers: give signal=, or see the error bars of the release."
Signal = float | Mapping[str, float] | None


def check(plan: Decision, signal: Signal = None) -> pl.DataFrame:
    """Return a row for each output and group: its noise, what it is compared with, a verdict, and a way on."""
    groups = pl.Series("group", group_names(plan), dtype=pl.String)
    return pl.concat([_of_output(plan, one, groups) for one in _measured(plan, signal)])


@final
@dataclass(frozen=True, eq=False)
class _Measured:
    """Half the 95 % intervals of one output in all groups, beside the differences that are looked for."""

    name: str
    half: Floats
    sought: Floats

    @cached_property
    def ratio(self) -> Floats:
        """The one by the other; NaN where either is not known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.sought > 0, self.half / self.sought, np.nan)


def _measured(plan: Decision, signal: Signal) -> Iterator[_Measured]:
    looked_for = _read(signal, [name for query in plan.request.queries for name in query.outputs])
    for errors in output_errors(plan):
        name, query, cells = errors.output.name, errors.output.query, len(errors.half)
        size = plan.facts.size_of(query)
        own = looked_for.get(name)
        sought = _default(query, size, cells) if own is None else np.full(cells, own)
        yield _Measured(name, _half_widths(errors, size), sought)


def useless_outputs(plan: Decision) -> list[str]:
    """Return a sentence for each output that has useless numbers, and last a way on; nothing if none has.

    Nothing is read for it: where the rows of cells have not been counted yet, there is nothing to compare with.
    """
    if not plan.facts.counted or not any((one.ratio > 1).any() for one in _measured(plan, None)):
        return []
    found = check(plan)
    useless = found.filter(pl.col("verdict") == "useless")
    lines = list[str]()
    for (name,), own in useless.group_by("query", maintain_order=True):
        row = own.row(0, named=True)
        noise, difference = (f"{row[column]:.3g}" for column in ("interval_95", "signal"))
        groups, numbers = len(own), found.filter(pl.col("query") == name).height
        where = f" in {groups:,} of {numbers:,} groups, such as {row['group']}" if numbers > 1 else ""
        lines.append(f"{name} says nothing{where}: noise of ± {noise} hides a difference of {difference}")
    more = len(lines) - _MOST_OUTPUTS
    said = [*lines[:_MOST_OUTPUTS], *([f"so it is with {counted(more, 'more output')}"] if more > 0 else [])]
    return [*said, f"a way on: {useless['way_on'][0]}"]


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


def _of_output(plan: Decision, one: "_Measured", groups: pl.Series) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "query": pl.repeat(one.name, len(groups), eager=True, dtype=pl.String),
            "group": groups,
            "interval_95": pl.Series(one.half.copy(), dtype=pl.Float64, nan_to_null=True),
            "signal": pl.Series(np.where(np.isnan(one.ratio), np.nan, one.sought), dtype=pl.Float64, nan_to_null=True),
            "ratio": pl.Series(one.ratio.copy(), dtype=pl.Float64, nan_to_null=True),
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
