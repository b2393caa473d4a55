"""Compare the noise of each number of a plan with its signal: the difference that the number has to show.

A number is *useless* if half its 95 % interval is wider than the signal. It is *weak* if that half is wider than a
quarter of the signal, and *useful* otherwise. The default signal is a quarter of the range of the answer: of a mean a
quarter of its domain, of a sum that times the number of rows, of a count a quarter of the rows. In a histogram it is an
equal share of the rows. No private value is read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Flags, Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import finite_number, quoted
from pufferflow.models.population import Population
from pufferflow.models.secret import Presence, ValueSecret
from pufferflow.queries.aggregates import Histogram
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.explain.compare import OutputErrors, group_names, output_errors
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.reports.text import phrase

_WEAK: Final = 0.25
_PART_OF_RANGE: Final = 0.25
_MOST_OUTPUTS: Final = 3
_UNKNOWN: Final = "The error or range depends on private numbers: give signal=, or see the error bars of the release."
_CONSTANT: Final = (
    "This number is the same for any private values: no value of the domain changes its condition."
)
Signal = float | Mapping[str, float] | None


def check(plan: CalibratedNoise, signal: Signal = None) -> pl.DataFrame:
    """Return a row for each output and group: its noise, its signal, a verdict, and remedies."""
    measured, groups = list(_measured(plan, signal)), group_names(plan)
    half, sought, ratio = (
        np.concatenate([getattr(one, name) for one in measured])
        for name in ("half", "sought", "ratio")
    )
    frame = pl.DataFrame(
        {
            "query": pl.Series([one.name for one in measured for _ in groups], dtype=pl.String),
            "group": pl.Series(list(groups) * len(measured), dtype=pl.String),
            "interval_95": pl.Series(half, dtype=pl.Float64, nan_to_null=True),
            "signal": pl.Series(
                np.where(np.isnan(ratio), np.nan, sought), dtype=pl.Float64, nan_to_null=True
            ),
            "ratio": pl.Series(ratio, dtype=pl.Float64, nan_to_null=True),
        }
    )
    names = _constant(plan)
    constant = [one.name for one in measured if one.query.name in names]
    return _with_verdicts(frame, _remedies(plan.request, "{}"), constant)


@final
@dataclass(frozen=True, eq=False)
class _Measured:
    """Half the 95 % intervals of one output in all groups, and the signals."""

    name: str
    query: Query
    half: Floats
    sought: Floats

    @cached_property
    def ratio(self) -> Floats:
        """Half the interval divided by the signal; NaN where either is unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.sought > 0, self.half / self.sought, np.nan)

    @cached_property
    def useless(self) -> Flags:
        """Whether the noise hides the whole signal, for each group."""
        return self.ratio > 1


def _measured(plan: CalibratedNoise, signal: Signal) -> Iterator[_Measured]:
    looked_for = _read(signal, [name for query in plan.request.queries for name in query.outputs])
    for errors in output_errors(plan):
        name, query, cells = errors.output.name, errors.output.query, len(errors.half)
        size = plan.public.size_of(query)
        own = looked_for.get(name)
        sought = _default(query, size, cells) if own is None else np.full(cells, own)
        yield _Measured(name, query, _half_widths(errors, size), sought)


def useless_outputs(plan: CalibratedNoise) -> list[str]:
    """Return a sentence for each query that has useless numbers, and last the remedies; empty if none has.

    Reads no row: it is empty, too, until the rows of cells have been counted.
    """
    useless = _useless(plan) if plan.public.counted else []
    if not useless:
        return []
    groups, more, first = group_names(plan), len(useless) - _MOST_OUTPUTS, useless[0][0]
    said = [_finding(outputs, groups) for outputs in useless[:_MOST_OUTPUTS]]
    said += [phrase("same_holds", more)] if more > 0 else []
    times = math.ceil(first.ratio[first.useless.argmax()] / _WEAK)
    return [*said, f"remedies: {_remedies(plan.request, str(times))}"]


def constant_outputs(plan: CalibratedNoise) -> list[str]:
    """Return a sentence for each query of a condition or expression that no value of the domain changes."""
    return [f"{name} is the same for any private values" for name in _constant(plan)]


def _constant(plan: CalibratedNoise) -> list[str]:
    """Return the queries that read private values, but are the same for all values of the domain."""
    domain, request = plan.request.domain, plan.request
    if domain is None or not domain.finite or isinstance(request.scenario.secret, Presence):
        return []
    moves = np.ptp(plan.basis.functions.at_values, axis=1) > 0
    return [
        query.name
        for query, places in request.reads
        if not moves[list(places)].any() and any(one is not None for one in query.measures)
    ]


def findings(plan: CalibratedNoise) -> list[str]:
    """Return a sentence for each query that has useless numbers."""
    groups = group_names(plan)
    return [_finding(outputs, groups) for outputs in _useless(plan)]


