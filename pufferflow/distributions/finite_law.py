"""A finite law of answers on R or R^d, as a frozen value, and the reading of its atoms and weights.

Weights are kept as `masses` over a `total`. Where they are rational these are whole numbers over a common denominator,
so sums and comparisons are exact at any length. Otherwise they are floats over 1.0. Rational weights stay rational
through every operation. Float weights never lose an atom, however small its mass.
"""

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import MOST_ROWS, Card, InNotebooks
from pufferflow.core.rounding import SMALLEST, UNIT
from pufferflow.core.validate import instance

L = TypeVar("L")
LARGEST_FLOAT_INTEGER = 2**53
LARGEST_MACHINE_TOTAL = 2**62
_SLACK = 1e-12
_FLOAT_BYTES = 8

_WEIGHTS_ALLOWED = (
    "one number >= 0 per value, with sum 1 (floats: within 1e-12; Fractions: exactly)"
)


def read_values(values: object) -> Array:
    """Return the atoms as float64, or as Fractions where floats cannot represent all of them exactly."""
    raw = _as_array(values)
    if raw.dtype == object or (raw.dtype.kind == "f" and raw.dtype.itemsize > _FLOAT_BYTES):
        raw = _exact_values(raw.astype(object))
    elif raw.dtype.kind in "iu":
        beyond = raw.size and max(abs(int(raw.min())), abs(int(raw.max()))) > LARGEST_FLOAT_INTEGER
        raw = _exact_values(raw.astype(object)) if beyond else raw.astype(np.float64)
    elif raw.dtype.kind in "bf":
        raw = raw.astype(np.float64)
    else:
        raise _bad_values(f"The values have dtype {raw.dtype}.")
    if raw.ndim not in (1, 2) or raw.size == 0:
        raise _bad_values(f"The values have shape {raw.shape}.")
    if raw.dtype != object:
        if not np.isfinite(raw).all():
            raise _bad_values(
                "Some value is NaN or infinite (a null reads as NaN).", "column.drop_nulls() first"
            )
        raw = raw + 0.0  # −0.0 and 0.0 are one atom
    return raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw


def _as_array(values: object) -> Array:
    if type(values).__name__ in {"DataFrame", "LazyFrame", "dict"}:
        raise _bad_values(
            f"The values are a {type(values).__name__}.",
            "one column, or frame.to_numpy() for vectors",
        )
    if isinstance(values, np.ma.MaskedArray):
        raise _bad_values("The values are masked.", "values.compressed()")
    try:
        raw = np.asarray(values)
        if (
            raw.dtype.kind == "f"
            and isinstance(values, list | tuple)
            and (np.abs(raw) >= LARGEST_FLOAT_INTEGER).any()
        ):
            return np.asarray(
                values, dtype=object
            )  # whole numbers among the floats may have been rounded
    except ValueError as error:
        raise _bad_values("The values have rows of different lengths.") from error
    return raw


