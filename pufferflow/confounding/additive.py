"""Noise that is added to numbers of a row, and finite channels that reveal at least as much.

The outputs of such a channel are cells in which likelihoods hardly change.

Staircase noise on finitely many answers is a finite channel, exactly. Around an answer the density falls by a factor
e^{−ε} at every distance γ + j steps, and is constant in between. So all likelihoods are constant between jumps around
any of the answers. Beyond the outermost answers everything repeats, one step further and e^{−ε} times as likely. So one
step on each side represents all. Jumps are rational numbers: if two of them coincide there is no cell between them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, cast, final

import numpy as np

from pufferflow.confounding.latent import read_correlation
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import instance, set_fields
from pufferflow.noise.base import Noise
from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.channel import cell_masses, columns_of
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.staircase import Staircase

_FAR = 9.5
"""Beyond this number of scales Gaussian noise has mass 2e-21, which is counted as revealing the answer."""
_DEEP = 600.0
_NOISES = (Laplace, Gaussian, GeneralizedCauchy, Staircase)
_INSTEAD = 'pf.confounding.Additive("score", pf.Laplace(2.0))'


@final
@suggests_arguments
@dataclass(frozen=True)
class Additive(InNotebooks):
    """A release of numbers of a row with noise: a column, or several with independent noise in each.

    With `correlation` the noises of two columns are Gaussian with this correlation (M28).

    >>> import pufferflow as pf
    >>> Additive("score", pf.Laplace(2.0))
    Additive(reads=('score',), noise=Laplace(scale=2.0), correlation=0.0)
    """

    reads: tuple[str, ...]
    noise: Noise
    correlation: float

    def __init__(self, reads: str | Sequence[str], noise: Noise, correlation: float = 0.0) -> None:
        columns = columns_of(reads)
        instance(noise, Noise, "noise", allowed="a noise", instead=_INSTEAD)
        if not isinstance(noise, _NOISES) and noise.scale > 0:
            raise Refused(
                f"The exact cost of {type(noise).__name__} noise is not known.",
                allowed="pf.Laplace, pf.Gaussian, pf.GeneralizedCauchy or pf.Staircase",
                instead="pf.confounding.Channel.of_noise(reads, inputs, outputs, noise), on a grid of outputs",
            )
        share = read_correlation(correlation)
        if share != 0 and (len(columns) != 2 or not isinstance(noise, Gaussian)):
            raise UsageError(
                f"correlation is given for {type(noise).__name__} noise on {len(columns)} columns.",
                allowed="Gaussian noise on two columns",
                instead='pf.confounding.Additive(["a", "b"], pf.Gaussian(1.0), correlation=0.5)',
            )
        set_fields(self, reads=columns, noise=noise, correlation=share)


class Cells(NamedTuple):
    """A finite channel that reveals at least as much as a noisy answer, and hardly more.

    `masses` are of shape (answers, cells), each within a relative error `off`. `width` is how far the log ratio of two
    mixtures can move within a cell, in either direction.
    """

    masses: Floats
    width: Floats
    off: float
    sharp: bool
    blur: Floats
    """The absolute error of a cell's mass, beside the relative one."""


def laplace_cells(answers: Floats, most: int) -> Cells:
    """Return Laplace noise of scale 1 as a channel whose outputs are knots: answers, and points between them.

    Between two knots a gap g apart, the density at distance u from the first is a·e^u + b·e^{−u} for every answer. It
    is that of the first knot times sinh(g−u)/sinh(g), plus that of the second times sinh(u)/sinh(g). So the noisy
    answer is drawn from the knot alone. The channel has density(knot)·Σ tanh(g/2) over the gaps beside it. Beyond the
    last knots all densities decay at the same rate.
    """
    atoms = np.unique(answers)
    spare = max(most - len(atoms), 0)
    gaps = np.diff(atoms)
    share = (
        np.floor(spare * gaps / max(gaps.sum(), 1e-300)).astype(int)
        if len(gaps)
        else np.zeros(0, dtype=int)
    )
    share = np.minimum(share, np.ceil(gaps * 4000).astype(int))  # a finer grid gains nothing
    counts: list[int] = share.tolist()
    between = zip(pairwise(atoms.tolist()), counts, strict=True)
    pieces = [np.linspace(a, b, n + 1, endpoint=False, dtype=np.float64) for (a, b), n in between]
    knots: Floats = np.unique(np.concatenate([*pieces, atoms[-1:]]))
    sides = np.tanh(np.diff(knots) / 2)
    weights = np.concatenate([[1.0], sides]) + np.concatenate([sides, [1.0]])
    masses = np.exp(-np.abs(knots[None, :] - answers[:, None])) / 2 * weights
    reach = float(np.abs(answers).max())
    return Cells(masses, np.zeros(len(knots)), (16 + 8 * reach) * UNIT, reach < _DEEP, np.zeros(1))