def _useless(plan: CalibratedNoise) -> list[list[_Measured]]:
    """Return the outputs that are useless in some groups, by query."""
    of_query = dict[int, list[_Measured]]()
    for one in _measured(plan, None):
        if one.useless.any():
            of_query.setdefault(id(one.query), []).append(one)
    return list(of_query.values())


def _finding(useless: Sequence[_Measured], groups: Sequence[str]) -> str:
    """Return the sentence about the useless outputs of one query."""
    first = useless[0]
    place, several = int(first.useless.argmax()), len(first.query.outputs) > 1
    count, numbers = (
        sum(int(one.useless.sum()) for one in useless),
        len(first.query.outputs) * len(groups),
    )
    where = f"{count:,} of {numbers:,} {'numbers' if several else 'groups'}" if numbers > 1 else ""
    examples = [first.name] * several + [str(groups[place])] * (len(groups) > 1)
    noise, difference = f"{first.half[place]:.3g}", f"{first.sought[place]:.3g}"
    return phrase("useless", first.query.name, where, examples, noise, difference)


def _read(signal: Signal, names: list[str]) -> dict[str, float]:
    """Return the signal of each output, as far as it was given."""
    allowed, instead = (
        "a number > 0, or one for some outputs by their names",
        f"signal={{{names[0]!r}: 2.0}}",
    )
    if signal is None:
        return {}
    given: dict[Any, Any] = (
        dict(signal) if isinstance(signal, Mapping) else dict.fromkeys(names, signal)
    )
    if wrong := [name for name in given if name not in names]:
        said = f"No output is called {quoted(wrong[0])}.{did_you_mean(wrong[0], names)}"
        raise UsageError(
            said, allowed=f"names of outputs: {', '.join(map(repr, names[:6]))}", instead=instead
        )
    return {
        name: finite_number(
            value, "signal", allowed=allowed, instead=instead, fits=lambda number: number > 0
        )
        for name, value in given.items()
    }


def _default(query: Query, size: Floats | None, cells: int) -> Floats:
    """Return the default signal of a query in each cell; NaN where it is unknown or the answer cannot vary."""
    if size is None:
        return np.full(cells, np.nan)
    if isinstance(query, Histogram):
        return np.broadcast_to(size / len(query.outputs), cells)
    low, high = query.limits(size)
    with np.errstate(invalid="ignore"):
        spread = np.where(np.isfinite(high - low), high - low, np.nan).max(axis=1)
    return np.broadcast_to(_PART_OF_RANGE * spread, cells)


def _half_widths(errors: OutputErrors, size: Floats | None) -> Floats:
    """Return half the 95 % intervals: for a variance those of its mean square, for a quantile NaN."""
    query = errors.output.query
    if query.linear or size is None or query.running(counts_are_public=True) is not None:
        return errors.half
    half = errors.output.noise.interval(0.95)[1]
    return np.broadcast_to(half / np.maximum(size, 1.0), len(errors.half))


def _with_verdicts(frame: pl.DataFrame, remedies: str, constant: Sequence[str]) -> pl.DataFrame:
    """Return the numbers with a verdict, a finding and remedies; some outputs are `constant`."""
    useless, weak = pl.col("ratio") > 1, pl.col("ratio") > _WEAK
    verdict = (
        pl.when(useless)
        .then(pl.lit("useless"))
        .when(weak)
        .then(pl.lit("weak"))
        .otherwise(pl.lit("useful"))
    )
    known, numbers = pl.col("ratio").is_not_null(), (_short("interval_95"), _short("signal"))
    hidden, blurred, clear = (
        pl.format(phrase("of_number", one, "{}", "{}"), *numbers)
        for one in ("useless", "weak", "useful")
    )
    says = pl.when(useless).then(hidden).when(weak).then(blurred).otherwise(clear)
    times = (pl.col("ratio") / _WEAK).ceil().cast(pl.Int64, strict=False)
    ways = pl.when(weak).then(pl.format(remedies, times))
    return frame.with_columns(
        pl.when(known).then(verdict).alias("verdict"),
        pl.when(pl.col("query").is_in(constant))
        .then(pl.lit(_CONSTANT))
        .when(known)
        .then(says)
        .otherwise(pl.lit(_UNKNOWN))
        .alias("finding"),
        ways.alias("way_on"),
    ).drop("ratio")


def _short(column: str) -> pl.Expr:
    return pl.col(column).round_sig_figs(3).cast(pl.String)


def _remedies(request: Request, times: str) -> str:
    """Return the remedies: so many times the ε, and others."""
    scenario = request.scenario
    far = isinstance(scenario.secret, ValueSecret) and scenario.secret.pairs == "all"
    far = far and not any(prior.any_correlation for prior in scenario.priors)
    drawn = isinstance(scenario.secret, Population)
    grouped = bool(request.by) and not drawn
    return phrase("remedies", times, grouped, len(request.queries) > 1, far, drawn)
