"""Several columns under one Gaussian prior: their covariance in a row, and how far a change of a row moves them.

If all columns of all rows are jointly Gaussian, and those of row i change by d, the columns of row r are translated by
Cov(X_r, X_i)·Cov(X_i)^-1·d (M15); if column a of row i changes by v, column c of row r by
Cov(X_r^c, X_i^a)/Var(X_i^a)·v.
Where covariances are products K(r, s)·C(c, d), the first is K(r, i)/K(i, i)·d, column by column and whatever C is, and
the second K(r, i)/K(i, i)·C(c, a)/C(a, a)·v. All changes here are in units of the width of their own column's domain.
"""

from collections.abc import Callable

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, lifted
from pufferflow.models.domain import Interval
from pufferflow.models.priors.covariance import Covariance, Factors, Matrix, Sides, check_places
from pufferflow.models.product import Product
from pufferflow.models.secret import AnySecret, Derived, Secret

Across = Matrix | Factors
_LEAST = 1e-9
"""The least eigenvalue of the correlations of a row's columns: below it they determine each other."""
_ALLOWED = "a covariance matrix of the columns of a row, in the order of the secrets"
_INSTEAD = "across=[[4.0, 1.0], [1.0, 9.0]]"


def read_across(given: object) -> Across:
    """Return the covariance of the columns of a row; refused where some of them determine others."""
    if isinstance(given, Factors):
        return given
    if isinstance(given, Covariance) and not isinstance(given, Matrix):
        raise UsageError(f"across is of type {type(given).__name__}.", allowed=_ALLOWED, instead=_INSTEAD)
    read = given if isinstance(given, Matrix) else Matrix(given)
    _check_free(read.entries)
    return read


def check_alone(variance: object, mean: object) -> None:
    """Refuse a variance and a mean of all columns beside a covariance of columns."""
    if variance is not None or mean != 0:
        raise UsageError(
            "A variance or a mean of all columns beside across.",
            allowed="the variances of columns on the diagonal of across; means change nothing",
            instead="leaving both out",
        )


def in_words(across: Across) -> str:
    """Describe the covariance of columns in words."""
    if isinstance(across, Factors):
        return f"its {len(across.low)} columns drag each other along by factors between two bounds"
    return f"the {len(across.entries)} columns of a row have a covariance matrix"