def cells_of(noise: Noise, answers: Floats, most: int, blurred: float = 0.0) -> Cells:
    """Return cells of a noise of scale 1; answers begin at 0, with an error of up to `blurred`."""
    if isinstance(noise, Laplace):
        return laplace_cells(answers, most)
    low, high = float(answers.min()), float(answers.max())
    steepest = (
        high - low + _FAR if isinstance(noise, Gaussian) else _power(noise)
    )  # of a log density, within the cells
    edges = _edges(noise, low, high, most)
    inner = np.subtract(*slopes_of(noise, edges[:-1] - high, edges[1:] - low)[::-1]) * np.diff(
        edges
    )
    ends = 2 * noise.pure(high - low) if isinstance(noise, GeneralizedCauchy) else math.inf
    width = np.concatenate([[ends], np.minimum(inner, ends), [ends]]) * (1 + 64 * UNIT)
    if low == high:
        width = np.zeros_like(width)
    masses, off = cell_masses(noise, edges, answers)
    off += steepest * (2 * blurred + 16 * UNIT * (1 + high - low + _FAR))
    return Cells(masses, width, off, sharp=False, blur=np.zeros(1))


def _edges(noise: Noise, low: float, high: float, most: int) -> Floats:
    """Return the ends of cells: evenly spaced around the answers, wider and wider in heavy tails."""
    if isinstance(noise, Gaussian):
        return np.linspace(low - _FAR, high + _FAR, most)
    inner = np.linspace(low - 4, high + 4, max(most // 2, 3))
    outer = 4 * np.geomspace(1, 1e12, max(most // 4, 3))[1:]
    return np.concatenate([(low - outer)[::-1], inner, high + outer])


def slopes_of(noise: Noise, first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest derivative of a log density in intervals of noise of scale 1."""
    if isinstance(noise, Gaussian):
        return -last, -first
    if isinstance(noise, Laplace):
        return np.where(last > 0, -1.0, 1.0), np.where(first < 0, 1.0, -1.0)
    k = _power(noise)
    ends = np.stack([-k * u / (1 + u * u) for u in (first, last)])
    top, bottom = ends.max(axis=0), ends.min(axis=0)
    top = np.where((first <= -1) & (last >= -1), k / 2, top)
    bottom = np.where((first <= 1) & (last >= 1), -k / 2, bottom)
    return bottom, top


def _power(noise: Noise) -> float:
    """Return the power with which the density of a heavy-tailed noise decays."""
    return float(cast(GeneralizedCauchy, noise).k)


def count_of_steps(answers: Sequence[Fraction]) -> int:
    """Return how many cells there can be at most, for answers in units of a step that begin at 0."""
    return 2 * len(set(answers)) * (math.ceil(max(answers)) + 2) + 3


def staircase_cells(noise: Staircase, answers: Sequence[Fraction]) -> Cells:
    """Return the cells of a staircase with steps of length 1; answers begin at 0."""
    share, atoms, high = Fraction(noise.gamma or 0.0), sorted(set(answers)), max(answers)
    jumps = {
        atom + side * (share + step)
        for atom in atoms
        for side in (-1, 1)
        for step in range(math.ceil(high) + 2)
    }
    edges = sorted(
        {one for one in jumps if -1 < one < high + 1} | {Fraction(-1), Fraction(0), high, high + 1}
    )
    middle = np.array([(a + b) / 2 for a, b in pairwise(edges)], dtype=object)
    lengths = np.array([float(b - a) for a, b in pairwise(edges)])
    outside = np.array([one < 0 or one > high for one in middle.tolist()])
    repeats = np.where(outside, 1 / -math.expm1(-noise.epsilon), 1.0)
    own = {
        atom: np.exp(-noise.epsilon * falls(middle - atom, share))
        * noise.height
        * lengths
        * repeats
        for atom in atoms
    }
    deepest = noise.epsilon * (float(high) + 2)
    masses, off = np.stack([own[one] for one in answers]), (32 + 4 * deepest) * UNIT
    return Cells(masses, np.zeros(len(lengths)), off, deepest < _DEEP, np.zeros(1))


def falls(distances: Array, share: Fraction) -> Array:
    """Return how often the density has fallen at distances, which are rational numbers, from its middle."""
    sizes = [abs(one) for one in distances.tolist()]
    return np.array(
        [math.floor(one) + (one - math.floor(one) >= share) for one in sizes], dtype=np.float64
    )


def log_stairs(noise: Staircase, distance: Fraction) -> float:
    """Return the log density at a distance from an answer, on the right side of every jump."""
    units = np.array([distance / Fraction(noise.scale)], dtype=object)
    fallen = float(falls(units, Fraction(noise.gamma or 0.0))[0])
    return math.log(noise.height) - math.log(noise.scale) - noise.epsilon * fallen
