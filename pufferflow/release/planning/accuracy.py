"""Error bars, the noise that an accuracy allows, and the strongest guarantee that such noise keeps.

Error bars show how far noise may move an answer from its value without noise. They depend on published numbers only.

An output that is a noisy sum times a public factor has the error of its noise. The error of other outputs depends on
the sums. For a variance, or a mean of an unknown number of rows, all sums are within a half width with the given
confidence (Bonferroni). The bars are the ends that the output reaches within these widths. The bar of a quantile has
the values that the running sums of a histogram do not rule out. Each of these tests errs no more often than the
confidence allows.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import scipy  # loads its parts when first used

from pufferflow.calibration.calibrate import Calibration, calibrate_each, loss
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.sampler import STEPS_PER_SCALE
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.queries.statistic import Query
from pufferflow.release.planning.basis import Basis
from pufferflow.release.planning.blocks import Block, Demand, blocks_of, least_scale, not_silent
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.options import Within
from pufferflow.release.planning.public_metadata import PublicMetadata

CONFIDENCE = 0.95
_DRAWS, _FEWEST_DRAWS = 20_000, 4_000
_MOST_NUMBERS = 1_000_000
_NEVER = 1e-9
_SEED = 20


def half_width(
    query: Query, noise: Noise, size: Floats | None, confidence: float = CONFIDENCE
) -> Floats:
    """Return half the width of the interval that a linear output's noise is in with this probability, by cell."""
    return np.atleast_1d(query.factor(size)) * own_width(noise, confidence)


def own_width(noise: Noise, confidence: float) -> float:
    """Return half the width of the interval that the noise is in, rounded to its grid, with this probability."""
    return noise.interval(confidence)[1] + noise.scale / (2 * STEPS_PER_SCALE)


def expected_error(query: Query, noise: Noise, size: Floats | None) -> Floats:
    """Return the mean absolute error of a linear output, by cell."""
    return np.atleast_1d(query.factor(size)) * noise.expected_error


def error_bars(
    query: Query,
    noises: Sequence[Noise],
    sums: Floats,
    size: Floats | None,
    confidence: float = CONFIDENCE,
) -> tuple[Floats, Floats]:
    """Return the ends of the bars of a query's outputs, of shape (cells, outputs)."""
    shares = query.running(counts_are_public=size is not None)
    half = (
        half_widths(query, noises, confidence)
        if shares is None
        else running_widths(noises, shares, confidence)
    )
    return query.ends(sums, half, size)


def half_widths(query: Query, noises: Sequence[Noise], confidence: float = CONFIDENCE) -> Floats:
    """Return how far each sum of a query is off at most, all sums of one output at once with this probability."""
    of_sum = confidence_of_sum(query, len(noises), confidence)
    return np.array([own_width(noise, of_sum) for noise in noises])


def confidence_of_sum(query: Query, sums: int, confidence: float = CONFIDENCE) -> float:
    """Return the confidence of each of so many sums with which those of one output are all within their widths."""
    return confidence if query.linear else 1 - (1 - confidence) / sums


def running_widths(noises: Sequence[Noise], shares: Floats, confidence: float) -> Floats:
    """Return a bound on each running sum of noises, less a share of their total, to either side; last on the total.

    It is exceeded with probability 1 − confidence at most, so by symmetry to one side with half of that.
    """
    scales = np.array([noise.scale for noise in noises])
    largest = float(scales.max())
    if largest == 0:
        return np.zeros(len(noises) + 1)
    unit, parts = noises[0].at(1.0), tuple((scales / largest).tolist())
    grid = np.append(
        (1 - shares) * np.cumsum(scales) + shares * np.cumsum(scales[::-1])[::-1], scales.sum()
    )
    return largest * np.array(_widths(unit, parts, tuple(shares.tolist()), confidence)) + grid / (
        2 * STEPS_PER_SCALE
    )


