"""Error bars: how far noise may take an answer from what it would be without noise; they know nothing of the data.

An output that is a noisy sum times a public factor has the error of its noise. Of the others (variances, quantiles,
means of an unknown number of rows) the error depends on the sums: there every sum, or all running sums together, is
within a half width with the confidence asked for, and the bars are the ends that the output reaches within these.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pufferflow.noise import Noise
from pufferflow.noise.drawing import STEPS_PER_SCALE
from pufferflow.queries import Query

Floats = npt.NDArray[np.float64]
CONFIDENCE = 0.95
_DRAWS = 4000
_SEED = 20


def half_width(query: Query, noise: Noise, size: Floats | None, confidence: float = CONFIDENCE) -> Floats:
    """Return half the width of the interval that a linear output's noise is in with this probability, by cell."""
    return np.atleast_1d(query.factor(size)) * own_width(noise, confidence)


def own_width(noise: Noise, confidence: float) -> float:
    """Return half the width of the interval that the noise is in, rounded to its grid, with this probability."""
    return noise.interval(confidence)[1] + noise.scale / (2 * STEPS_PER_SCALE)


def expected_error(query: Query, noise: Noise, size: Floats | None) -> Floats:
    """Return the mean absolute error of a linear output, by cell."""
    return np.atleast_1d(query.factor(size)) * noise.expected_error


def ends(
    query: Query, noises: Sequence[Noise], sums: Floats, size: Floats | None, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return the ends of the bars of a query's outputs, of shape (cells, outputs)."""
    if query.running:
        half = np.full(len(noises), running_width(noises, confidence))
    else:
        each = confidence if query.linear else 1 - (1 - confidence) / len(noises)  # all sums of one output at once
        half = np.array([own_width(noise, each) for noise in noises])
    return query.ends(sums, half, size)


def running_width(noises: Sequence[Noise], confidence: float) -> float:
    """Return what no running sum of noises exceeds with this probability: a share of draws of the noises alone."""
    rng = np.random.default_rng(_SEED)  # it decides how bars look, not what is hidden: the sums are noisy already
    moves = np.cumsum([noise.sample(_DRAWS, rng) for noise in noises], axis=0)
    return float(np.quantile(np.abs(moves).max(axis=0), confidence))
