"""Sequences of states in a public reference, of one column or of tuples, and counts of which state follows which.

Positions are values of `order_by` counted in steps: numbers from 0, dates and times from 1970-01-01 (those with a time
zone in UTC, unless steps are whole days, which local clocks count). Phases of a period are positions modulo the period,
here and wherever a chain is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.core.arrays import Flags, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.tables import type_name
from pufferflow.core.validate import quoted, read_name
from pufferflow.models.domain import Bins, Domain, Interval, Product, read_domain
from pufferflow.models.time_steps import UNITS, read_step

MOST_VALUES = 50
MOVED = "{} values outside the domain were read as the nearest"
_SAME_NUMBER = 1e-6
_MANY_STEPS = 336
_FINE = 10**6
_FARTHEST = 2**62


@final
@dataclass(frozen=True)
class Clock:
    """The length of a step in ticks; two moments no more than `forgiven` ticks apart are one."""

    ticks: int
    forgiven: int
    fortnight: int

    def late(self, moments: Indices) -> Indices:
        """Return the ticks of moments behind whole steps, plus the forgiven ones."""
        return (moments + self.forgiven) % self.ticks

    def unclear(self, late: Indices) -> Flags:
        """Return the moments within a thousandth of a whole step and not at it: the meant step is not certain."""
        near = self.ticks // 1000 if self.forgiven else 0
        return (late > 2 * self.forgiven) & ((late < near) | (late > self.ticks - near))

    def positions(self, moments: pl.Expr) -> pl.Expr:
        """Return moments counted in whole steps."""
        return (moments + self.forgiven) // self.ticks


@final
@dataclass(frozen=True, eq=False)
class TransitionCounts:
    """How often a state `here` at a phase was followed by another, for each state `before`; −1 if that is unknown."""

    phase: Indices
    before: Indices
    here: Indices
    following: Indices
    times: Indices

    def pairs(self, period: int, states: int) -> Indices:
        """Return the counts of transitions, of shape (period, states, states)."""
        places = (self.phase * states + self.here) * states + self.following
        counts = np.bincount(places, self.times, period * states * states)
        return counts.astype(np.intp).reshape(period, states, states)


@final
@dataclass(frozen=True, eq=False)
class Sequences:
    """The rows of a reference, sequence by sequence in order; state −1 is a row without a value.

    `starts` says which rows do not continue the row before them by a whole number of steps.
    """

    states: Indices
    positions: Indices
    starts: Flags
    counts: TransitionCounts
    domain: Domain
    clock: Clock
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of rows in all sequences."""
        return len(self.states)


def read_sequences(  # noqa: PLR0913 - a table, its three columns, and how they are read
    frame: pl.DataFrame,
    column: str,
    order_by: str,
    within: Sequence[str],
    *,
    domain: object = None,
    period: int = 1,
    step: object = 1,
) -> Sequences:
    """Return the sequences of a public table: all rows of one `within`, sorted by `order_by`."""
    if frame.height == 0:
        raise UsageError(
            "The reference has no rows.",
            allowed="a reference with rows",
            instead="another reference",
        )
    moments, clock = count_steps(frame[order_by], step)
    if period > 1 and clock.unclear(clock.late(moments.drop_nulls().to_numpy())).any():
        raise UsageError(
            f"The column {order_by!r} of the reference has rows nearly at whole steps, whose phase is not clear.",
            allowed="rows at whole steps (to a millionth of a step), or a thousandth of a step away from them",
            instead=f"frame.with_columns(pl.col({order_by!r}).round()), or floor()",
        )
    states, read, moved = read_states(frame[column], domain)
    groups = {f"within {place}": frame[unit] for place, unit in enumerate(within)}
    rows = in_order(
        pl.DataFrame({**groups, "moment": moments, "state": states}), list(groups), clock, period
    )
    left_out = frame.height - rows.height
    notes = (
        *noted(left_out, "{} rows without order_by or within were left out"),
        *noted(rows["state"].null_count(), "{} rows without a value break their sequences"),
        *noted(moved, MOVED),
        *noted(
            int(rows.select((pl.col("ahead") & ~pl.col("next")).sum()).item()),
            "{} gaps between rows were left out",
        ),
    )
    return Sequences(
        rows["state"].fill_null(-1).to_numpy().astype(np.intp),
        rows["position"].to_numpy().astype(np.intp),
        (~rows["whole"]).to_numpy(),
        _counts(rows, period),
        read,
        clock,
        notes,
    )