@lru_cache(maxsize=64)
def _widths(
    noise: Noise, scales: tuple[float, ...], shares: tuple[float, ...], confidence: float
) -> Sequence[float]:
    """Return order statistics of draws that, but for one chance in 10⁹ each, are no less than the true quantiles."""
    rng = np.random.default_rng(_SEED)  # for the widths of bars only: the sums are noisy already
    outside = 1 - confidence
    draws = max(min(_DRAWS, _MOST_NUMBERS // len(scales)), _FEWEST_DRAWS, math.ceil(200 / outside))
    place = _fewest(draws, outside)  # so many draws, or more, lie beyond the true quantile
    # noise before it is rounded to its grid, drawn quickly and to a dozen digits
    parts = np.stack(
        [
            noise.reach((1 - rng.random(draws)) / 2) * rng.choice([-1.0, 1.0], draws) * scale
            for scale in scales
        ]
    )
    running = np.cumsum(parts, axis=0)
    sums = np.vstack([running - np.array(shares)[:, None] * running[-1], running[-1:]])
    return np.partition(np.abs(sums), draws - place, axis=1)[:, draws - place].tolist()


def _fewest(draws: int, share: float) -> int:
    """Return the least number of events in so many draws that is not passed with a chance of 10⁻⁹; each has a `share`.

    The binomial quantile: SciPy's own would load all of its statistics.
    """
    place = math.ceil(float(scipy.special.bdtrik(_NEVER, draws, share)))
    return (
        place - 1 if place > 0 and scipy.special.bdtr(place - 1, draws, share) >= _NEVER else place
    )


DIGITS: Final = 16 * UNIT
"""The relative margin by which noise may exceed its target; the widest scale is reduced by it, against rounding."""
_WORTHWHILE: Final = 0.999
_GROWTHS: Final = (1 + 1e-7, 1.011)
"""Factors by which a guarantee is weakened: for the tolerance of calibrations, and for cells with others' noise."""


def widest(
    public: PublicMetadata,
    basis: Basis,
    family: Family,
    accuracy: Within,
    places: Array | slice | None = None,
) -> float:
    """Return the largest common scale with which every answer has its error, in some of the cells or in all."""
    request, scales = public.request, list[float]()
    unit = [family(1 / weight) if weight > 0 else family(0.0) for weight in basis.weights.tolist()]
    noises = basis.transform.of_sums(unit)
    for query, sums in request.reads:
        if not query.linear:
            raise Refused(
                f"The error of {query.name!r} depends on the data, so nothing can be guaranteed about it beforehand.",
                allowed="an accuracy of sums, counts, means and histograms",
                instead="a batch without it, or a guarantee with an epsilon",
            )
        size, cells = public.size_of(query), len(public.cells.rows)
        own = query.measure_in(size)
        for number, place in enumerate(sums):
            if noises[place].scale > 0:
                noise = noises[place].at(float(public.weights.units[place]) * noises[place].scale)
                halves = half_width(query, noise, size, accuracy.confidence)
                if own is not None:
                    halves = np.where(own == number, halves, 0.0)
                if places is not None:
                    halves = np.broadcast_to(halves, cells)[places]
                half = halves.max(initial=0.0)
                scales += [accuracy.error / float(half)] if half else []
    if not scales:
        raise Refused(
            "No row changes an answer, so there is nothing to hide.",
            allowed="answers that depend on values",
        )
    return min(scales) * (1 - 8 * UNIT - DIGITS)


def strongest_by_cell(noise: CalibratedNoise, demand: Demand, accuracy: Within) -> CalibratedNoise:
    """Return the noise with the strongest guarantee that blocks keep within an accuracy, if it is stronger.

    Cells that need less noise may be those whose answers allow the least.
    """
    if not noise.differs_by_cell:
        return noise
    epsilon = _epsilon(noise, demand, accuracy)
    if epsilon > noise.calibration.guarantee.loss * _WORTHWHILE:
        return noise
    for growth in _GROWTHS:
        calibration = _least(noise, demand, noise.options.kind.at(epsilon * growth), accuracy)
        stronger = replace(
            noise, blocks=blocks_of(demand, Block(slice(None), noise.laws, calibration))
        )
        if all(
            some.noise.scale <= _widest(demand, accuracy, some.places) * (1 + DIGITS)
            for some in stronger.by_noise
        ):
            return stronger
    return noise


def _widest(demand: Demand, accuracy: Within, places: Array | slice | None = None) -> float:
    return widest(demand.public, demand.basis, demand.family, accuracy, places)


def _epsilon(noise: CalibratedNoise, demand: Demand, accuracy: Within) -> float:
    """Return the least ε with which each block may have all the noise that its own answers allow."""
    epsilons, options = [0.0], noise.options
    for block in noise.blocks:
        if isinstance(block.cells, slice) or len(block.cells):
            widest_here = demand.family(_widest(demand, accuracy, block.cells))
            epsilons.append(loss(block.laws, widest_here, options.kind, options.bound, demand.end))
            epsilons += [loss(row, widest_here, options.kind) for row in _rows(demand)]
    return max(epsilons)


def _rows(demand: Demand) -> Sequence[Laws]:
    return () if demand.of_row is None else (demand.of_row,)


def _least(
    noise: CalibratedNoise, demand: Demand, promise: Guarantee, accuracy: Within
) -> Calibration:
    """Return the least noise for all cells."""
    of_row, bound = _rows(demand), noise.options.bound
    demands = [(noise.laws, bound), *((row, "auto") for row in of_row)]
    calibration = calibrate_each(demands, promise, demand.family, demand.end)[0]
    floor = min(least_scale(demand.public, demand.basis, promise), _widest(demand, accuracy))
    return not_silent(calibration, [noise.laws, *of_row], bound, floor)
