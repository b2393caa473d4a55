"""A finite law of answers on R or R^d, as a frozen value.

Rational weights stay rational through every operation; float weights never lose an atom, however small its mass.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array
from pufferflow.core.errors import Refused, UsageError
from pufferflow.distributions import atoms

MOST_PRODUCT_ATOMS = 60_000_000
_MOST_LATTICE_STEPS = 4 * 10**10
_SHOWN = 6


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Law:
    """A law with finitely many atoms: `values` of shape (n,) or (n, d), and weights with sum 1.

    Atoms are sorted, equal ones merged, those of weight 0 dropped. Weights that are all Fractions (or whole numbers)
    make the law `exact`: its weights stay rational, and W_∞ and nearness of exact laws are exact.

    >>> Law([3, 1, 1], [0.5, 0.25, 0.25])
    Law([1, 3], [0.5, 0.5])
    >>> Law([0, 1], [Fraction(1, 3), Fraction(2, 3)]).weights
    array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    """

    values: Array
    masses: Array
    total: int

    def __init__(self, values: npt.ArrayLike | Sequence[Any], weights: npt.ArrayLike | Sequence[Any]) -> None:
        points = atoms.read_values(values)
        masses, total = atoms.read_masses(weights, len(points))
        self._set(points, masses, total)

    def _set(self, values: Array, masses: Array, total: int) -> None:
        values, masses, total = atoms.merge(values, masses, total)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "total", total)

    @classmethod
    def _made(cls, values: Array, masses: Array, total: int) -> "Law":
        """Make a law from checked parts, for the results of the operations below."""
        law = object.__new__(cls)
        law._set(values, masses if masses.dtype != np.float64 else atoms.normalise_masses(masses), total)
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
        cls, column: npt.ArrayLike | Sequence[Any], counts: npt.ArrayLike | Sequence[int] | None = None
    ) -> "Law":
        """Return the exact law of one row drawn at random from a column of numbers (or rows of an (n, d) array).

        `counts` says how often each value stands in the column, if it was counted before. Use it on public references
        only: the law of private rows is itself private.

        >>> Law.empirical([1, 1, 2])
        Law([1, 2], [Fraction(2, 3), Fraction(1, 3)])
        >>> Law.empirical([1, 2], counts=[20, 10]) == Law.empirical([1, 1, 2])
        True
        """
        values = atoms.read_values(column)
        if counts is None:
            return cls._made(values, np.ones(len(values), dtype=np.int64), len(values))
        masses = atoms.read_counts(counts, len(values))
        return cls._made(values, masses, sum(masses.tolist()))

    @classmethod
    def mixture(cls, laws: "Iterable[Law]", weights: npt.ArrayLike | Sequence[Any]) -> "Law":
        """Return the law of a draw from `laws[k]`, where k has the given weights.

        >>> Law.mixture([Law.point(0), Law([0, 1], [0.5, 0.5])], [0.25, 0.75])
        Law([0, 1], [0.625, 0.375])
        """
        if isinstance(laws, Law) or not isinstance(laws, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_laws(f"The laws are of type {type(laws).__name__}.")
        laws = [atoms.of_kind(law, Law) for law in laws]
        if not laws:
            raise _no_laws("No laws were given.")
        if len({law.dimension for law in laws}) != 1:
            raise UsageError(
                f"The laws have dimensions {sorted({law.dimension for law in laws})}.",
                allowed="laws of one dimension",
                instead="law.map(...) to bring them to one dimension",
            )
        shares, total = atoms.read_masses(weights, len(laws))
        used = [(law, share) for law, share in zip(laws, shares.tolist(), strict=True) if share > 0]
        values = atoms.read_values(np.concatenate([law.values for law, _ in used]))  # one Fraction makes all Fractions
        if shares.dtype != np.float64 and all(law.exact for law, _ in used):
            common = math.lcm(*(law.total for law, _ in used))
            whole = common * total
            parts = [atoms.whole(law.masses, whole) * (share * (common // law.total)) for law, share in used]
            return cls._made(values, np.concatenate(parts), whole)
        parts = [atoms.above_zero(law.probabilities * (share / total)) for law, share in used]
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
        """The weights as floats; a rational weight too small for a float keeps the smallest there is."""
        if not self.exact:
            return self.masses
        if self.masses.dtype == np.int64:
            return self.masses / self.total
        return atoms.above_zero(np.array([mass / self.total for mass in self.masses.tolist()]))

    @property
    def log_probabilities(self) -> npt.NDArray[np.float64]:
        """The logarithms of the weights, those of rational weights too small for a float as well."""
        if not self.exact or self.masses.dtype == np.int64:
            return np.log(self.probabilities)
        return np.array([atoms.log_quotient(mass, self.total) for mass in self.masses.tolist()])

    @property
    def dimension(self) -> int:
        """The d of R^d."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    def shift(self, by: object) -> "Law":
        """Return the law of X + by.

        >>> Law([0, 1], [0.5, 0.5]).shift(10)
        Law([10, 11], [0.5, 0.5])
        """
        offset = atoms.read_values(np.array([by], dtype=object) if isinstance(by, Fraction) else [by])
        if offset.ndim != self.values.ndim or offset.shape[1:] != self.values.shape[1:]:
            raise UsageError(
                f"A shift of shape {offset.shape[1:]} for a law of dimension {self.dimension}.",
                allowed="one number per coordinate",
                instead=f"shift({[0] * self.dimension if self.dimension > 1 else 0})",
            )
        return self._made(_sum(self.values, offset), self.masses, self.total)

    def map(self, function: Callable[[Array], npt.ArrayLike]) -> "Law":
        """Return the law of function(X); the function is given all atoms as one array and returns one value for each.

        >>> Law([-1, 0, 1], [0.25, 0.5, 0.25]).map(abs)
        Law([0, 1], [0.5, 0.5])
        """
        if not callable(function):
            raise _bad_function(f"The function is of type {type(function).__name__}.")
        try:
            image = function(self.values)
        except (TypeError, ValueError) as error:
            raise _bad_function(f"The function failed on the array of all atoms: {error}".partition("\n")[0]) from error
        values = atoms.read_values(image)
        if len(values) != len(self):
            raise _bad_function(f"The function returned {len(values)} values for {len(self)} atoms.")
        return self._made(values, self.masses, self.total)

    def convolve(self, other: "Law") -> "Law":
        """Return the law of X + Y for independent X and Y; sums of whole numbers are done without an outer product.

        Float values are added as floats; use Fractions where 0.1 + 0.2 and 0.3 must be one atom.

        >>> Law([0, 1], [0.5, 0.5]).convolve(Law([0, 1], [0.5, 0.5]))
        Law([0, 1, 2], [0.25, 0.5, 0.25])
        """
        if self.dimension != atoms.of_kind(other, Law).dimension:
            raise UsageError(
                f"Laws of dimension {self.dimension} and {other.dimension}.",
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
        masses, total = self._outer(atoms.of_kind(other, Law))
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
            return np.outer(atoms.whole(self.masses, total), atoms.whole(other.masses, total)).ravel(), total
        return atoms.above_zero(np.outer(self.probabilities, other.probabilities)).ravel(), 1

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
    return UsageError(problem, allowed="a list of at least one pf.Law", instead="pf.Law.mixture([mu, nu], [0.5, 0.5])")


def _sum(left: Array, right: Array) -> Array:
    """Add values; where one side is rational, the floats of the other are read exactly, not rounded into the sum."""
    if left.dtype != right.dtype:
        return atoms.as_fractions(left) + atoms.as_fractions(right)
    with np.errstate(over="ignore"):
        total = left + right
    if total.dtype == np.float64 and not np.isfinite(total).all():
        raise UsageError(
            "A sum of two atoms does not fit a float.", allowed="atoms below 8e307", instead="smaller units"
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
        weights = atoms.whole(law.masses, total) if exact else law.probabilities
        rows.append(np.zeros(span, dtype=weights.dtype))
        rows[-1][(law.values - law.values[0]).astype(np.intp)] = weights
    masses = np.convolve(rows[0], rows[1])
    values = left.values[0] + right.values[0] + np.arange(len(masses), dtype=np.float64)
    return values, masses, total if exact else 1


def _whole_span(law: Law) -> int:
    """Return the length of the run of whole numbers that the atoms fill densely, 0 if there is none."""
    if law.dimension > 1 or law.values.dtype == object or not (law.values == np.floor(law.values)).all():
        return 0
    span = law.values[-1] - law.values[0] + 1
    return int(span) if span <= 8 * len(law) + 64 and abs(law.values).max() < atoms.LARGEST_FLOAT_INTEGER / 2 else 0


def _shown(numbers: Array) -> str:
    """Show numbers as they could be typed: 1 for 1.0, 0.1 for 0.1."""
    if numbers.ndim == 2:
        return f"[{', '.join(map(_shown, numbers))}]"
    return f"[{', '.join(repr(number).removesuffix('.0') for number in numbers.tolist())}]"
