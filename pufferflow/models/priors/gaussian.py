"""Rows, and columns of a row, that are jointly Gaussian: a change of one translates the others (M15).

A prior of several columns has their covariance in a row, and how far a change of one row moves the others.

If all columns of row i change by d, the columns of row r are translated by Cov(X_r, X_i)·Cov(X_i)^-1·d (M15). If only
column a changes, by v, then column c of row r is translated by Cov(X_r^c, X_i^a)/Var(X_i^a)·v.

Let a linear function n·X_i of the columns change by v. Then column c of row r is translated by Cov(X_r^c, n·X_i) /
Var(n·X_i)·v (M60 (iv)). A column is the function with the factors of a unit vector.

If covariances are products K(r, s)·C(c, d), the first is K(r, i)/K(i, i)·d for every C. The second is K(r, i)/K(i,
i)·C(c, a)/C(a, a)·v. All changes are in units of the width of their own column's domain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, lifted
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, set_fields
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.models.domain import Bins, Interval, Product
from pufferflow.models.priors.base import DECLARED, Prior, stored_provenance, wrong_secret
from pufferflow.models.priors.correlations import AR1, Exchangeable
from pufferflow.models.priors.covariance import Covariance, Factors, Matrix, Sides, check_places
from pufferflow.models.reference import Provenance, Reference
from pufferflow.models.secret import AnySecret, Derived, Initial, Secret
from pufferflow.models.stored import ADDED

Across = Matrix | Factors
_LEAST = 1e-9
"""The least eigenvalue of the correlations of a row's columns: below it they determine each other."""
_ALLOWED_ACROSS = "a covariance matrix of the columns of a row, in the order of the secrets"
_INSTEAD_ACROSS = "across=[[4.0, 1.0], [1.0, 9.0]]"


def read_across(given: object) -> Across:
    """Return the covariance of the columns of a row; refused where some of them determine others."""
    if isinstance(given, Factors):
        return given
    if isinstance(given, Covariance) and not isinstance(given, Matrix):
        raise UsageError(
            f"across is of type {type(given).__name__}.",
            allowed=_ALLOWED_ACROSS,
            instead=_INSTEAD_ACROSS,
        )
    read = given if isinstance(given, Matrix) else Matrix(given)
    _check_free(read.entries)
    return read


