"""Fitting Gaussian priors to public references: how rows and columns depend on each other, with intervals.

The intervals bound how far a change of one row moves another. They assume independent groups of jointly Gaussian rows.

*Exchangeable rows.* Var of a group's mean is σ²(1 + n_i·θ)/n_i with θ = ρ/(1 − ρ), and independent of how rows differ
within groups. Let w_i = n_i/(1 + n_i·θ), ȳ the mean weighted by w, and F = Σ w_i(ȳ_i − ȳ)²/((k − 1)·s²). At the true θ
it has the law F(k − 1, n − k), whatever the sizes of groups (Wald 1940). It falls with θ, so the interval is exact.

*Rows with a place each.* Given row t another row is a linear function of it, with independent errors of one variance.
So the estimated coefficient has Student's law with n − 2 degrees: exact, one interval for each pair of places.

*Autoregressive rows.* The correlation of neighbouring rows is compared with that of rows drawn under each φ at the same
places. Neither mean nor variance matters to it, so ranks among draws are an exact test. The interval is all φ that are
not rejected. Where there are many rows for their memory, the arcsine of the estimate is taken as normal.

Groups of the reference are independent, rows of one group jointly Gaussian with one mean (of rows with places, a mean
for each place). Defects are noted: values that are skewed or have heavy tails, and memory that does not fit an
autoregression.

*Several columns.* Covariances are taken to be products, one factor for rows and one for columns. Each column by itself
gives the correlation of rows; those of all columns count, as a class. How far a column of a row moves another one is a
regression with independent errors, of Student's law. Under one correlation of rows it compares how rows differ from the
mean of their group. Along an autoregression it compares what a step adds, X_t − φ·X_{t−1}, at many φ of the class. With
a matrix of all columns of all rows nothing is taken to be a product.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted
from pufferflow.models.fitting.markov import LEAST_EFFECT
from pufferflow.models.fitting.sequences import count_steps, in_order, noted, read_units
from pufferflow.models.reference import Provenance, Reference, digest_of, read_reference

_NEARLY_ONE = 1 - 1e-9
_HALVINGS = 60
_DRAWS = 999
_MOST_DRAWN = 4000
_FORGOTTEN_OFTEN = 200
_STEPS = 14


def _crossing(
    falls: Callable[[float], float], low: float, high: float, halvings: int = _HALVINGS
) -> tuple[float, float]:
    """Return the ends of a short interval in which a falling function comes to 0; an end of the range if nowhere."""
    if falls(low) <= 0:
        return low, low
    if falls(high) >= 0:
        return high, high
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) > 0 else (low, middle)
    return low, high


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """Values in groups of any sizes, with the number of the group of each."""

    values: Floats
    group: Indices

    def exchangeable(self, chance: float | None) -> tuple[float, float]:
        """Return bounds on the correlation of two rows of a group, each side wrong with half the chance.

        Without a chance both are the estimate, at which F is 1.
        """
        from scipy.special import fdtri  # takes longer to load than all else here

        sizes = np.bincount(self.group).astype(np.float64)
        means = np.bincount(self.group, self.values) / sizes
        within = float(((self.values - means[self.group]) ** 2).sum())
        freedom = len(sizes) - 1, len(self.values) - len(sizes)
        if min(freedom) < 1 or within <= 0:
            raise _too_few("groups of which some have several rows, not all equal")

        def ratio(rho: float) -> float:
            weights = sizes / (1 + sizes * rho / (1 - rho))
            centre = (weights * means).sum() / weights.sum()
            return (
                float((weights * (means - centre) ** 2).sum()) / freedom[0] / (within / freedom[1])
            )

        least = -1 / (sizes.max() - 1) * _NEARLY_ONE if sizes.max() > 1 else 0.0
        if chance is None:
            estimate = _crossing(lambda rho: ratio(rho) - 1, least, _NEARLY_ONE)[1]
            return estimate, estimate
        most, fewest = (float(fdtri(*freedom, share)) for share in (1 - chance / 2, chance / 2))
        low, _ = _crossing(lambda rho: ratio(rho) - most, least, _NEARLY_ONE)
        _, high = _crossing(lambda rho: ratio(rho) - fewest, least, _NEARLY_ONE)
        return low, high


@final
@dataclass(frozen=True, eq=False)
class Places:
    """Values of shape (groups, places): each place is one row of every group."""

    values: Floats

    @property
    def covariance(self) -> Floats:
        """The covariances of rows, as estimated."""
        centred = self.values - self.values.mean(axis=0)
        return centred.T @ centred / max(len(self.values) - 1, 1)

    def factors(self, chance: float) -> tuple[Floats, Floats]:
        """Return bounds on Cov(X_r, X_t)/Var(X_t), of shape (places t, places r), all of them wrong with the chance."""
        from scipy.special import stdtrit

        groups, places = self.values.shape
        if groups <= 2:
            raise _too_few("three or more groups with a row at every place")
        covariance = self.covariance
        variances = covariance.diagonal()
        if (variances <= 0).any():
            raise _too_few("rows that differ from group to group at every place")
        slopes = covariance / variances[:, None]
        rest = variances[None, :] - slopes * covariance
        errors = np.sqrt(np.maximum(rest, 0) / (groups - 2) / variances[:, None])
        student: Any = stdtrit
        quantile = float(student(groups - 2, chance / (2 * places * (places - 1))))
        width = -quantile * errors * (1 + 1e-12)
        np.fill_diagonal(width, 0.0)
        return slopes - width, slopes + width


@final
@dataclass(frozen=True, eq=False)
class Sequences:
    """Values of sequences, one after the other: `gaps` are the steps from the row before, 0 where one begins."""

    values: Floats
    gaps: Indices

    def autoregressive(self, chance: float | None) -> tuple[float, float]:
        """Return bounds on φ, each side wrong with half the chance; without a chance both are the estimate."""
        from scipy.special import ndtri

        pairs = int(np.count_nonzero(self.gaps == 1))
        if pairs <= 2 or np.ptp(self.values) == 0:
            raise _too_few("sequences with rows one step apart, not all equal")
        found = float(_neighbours(self.values[None], self.gaps)[0])
        estimate = min(
            max(found + (1 + 3 * found) / pairs, -_NEARLY_ONE), _NEARLY_ONE
        )  # the mean was estimated too
        if chance is None:
            return estimate, estimate
        if pairs <= _MOST_DRAWN:
            return self._by_draws(found, chance)
        if pairs * (1 - abs(estimate)) < _FORGOTTEN_OFTEN:
            raise _too_few("sequences that are much longer than they remember")
        width = -float(ndtri(chance / 2)) / np.sqrt(pairs)
        low, high = (
            np.clip(np.arcsin(estimate) + sign * width, -np.pi / 2, np.pi / 2) for sign in (-1, 1)
        )
        return max(float(np.sin(low)), -_NEARLY_ONE), min(float(np.sin(high)), _NEARLY_ONE)

    def _by_draws(self, found: float, chance: float) -> tuple[float, float]:
        noise = np.random.default_rng(0).standard_normal((_DRAWS, len(self.values)))

        def share_below(phi: float) -> float:
            return (1 + int((self._drawn(phi, noise) <= found).sum())) / (_DRAWS + 1)

        def share_above(phi: float) -> float:
            return (1 + int((self._drawn(phi, noise) >= found).sum())) / (_DRAWS + 1)

        low, _ = _crossing(
            lambda phi: chance / 2 - share_above(phi), -_NEARLY_ONE, _NEARLY_ONE, _STEPS
        )
        _, high = _crossing(
            lambda phi: share_below(phi) - chance / 2, -_NEARLY_ONE, _NEARLY_ONE, _STEPS
        )
        return low, high

    def _drawn(self, phi: float, noise: Floats) -> Floats:
        """Return the correlation of neighbours in sequences drawn under φ, with the same gaps."""
        starts = np.flatnonzero(self.gaps == 0)
        rank = np.arange(len(self.gaps)) - np.repeat(
            starts, np.diff(np.append(starts, len(self.gaps)))
        )
        order = np.argsort(rank, kind="stable")
        drawn = noise.copy()
        for rows in np.split(order, np.flatnonzero(np.diff(rank[order])) + 1)[1:]:
            kept = np.sign(phi) ** self.gaps[rows] * np.abs(phi) ** self.gaps[rows]
            drawn[:, rows] = kept * drawn[:, rows - 1] + np.sqrt(1 - kept**2) * noise[:, rows]
        return _neighbours(drawn, self.gaps)


def _neighbours(values: Floats, gaps: Indices) -> Floats:
    """Return Σ x_t·x_{t+1} over Σ (x_t² + x_{t+1}²)/2 of rows one step apart, around the mean of all."""
    centred: Any = values - values.mean(axis=1, keepdims=True)
    after = np.flatnonzero(gaps == 1)
    before, behind = centred[:, after - 1], centred[:, after]
    return 2 * (before * behind).sum(axis=1) / ((before**2).sum(axis=1) + (behind**2).sum(axis=1))


def _too_few(allowed: str) -> UsageError:
    return UsageError(
        "The reference has too few rows to estimate how rows depend on each other.",
        allowed=allowed,
        instead="a larger reference, or a class that is declared: pf.Exchangeable((0.1, 0.4)), pf.AR1((0.5, 0.9))",
    )


Dependence = Literal["exchangeable", "ar1", "matrix"]
_KINDS = ("exchangeable", "ar1", "matrix")
_LEFT_OUT = "{} rows without a value, a group or a place were left out"
_DROPPED = "{} groups without a row at every place were left out"
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
    """Return bounds on the covariance of rows from a public reference: wrong with a chance, or wider by a number."""
    units = unit_columns([column], within, order_by, dependence)
    source = read_reference(reference)
    frame = source.read([*units, *([] if order_by is None else [order_by]), column])
    rows = read_rows(frame, column, units, order_by, step, source.name)
    fitted = fit_rows(rows, source.name, dependence, slack=slack, chance=chance)
    notes = noted(frame.height - rows.height, _LEFT_OUT)
    provenance = Provenance(
        source.name,
        rows.height,
        digest_of(frame),
        (*notes, *fitted.provenance.notes),
        source.origin,
    )
    return replace(fitted, provenance=provenance)


def fit_rows(
    rows: pl.DataFrame,
    name: str,
    dependence: Dependence,
    *,
    slack: float | None,
    chance: float | None,
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
            span = wider(Groups(values, group).exchangeable(chance), slack)
        case "ar1":
            sequences = Sequences(values, gaps_of(rows))
            span = wider(sequences.autoregressive(chance), slack)
            notes += other_memory(rows, sequences.autoregressive(None)[0])
        case "matrix":
            places, dropped = places_of(rows, name)
            covariance, factors = places.covariance, _bounds(places, slack, chance)
            values = (
                (places.values - places.values.mean(axis=0)) / places.values.std(axis=0)
            ).ravel()
            notes += noted(dropped, _DROPPED)
    notes += shape_of(values)
    provenance = Provenance(name, rows.height, notes=tuple(notes))
    centre, spread = float(rows["value"].mean()), float(rows["value"].var())  # pyright: ignore[reportArgumentType] - of numbers
    return FittedGaussian(span, covariance, factors, centre, spread, provenance)


def unit_columns(
    columns: Sequence[str], within: object, order_by: object, dependence: object
) -> list[str]:
    """Return the columns that define groups."""
    instead = 'pf.GaussianPrior.fit(reference, "height", "family", covariance="exchangeable", slack="confidence")'
    if dependence not in _KINDS:
        raise UsageError(
            f"covariance is {quoted(dependence)}.", allowed=f"one of {_KINDS}", instead=instead
        )
    others = [
        *(("column", name) for name in columns),
        *([] if order_by is None else [("order_by", order_by)]),
    ]
    units = read_units(() if within is None else within, others, instead)
    if dependence != "ar1" and not units:
        raise UsageError(
            f"covariance={dependence!r} needs within: one group does not show how its rows depend on each other.",
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
    frame: pl.DataFrame,
    column: str,
    units: list[str],
    order_by: str | None,
    step: object,
    name: str,
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
    rows = pl.DataFrame(
        {**groups, "value": frame[column].cast(pl.Float64).fill_nan(None)}
    ).drop_nulls(["value"])
    if order_by is None:
        rows = rows.drop_nulls()
    else:
        moments, clock = count_steps(frame[order_by], step)
        table = pl.DataFrame(
            {**groups, "moment": moments, "value": frame[column].cast(pl.Float64).fill_nan(None)}
        )
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
    """Return bounds that are wider by a number, within the range that correlations can have."""
    width = slack or 0.0
    return max(span[0] - width, -1 + 1e-9), min(span[1] + width, 1 - 1e-9)


def places_of(rows: pl.DataFrame, name: str) -> tuple[Places, int]:
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
    return Places(table[whole]), int((~whole).sum())


def _bounds(
    places: Places, slack: float | None, chance: float | None
) -> tuple[Floats, Floats] | None:
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
    return [
        f"values are not Gaussian (skewness {skew:.1f}, excess kurtosis {tails:.1f}; a Gaussian has 0 for both)"
    ]


def other_memory(rows: pl.DataFrame, phi: float) -> list[str]:
    """Note the lag at which the memory of the reference differs most from that of an autoregression."""
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
        allowed = max(
            LEAST_EFFECT, _SURE * np.sqrt((1 + phi * phi) / max(1 - phi * phi, 1e-9) / len(first))
        )
        if abs(found - phi**lag) - allowed > worst:
            worst = abs(found - phi**lag) - allowed
            words = f"at lag {lag} the reference has the correlation {found:.2f}, the autoregression {phi**lag:.2f}"
    return [words] if words else []


_VALUES_OF_PHI: Final = 65
_MOST_CELLS: Final = 1000
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
    """Return bounds on the covariance of rows and columns of a public reference: wrong with a chance, or wider.

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
    own = [
        read_rows(frame.filter(known), name, units, order_by, step, source.name) for name in columns
    ]
    left_out = frame.height - own[0].height
    notes = noted(left_out, _LEFT_OUT)
    share = (
        None if chance is None else chance / len(columns) ** 2
    )  # one for each column, and for each pair of them
    if dependence == "matrix":
        fitted = _matrix(own, source.name, with_slack=slack is not None or chance is not None)
    else:
        fitted = _product(own, columns, source.name, dependence, slack, share)
    origin = source.name, frame.height - left_out, digest_of(frame)
    provenance = Provenance(*origin, (*notes, *fitted.provenance.notes), source.origin)
    return FittedGaussian(
        fitted.span,
        fitted.covariance,
        None,
        0.0,
        1.0,
        provenance,
        fitted.across,
        fitted.across_factors,
    )


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
    notes = [
        f"{column}: {note}"
        for column, fit in zip(columns, fits, strict=True)
        for note in fit.provenance.notes
    ]
    values = np.stack([rows["value"].to_numpy() for rows in own], axis=1)
    gaps, group = (
        gaps_of(own[0]) if dependence == "ar1" else None,
        own[0]["group"].to_numpy().astype(np.intp),
    )
    notes += _unlike(columns, spans) + _no_product(values, group, gaps, (span[0] + span[1]) / 2)
    provenance = Provenance(name, len(values), notes=tuple(notes))
    covariance = np.cov(values, rowvar=False)
    if slack is None and chance is None:
        return FittedGaussian(span, None, None, 0.0, 1.0, provenance, covariance)
    if chance is None:
        spread = np.sqrt(covariance.diagonal())
        slopes, width = (
            covariance / covariance.diagonal()[:, None],
            (slack or 0.0) * spread[None, :] / spread[:, None],
        )
        bounds = slopes - width, slopes + width
    elif gaps is None:
        bounds = _slopes(_centred(values, group), int(group.max()) + 1, chance)
    else:
        phis = np.linspace(*span, _VALUES_OF_PHI)
        each = [_slopes(*_added(values, gaps, phi), chance) for phi in phis]
        bounds = (
            np.min([low for low, _ in each], axis=0),
            np.max([high for _, high in each], axis=0),
        )
    for bound in bounds:
        np.fill_diagonal(bound, 1.0)
    return FittedGaussian(span, None, None, 0.0, 1.0, provenance, None, bounds)


