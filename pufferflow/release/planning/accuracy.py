"""The noise that an accuracy allows, and the strongest guarantee that such noise keeps where it differs by cell."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pufferflow.calibration.calibrate import Calibration, calibrate_each, loss
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT
from pufferflow.noise.base import Family
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.release.planning.cell_noise import CellNoise, Demand, noise_by_cell
from pufferflow.release.planning.decision import Decision
from pufferflow.release.planning.error_bars import half_width
from pufferflow.release.planning.options import Within
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.row_privacy import least_scale, not_silent

DIGITS: Final = 16 * UNIT
"""The relative margin by which noise may exceed its target; the widest scale is reduced by it, against rounding."""
_WORTHWHILE: Final = 0.999
_GROWTHS: Final = (1 + 1e-7, 1.011)
"""Factors by which a guarantee is weakened: for the tolerance of calibrations, and for cells with others' noise."""


def widest(
    facts: PublicMetadata, weights: Floats, family: Family, accuracy: Within, places: Array | slice | None = None
) -> float:
    """Return the largest common scale with which every answer has its error, in some of the cells or in all."""
    request, scales = facts.request, list[float]()
    unit = [family(1 / weight) if weight > 0 else family(0.0) for weight in weights.tolist()]
    noises = unit if facts.combined is None else facts.combined.of_sums(unit)
    for query, sums in request.reads:
        if not query.linear:
            raise Refused(
                f"The error of {query.name!r} depends on the data, so nothing can be guaranteed about it beforehand.",
                allowed="an accuracy of sums, counts, means and histograms",
                instead="a batch without it, or a guarantee with an epsilon",
            )
        size, cells = facts.size_of(query), len(facts.cells.rows)
        own = query.measure_in(size)
        for number, place in enumerate(sums):
            if noises[place].scale > 0:
                noise = noises[place].at(float(facts.weights.units[place]) * noises[place].scale)
                halves = half_width(query, noise, size, accuracy.confidence)
                if own is not None:
                    halves = np.where(own == number, halves, 0.0)
                if places is not None:
                    halves = np.broadcast_to(halves, cells)[places]
                half = halves.max(initial=0.0)
                scales += [accuracy.error / float(half)] if half else []
    if not scales:
        raise Refused("No row moves an answer: there is nothing to hide.", allowed="answers that depend on values")
    return min(scales) * (1 - 8 * UNIT - DIGITS)


def strongest_by_cell(decision: Decision, demand: Demand, accuracy: Within) -> Decision:
    """Return the decision with the strongest guarantee that noise by cell keeps within an accuracy, if it is stronger.

    Cells that need less noise may be those whose answers allow the least.
    """
    if decision.cells is None:
        return decision
    epsilon = _epsilon(decision, decision.cells, demand, accuracy)
    if epsilon > decision.calibration.guarantee.loss * _WORTHWHILE:
        return decision
    for growth in _GROWTHS:
        calibration = _least(decision, demand, decision.terms.kind.at(epsilon * growth), accuracy)
        stronger = replace(decision, calibration=calibration, cells=noise_by_cell(demand, calibration))
        if all(some.noise.scale <= _widest(demand, accuracy, some.places) * (1 + DIGITS) for some in stronger.by_noise):
            return stronger
    return decision


def _widest(demand: Demand, accuracy: Within, places: Array | slice | None = None) -> float:
    return widest(demand.facts, demand.weights, demand.family, accuracy, places)


def _epsilon(decision: Decision, cells: CellNoise, demand: Demand, accuracy: Within) -> float:
    """Return the least ε with which each kind of cells may have all the noise that its own answers allow."""
    kinds: list[tuple[Laws, int]] = [(kind.laws, place) for place, kind in enumerate(cells.kinds)]
    epsilons = [0.0]
    for laws, number in [(decision.laws, -1), *kinds]:
        places = np.flatnonzero(cells.kind_of_cell == number)
        if len(places):
            noise = demand.family(_widest(demand, accuracy, places))
            epsilons.append(loss(laws, noise, decision.terms.kind, decision.terms.bound, demand.end))
            epsilons += [loss(row, noise, decision.terms.kind) for row in _rows(demand)]
    return max(epsilons)


def _rows(demand: Demand) -> Sequence[Laws]:
    return () if demand.of_row is None else (demand.of_row,)


def _least(decision: Decision, demand: Demand, promise: Guarantee, accuracy: Within) -> Calibration:
    """Return the least noise for all cells."""
    of_row = _rows(demand)
    demands = [(decision.laws, decision.terms.bound), *((row, "auto") for row in of_row)]
    calibration = calibrate_each(demands, promise, demand.family, demand.end)[0]
    floor = min(least_scale(demand.facts, demand.weights, promise), _widest(demand, accuracy))
    return not_silent(calibration, [decision.laws, *of_row], decision.terms.bound, floor)