def check_alone(variance: object, mean: object) -> None:
    """Refuse a variance and a mean of all columns beside a covariance of columns."""
    if variance is not None or mean != 0:
        raise UsageError(
            "A variance or a mean is given together with across.",
            allowed="across alone: it has the variances on its diagonal, and means change nothing",
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
                f"pf.GaussianPrior for several columns: the domain of {name!r} is {own.describe()}.",
                allowed="an interval for each of the columns: values in classes do not move in proportion",
                instead=f"pf.Secret({name!r}, domain=pf.Interval(low, high)), or a scenario for each column",
            )
    if across is not None:
        size = len(across.low) if isinstance(across, Factors) else len(across.entries)
        if size != columns:
            raise UsageError(
                f"across is of {size} columns, and the secret has {columns}.",
                allowed=_ALLOWED_ACROSS,
                instead=_INSTEAD_ACROSS,
            )
    elif not isinstance(covariance, Matrix) or len(covariance.entries) % columns:
        raise UsageError(
            f"The covariance is that of rows alone, and the secret has {columns} columns.",
            allowed=f"{_ALLOWED}; or as covariance the matrix of all columns of all rows, those of row 0 first",
            instead="pf.GaussianPrior(pf.AR1(0.9), across=[[4.0, 1.0], [1.0, 9.0]])",
        )
    else:
        for row in np.split(np.arange(len(covariance.entries)), len(covariance.entries) // columns):
            _check_free(covariance.entries[np.ix_(row, row)])


@final
@dataclass(frozen=True, eq=False)
class Direction:
    """The linear function of a row's columns that is the secret, and how far apart two paired values of it are."""

    factors: Floats
    distance: float

    @property
    def column(self) -> int | None:
        """The place of the column that it is a multiple of; None if it reads several."""
        (read,) = np.nonzero(self.factors)
        return int(read[0]) if len(read) == 1 else None

    def over(self, covariance: Floats) -> tuple[Floats, float, Floats]:
        """Return C·n', the least that n·C·n' can be, and a bound on the error of each entry of C·n'."""
        error = (2 * len(self.factors) + 4) * UNIT
        size = np.abs(covariance) @ np.abs(self.factors)
        toward = covariance @ self.factors
        variance = float(self.factors @ toward) - 2 * error * float(np.abs(self.factors) @ size)
        return toward, variance, error * size


def hidden_direction(secret: AnySecret, domain: Product) -> Direction | None:
    """Return the linear function of the columns that is the secret; None if it is the tuple of all of them."""
    if isinstance(secret, Secret):
        return None
    if isinstance(secret, Derived) and secret.of:
        factors = dict(secret.of)
        read = np.array([factors.get(column, 0.0) for column in domain.columns])
        return Direction(read, secret.distance)
    if isinstance(secret, Derived) and secret.name in domain.columns and secret.values is None:
        own = domain.columns.index(secret.name)
        return Direction(np.eye(len(domain.columns))[own], domain.domains[own].width)
    raise UsageError(
        f"Several columns under pf.GaussianPrior with the secret pf.{type(secret).__name__}.",
        allowed="all columns of a row, or any two values of one of the queried columns or of a linear function",
        instead="a list of pf.Secret, or pf.Derived(name, column=[...], domain=[...]) with name one of the columns, or "
        "with of={'load': 1, 'temp': -1}",
    )


def check_direction(across: Across | None, direction: Direction | None) -> None:
    """Refuse a linear function of several columns where only bounds of how columns drag each other are known."""
    if direction is None or direction.column is not None or not isinstance(across, Factors):
        return
    raise Refused(
        "The secret is a linear function of several columns, and of their covariance only bounds on factors are known.",
        allowed="across= as one matrix, or a secret that is one of the columns",
        instead="pf.GaussianPrior.fit without slack, or across=[[4.0, 1.0], [1.0, 9.0]]",
    )


def check_rows(
    covariance: Covariance, across: Across | None, domain: Product, positions: Floats
) -> None:
    """Refuse rows for which there is no covariance."""
    if across is None and isinstance(covariance, Matrix):
        check_places(positions, len(covariance.entries) // len(domain.columns))
    else:
        covariance.check(positions)


def shares_of(across: Across, direction: Direction, domain: Product) -> Sides:
    """Return how far each column moves at most, above and below 0, if the secret moves between two paired values."""
    widths = np.array([own.width for own in domain.domains])
    column = direction.column
    if column is None and isinstance(across, Matrix):
        toward, variance, error = direction.over(across.entries)
        if not variance > 0:
            raise _too_close()
        ratio = lifted(direction.distance / widths / variance, 8 * UNIT)
        above, below = np.maximum(toward, 0.0) + error, np.maximum(-toward, 0.0) + error
        return lifted(above * ratio, 4 * UNIT), lifted(below * ratio, 4 * UNIT)
    place, every = np.array([float(column or 0)]), np.arange(len(widths), dtype=np.float64)
    moved = direction.distance / abs(direction.factors[column or 0])
    ratio = lifted(moved / widths, 6 * UNIT)
    above, below = (lifted(side[0] * ratio, 4 * UNIT) for side in across.toward(place, every))
    if moved != widths[column or 0]:
        return above, below
    own = every == column
    return np.where(own, 1.0, above), np.where(own, 0.0, below)


def _too_close() -> Refused:
    return Refused(
        "The secret is a linear function of the columns with so little variance that floats do not resolve it.",
        allowed="functions whose variance under the prior is well above 0",
        instead="a scenario whose secret is one of the columns",
    )


def widths_in_deviations(across: Across, direction: Direction | None, domain: Product) -> float:
    """Return the sum over columns of how far they move in their standard deviations given the others, rounded up.

    They move from end to end, or with a secret that is a function of them; ∞ where variances are not known.
    """
    if isinstance(across, Factors):
        return np.inf
    spread = np.sqrt(across.entries.diagonal())
    correlations = across.entries / spread[:, None] / spread[None, :]
    least = spread * np.sqrt(1 / np.linalg.inv(correlations).diagonal())
    shares = (
        np.ones(len(spread))
        if direction is None
        else np.maximum(*shares_of(across, direction, domain))
    )
    widths = np.array([own.width for own in domain.domains])
    return float((shares * widths / least).sum()) * (
        1 + 1e-6
    )  # eigenvalues are 1e-9 and above, so errors are below


Shares = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""From places of the secret and positions of rows to the shares of widths by which each column of each row moves."""


def joint_shares(covariance: Matrix, domain: Product, direction: Direction | None) -> Shares:
    """Return the shares under a matrix of all columns of all rows: of shape (places, rows, columns, changes).

    There is one change for each column of the secret row, or one alone if the secret is a function of them. The secret
    row itself moves as it changes. The second result bounds the error of the sum over changes.
    """
    size = len(domain.columns)
    entries = covariance.entries.reshape(-1, size, len(covariance.entries) // size, size)
    widths = np.array([own.width for own in domain.domains])
    moved = widths if direction is None else np.array([direction.distance])
    scales = moved[None, :] / widths[:, None]

    def shares(places: Floats, positions: Floats) -> tuple[Floats, Floats]:
        rows = positions.astype(np.int64)
        found, wrong = zip(
            *(_of_row(entries, row, rows, direction) for row in places.astype(np.int64)),
            strict=True,
        )
        error = ((np.stack(wrong) + 16 * UNIT * np.abs(found)) * scales).sum(axis=-1)
        itself = (places[:, None] == positions[None, :])[:, :, None]
        return np.stack(found) * scales, np.where(itself & (direction is None), 0.0, error)

    return shares


def _of_row(
    entries: Floats, row: int, rows: Indices, direction: Direction | None
) -> tuple[Floats, Floats]:
    """Return how far each column of each row moves with those of one row, and a bound on the error."""
    toward, own = entries[rows, :, row, :], entries[row, :, row, :]
    if direction is None:
        moved, wrong = _regression(toward, own)
        moved[rows == row], wrong[rows == row] = np.eye(len(own)), 0.0
        return moved, wrong
    _, least, _ = direction.over(own)
    if not least > 0:
        raise _too_close()
    variance = float(direction.factors @ own @ direction.factors)
    moved = (toward @ direction.factors / variance)[:, :, None]
    size = np.abs(toward) @ np.abs(direction.factors) / variance
    wrong = (8 * len(own) * UNIT * size)[:, :, None] + np.abs(moved) * (variance / least - 1)
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
    """Refuse columns of a row of which one follows from the others: given those, it has no two values to hide."""
    spread = np.sqrt(covariance.diagonal())
    if np.linalg.eigvalsh(covariance / spread[:, None] / spread[None, :])[0] < _LEAST:
        raise UsageError(
            "The columns of a row determine each other: given the others, one of them has a single value.",
            allowed="a covariance of columns without eigenvalues of 0",
            instead="a scenario without the column that follows from others",
        )


_ALLOWED = "pf.Secret or pf.Initial with a pf.Interval, pf.Bins, or a list of numbers"
_INSTEAD = "pf.Secret(column, domain=pf.Interval(0, 10))"


@final
@suggests_arguments
@dataclass(frozen=True)
class GaussianPrior(Prior, kind="gaussian"):
    """The rows of a group are jointly Gaussian, with mean, variance and covariance as declared (M15).

    Given X_i = a instead of X_i = b, every other row is translated by Cov(X_r, X_i)/Var(X_i)·(a − b), and nothing else
    changes. So neither the mean nor the size of the variance changes how far an answer moves; they only describe the
    prior. One exception: totals of many releases under pf.AR1 with a δ depend on the variance. A release reads values
    into the domain. So each row moves by at most its translation, and never by more than the domain's width.

    `covariance` is pf.Exchangeable(rho), pf.AR1(phi), pf.Kernel(function), or a matrix with the variances on its
    diagonal. rho and phi may be pairs (low, high): a class of priors, of which the worst counts. Variances of 0 and
    correlations of 1 or −1 are refused. They mean that a row has one value, or that another row determines it: there is
    nothing to hide.

    Use an Interval as the domain. With Bins, or a list of numbers (read as the nearest), the smallest translation may
    move every correlated row into another class. Noise is then made for that. Secrets are values of the domain. A class
    of Bins only says that the value lies in it, and an open class has values at any distance.

    For several secret columns, each an Interval, `across` is the covariance matrix of the columns of one row, in their
    order. Row r and column c have with row s and column d the covariance `K(r, s)·across[c][d]`, where K is that of
    rows. Without `across`, `covariance` is the matrix of all columns of all rows, those of row 0 first. If the secret
    is one of the columns, pf.Derived(name, column=[...], domain=[...]), the other columns move as they covary with it.
    If it is a linear function of them, such as their difference (of={"a": 1, "b": -1}), all columns do.

    >>> from pufferflow.models.priors.correlations import AR1
    >>> GaussianPrior(AR1(0.9), variance=4.0).describe()
    'rows are jointly Gaussian with mean 0 and variance 4; rows d steps apart have the correlation 0.9^d'
    """

    covariance: Covariance
    variance: float | None
    mean: float
    provenance: Provenance = field(default=DECLARED, metadata=ADDED, repr=False)
    across: Across | None = field(default=None, metadata=ADDED)
    coupled = True
    allows_weights = True
    allows_tuples = True
    allows_functions = True

    def __init__(
        self,
        covariance: Any,
        variance: float | None = None,
        mean: float = 0.0,
        provenance: Provenance = DECLARED,
        *,
        across: Any = None,
    ) -> None:
        read = covariance if isinstance(covariance, Covariance) else Matrix(covariance)
        columns = None if across is None else read_across(across)
        variance = _variance(variance, read) if columns is None else check_alone(variance, mean)
        centre = finite_number(mean, "mean", allowed="a finite number", instead="mean=0.0")
        set_fields(
            self,
            covariance=read,
            variance=variance,
            mean=centre + 0.0,
            provenance=provenance,
            across=columns,
        )

    def __repr__(self) -> str:
        if self.across is not None:
            return f"GaussianPrior(covariance={self.covariance!r}, across={self.across!r})"
        return f"GaussianPrior(covariance={self.covariance!r}, variance={self.variance!r}, mean={self.mean!r})"

    def describe(self) -> str:
        if self.across is not None:
            columns = f"{self.covariance.describe()}; {in_words(self.across)}"
            return f"all columns of all rows are jointly Gaussian; {columns}{self.source_in_words}"
        moments = f"mean {self.mean:g}" + (
            "" if self.variance is None else f" and variance {self.variance:g}"
        )
        return f"rows are jointly Gaussian with {moments}; {self.covariance.describe()}{self.source_in_words}"

    def fingerprint(self) -> Any:
        covariance = (
            self.covariance.fingerprint()
        )  # a function cannot be stored, but has a fingerprint in its process
        more = {} if self.provenance == DECLARED else {"provenance": self.provenance.stored()}
        more |= {} if self.across is None else {"across": self.across.stored()}
        return {
            "kind": self.kind,
            "covariance": covariance,
            "variance": self.variance,
            "mean": self.mean,
            **more,
        }

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Self:
        covariance = Covariance.from_stored(stored["covariance"])
        across = None if stored.get("across") is None else Covariance.from_stored(stored["across"])
        return cls(
            covariance, stored["variance"], stored["mean"], stored_provenance(stored), across=across
        )

    @classmethod
    @suggests_arguments
    def fit(  # noqa: PLR0913 - what to read of the reference, and how
        cls,
        reference: Reference,
        column: str | Sequence[str],
        within: str | Sequence[str] | None = None,
        *,
        covariance: Literal["exchangeable", "ar1", "matrix"] = "exchangeable",
        order_by: str | None = None,
        step: object = 1,
        slack: float | Literal["confidence"] | None = None,
        confidence: float = 0.95,
    ) -> Self:
        """Return the covariance of rows in a named public reference, whose groups `within` are independent.

        `covariance` says what is fitted. "exchangeable": every two rows of a group have one correlation. "ar1": rows
        `order_by` apart correlate as powers of one number. "matrix": each group has a row at every position from 0 on,
        and each position has its own mean and variance.

        With a list of columns `across` is fitted too. Covariances are then taken to be products, one factor for rows
        and one for columns. The correlations of rows are a class that holds those of each column. A matrix is that of
        all columns of all rows, and has no slack.

        `slack` makes a class of covariances, by the factors Cov(X_r, X_t)/Var(X_t), of which the largest count. With
        slack="confidence" all factors lie in intervals that hold the true ones together with that confidence, if rows
        are jointly Gaussian. A number allows every factor that much more or less; of "ar1" it is the base of the
        powers.

        Deviations from a Gaussian, or from the memory of the class, are in `provenance.notes`.

        >>> import polars as pl, pufferflow as pf
        >>> families = pl.DataFrame({"family": [1, 1, 2, 2, 3, 3], "height": [70, 71, 64, 66, 68, 67]})
        >>> round(GaussianPrior.fit(pf.Reference("a study", families), "height", "family").covariance.rho, 3)
        0.876
        """
        from pufferflow.models.fitting.gaussian import fit_columns, fit_gaussian
        from pufferflow.models.fitting.table import ESTIMATED, read_slacks

        width, level = read_slacks(slack, confidence)
        exact = None if width == "confidence" else width
        chance = 1 - level if width == "confidence" else None
        how = within, order_by, covariance
        fitted = (
            fit_gaussian(reference, column, *how, step=step, slack=exact, chance=chance)
            if isinstance(column, str)
            else fit_columns(reference, column, *how, step=step, slack=exact, chance=chance)
        )
        source = fitted.provenance.noted(
            ESTIMATED if width is None else _slack_in_words(exact, level)
        )
        across = fitted.across if fitted.across_factors is None else Factors(*fitted.across_factors)
        if fitted.span is not None:
            read: Covariance = (
                AR1(fitted.span) if covariance == "ar1" else Exchangeable(fitted.span)
            )
            if across is not None:
                return cls(read, provenance=source, across=across)
            return cls(read, fitted.variance, fitted.mean, source)
        return cls(
            fitted.covariance if fitted.factors is None else Factors(*fitted.factors),
            None,
            fitted.mean,
            source,
        )

    @property
    def ordered(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.covariance.ordered

    @property
    def repeats(self) -> int | None:
        return 1 if self.covariance.stationary else None

    def about_tuples(self, domain: Product) -> Prior:
        check_columns(self.covariance, self.across, domain)
        return self

    def check(self, secret: AnySecret) -> None:
        if secret.tuples is not None:
            check_direction(self.across, hidden_direction(secret, secret.tuples))
            return
        if self.across is not None:
            raise UsageError(
                "across is given, but the secret has one column only.",
                allowed="across together with several secret columns",
                instead='secret=[pf.Secret("load", pf.Interval(0, 10)), pf.Secret("temp", pf.Interval(-20, 40))]',
            )
        if not isinstance(secret, Secret | Initial):
            raise wrong_secret("pf.GaussianPrior", secret, allowed=_ALLOWED, instead=_INSTEAD)
        if not (isinstance(secret.domain, Bins) or secret.domain.numeric):
            raise UsageError(
                "The prior pf.GaussianPrior with a domain of labels.",
                allowed=_ALLOWED,
                instead="pf.AnyCorrelation()",
            )

    def conditional(
        self, positions: Any, weights: Any, row: int, a: float, b: float
    ) -> tuple[GaussianLaw, GaussianLaw]:
        """Return the laws of Σ w_r·X_r given X_row = a and given X_row = b, of values that are not read into a domain.

        A release reads values into a domain and does not have these laws. Use them for small groups and comparisons.

        >>> prior = GaussianPrior([[2.0, 0.6], [0.6, 1.0]])
        >>> mu, nu = prior.conditional([0, 1], [0, 1], 0, 3, 0)
        >>> round(float(mu.mean[0] - nu.mean[0]), 9), round(float(mu.covariance[0, 0]), 9)
        (0.9, 0.82)
        """
        if self.across is not None:
            raise UsageError(
                "The laws of one column are wanted, and the covariance is that of several.",
                allowed="a prior of this column alone",
                instead="pf.GaussianPrior(covariance, variance=1.0)",
            )
        if not self.covariance.known:
            raise UsageError(
                "The prior is a class of covariances, so it has no single pair of laws.",
                allowed="one covariance",
                instead="pf.AR1(0.9), one number",
            )
        places = np.asarray(positions, dtype=np.float64)
        self.covariance.check(places)
        above, below = self.covariance.toward(places[[row]], places)
        factors = (above - below)[0]
        covariances = self._covariances(places)
        rest = covariances - np.outer(factors, factors) * covariances[row, row]
        given = (
            GaussianLaw(self.mean + factors * (a - self.mean), rest),
            GaussianLaw(self.mean + factors * (b - self.mean), rest),
        )
        return given[0].map(weights), given[1].map(weights)

    def _covariances(self, places: Floats) -> Floats:
        """Return Cov(X_s, X_r): the factors of each row as the secret, times its variance."""
        above, below = self.covariance.toward(places, places)
        entries = getattr(self.covariance, "entries", None)
        variances = (
            np.full(len(places), self.variance)
            if entries is None
            else entries.diagonal()[places.astype(int)]
        )
        return (above - below) * variances[:, None]


def _slack_in_words(slack: float | None, confidence: float) -> str:
    if slack is not None:
        return f"factors may be {slack:g} off"
    return (
        f"factors lie in joint {100 * confidence:g} % confidence intervals, "
        "groups of the reference being independent"
    )


def _variance(given: object, covariance: Covariance) -> float | None:
    allowed, instead = "a finite number > 0", "variance=1.0"
    if covariance.has_variances:
        if given is not None:
            raise UsageError(
                "A variance is given together with a covariance matrix.",
                allowed="one of them: the matrix has the variances on its diagonal",
                instead="leaving variance out",
            )
        return None
    number = finite_number(
        1.0 if given is None else given, "variance", allowed=allowed, instead=instead
    )
    if not number > 0:
        hides = ": every row has one value, so there is nothing to hide" if number == 0 else ""
        raise UsageError(f"variance is {number:g}{hides}.", allowed=allowed, instead=instead)
    return number
