"""Rows any two of which are equally correlated."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.errors import Misuse
from pufferflow.priors.covariance.covariance import Covariance, Floats, Sides, summed_up
from pufferflow.priors.covariance.span import Given, Span, read_span, spanned
from pufferflow.rounding import UNIT, lifted
from pufferflow.suggestions import explained

_SLACK = 1e-9


@final
@explained
@dataclass(frozen=True)
class Exchangeable(Covariance):
    """Every two rows of a group have the correlation rho: one shared cause and noise of their own.

    rho, above −1 and below 1, may be a pair (low, high): a class, of which the worst member counts. n rows cannot all
    have a correlation below −1/(n−1) with each other, so a negative rho is for small groups.

    >>> Exchangeable(0.3).describe()
    'every two rows have the correlation 0.3'
    """

    rho: Span
    ordered = False
    stationary = True

    def __init__(self, rho: Given) -> None:
        allowed = "a correlation above -1 and below 1, or a pair (low, high) of them"
        object.__setattr__(self, "rho", read_span(rho, "rho", allowed=allowed, instead="pf.Exchangeable(0.3)"))

    @property
    def known(self) -> bool:
        """Whether rho is one number."""
        return isinstance(self.rho, float)

    def describe(self) -> str:
        """Say how rows are correlated."""
        low, high = spanned(self.rho)
        return f"every two rows have the correlation {f'{low:g}' if self.known else f'between {low:g} and {high:g}'}"

    def stored(self) -> dict[str, Any]:
        """Return rho."""
        return {"kind": "exchangeable", "rho": list(self.rho) if isinstance(self.rho, tuple) else self.rho}

    def check(self, positions: Floats) -> None:
        """Refuse more rows than can have a negative correlation with each other."""
        low, _ = spanned(self.rho)
        if low * (len(positions) - 1) < -1 - _SLACK:
            raise Misuse(
                f"{len(positions)} rows cannot all have the correlation {low:g} with each other.",
                allowed=f"rho >= -1/(n-1) for n rows: {-1 / (len(positions) - 1):.4g} here",
                instead="pf.Exchangeable((0, rho)), or smaller groups",
            )

    def toward(self, places: Floats, positions: Floats) -> Sides:
        """Return rho for all rows but the secret one, which moves with itself."""
        same = places[:, None] == positions[None, :]
        above, below = self._factors
        return np.where(same, 1.0, above), np.where(same, 0.0, below)

    def sides(self, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return rho times the sums of all other weights of either sign (`cap` ≥ 1 is not reached).

        A row that is not asked about adds no more: for rho ≥ 0 a row of a sign moves what it would and itself; for
        rho < 0, n rows and this one fit rho ≥ −1/n only, and |rho|·Σ|w| stays below the largest weight.
        """
        del positions, cap
        plus, minus = (_without_one(np.maximum(sign * weights, 0.0)) for sign in (1, -1))
        above, below = self._factors
        return lifted(above * plus + below * minus, 4 * UNIT), lifted(above * minus + below * plus, 4 * UNIT)

    def reached(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return the sums of all other heights, or nothing."""
        del positions
        size = max(self._factors)
        return _without_one(heights) if 0 < size >= level else np.zeros_like(heights)

    def between(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return the sums of all heights, or nothing."""
        del positions
        size = max(self._factors)
        total = summed_up(heights.sum(axis=1, keepdims=True), heights)
        return total if 0 < size >= level else np.zeros_like(total)

    @property
    def _factors(self) -> tuple[float, float]:
        low, high = spanned(self.rho)
        return max(high, 0.0), max(-low, 0.0)


def _without_one(terms: Floats) -> Floats:
    """Return the sums of all terms but one, rounded up."""
    total = terms.sum(axis=1, keepdims=True)
    rest = np.maximum(summed_up(total, terms) - terms, 0.0)
    if bool((terms == np.rint(terms)).all()) and float(total.max(initial=0.0)) < 2.0**52:
        return rest
    slack = np.where((terms > 0).sum(axis=1, keepdims=True) - (terms > 0) > 0, total * UNIT, 0.0)
    return np.where(slack > 0, rest + slack, 0.0)