def in_order(rows: pl.DataFrame, groups: list[str], clock: Clock, period: int) -> pl.DataFrame:
    """Sort the rows and mark how each continues the one before: `ahead` in its sequence, `whole` steps, the `next`."""
    here, moved = pl.col("moment"), pl.col("moment").diff()
    same = pl.all_horizontal(
        [pl.lit(value=True), *(pl.col(group).eq_missing(pl.col(group).shift()) for group in groups)]
    )
    off = (moved + clock.forgiven) % clock.ticks
    rows = (
        rows.drop_nulls([*groups, "moment"])
        .sort([*groups, "moment"])
        .with_columns(
            (same & (pl.int_range(pl.len()) > 0)).alias("ahead"),
            clock.positions(here).alias("position"),
        )
        .with_columns(
            (pl.col("ahead") & (off <= 2 * clock.forgiven)).fill_null(value=False).alias("whole")
        )
        .with_columns(
            (pl.col("whole") & ((moved - clock.ticks).abs() <= clock.forgiven)).alias("next")
        )
        .with_columns((pl.col("position") % period).alias("phase"))
    )
    if bool(rows.select((pl.col("ahead") & (moved <= clock.forgiven)).any()).item()):
        raise UsageError(
            "Two rows of one sequence of the reference have the same order_by.",
            allowed="one row for each value of within and order_by",
            instead="adding to within the columns that separate the sequences",
        )
    return rows


def _counts(rows: pl.DataFrame, period: int) -> TransitionCounts:
    """Count the transitions, together with the state before them where there is one."""
    state, before = pl.col("state"), pl.col("state").shift(1)
    steps = pl.col("next") & state.is_not_null() & before.is_not_null()
    counted = (
        rows.with_columns(
            steps.alias("step"),
            before.alias("here"),
            pl.when(pl.col("next").shift(1)).then(state.shift(2)).fill_null(-1).alias("before"),
            ((pl.col("position") - 1) % period).alias("phase"),
        )
        .filter("step")
        .group_by("phase", "before", "here", "state")
        .len()
    )
    return TransitionCounts(
        *(
            counted[name].to_numpy().astype(np.intp)
            for name in ("phase", "before", "here", "state", "len")
        )
    )


def count_steps(values: pl.Series, step: object = 1) -> tuple[pl.Series, Clock]:
    """Return a column of moments in ticks, and the clock that counts them in steps."""
    size, timed = read_step(step)
    kind = values.dtype
    if timed != kind.is_temporal() or not (timed or kind.is_numeric()):
        raise UsageError(
            f"order_by is a column of type {type_name(kind)}, with the step {step!r}.",
            allowed="a date or time with a step such as '1h', or a number with a step such as 1",
            instead='step="1h"' if kind.is_temporal() else "step=1",
        )
    if timed:
        return _moments(values, size)
    numbers = values.cast(pl.Int64, strict=False)
    if kind.is_integer() or numbers.cast(kind, strict=False).eq_missing(values).all():
        return numbers, Clock(size, 0, _MANY_STEPS)
    return _millionths(values, size), Clock(_FINE, 1, _MANY_STEPS)


def _millionths(values: pl.Series, size: int) -> pl.Series:
    """Return numbers in millionths of a step, rounded, since decimal fractions do not add up: 0.1 + 0.2 + 0.7 < 1.

    The rest of a division is exact, so numbers far from 0 are not moved. A number that 64 bits do not hold is null.
    """
    given = values.cast(pl.Float64).to_numpy()
    there = np.abs(given) < _FARTHEST / _FINE * size
    known = np.where(there, given, 0.0)
    rest = np.fmod(known, size)
    ticks = np.rint((known - rest) / size).astype(np.int64) * _FINE + np.rint(
        rest / size * _FINE
    ).astype(np.int64)
    return pl.Series(ticks).set(pl.Series(~there), None)


