"""Intervals for how far a change of one row moves another, from independent groups of jointly Gaussian rows.

*Exchangeable rows.* Var of a group's mean is σ²(1 + n_i·θ)/n_i with θ = ρ/(1 − ρ), and independent of what rows differ
within groups. So Σ w_i(ȳ_i − ȳ)²/((k − 1)·s²), w_i = n_i/(1 + n_i·θ) and ȳ weighted by w, has the law F(k − 1, n − k)
at the true θ, whatever the sizes of groups (Wald 1940), and falls with θ: the interval is exact.

*Rows with a place each.* Given row t another row is a linear function of it with independent errors of one variance,
so the estimated coefficient has Student's law with n − 2 degrees: exact, one interval for each pair of places.

*Autoregressive rows.* The correlation of neighbouring rows is compared with that of rows drawn under each φ at the same
places; neither mean nor variance matters to it, so that ranks among draws are an exact test, and the interval is all φ
that are not rejected. Where there are many rows for their memory, the arcsine of the estimate is taken as normal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError

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
            return float((weights * (means - centre) ** 2).sum()) / freedom[0] / (within / freedom[1])

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
        estimate = min(max(found + (1 + 3 * found) / pairs, -_NEARLY_ONE), _NEARLY_ONE)  # the mean was estimated too
        if chance is None:
            return estimate, estimate
        if pairs <= _MOST_DRAWN:
            return self._by_draws(found, chance)
        if pairs * (1 - abs(estimate)) < _FORGOTTEN_OFTEN:
            raise _too_few("sequences that are much longer than they remember")
        width = -float(ndtri(chance / 2)) / np.sqrt(pairs)
        low, high = (np.clip(np.arcsin(estimate) + sign * width, -np.pi / 2, np.pi / 2) for sign in (-1, 1))
        return max(float(np.sin(low)), -_NEARLY_ONE), min(float(np.sin(high)), _NEARLY_ONE)

    def _by_draws(self, found: float, chance: float) -> tuple[float, float]:
        noise = np.random.default_rng(0).standard_normal((_DRAWS, len(self.values)))

        def share_below(phi: float) -> float:
            return (1 + int((self._drawn(phi, noise) <= found).sum())) / (_DRAWS + 1)

        def share_above(phi: float) -> float:
            return (1 + int((self._drawn(phi, noise) >= found).sum())) / (_DRAWS + 1)

        low, _ = _crossing(lambda phi: chance / 2 - share_above(phi), -_NEARLY_ONE, _NEARLY_ONE, _STEPS)
        _, high = _crossing(lambda phi: share_below(phi) - chance / 2, -_NEARLY_ONE, _NEARLY_ONE, _STEPS)
        return low, high

    def _drawn(self, phi: float, noise: Floats) -> Floats:
        """Return the correlation of neighbours in sequences drawn under φ, with the same gaps."""
        starts = np.flatnonzero(self.gaps == 0)
        rank = np.arange(len(self.gaps)) - np.repeat(starts, np.diff(np.append(starts, len(self.gaps))))
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
