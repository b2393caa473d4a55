"""The least correlated Gaussian noise for two outputs, used only where it is less than independent noise (M28)."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pufferflow.calibration.calibrate import Bounds, Calibration, Pairs, calibrate
from pufferflow.calibration.law_pairs import Pair, finite_laws
from pufferflow.calibration.laws import read_laws
from pufferflow.core.arrays import Array
from pufferflow.core.errors import Refused
from pufferflow.distributions.coupling import all_differences
from pufferflow.distributions.finite_law import Law
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.joint_gaussian import JointGaussian, best_rho
from pufferflow.privacy.guarantee import Guarantee

_MOST_SHIFTS: Final = 4_000_000
_WORTHWHILE: Final = 1 - 1e-6


@final
@dataclass(frozen=True, eq=False)
class JointCalibration:
    """Joint noise that keeps a guarantee for both outputs, its proof, and the independent noise for comparison.

    `calibration` is about the outputs in the coordinates in which the noise is independent.

    >>> import pufferflow as pf
    >>> shifts = [(1, 0), (0, 1), (1, 1)]
    >>> pairs = [(pf.Law.point((0, 0)), pf.Law.point(shift)) for shift in shifts]
    >>> joint = pf.calibrate_joint(pairs, pf.Gdp(0.5))
    >>> round(joint.noise.scale, 3), round(joint.alone.scale, 3), round(joint.noise.gdp(shifts), 9)
    (2.309, 2.828, 0.5)
    """

    noise: JointGaussian
    alone: JointGaussian
    """The least independent noise with the same units."""
    calibration: Calibration

    @property
    def loss(self) -> float:
        """The loss proven for the noise."""
        return self.calibration.loss

    @property
    def gain(self) -> float:
        """The share by which the noise of both outputs is less than independent noise."""
        return 1 - self.noise.scale / self.alone.scale if self.alone.scale else 0.0

    def __repr__(self) -> str:
        return f"JointCalibration(noise={self.noise!r}, loss={self.loss!r}, gain={self.gain!r})"


def calibrate_joint(
    pairs: Pairs, guarantee: Guarantee, bound: Bounds = "auto", units: tuple[float, float] | None = None
) -> JointCalibration:
    """Return the least Gaussian noise for two outputs of one batch, correlated where that needs less noise.

    The laws have two coordinates. `units` are the standard deviations at scale 1, in proportion; by default, how far
    each output can move. The correlation is the best one for all shifts between the supports. For any correlation the
    proof is that of `pf.calibrate`, by the same bounds, in the coordinates in which the noise is independent.

    >>> import pufferflow as pf
    >>> sums = pf.Law([(0, 0), (1, 0), (0, 1), (1, 1)], [0.25] * 4)  # a row may be in either of two sums, or in both
    >>> joint = pf.calibrate_joint([(pf.Law.point((0, 0)), sums)], pf.Renyi(4, 1.0), bound=pf.GWM())
    >>> round(joint.noise.rho, 3), round(joint.gain, 3)
    (0.5, 0.184)
    """
    listed = [pair for laws in read_laws(pairs) for pair in laws]
    shifts = np.concatenate([_shifts_of(pair) for pair in listed])
    ranges = np.abs(shifts).max(axis=0)
    if not (ranges > 0).all():
        raise Refused(
            "One of both outputs does not move, so joint noise cannot be less than independent noise.",
            allowed="two outputs that the secret moves",
            instead="pf.calibrate for the other output, with noise=pf.Gaussian",
        )
    own = (float(ranges[0]), float(ranges[1])) if units is None else units
    alone = JointGaussian(1.0, own)
    least = _calibrated(listed, guarantee, alone, bound)
    independent = alone.at(least.noise.scale)
    rho = best_rho(shifts, own)
    if rho:
        joint = JointGaussian(1.0, own, rho)
        found = _calibrated(listed, guarantee, joint, bound)
        if found.noise.scale < least.noise.scale * _WORTHWHILE:
            return JointCalibration(joint.at(found.noise.scale), independent, found)
    return JointCalibration(independent, independent, least)


def _calibrated(pairs: list[Pair], guarantee: Guarantee, unit: JointGaussian, bound: Bounds) -> Calibration:
    """Return the calibration of independent noise in the coordinates of a joint noise."""

    def moved(law: Law) -> Law:
        return law.map(unit.transformed)

    laws = (finite_laws(pair) for pair in pairs)
    return calibrate([Pair(moved(mu), moved(nu)) for mu, nu in laws], guarantee, Gaussian, bound)


def _shifts_of(pair: Pair) -> Array:
    """Return the distinct shifts between the supports of two laws."""
    mu, nu = finite_laws(pair)
    if mu.dimension != 2:
        raise Refused(
            f"Joint noise for an answer of {mu.dimension} coordinates.",
            allowed="laws of two outputs together",
            instead="pf.calibrate, with noise=pf.Gaussian",
        )
    if len(mu) * len(nu) > _MOST_SHIFTS:
        raise Refused(
            "The laws of a pair have too many atoms to list all shifts between them.",
            allowed=f"{_MOST_SHIFTS} pairs of atoms",
            instead="pf.calibrate, with noise=pf.Gaussian",
        )
    return np.unique(all_differences(mu, nu).reshape(-1, 2), axis=0)
