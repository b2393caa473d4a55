"""The moments E_P e^(zL) of a sum L of independent losses, of which there may be 10⁵ different ones.

Three-point, Gaussian and Laplace losses have closed forms; other atoms are few enough to be summed, or are split onto a
lattice whose moments an FFT gives. A split moves an atom to its two neighbours so that the masses of P and of Q stay:
both neighbours made one again are the atom, so the split pair dominates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats, log_sum
from pufferflow.core.rounding import UNIT
from pufferflow.tradeoff.losses import SLOP, Atoms, Loss, ThreePoint
from pufferflow.tradeoff.noise_losses import GaussianLoss, LaplaceLoss

Complexes = npt.NDArray[np.complex128]
_FEW = 160
_GOLDEN = (math.sqrt(5) - 1) / 2
_LATTICE = 1 << 20
_BLOCK = 1 << 19
NEGLIGIBLE = 1e-17


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """The losses of several releases in one order of the secrets, sorted by kind, and how often each happens."""

    steps: Floats
    log_masses: Floats
    """Log masses at −ε, 0 and ε, in columns."""
    counts: Floats
    variance: float
    """Σμ² of the Gaussian ones."""
    units: Floats
    unit_counts: Floats
    others: tuple[tuple[Atoms, int], ...]

    @classmethod
    def of(cls, classes: Mapping[Loss, int]) -> "Moments":
        """Sort losses by their kind; the three-point ones are mixed so that any stretch of them is like all."""
        three: list[tuple[ThreePoint, int]] = [
            (loss, count) for loss, count in classes.items() if isinstance(loss, ThreePoint)
        ]
        three.sort(key=lambda one: one[0].epsilon)
        three = [three[place] for place in np.argsort(np.arange(len(three)) * _GOLDEN % 1.0).tolist()]
        with np.errstate(divide="ignore"):
            masses = np.log(np.array([loss.masses for loss, _ in three]).reshape(-1, 3))
        laplace = [(loss, count) for loss, count in classes.items() if isinstance(loss, LaplaceLoss)]
        return cls(
            np.array([loss.epsilon for loss, _ in three]),
            masses,
            np.array([float(count) for _, count in three]),
            math.fsum(count * loss.mu**2 for loss, count in classes.items() if isinstance(loss, GaussianLoss))
            * (1 + 8 * UNIT),
            np.array([loss.units for loss, _ in laplace]),
            np.array([float(count) for _, count in laplace]),
            tuple((loss, count) for loss, count in classes.items() if isinstance(loss, Atoms)),
        )

    @property
    def factors(self) -> int:
        """The approximate number of exponentials per moment; a lattice is for few frequencies."""
        return (
            1
            + len(self.steps)
            + len(self.units)
            + sum(len(atoms.losses) if len(atoms.losses) <= _FEW else _LATTICE for atoms, _ in self.others)
        )

    @property
    def slop(self) -> float:
        """The total relative error of the masses."""
        return SLOP * (float(self.counts.sum()) + float(self.unit_counts.sum()) + sum(c for _, c in self.others))

    @property
    def blur(self) -> float:
        """The total error of the losses."""
        own = float(self.counts @ self.steps) + float(self.unit_counts @ self.units)
        return SLOP * (own + sum(count * (1 + atoms.reach) for atoms, count in self.others))

    def log_moment(self, order: float) -> float:
        """Return log E e^(order·L), over finite losses."""
        total = self.variance * order * (order + 1) / 2
        if len(self.steps):
            total += float(self.counts @ self._log_steps(order))
        if len(self.units):
            total += float(self.unit_counts @ _log_laplace(self.units, order))
        return total + sum(count * _log_atoms(atoms, order) for atoms, count in self.others)

    def rounding(self, order: float) -> float:
        """Return a bound on the rounding errors of `log_moment`, and of its factors' weights."""
        terms = 8 * self.variance * (1 + order * order)
        if len(self.steps):
            terms += float(self.counts @ (12 + 6 * (abs(order) * self.steps + np.abs(self._log_steps(order)))))
        if len(self.units):
            logs = np.abs(_log_laplace(self.units, order))
            terms += float(self.unit_counts @ (24 + 12 * (abs(order) * self.units + self.units + logs)))
        for atoms, count in self.others:
            each = len(atoms.losses) + 12 + 6 * (abs(order) * atoms.reach + abs(_log_atoms(atoms, order)))
            terms += count * each
        return UNIT * terms

    def _log_steps(self, order: float) -> Floats:
        move = order * self.steps
        return np.logaddexp(
            np.logaddexp(self.log_masses[:, 0] - move, self.log_masses[:, 2] + move), self.log_masses[:, 1]
        )

    def transform(self, order: float, period: float, count: int) -> tuple[Complexes, Floats, float]:
        """Return E e^((order + it)L) / E e^(order·L) at t = 2πm/period, m = 0..count − 1, and how far each is off.

        Products that fall below NEGLIGIBLE are left at 0, and that is added to their error: no factor is above 1.
        The last number is by how much the denominator's logarithm is above `log_moment`, for atoms that were split.
        """
        more = 0.0
        t = 2 * math.pi / period * np.arange(count, dtype=np.float64)
        with np.errstate(under="ignore"):
            product = np.exp(-self.variance * t * t / 2 + 1j * (self.variance * (order + 0.5)) * t)
        live = np.flatnonzero(np.abs(product) > NEGLIGIBLE)
        for atoms, times in self.others:
            factor, above = _of_atoms(atoms, order, period, t[live], live)
            product[live] *= factor**times
            more += times * above
            live = live[np.abs(product[live]) > NEGLIGIBLE]
        for units, times in zip(self.units.tolist(), self.unit_counts.tolist(), strict=True):
            product[live] *= _laplace_factor(units, order, t[live]) ** times
            live = live[np.abs(product[live]) > NEGLIGIBLE]
        live = self._times_steps(product, live, order, t)
        dropped = np.ones(count, dtype=np.bool_)
        dropped[live] = False
        product[dropped] = 0.0
        return product, self._errors(order, period, t) + np.where(dropped, NEGLIGIBLE, 0.0), more

    def _times_steps(
        self, product: Complexes, live: npt.NDArray[np.intp], order: float, t: Floats
    ) -> npt.NDArray[np.intp]:
        """Multiply by the factors of three-point losses, few at a time while many frequencies are left."""
        log_steps = self._log_steps(order) if len(self.steps) else self.steps
        move = order * self.steps
        with np.errstate(under="ignore"):
            low, middle, high = (np.exp(self.log_masses[:, i] + (i - 1) * move - log_steps) for i in range(3))
        place = 0
        while place < len(self.steps) and len(live):
            end = place + max(1, min(_BLOCK // len(live), len(self.steps) - place))
            own = slice(place, end)
            angles = np.multiply.outer(self.steps[own], t[live])
            factors = np.empty(angles.shape, dtype=np.complex128)
            factors.real = middle[own, None] + (low + high)[own, None] * np.cos(angles)
            factors.imag = (high - low)[own, None] * np.sin(angles)
            if (self.counts[own] != 1).any():
                factors **= self.counts[own, None]
            with np.errstate(under="ignore"):
                product[live] *= factors.prod(axis=0)
            live = live[np.abs(product[live]) > NEGLIGIBLE]
            place = end
        return live

    def _errors(self, order: float, period: float, t: Floats) -> Floats:
        """Return Σ of the errors of all factors: as none is above 1, the product is off by no more."""
        reach = float(self.counts @ self.steps) + float(self.unit_counts @ self.units)
        errors = self.rounding(order) + UNIT * (4 * reach + 4 * self.variance * (1 + abs(order))) * t
        for atoms, times in self.others:
            own = _lattice_error(atoms, order, period) if len(atoms.losses) > _FEW else 0.0
            errors = errors + times * (own + 4 * UNIT * atoms.reach * t)
        return errors


def _log_atoms(atoms: Atoms, order: float) -> float:
    with np.errstate(divide="ignore"):
        return float(log_sum(np.log(atoms.first) + order * atoms.losses)) if len(atoms.losses) else -math.inf


def _tilted(atoms: Atoms, order: float) -> Floats:
    """Return the masses times e^(order·loss), of sum 1."""
    with np.errstate(divide="ignore", under="ignore"):
        return np.exp(np.log(atoms.first) + order * atoms.losses - _log_atoms(atoms, order))


def _of_atoms(
    atoms: Atoms, order: float, period: float, t: Floats, live: npt.NDArray[np.intp]
) -> tuple[Complexes, float]:
    if len(atoms.losses) > _FEW:
        weights, above = _on_lattice(atoms, order, period)
        return np.fft.rfft(weights).conj()[live], above
    found = np.zeros(len(live), dtype=np.complex128)
    for loss, weight in zip(atoms.losses.tolist(), _tilted(atoms, order).tolist(), strict=True):
        found += weight * np.exp(1j * loss * t)
    return found, 0.0


def split(atoms: Atoms, width: float) -> tuple[Floats, Floats]:
    """Return the places, in widths, and masses under P of atoms split onto a lattice."""
    below = np.floor(atoms.losses / width)
    upper = np.clip(-np.expm1(below * width - atoms.losses) / -math.expm1(-width) * (1 + SLOP), 0.0, 1.0)
    places = np.concatenate([below, below + 1])
    return places, np.concatenate([atoms.first * (1 - upper), atoms.first * upper])


def _on_lattice(atoms: Atoms, order: float, period: float) -> tuple[Floats, float]:
    """Return the tilted masses of the split atoms by their places modulo the period, and how much their moment grew."""
    width = period / _LATTICE
    places, masses = split(atoms, width)
    with np.errstate(divide="ignore", under="ignore"):
        weights = np.exp(np.log(masses) + order * (places * width) - _log_atoms(atoms, order))
    total = math.fsum(weights)
    folded: Floats = np.bincount((places % _LATTICE).astype(np.int64), weights / total, minlength=_LATTICE).astype(
        np.float64
    )
    return folded, math.log(total)


def _lattice_error(atoms: Atoms, order: float, period: float) -> float:
    """Return a bound on an FFT's rounding: its norm errs by 8u·log₂N of itself, and no entry by more than that."""
    norm = math.sqrt(float((_on_lattice(atoms, order, period)[0] ** 2).sum()))
    return 8 * UNIT * math.log2(_LATTICE) * math.sqrt(_LATTICE) * norm


def _log_laplace(units: Floats, order: float) -> Floats:
    """Return log e^(−u/2)(cosh a + (u/2)·sinh(a)/a), a = |order + ½|·u."""
    a = np.abs(order + 0.5) * units
    inner = (1 + np.exp(-2 * a)) / 2 - np.expm1(-2 * a) / 2 * np.where(a > 0, units / np.where(a > 0, 2 * a, 1.0), 0.0)
    return a - units / 2 + np.log(inner)


def _laplace_factor(units: float, order: float, t: Floats) -> Complexes:
    if units == 0:
        return np.ones(len(t), dtype=np.complex128)
    side = 1.0 if order + 0.5 >= 0 else -1.0
    real = abs(order + 0.5) * units
    a = real + 1j * side * units * t
    fall = np.exp(-2 * a)
    inner = (1 + fall) / 2 + (1 - fall) / 2 * units / (2 * a)
    scale = float(_log_laplace(np.array([units]), order)[0]) + units / 2 - real
    return np.exp(1j * side * units * t - scale) * inner
