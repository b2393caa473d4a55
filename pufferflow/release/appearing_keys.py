"""The keys that appear in an answer whose keys the data chooses, and error bars that allow for the choice.

A key appears where its noisy number of rows is above a threshold (`planning.key_threshold`). So the noise of the
number, given that the key appears, has another law: a key of few rows appears only if the noise is large. The noise of
other sums is independent of the choice.

The bar of a number of rows y has all n for which a number of y or more is no rarer, among the keys of n rows that
appear, than is the noise beyond one end of its interval. A key that appears has a row, so n is 1 or more; and of more
rows such numbers are less rare. Above y the choice only makes smaller numbers rarer, so there the interval is enough.
"""

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.noise.base import Noise
from pufferflow.queries.aggregates import Count
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.key_columns import appearing_keys
from pufferflow.queries.query import Query
from pufferflow.release.planning.decision import Decision
from pufferflow.release.planning.error_bars import CONFIDENCE, confidence_of_sum, half_widths
from pufferflow.release.planning.key_threshold import KeyThreshold

_HALVINGS = 60
_FAR = 40.0
"""The number of noise scales above the threshold beyond which the choice is neglected."""
_RTOL = 1e-3


def appearing(decision: Decision, tally: Tally, sums: Floats) -> tuple[Tally, Floats]:
    """Return the keys that appear, with their noisy sums and nothing else."""
    threshold = decision.threshold
    if threshold is None or tally.keys is None:
        return tally, sums
    noisy_rows = sums[:, decision.request.measures.index(None)]
    keys, places = appearing_keys(tally.keys, noisy_rows > float(threshold.above))
    nothing = np.zeros(len(places), dtype=np.int64)
    return Tally(keys, nothing, nothing[:, None][:, :0]), sums[places]


def bars_of_appearing(
    threshold: KeyThreshold, query: Query, noises: list[Noise], sums: Floats, number: int
) -> tuple[Floats, Floats]:
    """Return the ends of the bars of a query that reads the number of rows, as one of its sums."""
    half, noisy = half_widths(query, noises), sums[:, number]
    outside = (1 - confidence_of_sum(query, len(noises), CONFIDENCE)) / 2
    least = least_rows(threshold, noisy, outside)
    if isinstance(query, Count):
        return least[:, None], (noisy + half[number])[:, None]
    ends = [np.zeros((len(sums), len(query.outputs))) for _ in range(2)]
    usual = half[number] * (1 + _RTOL)
    near = noisy - least > usual
    for some, width in ((~near, usual), (near, (noisy - least).max(initial=usual))):
        half[number] = width
        for end, part in zip(ends, query.ends(sums[some], half, None), strict=True):
            end[some] = part
    return ends[0], ends[1]


def least_rows(threshold: KeyThreshold, noisy: Floats, outside: float) -> Floats:
    """Return the least number of rows, 1 or more, of which keys that appear have such a noisy number not too rarely.

    Less often than `outside` it would be too rare.
    """
    noise, half_step = threshold.noise, float(threshold.grid) / 2
    least = noisy - noise.interval(1 - 2 * outside * (1 - _RTOL))[1] - half_step
    near = noisy < float(threshold.above) + _FAR * noise.scale
    number = noisy[near]
    first, last = np.ones(len(number)), np.maximum(number, 1.0)
    for _ in range(_HALVINGS):
        middle = (first + last) / 2
        reached, appears = (
            noise.tail(end - middle) for end in (number - half_step, float(threshold.above) + half_step)
        )
        rare = reached < outside * appears
        first, last = np.where(rare, middle, first), np.where(rare, last, middle)
    least[near] = first
    return least