def check_columns(covariance: Covariance, across: Across | None, domain: Product) -> None:
    """Refuse columns without a known covariance, and domains that are no intervals."""
    columns = len(domain.columns)
    for name, own in zip(domain.columns, domain.domains, strict=True):
        if not isinstance(own, Interval):
            raise Refused(
                f"Several columns under pf.GaussianPrior, and {name!r} has {own.describe()}.",
                allowed="an interval for each of the columns: values in classes do not move in proportion",
                instead=f"pf.Secret({name!r}, domain=pf.Interval(low, high)), or a scenario for each column",
            )
    if across is not None:
        size = len(across.low) if isinstance(across, Factors) else len(across.entries)
        if size != columns:
            raise UsageError(
                f"across is of {size} columns, and the secret has {columns}.", allowed=_ALLOWED, instead=_INSTEAD
            )
    elif not isinstance(covariance, Matrix) or len(covariance.entries) % columns:
        raise UsageError(
            f"The covariance of rows, and {columns} secret columns.",
            allowed=f"{_ALLOWED}; or as covariance the matrix of all columns of all rows, those of row 0 first",
            instead="pf.GaussianPrior(pf.AR1(0.9), across=[[4.0, 1.0], [1.0, 9.0]])",
        )
    else:
        for row in np.split(np.arange(len(covariance.entries)), len(covariance.entries) // columns):
            _check_free(covariance.entries[np.ix_(row, row)])


def hidden_column(secret: AnySecret, domain: Product) -> int | None:
    """Return the place of the column that is the secret; None if it is the tuple of all of them."""
    if isinstance(secret, Secret):
        return None
    if isinstance(secret, Derived) and secret.name in domain.columns and secret.values is None:
        return domain.columns.index(secret.name)
    raise UsageError(
        f"Several columns under pf.GaussianPrior with the secret pf.{type(secret).__name__}.",
        allowed="all columns of a row, or any two values of one of the queried columns",
        instead="a list of pf.Secret, or pf.Derived(name, column=[...], domain=[...]) with name one of the columns",
    )


def check_rows(covariance: Covariance, across: Across | None, domain: Product, positions: Floats) -> None:
    """Refuse rows for which there is no covariance."""
    if across is None and isinstance(covariance, Matrix):
        check_places(positions, len(covariance.entries) // len(domain.columns))
    else:
        covariance.check(positions)


def shares_of_column(across: Across, column: int, domain: Product) -> Sides:
    """Return by how much each column moves at most, above and below 0, if one of them moves from end to end."""
    place, every = np.array([float(column)]), np.arange(len(domain.columns), dtype=np.float64)
    widths = np.array([own.width for own in domain.domains])
    ratio = lifted(widths[column] / widths, 4 * UNIT)
    above, below = (lifted(side[0] * ratio, 4 * UNIT) for side in across.toward(place, every))
    own = every == column
    return np.where(own, 1.0, above), np.where(own, 0.0, below)


def widths_in_deviations(across: Across, column: int | None, domain: Product) -> float:
    """Return the sum over columns of how far they move in their standard deviations given the others, rounded up.

    They move from end to end, or with one `column` that does; ∞ where variances are not known.
    """
    if isinstance(across, Factors):
        return np.inf
    spread = np.sqrt(across.entries.diagonal())
    correlations = across.entries / spread[:, None] / spread[None, :]
    least = spread * np.sqrt(1 / np.linalg.inv(correlations).diagonal())
    shares = np.ones(len(spread)) if column is None else np.maximum(*shares_of_column(across, column, domain))
    widths = np.array([own.width for own in domain.domains])
    return float((shares * widths / least).sum()) * (1 + 1e-6)  # eigenvalues are 1e-9 and above, so errors are below


Shares = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""From places of the secret and positions of rows to the shares of widths by which each column of each row moves."""


def joint_shares(covariance: Matrix, domain: Product, column: int | None) -> Shares:
    """Return the shares under a matrix of all columns of all rows: of shape (places, rows, columns, changes).

    There is one change for each column of the secret row, or one alone if a single `column` is the secret. The row of
    the secret itself moves as it changes. Beside them is by how much their sum over changes may be wrong.
    """
    size = len(domain.columns)
    entries = covariance.entries.reshape(-1, size, len(covariance.entries) // size, size)
    widths = np.array([own.width for own in domain.domains])
    scales = (widths if column is None else widths[[column]])[None, :] / widths[:, None]

    def shares(places: Floats, positions: Floats) -> tuple[Floats, Floats]:
        rows = positions.astype(np.int64)
        found, wrong = zip(*(_of_row(entries, row, rows, column) for row in places.astype(np.int64)), strict=True)
        error = ((np.stack(wrong) + 16 * UNIT * np.abs(found)) * scales).sum(axis=-1)
        itself = (places[:, None] == positions[None, :])[:, :, None]
        return np.stack(found) * scales, np.where(itself & (column is None), 0.0, error)

    return shares


def _of_row(entries: Floats, row: int, rows: Indices, column: int | None) -> tuple[Floats, Floats]:
    """Return by how much each column of each row moves with those of one row, and by how much that may be wrong."""
    toward, own = entries[rows, :, row, :], entries[row, :, row, :]
    if column is None:
        moved, wrong = _regression(toward, own)
        moved[rows == row], wrong[rows == row] = np.eye(len(own)), 0.0
    else:
        moved = (toward[:, :, column] / own[column, column])[:, :, None]
        moved[rows == row, column], wrong = 1.0, np.zeros_like(moved)
    return moved, wrong


def _regression(toward: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Return Cov(X_r, X_i)·Cov(X_i)^-1 for all rows r, and a bound on the error of each entry.

    With the residual R = Cov(X_r, X_i) − A·Cov(X_i), in units of standard deviations of X_i, A is wrong by |R|/λ.
    """
    spread = np.sqrt(own.diagonal())
    correlations = own / spread[:, None] / spread[None, :]
    least = float(np.linalg.eigvalsh(correlations)[0]) * (1 - 1e-3)
    scaled = toward / spread
    found = np.linalg.solve(correlations, scaled.reshape(-1, len(own)).T).T.reshape(scaled.shape)
    rounding = 16 * len(own) * UNIT * (np.abs(scaled).sum(axis=-1) + np.abs(found).sum(axis=-1))
    wrong = (np.linalg.norm(scaled - found @ correlations, axis=-1) + rounding) / least
    return found / spread, wrong[..., None] / spread


def _check_free(covariance: Floats) -> None:
    """Refuse columns of a row of which one follows from others: it has no two values given those."""
    spread = np.sqrt(covariance.diagonal())
    if np.linalg.eigvalsh(covariance / spread[:, None] / spread[None, :])[0] < _LEAST:
        raise UsageError(
            "The columns of a row determine each other: given the others, one of them has a single value.",
            allowed="a covariance of columns without eigenvalues of 0",
            instead="a scenario without the column that follows from others",
        )
