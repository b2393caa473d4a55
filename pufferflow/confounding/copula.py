"""Copula perturbation: two channels whose randomness hangs together, each with exactly its own law (DCP, Appendix A-B).

A Gaussian copula ties two outputs at each pair of inputs: P(Y_1 ≤ y_1, Y_2 ≤ y_2) = Φ_ρ(Φ⁻¹(F_1(y_1)), Φ⁻¹(F_2(y_2))).
Each channel keeps its own loss, since its own law stays. The loss of both together is that of the joint channel, over
all pairs of inputs that can occur, and may be more or less than with independent randomness (M28; DCP's Theorem 4(ii),
which adds a promise of the copula's, is false).
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, product
from typing import Any

import numpy as np
import scipy  # loads its parts when first used

from pufferflow.arguments import finite_number, instance
from pufferflow.arrays import Floats
from pufferflow.channels import Channel
from pufferflow.scenario.priors import Values

_UNIT = 2**60


def gaussian_copula(first: Channel, second: Channel, correlation: float) -> Channel:
    """Return the channel that publishes the outputs of two, with randomness tied by a Gaussian copula.

    Its outputs are pairs, in the order of the channels' outputs; it reads the columns of both. Both own laws stay
    exactly what they are.

    >>> coin = Channel("x", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> tied = gaussian_copula(coin, coin, correlation=0.5)
    >>> tied.outputs, sum(tied.probability(0, (0, other)) for other in (0, 1))
    (((0, 0), (0, 1), (1, 0), (1, 1)), Fraction(3, 4))
    """
    for one, name in ((first, "first"), (second, "second")):
        instance(one, Channel, name, allowed="a pf.confounding.Channel", instead="pf.confounding.Channel(…)")
    rho = finite_number(
        correlation,
        "correlation",
        allowed="a number with -1 < correlation < 1",
        instead="correlation=0.5",
        fits=lambda one: -1 < one < 1,
    )
    columns = tuple(dict.fromkeys([*first.reads, *second.reads]))
    inputs: list[Values] = []
    rows: list[list[Fraction]] = []
    tied: dict[tuple[int, int], list[Fraction]] = {}
    for (one, left), (two, right) in product(enumerate(first.points), enumerate(second.points)):
        known = dict(zip(first.reads, left, strict=True))
        if all(known.get(name, value) == value for name, value in zip(second.reads, right, strict=True)):
            known |= dict(zip(second.reads, right, strict=True))
            inputs.append(tuple(known[name] for name in columns))
            if (one, two) not in tied:
                tied[one, two] = _tied(first.probabilities[one], second.probabilities[two], rho)
            rows.append(tied[one, two])
    outputs: list[Any] = list(product(first.outputs, second.outputs))
    return Channel(columns, inputs, outputs, rows)


def effective_correlation(correlation: float, variance: float) -> float:
    """Return the correlation of the copula that DCP's sampling gives: of Z_1 and ρZ_1 + √(1−ρ²)·Z_2, Z_1 of a variance.

    >>> round(effective_correlation(0.5, 4.0), 6)
    0.755929
    """
    size = abs(correlation) * math.sqrt(variance)
    return math.copysign(size / math.sqrt(correlation**2 * variance + 1 - correlation**2), correlation)


def _tied(first: Sequence[Fraction], second: Sequence[Fraction], rho: float) -> list[Fraction]:
    """Return a joint law with these two own laws exactly, and next to the copula's.

    Whole numbers below the copula's masses are shrunk until no row and no column has too much; what is missing of each
    is filled in independently, which restores both own laws.
    """
    masses = np.maximum(_copula_masses(first, second, rho), 0.0)
    whole = [[Fraction(int(one * _UNIT), _UNIT) for one in row] for row in masses.tolist()]
    sums = [
        *zip(first, (sum(row) for row in whole), strict=True),
        *zip(second, (sum(column) for column in zip(*whole, strict=True)), strict=True),
    ]
    shrink = min([Fraction(1), *(own / found for own, found in sums if found > 0)])
    whole = [[one * shrink for one in row] for row in whole]
    rows = [own - sum(row) for own, row in zip(first, whole, strict=True)]
    columns = [own - sum(column) for own, column in zip(second, zip(*whole, strict=True), strict=True)]
    missing = sum(rows, Fraction(0))
    if missing == 0:
        return [one for row in whole for one in row]
    return [one + rows[i] * columns[j] / missing for i, row in enumerate(whole) for j, one in enumerate(row)]


def _copula_masses(first: Sequence[Fraction], second: Sequence[Fraction], rho: float) -> Floats:
    """Return the masses that a Gaussian copula gives to all pairs of outputs."""
    marks = [
        scipy.special.ndtri(np.array([0.0, *map(float, accumulate(law))]).clip(0.0, 1.0)) for law in (first, second)
    ]
    marks = [np.append(one[:-1], np.inf) for one in marks]
    below = _below(marks[0][:, None], marks[1][None, :], rho)
    return np.diff(np.diff(below, axis=0), axis=1)


def _below(h: Floats, k: Floats, rho: float) -> Floats:
    """Return Φ_ρ(h, k), by Owen's T function."""
    h, k = np.broadcast_arrays(h, k)
    ends = np.where(h == np.inf, scipy.special.ndtr(k), scipy.special.ndtr(h))
    ends = np.where((h == -np.inf) | (k == -np.inf), 0.0, ends)
    inner = np.isfinite(h) & np.isfinite(k)
    x, y = (np.where(one == 0, 1e-300, np.where(inner, one, 1.0)) for one in (h, k))
    side = math.sqrt((1 - rho) * (1 + rho))
    with np.errstate(over="ignore"):
        left, right = ((y - rho * x) / x / side, (x - rho * y) / y / side)
    total = scipy.special.ndtr(x) / 2 + scipy.special.ndtr(y) / 2 - np.where(x * y < 0, 0.5, 0.0)
    # products of two tiny numbers underflow to 0, of one sign as both are above 0 then
    found = total - scipy.special.owens_t(x, left) - scipy.special.owens_t(y, right)
    return np.where(inner, found, ends)