def read_masses(weights: object, count: int) -> tuple[Array, int]:
    """Return the weights as (masses, total): whole numbers over their sum, or floats over 1."""
    try:
        raw = np.asarray(weights)
    except ValueError as error:
        raise _bad_weights("The weights have rows of different lengths.") from error
    if raw.shape != (count,):
        raise _bad_weights(f"The weights have shape {raw.shape} for {count} values.")
    if raw.dtype.kind in "iu" or (
        raw.dtype == object and all(isinstance(w, numbers.Rational | Decimal) for w in raw)
    ):
        return _rational_masses(raw.tolist())
    if raw.dtype.kind not in "fO" or (raw.dtype == object and not all(_is_number(w) for w in raw)):
        raise _bad_weights(f"The weights have dtype {raw.dtype}.")
    try:
        return _float_masses(raw.astype(np.float64)), 1
    except (OverflowError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise _bad_weights("Some weight does not fit a float.") from error


def read_counts(counts: object, length: int) -> Array:
    """Return how often each value occurred, as whole numbers."""
    raw = np.asarray(counts)
    instead = "pf.Law(values, weights) for weights that are no counts"
    if raw.shape != (length,):
        raise _bad_counts(f"The counts have shape {raw.shape} for {length} values.", instead)
    if raw.dtype.kind not in "iu":
        raise _bad_counts(f"The counts have dtype {raw.dtype}.", instead)
    if (raw < 0).any() or not raw.any():
        raise _bad_counts(
            "Some count is negative, or all are 0.", "checking where the counts come from"
        )
    exact: list[int] = raw.tolist()
    return whole(exact, sum(exact))


def merge(values: Array, masses: Array, total: int) -> tuple[Array, Array, int]:
    """Return atoms sorted and distinct, without atoms of mass 0, with the masses of equal atoms added."""
    positive = masses > 0
    if not positive.all():
        values, masses = values[positive], masses[positive]
    ordered = values.ndim == 1 and bool((values[1:] > values[:-1]).all())
    if not ordered:
        order = _sort_order(values)
        values, masses = values[order], masses[order]
        differs = values[1:] != values[:-1]
        first = np.concatenate([[True], differs if values.ndim == 1 else differs.any(axis=1)])
        if not first.all():
            values, masses = values[first], np.add.reduceat(masses, np.flatnonzero(first))
    if masses.dtype != np.float64:
        divisor = math.gcd(int(np.gcd.reduce(masses)), total)  # machine integers wherever they fit
        masses, total = whole(masses // divisor, total // divisor), total // divisor
    values, masses = np.ascontiguousarray(values), np.ascontiguousarray(masses)
    values.flags.writeable = masses.flags.writeable = False
    return values, masses, total


def as_fractions(floats: Array) -> Array:
    """Return numbers as Fractions, exactly."""
    return np.vectorize(Fraction, otypes=[object])(floats)


def of_kind(law: object, kind: type[L]) -> L:
    """Return a law of the kind that an operation needs; refuse others, and name that kind."""
    name = f"pf.{kind.__name__}"
    return instance(
        law,
        kind,
        "A law",
        allowed=f"{name}, on both sides",
        instead=f"help({name}) for how to make one",
    )


def whole(masses: Sequence[int] | Array, total: int) -> Array:
    """Return whole masses as machine integers where their total allows, as Python integers otherwise."""
    return np.asarray(masses, dtype=np.int64 if total < LARGEST_MACHINE_TOTAL else object)


def normalise_masses(masses: Array) -> Array:
    """Return float masses with sum 1; those that miss it by no more than rounding explains are left as they are."""
    total = float(masses.sum())
    if abs(total - 1) <= len(masses) * UNIT:
        return masses
    return np.where(masses > 0, above_zero(masses / total), 0.0)


def log_quotient(dividend: int, divisor: int) -> float:
    """Return log(dividend/divisor) for whole numbers > 0 of any size, to a few units in the last place.

    >>> round(log_quotient(1, 10**400), 9) == round(-400 * math.log(10), 9)
    True
    """
    places = divisor.bit_length() - dividend.bit_length()
    near_one = (dividend << places) / divisor if places >= 0 else dividend / (divisor << -places)
    return math.log(near_one) - places * math.log(2)


def above_zero(masses: Array) -> Array:
    """Return float masses without underflow: an atom that can occur keeps at least the smallest float."""
    return np.maximum(masses, SMALLEST)


def _sort_order(values: Array) -> Array:
    if values.ndim == 1:
        return np.argsort(values, kind="stable")
    if values.dtype == object:
        return np.array(sorted(range(len(values)), key=lambda i: tuple(values[i])), dtype=np.intp)
    return np.lexsort(values.T[::-1])


def _exact_values(raw: Array) -> Array:
    if any(value is None for value in raw.flat):
        raise _bad_values("Some value is null.", "column.drop_nulls() first")
    if not all(_is_number(value) for value in raw.flat):
        raise _bad_values("Some value is not a number.")
    if all(_fits_float(value) for value in raw.flat):
        return raw.astype(np.float64)
    try:
        exact = [Fraction(*value.as_integer_ratio()) for value in raw.flat]
    except (ValueError, OverflowError) as error:
        raise _bad_values("Some value is NaN or infinite.") from error
    result = np.empty(raw.size, dtype=object)
    result[:] = exact
    return result.reshape(raw.shape)


def _rational_masses(given: list[Any]) -> tuple[Array, int]:
    try:
        weights = [Fraction(weight) for weight in given]
    except (ValueError, OverflowError) as error:  # a Decimal may be no number, or infinite
        raise _bad_weights("Some weight is NaN or infinite.") from error
    if min(weights) < 0:
        raise _bad_weights(f"Some weight is negative: {_readable(min(weights))}.")
    total = sum(weights, Fraction(0))
    if total != 1:
        raise _bad_sum(_readable(total))
    denominator = math.lcm(*(weight.denominator for weight in weights))
    return whole(
        [weight.numerator * (denominator // weight.denominator) for weight in weights], denominator
    ), denominator


def _float_masses(weights: Array) -> Array:
    if not np.isfinite(weights).all():
        raise _bad_weights("Some weight is NaN or infinite.")
    if weights.min() < 0:
        raise _bad_weights(f"Some weight is negative: {weights.min():.3g}.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not abs(total - 1) <= _SLACK:
        raise _bad_sum(f"{total:.17g}")
    return normalise_masses(weights)


def _fits_float(value: Any) -> bool:
    try:
        return isinstance(value, float) or value == float(value)
    except (OverflowError, ValueError):  # too large, or a signalling NaN
        return False


def _readable(number: Fraction) -> str:
    return f"{float(number):.17g}" if abs(number) < LARGEST_FLOAT_INTEGER else "beyond 2^53"


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real | Decimal)


def _bad_values(problem: str, instead: str = "pf.Law([0, 1], [0.5, 0.5])") -> UsageError:
    return UsageError(
        problem, allowed="finite numbers, of shape (n,) or (n, d), at least one", instead=instead
    )


def _bad_counts(problem: str, instead: str) -> UsageError:
    return UsageError(
        problem, allowed="one whole number >= 0 per value, not all of them 0", instead=instead
    )


def _bad_weights(problem: str, instead: str = "pf.Law([0, 1], [0.5, 0.5])") -> UsageError:
    return UsageError(problem, allowed=_WEIGHTS_ALLOWED, instead=instead)


def _bad_sum(total: str) -> UsageError:
    return _bad_weights(
        f"The weights have sum {total}.",
        "weights / weights.sum(), or pf.Law.empirical(values, counts=...) for counts",
    )


MOST_PRODUCT_ATOMS = 60_000_000
_MOST_LATTICE_STEPS = 4 * 10**10
_SHOWN = 6


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Law(InNotebooks):
    """A law with finitely many values: `values` of shape (n,) or (n, d), and weights with sum 1.

    Values (its atoms) are sorted, equal ones are merged, and those of weight 0 are dropped. Weights that are all
    Fractions (or whole numbers) make the law `exact`. Then its weights stay rational, and W_∞ and nearness of exact
    laws are exact.

    >>> Law([3, 1, 1], [0.5, 0.25, 0.25])
    Law([1, 3], [0.5, 0.5])
    >>> Law([0, 1], [Fraction(1, 3), Fraction(2, 3)]).weights
    array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    """

    values: Array
    masses: Array
    total: int

    def __init__(
        self, values: npt.ArrayLike | Sequence[Any], weights: npt.ArrayLike | Sequence[Any]
    ) -> None:
        points = read_values(values)
        masses, total = read_masses(weights, len(points))
        self._set(points, masses, total)

    def _set(self, values: Array, masses: Array, total: int) -> None:
        values, masses, total = merge(values, masses, total)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "total", total)

    @classmethod
    def _made(cls, values: Array, masses: Array, total: int) -> "Law":
        """Make a law from checked parts, for the results of the operations below."""
        law = object.__new__(cls)
        law._set(values, masses if masses.dtype != np.float64 else normalise_masses(masses), total)
        return law

    @classmethod
    def point(cls, value: object) -> "Law":
        """Return the law of a constant, a number or a vector.

        >>> Law.point(3)
        Law([3], [Fraction(1, 1)])
        """
        return cls([value], [1])

    @classmethod
    def empirical(
        cls,
        column: npt.ArrayLike | Sequence[Any],
        counts: npt.ArrayLike | Sequence[int] | None = None,
    ) -> "Law":
        """Return the exact law of one row drawn at random from a column of numbers (or rows of an (n, d) array).

        `counts` gives how often each value occurs, if the column is already counted. Use it on public references only:
        the law of private rows is itself private.

        >>> Law.empirical([1, 1, 2])
        Law([1, 2], [Fraction(2, 3), Fraction(1, 3)])
        >>> Law.empirical([1, 2], counts=[20, 10]) == Law.empirical([1, 1, 2])
        True
        """
        values = read_values(column)
        if counts is None:
            return cls._made(values, np.ones(len(values), dtype=np.int64), len(values))
        masses = read_counts(counts, len(values))
        return cls._made(values, masses, sum(masses.tolist()))

    @classmethod
    def mixture(cls, laws: "Iterable[Law]", weights: npt.ArrayLike | Sequence[Any]) -> "Law":
        """Return the law of a draw from `laws[k]`, where k has the given weights.

        >>> Law.mixture([Law.point(0), Law([0, 1], [0.5, 0.5])], [0.25, 0.75])
        Law([0, 1], [0.625, 0.375])
        """
        if isinstance(laws, Law) or not isinstance(laws, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_laws(f"The laws are of type {type(laws).__name__}.")
        laws = [of_kind(law, Law) for law in laws]
        if not laws:
            raise _no_laws("No laws were given.")
        if len({law.dimension for law in laws}) != 1:
            raise UsageError(
                f"The laws have dimensions {sorted({law.dimension for law in laws})}.",
                allowed="laws of one dimension",
                instead="law.map(...) to bring them to one dimension",
            )
        shares, total = read_masses(weights, len(laws))
        used = [(law, share) for law, share in zip(laws, shares.tolist(), strict=True) if share > 0]
        values = read_values(
            np.concatenate([law.values for law, _ in used])
        )  # one Fraction makes all Fractions
        if shares.dtype != np.float64 and all(law.exact for law, _ in used):
            common = math.lcm(*(law.total for law, _ in used))
            unit = common * total
            parts = [
                whole(law.masses, unit) * (share * (common // law.total)) for law, share in used
            ]
            return cls._made(values, np.concatenate(parts), unit)
        parts = [above_zero(law.probabilities * (share / total)) for law, share in used]
        return cls._made(values, np.concatenate(parts), 1)

    @property
    def exact(self) -> bool:
        """Whether the weights are rational numbers, not floats."""
        return self.masses.dtype != np.float64

    @property
    def weights(self) -> Array:
        """The weights: Fractions where the law is exact, floats otherwise."""
        if not self.exact:
            return self.masses
        fractions = np.empty(len(self), dtype=object)
        fractions[:] = [Fraction(mass, self.total) for mass in self.masses.tolist()]
        return fractions

    @property
    def probabilities(self) -> npt.NDArray[np.float64]:
        """The weights as floats; a rational weight too small for a float becomes the smallest float above 0."""
        if not self.exact:
            return self.masses
        if self.masses.dtype == np.int64:
            return self.masses / self.total
        return above_zero(np.array([mass / self.total for mass in self.masses.tolist()]))

    @property
    def log_probabilities(self) -> npt.NDArray[np.float64]:
        """The logarithms of the weights, also of rational weights that are too small for a float."""
        if not self.exact or self.masses.dtype == np.int64:
            return np.log(self.probabilities)
        return np.array([log_quotient(mass, self.total) for mass in self.masses.tolist()])

    @property
    def dimension(self) -> int:
        """The number of coordinates, d of R^d."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    def shift(self, by: object) -> "Law":
        """Return the law of X + by.

        >>> Law([0, 1], [0.5, 0.5]).shift(10)
        Law([10, 11], [0.5, 0.5])
        """
        offset = read_values(np.array([by], dtype=object) if isinstance(by, Fraction) else [by])
        if offset.ndim != self.values.ndim or offset.shape[1:] != self.values.shape[1:]:
            raise UsageError(
                f"The shift has shape {offset.shape[1:]}, but the law has dimension {self.dimension}.",
                allowed="one number per coordinate",
                instead=f"shift({[0] * self.dimension if self.dimension > 1 else 0})",
            )
        return self._made(_sum(self.values, offset), self.masses, self.total)

    def map(self, function: Callable[[Array], npt.ArrayLike]) -> "Law":
        """Return the law of function(X); the function receives all atoms as one array and returns one value for each.

        >>> Law([-1, 0, 1], [0.25, 0.5, 0.25]).map(abs)
        Law([0, 1], [0.5, 0.5])
        """
        if not callable(function):
            raise _bad_function(f"The function is of type {type(function).__name__}.")
        try:
            image = function(self.values)
        except (TypeError, ValueError) as error:
            raise _bad_function(
                f"The function failed on the array of all atoms: {error}".partition("\n")[0]
            ) from error
        values = read_values(image)
        if len(values) != len(self):
            raise _bad_function(
                f"The function returned {len(values)} values for {len(self)} atoms."
            )
        return self._made(values, self.masses, self.total)

    def convolve(self, other: "Law") -> "Law":
        """Return the law of X + Y for independent X and Y; sums of whole numbers are done without an outer product.

        Float values are added as floats; use Fractions where 0.1 + 0.2 and 0.3 must be one atom.

        >>> Law([0, 1], [0.5, 0.5]).convolve(Law([0, 1], [0.5, 0.5]))
        Law([0, 1, 2], [0.25, 0.5, 0.25])
        """
        if self.dimension != of_kind(other, Law).dimension:
            raise UsageError(
                f"The laws have dimensions {self.dimension} and {other.dimension}.",
                allowed="two laws of one dimension",
                instead="law.product(other) for their joint law",
            )
        lattice = _lattice_convolution(self, other)
        if lattice is not None:
            return self._made(*lattice)
        masses, total = self._outer(other)
        values = _sum(self.values[:, None], other.values[None, :])
        return self._made(values.reshape(-1, *self.values.shape[1:]), masses, total)

    def product(self, other: "Law") -> "Law":
        """Return the joint law of independent X and Y, on R^(d₁+d₂).

        >>> Law([0, 1], [0.5, 0.5]).product(Law.point(7)).values
        array([[0., 7.], [1., 7.]])
        """
        masses, total = self._outer(of_kind(other, Law))
        left, right = self.values.reshape(len(self), -1), other.values.reshape(len(other), -1)
        values = np.hstack([np.repeat(left, len(other), axis=0), np.tile(right, (len(self), 1))])
        return self._made(values, masses, total)

    def _outer(self, other: "Law") -> tuple[Array, int]:
        """Return the masses of all pairs of atoms, the right atom varying fastest."""
        if len(self) * len(other) > MOST_PRODUCT_ATOMS:
            raise Refused(
                f"{len(self)} × {len(other)} pairs of atoms do not fit in memory.",
                allowed=f"at most {MOST_PRODUCT_ATOMS} pairs (sums of whole numbers may be longer)",
                instead="rounding the atoms to whole numbers with law.map first",
            )
        if self.exact and other.exact:
            total = self.total * other.total
            return np.outer(whole(self.masses, total), whole(other.masses, total)).ravel(), total
        return above_zero(np.outer(self.probabilities, other.probabilities)).ravel(), 1

    def __reduce__(self) -> tuple[Any, ...]:
        return Law._made, (self.values, self.masses, self.total)

    def __eq__(self, other: object) -> bool:
        """Compare atoms and weights; an exact law equals a float one only if every weight does."""
        if not isinstance(other, Law):
            return NotImplemented
        same = self.values.shape == other.values.shape and bool((self.values == other.values).all())
        if not same or self.exact != other.exact:
            return same and bool((self.weights == other.weights).all())
        return self.total == other.total and bool((self.masses == other.masses).all())

    def __hash__(self) -> int:
        """Hash by the atoms alone, which equal laws share."""
        return hash((self.values.shape, tuple(self.values.ravel()[: 2 * _SHOWN].tolist())))

    def _card(self) -> Card:
        shown = range(min(len(self), MOST_ROWS))
        rows = [(str(self.values[atom].tolist()), str(self.weights[atom])) for atom in shown]
        return Card("Law of an answer", head=("value", "probability"), rows=rows, of=len(self))

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return f"Law({_shown(self.values)}, {_shown(self.weights)})"
        kind = "exact" if self.exact else "float"
        return f"<Law of {len(self)} atoms on R^{self.dimension}, {kind} weights>"


def _bad_function(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="a function of the array of all atoms, that returns one value (a number or a row) for each",
        instead="law.map(lambda x: np.where(x > 0, 1, 0)), or law.map(lambda x: x.sum(axis=1)) for vectors",
    )


def _no_laws(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="a list of at least one pf.Law",
        instead="pf.Law.mixture([mu, nu], [0.5, 0.5])",
    )


def _sum(left: Array, right: Array) -> Array:
    """Add values; where one side is rational, the floats of the other are read exactly, not rounded into the sum."""
    if left.dtype != right.dtype:
        return as_fractions(left) + as_fractions(right)
    with np.errstate(over="ignore"):
        total = left + right
    if total.dtype == np.float64 and not np.isfinite(total).all():
        raise UsageError(
            "A sum of two atoms does not fit a float.",
            allowed="atoms below 8e307",
            instead="smaller units",
        )
    return total


def _lattice_convolution(left: Law, right: Law) -> tuple[Array, Array, int] | None:
    """Convolve laws on whole numbers directly (never by FFT, whose rounding would erase tails), or return None."""
    spans = [_whole_span(law) for law in (left, right)]
    if 0 in spans or spans[0] * spans[1] > _MOST_LATTICE_STEPS:
        return None
    exact, total = left.exact and right.exact, left.total * right.total
    if not exact and left.probabilities.min() * right.probabilities.min() < np.finfo(float).tiny:
        return None  # a product could underflow to 0 and lose an atom; the outer product guards against it
    rows: list[Array] = []
    for law, span in zip((left, right), spans, strict=True):
        weights = whole(law.masses, total) if exact else law.probabilities
        rows.append(np.zeros(span, dtype=weights.dtype))
        rows[-1][(law.values - law.values[0]).astype(np.intp)] = weights
    masses = np.convolve(rows[0], rows[1])
    values = left.values[0] + right.values[0] + np.arange(len(masses), dtype=np.float64)
    return values, masses, total if exact else 1


def _whole_span(law: Law) -> int:
    """Return the length of the run of whole numbers that the atoms fill densely, 0 if there is none."""
    if (
        law.dimension > 1
        or law.values.dtype == object
        or not (law.values == np.floor(law.values)).all()
    ):
        return 0
    span = law.values[-1] - law.values[0] + 1
    return (
        int(span)
        if span <= 8 * len(law) + 64 and abs(law.values).max() < LARGEST_FLOAT_INTEGER / 2
        else 0
    )


def _shown(numbers: Array) -> str:
    """Show numbers as they could be typed: 1 for 1.0, 0.1 for 0.1."""
    if numbers.ndim == 2:
        return f"[{', '.join(map(_shown, numbers))}]"
    return f"[{', '.join(repr(number).removesuffix('.0') for number in numbers.tolist())}]"
