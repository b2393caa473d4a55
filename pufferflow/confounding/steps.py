"""Staircase noise on finitely many answers: a finite channel, exactly.

Around an answer the density falls by a factor e^{−ε} at every distance γ + j steps, and is constant in between. So all
likelihoods are constant between jumps around any of the answers. Beyond the outermost answers everything repeats, one
step further and e^{−ε} times as likely, so that one step on each side represents all. Jumps are rational numbers: where
two of them coincide there is no cell between them.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from pufferflow.confounding.additive import Cells
from pufferflow.core.arrays import Array
from pufferflow.core.rounding import UNIT
from pufferflow.noise.staircase import Staircase

_DEEP = 600.0


def count_of_steps(answers: Sequence[Fraction]) -> int:
    """Return how many cells there can be at most, for answers in units of a step that begin at 0."""
    return 2 * len(set(answers)) * (math.ceil(max(answers)) + 2) + 3


def staircase_cells(noise: Staircase, answers: Sequence[Fraction]) -> Cells:
    """Return the cells of a staircase with steps of length 1; answers begin at 0."""
    share, atoms, high = Fraction(noise.gamma or 0.0), sorted(set(answers)), max(answers)
    jumps = {atom + side * (share + step) for atom in atoms for side in (-1, 1) for step in range(math.ceil(high) + 2)}
    edges = sorted({one for one in jumps if -1 < one < high + 1} | {Fraction(-1), Fraction(0), high, high + 1})
    middle = np.array([(a + b) / 2 for a, b in pairwise(edges)], dtype=object)
    lengths = np.array([float(b - a) for a, b in pairwise(edges)])
    outside = np.array([one < 0 or one > high for one in middle.tolist()])
    repeats = np.where(outside, 1 / -math.expm1(-noise.epsilon), 1.0)
    own = {
        atom: np.exp(-noise.epsilon * falls(middle - atom, share)) * noise.height * lengths * repeats for atom in atoms
    }
    deepest = noise.epsilon * (float(high) + 2)
    masses, off = np.stack([own[one] for one in answers]), (32 + 4 * deepest) * UNIT
    return Cells(masses, np.zeros(len(lengths)), off, deepest < _DEEP, np.zeros(1))


def falls(distances: Array, share: Fraction) -> Array:
    """Return how often the density has fallen at distances, which are rational numbers, from its middle."""
    sizes = [abs(one) for one in distances.tolist()]
    return np.array([math.floor(one) + (one - math.floor(one) >= share) for one in sizes], dtype=np.float64)


def log_stairs(noise: Staircase, distance: Fraction) -> float:
    """Return the log density at a distance from an answer, on the right side of every jump."""
    units = np.array([distance / Fraction(noise.scale)], dtype=object)
    fallen = float(falls(units, Fraction(noise.gamma or 0.0))[0])
    return math.log(noise.height) - math.log(noise.scale) - noise.epsilon * fallen
