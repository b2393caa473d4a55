"""Fitting Gaussian priors to several columns of a public reference: how rows and columns depend on each other.

Covariances are taken to be products of one of rows and one of columns. Each column by itself gives the correlation of
rows; those of all columns count, as a class. How far a column of a row moves another one is a regression with
independent errors, of Student's law: under one correlation of rows in how rows differ from the mean of their group,
along an autoregression in what a step adds, X_t − φ·X_{t−1}, at many φ of the class. With a matrix of all columns of
all rows nothing is taken to be a product.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted
from pufferflow.models.fitting.diagnosis import LEAST_EFFECT
from pufferflow.models.fitting.gaussian import (
    Dependence,
    FittedGaussian,
    fit_rows,
    gaps_of,
    places_of,
    read_rows,
    unit_columns,
)
from pufferflow.models.fitting.row_correlations import Places
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference

_VALUES_OF_PHI: Final = 65
_MOST_CELLS: Final = 1000
_SURE: Final = 3.3
Span = tuple[float, float]


def fit_columns(  # noqa: PLR0913 - a reference, its columns, and how they are read
    reference: Reference,
    columns: Sequence[str],
    within: str | Sequence[str] | None,
    order_by: str | None,
    dependence: Dependence,
    *,
    step: object = 1,
    slack: float | None = None,
    chance: float | None = None,
) -> FittedGaussian:
    """Return bounds on the covariance of rows and columns of a public reference; wrong with a chance, or so much wider.

    Rows without one of the values are left out.
    """
    if len(columns) < 2:
        raise UsageError(
            f"column is {quoted(columns)}.",
            allowed="a column, or a list of two or more",
            instead='["load", "temp"]',
        )
    units = unit_columns(columns, within, order_by, dependence)
    source = read_reference(reference)
    frame = source.read([*units, *([] if order_by is None else [order_by]), *columns])
    known = [
        (pl.col(name).is_nan() if frame.schema[name].is_float() else pl.lit(value=False)).not_()
        & pl.col(name).is_not_null()
        for name in columns
    ]
    own = [read_rows(frame.filter(known), name, units, order_by, step, source.name) for name in columns]
    left_out = frame.height - own[0].height
    notes = [f"{left_out} rows without a value, a group or a place were left out"] if left_out else []
    share = None if chance is None else chance / len(columns) ** 2  # one for each column, and for each pair of them
    if dependence == "matrix":
        fitted = _matrix(own, source.name, with_slack=slack is not None or chance is not None)
    else:
        fitted = _product(own, columns, source.name, dependence, slack, share)
    origin = source.name, frame.height - left_out, digest_of(frame)
    provenance = Provenance(*origin, (*notes, *fitted.provenance.notes), source.origin)
    return FittedGaussian(fitted.span, fitted.covariance, None, 0.0, 1.0, provenance, *_across(fitted))


def _across(fitted: FittedGaussian) -> tuple[Floats | None, tuple[Floats, Floats] | None]:
    return fitted.across, fitted.across_factors


def _product(  # noqa: PLR0913, PLR0917 - rows of each column, and how they are read
    own: Sequence[pl.DataFrame],
    columns: Sequence[str],
    name: str,
    dependence: Dependence,
    slack: float | None,
    chance: float | None,
) -> FittedGaussian:
    """Return the class of correlations that some column has, and the covariance of columns in a row."""
    fits = [fit_rows(rows, name, dependence, slack=slack, chance=chance) for rows in own]
    spans = [cast(Span, fit.span) for fit in fits]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    notes = [f"{column}: {note}" for column, fit in zip(columns, fits, strict=True) for note in fit.provenance.notes]
    values = np.stack([rows["value"].to_numpy() for rows in own], axis=1)
    gaps, group = gaps_of(own[0]) if dependence == "ar1" else None, own[0]["group"].to_numpy().astype(np.intp)
    notes += _unlike(columns, spans) + _no_product(values, group, gaps, (span[0] + span[1]) / 2)
    provenance = Provenance(name, len(values), notes=tuple(notes))
    covariance = np.cov(values, rowvar=False)
    if slack is None and chance is None:
        return FittedGaussian(span, None, None, 0.0, 1.0, provenance, covariance)
    if chance is None:
        spread = np.sqrt(covariance.diagonal())
        slopes, width = covariance / covariance.diagonal()[:, None], (slack or 0.0) * spread[None, :] / spread[:, None]
        bounds = slopes - width, slopes + width
    elif gaps is None:
        bounds = _slopes(_centred(values, group), int(group.max()) + 1, chance)
    else:
        phis = np.linspace(*span, _VALUES_OF_PHI)
        each = [_slopes(*_added(values, gaps, phi), chance) for phi in phis]
        bounds = np.min([low for low, _ in each], axis=0), np.max([high for _, high in each], axis=0)
    for bound in bounds:
        np.fill_diagonal(bound, 1.0)
    return FittedGaussian(span, None, None, 0.0, 1.0, provenance, None, bounds)


def _centred(values: Floats, group: Indices) -> Floats:
    """Return by how much rows differ from the mean of their group."""
    sizes = np.bincount(group).astype(np.float64)
    means = np.stack([np.bincount(group, column) / sizes for column in values.T], axis=1)
    return values - means[group]


def _added(values: Floats, gaps: Indices, phi: float) -> tuple[Floats, int]:
    """Return what single steps add to φ times the row before, around its mean."""
    after = np.flatnonzero(gaps == 1)
    steps = values[after] - phi * values[after - 1]
    return steps - steps.mean(axis=0), 1


def _slopes(errors: Floats, means: int, chance: float) -> tuple[Floats, Floats]:
    """Return bounds on the regression of each column on each other, [t][r] of r on t, wrong with the chance each."""
    from scipy.special import stdtrit  # takes longer to load than all else here

    freedom, squares = len(errors) - means - 1, errors.T @ errors
    variances = squares.diagonal()
    if freedom < 1 or (variances <= 0).any():
        raise UsageError(
            "The reference has too few rows to estimate how columns depend on each other.",
            allowed="more rows, in which every column differs",
            instead="a larger reference, or across= as a matrix",
        )
    slopes = squares / variances[:, None]
    rest = np.maximum(variances[None, :] - slopes * squares, 0.0)
    student: Any = stdtrit
    width = -float(student(freedom, chance / 2)) * np.sqrt(rest / freedom / variances[:, None]) * (1 + 1e-12)
    return slopes - width, slopes + width


def _matrix(own: Sequence[pl.DataFrame], name: str, *, with_slack: bool) -> FittedGaussian:
    """Return the covariances of all columns of all rows, those of row 0 first."""
    if with_slack:
        raise UsageError(
            'covariance="matrix" of several columns with slack.',
            allowed='slack with "ar1" and "exchangeable"; a matrix of all columns of all rows as it is estimated',
            instead='covariance="ar1", slack="confidence"',
        )
    places, dropped = zip(*(places_of(rows, name) for rows in own), strict=True)
    values = np.stack([one.values for one in places], axis=2)
    groups, rows, columns = values.shape
    if rows * columns > _MOST_CELLS or groups <= columns + 1:
        raise UsageError(
            f"{groups} groups with {columns} columns of {rows} rows each.",
            allowed=f"at most {_MOST_CELLS:,} columns of rows, and at least {columns + 2} groups",
            instead='covariance="ar1", or fewer columns',
        )
    notes = [f"{dropped[0]} groups without a row at every place were left out"] if dropped[0] else []
    covariance = Places(values.reshape(groups, -1)).covariance
    return FittedGaussian(None, covariance, None, 0.0, 1.0, Provenance(name, groups * rows, notes=tuple(notes)))


def _unlike(columns: Sequence[str], spans: Sequence[Span]) -> list[str]:
    """Note columns whose rows depend on each other unlike those of another column."""
    least, most = min(spans, key=lambda span: span[1]), max(spans, key=lambda span: span[0])
    if most[0] - least[1] < LEAST_EFFECT:
        return []
    names = columns[spans.index(most)], columns[spans.index(least)]
    more, less = f"{names[0]!r} ({most[0]:.2f} or more)", f"{names[1]!r} ({least[1]:.2f} or less)"
    return [f"rows are more closely correlated in {more} than in {less}, and the prior is the same for all columns"]


def _no_product(values: Floats, group: Indices, gaps: Indices | None, between: float) -> list[str]:
    """Note two columns of neighbouring rows that correlate otherwise than covariances which are products."""
    if gaps is None:
        order = np.argsort(group, kind="stable")
        values, group = values[order], group[order]
    after = np.flatnonzero((np.diff(group, prepend=-1) == 0) if gaps is None else gaps == 1)
    centred = (values - values.mean(axis=0)) / values.std(axis=0)
    across = centred.T @ centred / len(values)
    if not len(after):
        return []
    found = centred[after - 1].T @ centred[after] / len(after)
    off = np.abs(found - between * across) * (1 - np.eye(len(across)))
    earlier, later = np.unravel_index(int(off.argmax()), off.shape)
    if off.max() < max(LEAST_EFFECT, _SURE / np.sqrt(len(after))):
        return []
    seen, believed = found[earlier, later], between * across[earlier, later]
    what = f"column {later + 1} of a row correlates with column {earlier + 1} of the row before by {seen:.2f}"
    return [f"{what}, under covariances that are products by {believed:.2f}"]