def _centred(values: Floats, group: Indices) -> Floats:
    """Return how far rows differ from the mean of their group."""
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
    width = (
        -float(student(freedom, chance / 2))
        * np.sqrt(rest / freedom / variances[:, None])
        * (1 + 1e-12)
    )
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
    notes = noted(dropped[0], _DROPPED)
    covariance = Places(values.reshape(groups, -1)).covariance
    return FittedGaussian(
        None, covariance, None, 0.0, 1.0, Provenance(name, groups * rows, notes=notes)
    )


def _unlike(columns: Sequence[str], spans: Sequence[Span]) -> list[str]:
    """Note columns whose rows depend on each other in another way than those of another column."""
    least, most = min(spans, key=lambda span: span[1]), max(spans, key=lambda span: span[0])
    if most[0] - least[1] < LEAST_EFFECT:
        return []
    names = columns[spans.index(most)], columns[spans.index(least)]
    more, less = f"{names[0]!r} ({most[0]:.2f} or more)", f"{names[1]!r} ({least[1]:.2f} or less)"
    return [
        f"rows are more closely correlated in {more} than in {less}, and the prior is the same for all columns"
    ]


def _no_product(values: Floats, group: Indices, gaps: Indices | None, between: float) -> list[str]:
    """Note two columns of neighbouring rows whose correlation does not fit covariances that are products."""
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
    return [f"{what}; covariances that are products give {believed:.2f}"]