def _moments(values: pl.Series, size: int) -> tuple[pl.Series, Clock]:
    """Return dates and times in microseconds, or in nanoseconds (which end in 2262) if those are too coarse."""
    fortnight = max(2 * UNITS["w"] // size, 1)
    if (
        isinstance(values.dtype, pl.Datetime)
        and values.dtype.time_zone is not None
        and size % UNITS["d"] == 0
    ):
        values = values.dt.replace_time_zone(
            None
        )  # days of a local clock are not equally long in UTC
    kind = values.dtype
    if isinstance(kind, pl.Time):
        return values.to_physical(), Clock(size, 0, fortnight)
    fine = size % 1000 != 0 or (
        isinstance(kind, pl.Datetime | pl.Duration) and kind.time_unit == "ns"
    )
    unit = "ns" if fine else "us"
    exact = values.cast(pl.Duration(unit) if isinstance(kind, pl.Duration) else pl.Datetime(unit))
    return exact.to_physical(), Clock(size if fine else size // 1000, 0, fortnight)


def noted(number: int, words: str) -> tuple[str, ...]:
    """Return a note with a number in it; no note for 0."""
    return (words.format(number),) if number else ()


def read_units(
    within: object, others: Sequence[tuple[str, object]], instead: str, *, needed: bool = False
) -> list[str]:
    """Return the columns whose values define groups; the `others`, each with what it is, have to be other columns."""
    if (needed and not within) or not isinstance(within, str | Sequence):
        raise UsageError(
            f"within is {quoted(within)}.",
            allowed="names of columns that define groups",
            instead=instead,
        )
    given: list[Any] = [within] if isinstance(within, str) else list(cast(Sequence[Any], within))
    units = [read_name(name, "within") for name in given]
    names = [*units, *(read_name(name, what) for what, name in others)]
    if len(set(names)) < len(names):
        kinds = ", ".join(sorted({what for what, _ in others}))
        raise UsageError(
            f"Two of {kinds} and within name the same column.",
            allowed="different columns",
            instead=instead,
        )
    return units


def read_states(values: pl.Series, domain: object) -> tuple[pl.Series, Domain, int]:
    """Return the place of each value in the domain (null if it has none), the domain, and the count of others.

    If the domain has a state for missing values, they have the last place.
    """
    read = _occurring(values) if domain is None else read_domain(domain)
    states, _, moved = _present_states(values, read.present)
    return states.fill_null(len(read.points) - 1) if read.skips else states, read, moved


def _present_states(values: pl.Series, read: Domain) -> tuple[pl.Series, Domain, int]:
    if isinstance(read, Interval):
        raise UsageError(
            f"A chain of states for a column that is {read.describe()}.",
            allowed="a list of values, or classes of a continuous column",
            instead="domain=pf.Bins(edges, values)",
        )
    if isinstance(read, Bins):
        edges = read.edges if read.open else read.edges[1:-1]
        numbers, known = _numbers_of(values)
        return _series(np.searchsorted(edges, numbers, side="right"), known), read, 0
    if any(isinstance(point, str) for point in read.points):
        return _labelled(values, read), read, 0
    return _nearest(values, read)


def _occurring(values: pl.Series) -> Domain:
    """Return the values that occur as a domain, if they are few."""
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        values = values.cast(pl.String)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    seen = values.drop_nulls().unique().sort()
    if not 2 <= len(seen) <= MOST_VALUES:
        raise UsageError(
            f"The column {values.name!r} of the reference has {len(seen)} different values, and no domain is given.",
            allowed=f"2 to {MOST_VALUES} different values, or a domain",
            instead="domain=pf.Bins(edges, values), which reads a continuous column in classes",
        )
    return read_domain(seen.to_list())


def _labelled(values: pl.Series, domain: Domain) -> pl.Series:
    """Return the places of labels; a label outside the domain is null."""
    if not isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum):
        raise UsageError(
            f"The column {values.name!r} of the reference is of type {values.dtype}, and the domain has labels.",
            allowed="a column of labels, or a domain of numbers",
            instead="a domain with the values of the column",
        )
    places = list(range(len(domain.points)))
    known = cast(list[Any], list(domain.points))
    return values.cast(pl.String).replace_strict(known, places, default=None, return_dtype=pl.Int32)


def _nearest(values: pl.Series, domain: Domain) -> tuple[pl.Series, Domain, int]:
    """Return the places of the nearest numbers, the smaller of two."""
    numbers, known = _numbers_of(values)
    points = np.array([float(point) for point in domain.points])
    order = np.argsort(points)
    between = (points[order][1:] + points[order][:-1]) / 2
    places = order[np.searchsorted(between, numbers, side="left")]
    moved = known & ~np.isclose(numbers, points[places], rtol=_SAME_NUMBER, atol=0)
    return _series(places, known), domain, int(moved.sum())


def _numbers_of(values: pl.Series) -> tuple[npt.NDArray[np.float64], Flags]:
    """Return a column as numbers, and the rows that have one."""
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise UsageError(
            f"The column {values.name!r} of the reference is of type {values.dtype}, and the domain has numbers.",
            allowed="a column of numbers, or a domain of labels",
            instead="a domain with the values of the column",
        )
    numbers = values.cast(pl.Float64).to_numpy()
    return numbers, ~np.isnan(numbers)


def _series(places: Indices, known: Flags) -> pl.Series:
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(places, dtype=pl.Int32))).to_series()


