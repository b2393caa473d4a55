"""What a covariance owes: how a row drags the others along when its value changes, and sums of that (M15).

If X_i changes by v, the Gaussian conditional law of row r is translated by c_ri·v, c_ri = Cov(X_r, X_i)/Var(X_i). A
class of covariances gives bounds instead: −below ≤ c_ri ≤ above. All that is returned here is rounded up.
"""

import abc
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferflow.errors import Misuse
from pufferflow.rounding import UNIT, lifted

Floats = npt.NDArray[np.float64]
Sides = tuple[Floats, Floats]
_AT_ONCE = 1 << 21
_MOST_FACTORED = 1500
_SLACK = 1e-9


class Covariance(abc.ABC):
    """Base of the covariances; `positions` are those of a statistic's rows, `places` those of rows that are secret.

    To add one, write a frozen dataclass with `toward`, and override `sides` and `reached` where the sums over all rows
    have a shorter way than through all pairs of rows.
    """

    ordered: bool = True
    """Whether positions matter."""
    stationary: bool = False
    """Whether rows shifted together keep their covariances."""
    has_variances: bool = False
    """Whether it says how much rows vary, not only how they correlate."""

    @property
    @abc.abstractmethod
    def known(self) -> bool:
        """Whether this is one covariance, not a class of them."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Say in words how rows depend on each other."""

    @abc.abstractmethod
    def stored(self) -> dict[str, Any]:
        """Return plain values, with the `kind`."""

    def fingerprint(self) -> Any:
        """Return plain values that equal covariances share."""
        return self.stored()

    def check(self, positions: Floats) -> None:
        """Refuse rows for which there is no such covariance."""
        del positions

    def places(self, positions: Floats) -> Floats:
        """Return where secrets have to be looked for: at every row of the group, asked about or not."""
        return positions

    @abc.abstractmethod
    def toward(self, places: Floats, positions: Floats) -> Sides:
        """Return how far above and below 0 the factors c_ri can be, of shape (places, positions)."""

    def sides(self, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return what the other rows can add to and take from each answer, for secrets at all `places`."""
        return self.sides_at(self.places(positions), positions, weights, cap)

    def reached(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return the sums of the heights of other rows with |c_ri| ≥ level (for 0: c_ri ≠ 0), for all `places`."""
        return self.reached_at(self.places(positions), positions, heights, level)

    def between(self, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return such sums for secret rows that are not asked about, if `places` do not tell where they can be.

        On an interval they need no look: there the sums are largest at rows asked about.
        """
        del positions, level
        return np.zeros((len(heights), 0))

    def sides_at(self, places: Floats, positions: Floats, weights: Floats, cap: float) -> Sides:
        """Return Σ_r (w_r·c_ri)⁺ and Σ_r (w_r·c_ri)⁻ over r ≠ i, each |c_ri| at most `cap`: shape (answers, places)."""
        plus, minus = np.maximum(weights, 0.0), np.maximum(-weights, 0.0)
        up, down = np.empty((2, len(weights), len(places)))
        for some in _blocks(len(places), len(positions)):
            above, below = (np.minimum(side, cap).T for side in self._others(places[some], positions))
            up[:, some] = plus @ above + minus @ below
            down[:, some] = minus @ above + plus @ below
        return lifted(up, (2 * len(positions) + 4) * UNIT), lifted(down, (2 * len(positions) + 4) * UNIT)

    def reached_at(self, places: Floats, positions: Floats, heights: Floats, level: float) -> Floats:
        """Return the sums of heights for secrets at some places: shape (answers, places)."""
        total = np.empty((len(heights), len(places)))
        for some in _blocks(len(places), len(positions)):
            size = np.maximum(*self._others(places[some], positions))
            total[:, some] = heights @ np.where((size > 0) & (size >= level), 1.0, 0.0).T
        return summed_up(total, heights)

    def _others(self, places: Floats, positions: Floats) -> Sides:
        """Return the factors with 0 for the row that is the secret itself."""
        other = places[:, None] != positions[None, :]
        above, below = self.toward(places, positions)
        return np.where(other, above, 0.0), np.where(other, below, 0.0)


def summed_up(total: Floats, terms: Floats) -> Floats:
    """Return sums of n terms ≥ 0, rounded up; sums of whole numbers are exact as they are."""
    whole = bool((terms == np.rint(terms)).all()) and float(terms.sum()) < 2.0**52
    return total if whole else lifted(total, (terms.shape[-1] + 2) * UNIT)


def semidefinite(matrix: Floats) -> bool:
    """Say whether a matrix with entries up to about 1 has no eigenvalue below −1e−9, as Cholesky sees it."""
    try:
        np.linalg.cholesky(matrix + _SLACK * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def few(positions: Floats) -> Floats:
    """Return the first rows, as many as are quickly checked."""
    return positions[:_MOST_FACTORED]


def whole(positions: Floats, what: str) -> npt.NDArray[np.int64]:
    """Return positions as whole numbers."""
    steps = np.rint(positions)
    if (steps != positions).any():
        raise Misuse(
            f"{what} for positions between whole steps.",
            allowed="positions that are whole numbers of steps",
            instead='a shorter step in the scenario; or pl.col("hour").round(), where they nearly are whole',
        )
    return steps.astype(np.int64)


def _blocks(count: int, width: int) -> list[slice]:
    size = max(_AT_ONCE // max(width, 1), 1)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
