"""Fitting Gaussian priors to public references: how far a change of one row moves another, with intervals for chance.

Groups of the reference are independent, rows of one group jointly Gaussian with one mean (of rows with places, a mean
for each place). Defects are noted: values that are skewed or have heavy tails, and memory that does not fit an
autoregression.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted, read_name
from pufferflow.models.fitting import row_correlations as correlations
from pufferflow.models.fitting.diagnosis import LEAST_EFFECT
from pufferflow.models.fitting.sequences import count_steps, in_order
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference

Dependence = Literal["exchangeable", "ar1", "matrix"]
_KINDS = ("exchangeable", "ar1", "matrix")
_MOST_PLACES = 366
_SKEWED, _HEAVY, _SURE = 1.0, 3.0, 3.3
_LAGS = (2, 3, 4, 7, 12, 24, 48, 168)
_FEWEST = 30


@final
@dataclass(frozen=True, eq=False)
class FittedGaussian:
    """Bounds on one correlation, or estimated covariances with bounds on all factors; both ends agree without slack."""

    span: tuple[float, float] | None
    covariance: Floats | None
    factors: tuple[Floats, Floats] | None
    mean: float
    variance: float
    provenance: Provenance
    across: Floats | None = None
    """The covariance of the columns of a row."""
    across_factors: tuple[Floats, Floats] | None = None
    """Bounds on how far a change of one column of a row moves another."""


def fit_gaussian(  # noqa: PLR0913 - a reference, its columns, and how they are read
    reference: Reference,
    column: str,
    within: str | Sequence[str] | None,
    order_by: str | None,
    dependence: Dependence,
    *,
    step: object = 1,
    slack: float | None = None,
    chance: float | None = None,
) -> FittedGaussian:
    """Return bounds on the covariance of rows from a public reference; wrong with a chance, or so much wider."""
    units = unit_columns([column], within, order_by, dependence)
    source = read_reference(reference)
    frame = source.read([*units, *([] if order_by is None else [order_by]), column])
    rows = read_rows(frame, column, units, order_by, step, source.name)
    fitted = fit_rows(rows, source.name, dependence, slack=slack, chance=chance)
    left_out = frame.height - rows.height
    notes = [f"{left_out} rows without a value, a group or a place were left out"] if left_out else []
    provenance = Provenance(
        source.name, rows.height, digest_of(frame), (*notes, *fitted.provenance.notes), source.origin
    )
    return replace(fitted, provenance=provenance)


def fit_rows(
    rows: pl.DataFrame, name: str, dependence: Dependence, *, slack: float | None, chance: float | None
) -> FittedGaussian:
    """Return bounds on the covariance of rows that were read, with notes on what is not Gaussian."""
    notes: list[str] = []
    values = rows["value"].to_numpy()
    group = rows["group"].to_numpy().astype(np.intp)
    span: tuple[float, float] | None = None
    covariance: Floats | None = None
    factors: tuple[Floats, Floats] | None = None
    match dependence:
        case "exchangeable":
            span = wider(correlations.Groups(values, group).exchangeable(chance), slack)
        case "ar1":
            sequences = correlations.Sequences(values, gaps_of(rows))
            span = wider(sequences.autoregressive(chance), slack)
            notes += other_memory(rows, sequences.autoregressive(None)[0])
        case "matrix":
            places, dropped = places_of(rows, name)
            covariance, factors = places.covariance, _bounds(places, slack, chance)
            values = ((places.values - places.values.mean(axis=0)) / places.values.std(axis=0)).ravel()
            notes += [f"{dropped} groups without a row at every place were left out"] if dropped else []
    notes += shape_of(values)
    provenance = Provenance(name, rows.height, notes=tuple(notes))
    centre, spread = float(rows["value"].mean()), float(rows["value"].var())  # pyright: ignore[reportArgumentType] - of numbers
    return FittedGaussian(span, covariance, factors, centre, spread, provenance)


def unit_columns(columns: Sequence[str], within: object, order_by: object, dependence: object) -> list[str]:
    """Return the columns that define groups."""
    instead = 'pf.GaussianPrior.fit(reference, "height", "family", covariance="exchangeable", slack="confidence")'
    if dependence not in _KINDS:
        raise UsageError(f"covariance is {quoted(dependence)}.", allowed=f"one of {_KINDS}", instead=instead)
    if within is not None and not isinstance(within, str | Sequence):
        raise UsageError(f"within is {quoted(within)}.", allowed="names of columns", instead=instead)
    given = [within] if isinstance(within, str) else cast(Sequence[str], within or [])
    units = [read_name(name, "within") for name in given]
    names = [
        *units,
        *(read_name(column, "column") for column in columns),
        *([] if order_by is None else [read_name(order_by, "order_by")]),
    ]
    if len(set(names)) < len(names):
        raise UsageError(
            "Two of column, order_by and within name the same column.", allowed="different columns", instead=instead
        )
    if dependence != "ar1" and not units:
        raise UsageError(
            f"covariance={dependence!r} without within: one group says nothing of how rows of a group differ.",
            allowed="the columns that define groups, which are independent",
            instead=instead,
        )
    if (order_by is None) != (dependence == "exchangeable"):
        said = "with" if order_by is not None else "without"
        raise UsageError(
            f"covariance={dependence!r} {said} order_by.",
            allowed='order_by with "ar1" and "matrix", whose rows have places; none with "exchangeable"',
            instead='covariance="ar1", order_by="hour"',
        )
    return units


def read_rows(  # noqa: PLR0913, PLR0917 - a table and its columns
    frame: pl.DataFrame, column: str, units: list[str], order_by: str | None, step: object, name: str
) -> pl.DataFrame:
    """Return rows with a `value`, the number of their `group` and, in order, `position` and whether `ahead` of one."""
    kind = frame.schema[column]
    if not (kind.is_numeric() or kind == pl.Boolean):
        raise UsageError(
            f"The column {column!r} of the reference is of type {kind}.",
            allowed="a column of numbers",
            instead="pf.MarkovChain.fit or pf.LatentClass.fit, for labels",
        )
    groups = {f"within {place}": frame[unit] for place, unit in enumerate(units)}
    rows = pl.DataFrame({**groups, "value": frame[column].cast(pl.Float64).fill_nan(None)}).drop_nulls(["value"])
    if order_by is None:
        rows = rows.drop_nulls()
    else:
        moments, clock = count_steps(frame[order_by], step)
        table = pl.DataFrame({**groups, "moment": moments, "value": frame[column].cast(pl.Float64).fill_nan(None)})
        rows = in_order(table.drop_nulls(["value"]), list(groups), clock, 1)
    if rows.height == 0 or not rows["value"].is_finite().all():
        raise UsageError(
            f"The reference {name!r} has {'no' if rows.height == 0 else 'infinite'} values.",
            allowed="a reference with finite numbers",
            instead="another reference, or frame.filter(pl.col(column).is_finite())",
        )
    number = pl.struct(list(groups)).rank("dense").cast(pl.Int64) - 1 if groups else pl.lit(0)
    return rows.with_columns(group=number)


def gaps_of(rows: pl.DataFrame) -> Indices:
    """Return the steps from the row before, 0 where a sequence begins."""
    moved = rows["position"].diff().fill_null(0).to_numpy().astype(np.intp)
    return np.where(rows["ahead"].to_numpy(), moved, 0)


def wider(span: tuple[float, float], slack: float | None) -> tuple[float, float]:
    """Return bounds so much wider, within what correlations can be."""
    width = slack or 0.0
    return max(span[0] - width, -1 + 1e-9), min(span[1] + width, 1 - 1e-9)


def places_of(rows: pl.DataFrame, name: str) -> tuple[correlations.Places, int]:
    """Return the values of groups that have a row at every place, and how many have not."""
    position, group = (rows[part].to_numpy().astype(np.intp) for part in ("position", "group"))
    size = int(position.max()) + 1
    if position.min() < 0 or not 2 <= size <= _MOST_PLACES:
        raise UsageError(
            f"The rows of {name!r} are at the positions {int(position.min())} to {int(position.max())}.",
            allowed=f"positions from 0 to at most {_MOST_PLACES - 1}, the rows of the matrix",
            instead='frame.with_columns(pl.col("hour") - pl.col("hour").min().over("day")), or covariance="ar1"',
        )
    table = np.full((int(group.max()) + 1, size), np.nan)
    table[group, position] = rows["value"].to_numpy()
    whole = ~np.isnan(table).any(axis=1)
    if whole.sum() <= 2:
        raise UsageError(
            f"{int(whole.sum())} groups of {name!r} have a row at every position from 0 to {size - 1}.",
            allowed="three or more groups with a row at every position",
            instead='another reference, or covariance="exchangeable" or "ar1"',
        )
    return correlations.Places(table[whole]), int((~whole).sum())


def _bounds(places: correlations.Places, slack: float | None, chance: float | None) -> tuple[Floats, Floats] | None:
    if slack is None and chance is None:
        return None
    if chance is not None:
        return places.factors(chance)
    slopes = places.covariance / places.covariance.diagonal()[:, None]
    width = (slack or 0.0) * (1 - np.eye(len(slopes)))
    return slopes - width, slopes + width


def shape_of(values: Floats) -> list[str]:
    """Note values that no Gaussian law has, by their third and fourth moments."""
    spread = float(values.std())
    if spread == 0:
        return []
    scaled = (values - values.mean()) / spread
    skew, tails = float((scaled**3).mean()), float((scaled**4).mean()) - 3
    if abs(skew) < _SKEWED and tails < _HEAVY:
        return []
    return [f"values are no Gaussian's (skewness {skew:.1f}, excess kurtosis {tails:.1f}; both 0 if they were)"]


def other_memory(rows: pl.DataFrame, phi: float) -> list[str]:
    """Note the lag at which the reference remembers most otherwise than an autoregression does."""
    position: Indices = rows["position"].to_numpy().astype(np.intp)
    group: Indices = rows["group"].to_numpy().astype(np.intp)
    centred = rows["value"].to_numpy() - float(rows["value"].mean())  # pyright: ignore[reportArgumentType] - of numbers
    span = int(position.max() - position.min()) + max(_LAGS) + 1
    places: Indices = group * span + position - int(position.min())
    worst, words = 0.0, ""
    for lag in _LAGS:
        later: Indices = np.minimum(np.searchsorted(places, places + lag), len(places) - 1)
        first = np.flatnonzero(places[later] == places + lag)
        if len(first) < _FEWEST:
            continue
        found = float((centred[first] * centred[later[first]]).mean() / (centred**2).mean())
        allowed = max(LEAST_EFFECT, _SURE * np.sqrt((1 + phi * phi) / max(1 - phi * phi, 1e-9) / len(first)))
        if abs(found - phi**lag) - allowed > worst:
            worst = abs(found - phi**lag) - allowed
            words = f"at lag {lag} the reference has the correlation {found:.2f}, the autoregression {phi**lag:.2f}"
    return [words] if words else []
