"""Two laws in common units: atoms that subtract, and weights that add and compare, without rounding.

Rational weights are whole numbers over a common denominator. Float weights are binary fractions, so they become whole
numbers too. But the weights they stand for are known only to about n·2⁻⁵², so a difference within rounding decides
nothing.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.rounding import SMALLEST, UNIT, float_above
from pufferflow.distributions.finite_law import Law, as_fractions

LARGEST_TOTAL = 2**59
"""Sums of a few totals up to this fit machine integers."""
_FLOAT_UNIT = 2**58
_SHORT = 2**40
_LARGEST_SHARE_FORGIVEN = 2.0**-20
_MANTISSA = 53
_ROOT_BITS = 128


def values(mu: Law, nu: Law) -> tuple[Array, Array]:
    """Return the atoms of both laws, as Fractions if either law has some that no float holds."""
    if mu.values.dtype == nu.values.dtype:
        return mu.values, nu.values
    return as_fractions(mu.values), as_fractions(nu.values)


def difference(left: Array, right: Array) -> Array:
    """Return exact differences, as Fractions wherever a float would round."""
    if object not in (left.dtype, right.dtype):
        with np.errstate(over="ignore"):
            step = left - right
        if ((left == np.rint(left)) & (right == np.rint(right)) & (np.abs(step) < 2.0**52)).all():
            return step
    return as_fractions(left) - as_fractions(right)


def length_above(step: list[Fraction], norm: float) -> float:
    """Return the smallest float not below the norm of an exact vector."""
    if norm == 1:
        return float_above(sum(step, Fraction(0)))
    if norm == math.inf:
        return float_above(max(step))
    square = sum((x * x for x in step), Fraction(0))
    radicand = (
        square.numerator * square.denominator << 2 * _ROOT_BITS
    )  # √(n/d) = √(nd)/d, with bits to spare
    root = math.isqrt(radicand)
    return float_above(Fraction(root + (root * root < radicand), square.denominator << _ROOT_BITS))


def norms(steps: Floats, norm: float) -> Floats:
    """Return the norms along the first axis, without over- or underflow; an infinite coordinate gives ∞."""
    largest = np.abs(steps).max(axis=0)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    with np.errstate(over="ignore"):
        return scale * np.linalg.norm(steps / scale, norm, axis=0)


def floats_above(numbers: Array) -> Floats:
    """Return numbers ≥ 0 as floats that are not below them."""
    if numbers.dtype != object:
        return numbers
    return np.vectorize(float_above, otypes=[np.float64])(numbers)


def ratios(amounts: Array, total: int) -> Floats:
    """Return whole amounts over a total as floats; positive amounts stay positive."""
    if amounts.dtype != object:
        return amounts / total
    exact = [float(Fraction(amount, total)) if amount else 0.0 for amount in amounts.tolist()]
    return np.array(
        [
            max(ratio, SMALLEST) if amount else 0.0
            for ratio, amount in zip(exact, amounts, strict=True)
        ]
    )


def rational(mu: Law, nu: Law) -> tuple[Array, Array, int] | None:
    """Return both laws' masses over one common total, if their weights are rational."""
    first, second = _rational(mu), _rational(nu)
    if first is None or second is None:
        return None
    total = math.lcm(first[1], second[1])
    kind = np.int64 if total < LARGEST_TOTAL else object
    return (
        first[0].astype(kind) * (total // first[1]),
        second[0].astype(kind) * (total // second[1]),
        total,
    )


def _rational(law: Law) -> tuple[Array, int] | None:
    """Return weights as whole numbers over a total: those of exact laws, and floats that are short binary fractions."""
    if law.exact:
        return law.masses, law.total
    scaled = law.masses * float(_SHORT)
    if (scaled == np.floor(scaled)).all() and scaled.sum() == _SHORT:
        return scaled.astype(np.int64), _SHORT
    return None


def _binary(mu: Law, nu: Law) -> tuple[Array, Array, int]:
    """Return float weights as whole numbers times a power of two, and the logarithm of that power."""
    parts = [np.frexp(law.probabilities) for law in (mu, nu)]
    shift = _MANTISSA - min(int(exponents.min()) for _, exponents in parts)
    left, right = (
        [
            int(digits) << int(zeros)
            for digits, zeros in zip(
                np.ldexp(mantissas, _MANTISSA), exponents + (shift - _MANTISSA), strict=True
            )
        ]
        for mantissas, exponents in parts
    )
    return np.array(left, dtype=object), np.array(right, dtype=object), shift


def whole(mu: Law, nu: Law) -> tuple[Array, Array, int]:
    """Return the weights of any two laws as whole numbers, and the number that a mass of 1 has."""
    exact = rational(mu, nu)
    if exact is not None:
        return exact
    left, right, shift = _binary(mu, nu)
    return left, right, 1 << shift


@dataclass(frozen=True, eq=False)
class Allowance:
    """Masses as whole numbers of one unit, and the amount that may stay unmatched."""

    left: Array
    right: Array
    unit: int
    """The number of units in a mass of 1."""
    all: int
    """The mass to match: that of the heavier law before rounding down."""
    strict: int
    """The mass that may stay unmatched, δ read literally."""
    forgiving: int
    """The same, plus the rounding errors of float weights."""
    rounding: float

    @property
    def precise(self) -> bool:
        """Whether the allowance for rounding covers the mass lost by rounding down, so that it enlarges no distance."""
        return self.forgiving - self.strict >= self.all - min(
            int(self.left.sum()), int(self.right.sum())
        )

    @property
    def hopeless(self) -> bool:
        """Whether δ is finer than the whole numbers, so that no distance suffices and W_∞ is used."""
        return self.all - min(int(self.left.sum()), int(self.right.sum())) > self.forgiving


def allowance(mu: Law, nu: Law, share: Fraction) -> Allowance:
    """Return the masses to match and the part that may stay unmatched, a share δ of all.

    Float weights are rounded down, and the mass lost counts as unmatched. An allowance of n·2⁻⁵² makes a weight of .003
    equal to a δ of .003. It is at most δ/2²⁰, so δ holds to six digits.
    """
    exact = rational(mu, nu)
    if exact is not None:
        left, right, total = exact
        return Allowance(
            left, right, total, total, math.floor(share * total), math.floor(share * total), 0.0
        )
    rounding = min((len(mu) + len(nu)) * UNIT, float(share) * _LARGEST_SHARE_FORGIVEN)
    scaled = [law.probabilities * float(_FLOAT_UNIT) for law in (mu, nu)]
    left, right = (np.floor(weights).astype(np.int64) for weights in scaled)
    heavier = max(
        _FLOAT_UNIT, *(int(np.ceil(weights).astype(np.int64).sum()) for weights in scaled)
    )
    forgiving = math.floor((share + Fraction(rounding)) * _FLOAT_UNIT)
    return Allowance(
        left, right, _FLOAT_UNIT, heavier, math.floor(share * _FLOAT_UNIT), forgiving, rounding
    )