def with_tuples(
    frame: pl.DataFrame, columns: Sequence[str], domains: object
) -> tuple[pl.DataFrame, str, list[str]]:
    """Return a frame with a column of tuples, its name and all its values; null where one of the values is missing.

    Values are read into the domain of their own column, as those of private rows are; None is for those that occur.

    >>> frame, name, _ = with_tuples(pl.DataFrame({"a": [0, 1], "b": [7, None]}), ["a", "b"], [[0, 1], [7, 8]])
    >>> name, frame[name].to_list()
    ('a × b', ['a = 0, b = 7', None])
    """
    given: list[object] = [None] * len(columns)
    if domains is not None:
        given = _domain_of_each(domains, columns)
    read = [
        read_states(frame[column], domain)[:2]
        for column, domain in zip(columns, given, strict=True)
    ]
    product = Product(
        tuple(columns), tuple(domain for _, domain in read), tuple(one.points[0] for _, one in read)
    )
    known = pl.all_horizontal([states.is_not_null() for states, _ in read])
    places = np.ravel_multi_index(
        [states.fill_null(0).to_numpy().astype(np.intp) for states, _ in read],
        [len(domain.points) for _, domain in read],
    )
    words = pl.Series(product.points, dtype=pl.String).gather(places)
    labels = pl.select(pl.when(known).then(words)).to_series().rename(product.name)
    return frame.with_columns(labels), product.name, cast(list[str], list(product.points))


def _domain_of_each(domains: object, columns: Sequence[str]) -> list[object]:
    given: list[object] = list(cast(Any, domains)) if isinstance(domains, list | tuple) else []
    if len(given) != len(columns):
        raise UsageError(
            f"domain is {quoted(cast(object, domains))} for {len(columns)} columns.",
            allowed="a list with the domain of each column, in their order",
            instead=f"domain=[{', '.join('[0, 1, 2]' for _ in columns)}]",
        )
    if all(isinstance(one, int | float | str) for one in given):
        raise UsageError(
            f"domain is one list of {len(given)} values, and there are {len(columns)} columns.",
            allowed="a list with the domain of each column, in their order",
            instead=f"domain=[{', '.join('[0, 1, 2]' for _ in columns)}]",
        )
    return given
