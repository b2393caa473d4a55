"""Regions of laws around what independent draws counted: each cell by itself, and the whole law in total variation.

For laws each counted from n draws the regions hold all of them with a joint confidence. One half of the chance to be
wrong goes to the cells, in equal shares: two-sided intervals of Clopper and Pearson, which are exact. The other half
goes to the laws, in equal shares: P(TV(counted, true) ≥ τ) is at most (2^k − 2)·e^{−2nτ²} over the sets of k cells
(Hoeffding), and at most e^{−2n(τ − e)²} for τ ≥ e = ½√((k − 1)/n), which bounds the mean distance (McDiarmid); n and k
say which of the two balls is taken.
"""

import math
from typing import Literal

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number
from pufferflow.distributions.markov.law_regions import LawRegions

Slack = float | Literal["confidence"] | None
HALF = 0.5
"""Added to each count (Krichevsky and Trofimov): a value that was never seen is not impossible."""
CONFIDENCE = 0.95


def read_slack(slack: object) -> Slack:
    """Return the slack of a fit: None, "confidence", or a width from 0 to 1."""
    if slack is None or (isinstance(slack, str) and slack == "confidence"):
        return slack
    allowed, instead = 'a number from 0 to 1, or "confidence"', "slack=0.05"
    width = np.inf if isinstance(slack, str) else finite_number(slack, "slack", allowed=allowed, instead=instead)
    if not 0 <= width <= 1:
        raise UsageError(f"slack is {slack!r}.", allowed=allowed, instead=instead)
    return width


def read_confidence(confidence: object) -> float:
    """Return a level of confidence."""
    allowed, instead = "a number between 0 and 1", "confidence=0.95"
    if not 0 < (level := finite_number(confidence, "confidence", allowed=allowed, instead=instead)) < 1:
        raise UsageError(f"confidence is {level:g}.", allowed=allowed, instead=instead)
    return level


def clopper_pearson(times: Floats, others: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return intervals of shares that `times` draws had and `others` had not; each side fails with chance `tail`."""
    from scipy.special import betaincinv  # takes longer to load than all else here

    least = np.asarray(betaincinv(np.maximum(times, 1), others + 1, tail), dtype=np.float64)
    # the largest share of one state leaves the least share of the others, whose small digits are kept
    rest = np.asarray(betaincinv(np.maximum(others, 1), times + 1, tail), dtype=np.float64)
    return np.where(times > 0, least, 0.0), np.where(others > 0, 1 - rest, 1.0)


def outwards(low: Floats, high: Floats, estimates: Floats) -> tuple[Floats, Floats]:
    """Return bounds that hold the estimates: a wider class of priors is the private side."""
    low, high = np.nextafter(np.minimum(low, estimates), -1), np.nextafter(np.maximum(high, estimates), 2)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def smoothed(counts: Indices | Floats) -> Floats:
    """Return the estimated laws, along the last axis.

    >>> smoothed(np.array([[3, 0]])).tolist()
    [[0.875, 0.125]]
    """
    shares = (counts + HALF) / (counts.sum(axis=-1, keepdims=True) + HALF * counts.shape[-1])
    return shares / shares.sum(axis=-1, keepdims=True)


def regions_around(counts: Indices | Floats, slack: float | None, chance: float, cells: int, laws: int) -> LawRegions:
    """Return regions of laws counted along the last axis; with slack None those of confidence.

    `chance` is that of any of so many cells and laws to lie outside, those of other counts included.
    """
    centre, times = smoothed(counts), counts.astype(np.float64)
    if slack is not None:
        return LawRegions.of(centre, *outwards(centre - slack, centre + slack, centre))
    drawn = times.sum(axis=1, keepdims=True)
    low, high = clopper_pearson(times, drawn - times, chance / (4 * cells))
    balls = np.array([_ball(int(n), counts.shape[1], chance / (2 * laws)) for n in drawn[:, 0]])
    moved = np.abs(times / np.maximum(drawn, 1) - centre).sum(axis=1) / 2  # from what was counted to the centre
    return LawRegions.of(centre, *outwards(low, high, centre), np.minimum((balls + moved) * (1 + 2.0**-40), 1.0))


def _ball(drawn: int, cells: int, chance: float) -> float:
    """Return the total variation that a counted law of so many cells has from the true one, but for a chance."""
    if cells == 1:
        return 0.0
    if drawn == 0:
        return 1.0
    by_sets = math.sqrt((cells * math.log(2) + math.log1p(-(2.0 ** (1 - cells))) - math.log(chance)) / (2 * drawn))
    by_mean = math.sqrt((cells - 1) / drawn) / 2 + math.sqrt(-math.log(chance) / (2 * drawn))
    return min(by_sets, by_mean, 1.0)
