"""Noise cell by cell: each kind of cells has the noise that the groups with rows there need.

Groups are independent, and a secret of one moves only cells in which it has selected rows (M2). So the loss about it
depends on the noise of these cells alone, and the largest over all kinds of cells is the loss of the release (M25).
The cells of each group are public, and so are the scales. Cells of no group hide nothing; they have the least noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, cast, final

import numpy as np

from pufferflow.calibration.calibrate import Bounds, Calibration, calibrate_each, proof_of
from pufferflow.calibration.laws import Laws, SeveralLaws
from pufferflow.core.arrays import Array, Floats, Whole
from pufferflow.core.errors import Refused
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.queries.engine_interface import CellGroups, GroupSize
from pufferflow.release.planning.options import PlanOptions
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.row_privacy import least_scale
from pufferflow.release.planning.sum_tables import Tables

_WORTHWHILE: Final = 0.99
"""Cells whose noise would be less by no more than this have that of the others."""
_RTOL: Final = 1e-6


@final
@dataclass(frozen=True, eq=False)
class QuietCells:
    """Cells with groups of these sizes only, the laws of their weighted sums, and the noise that hides these."""

    sizes: tuple[GroupSize, ...]
    laws: Laws
    calibration: Calibration

    @property
    def noise(self) -> Noise:
        """The noise of the weighted sums."""
        return self.calibration.noise


@final
@dataclass(frozen=True, eq=False)
class CellNoise:
    """The kinds of cells that need less noise than others, and the kind of each cell: −1 for all others.

    `other_sizes` are those of the groups in others.
    """

    kinds: tuple[QuietCells, ...]
    kind_of_cell: Whole
    other_sizes: tuple[GroupSize, ...]

    @property
    def least(self) -> Noise:
        """The least noise of all cells."""
        return min((kind.noise for kind in self.kinds), key=lambda noise: noise.scale)

    def by_noise(self, most: Noise) -> list[tuple[Noise, Array]]:
        """Return each noise, the largest first, and the places of the cells that have it; `most` is that of others."""
        noises = [*(kind.noise for kind in self.kinds), most]  # a cell of the kind −1 has the last
        scales = np.array([noise.scale for noise in noises])[self.kind_of_cell]
        return [(most.at(scale), np.flatnonzero(scales == scale)) for scale in np.unique(scales)[::-1].tolist()]

    def charged(self, factor: float, proof: "Proof") -> "CellNoise | None":
        """Return the same with noises that are longer by a factor near 1; None if one of them has no proof."""
        kinds = list[QuietCells]()
        for kind in self.kinds:
            found = proof.of(kind.laws, kind.noise.at(kind.noise.scale * factor))
            if found is None:
                return None
            kinds.append(replace(kind, calibration=found))
        return replace(self, kinds=tuple(kinds))

    def shortened(self, factor: float) -> Self:
        """Return the same with noises that are shorter by a factor, for which nothing is proven again."""
        kinds = [replace(kind, calibration=shortened(kind.calibration, factor)) for kind in self.kinds]
        return replace(self, kinds=tuple(kinds))


@final
@dataclass(frozen=True, eq=False)
class Proof:
    """The proof that noise keeps a guarantee: by some `bounds`.

    And for one row alone, if it has to be hidden.
    """

    promise: Guarantee
    bounds: Sequence[Any]
    of_row: Laws | None

    def of(self, laws: Laws, noise: Noise) -> Calibration | None:
        """Return the proof for some laws and a noise; None if there is none."""
        demands: list[tuple[Laws, Bounds]] = [(laws, cast(Bounds, self.bounds))]
        if self.of_row is not None:
            demands.append((self.of_row, "auto"))
        return proof_of(demands, self.promise, noise)


def shortened(calibration: Calibration, factor: float) -> Calibration:
    """Return a calibration with noise that is shorter by a factor."""
    return replace(calibration, noise=calibration.noise.at(calibration.noise.scale / factor))


@final
@dataclass(frozen=True, eq=False)
class Demand:
    """What noise is made for: the weighted laws of some tables, and those of one row alone, if it has to be hidden."""

    facts: PublicMetadata
    terms: PlanOptions
    tables: Sequence[Sequence[Tables]]
    weights: Floats
    family: Family
    of_row: Laws | None
    end: float | None = None

    def scale(self, laws: Laws, promise: Guarantee, *, row: bool = False) -> float:
        """Return the least scale that hides laws, those of one `row` alone by whatever bound."""
        bound = "auto" if row else self.terms.bound
        return calibrate_each([(laws, bound)], promise, self.family, self.end)[0].noise.scale


def noise_by_cell(demand: Demand, calibration: Calibration) -> CellNoise | None:
    """Return noise cell by cell; None if all cells have that of the calibration, which suffices for every group.

    Only of families whose losses fall as noise grows.
    """
    noise, facts, promise = calibration.noise, demand.facts, calibration.guarantee
    enough = noise.scale * _WORTHWHILE
    if not (demand.terms.per_group and noise.monotone and noise.scale > 0) or not facts.may_differ_by_cell:
        return None
    least = least_scale(facts, demand.weights, promise)
    if demand.of_row is not None:
        least = max(least, demand.scale(demand.of_row, promise, row=True))
    groups = facts.groups_in_cells if least < enough else None
    if groups is None or len(groups.kinds) < 2:
        return None
    return _quieter(demand, calibration, groups, least)


def _quieter(demand: Demand, calibration: Calibration, groups: CellGroups, least: float) -> CellNoise | None:
    """Return the kinds that need less than others, none of them less than the `least`; None if there is none."""
    noise = calibration.noise
    proof = Proof(calibration.guarantee, [calibration.bound, demand.terms.bound], demand.of_row)  # the best one first
    number = np.full(len(groups.kinds) + 1, -1)  # the last is that of cells of no group
    kinds = list[QuietCells]()
    for place, (sizes, laws, scale) in enumerate(_by_kind(demand, calibration, groups)):
        tried = (max(scale, least) * factor for factor in (1.0, 1 + _RTOL))
        quiet = (proof.of(laws, noise.at(own)) for own in tried if own < noise.scale * _WORTHWHILE)
        found = next((one for one in quiet if one is not None), None)
        if found is not None:
            number[place] = len(kinds)
            kinds.append(QuietCells(sizes, laws, found))
    if not kinds:
        return None
    number[-1] = min(range(len(kinds)), key=lambda place: kinds[place].noise.scale)
    others = {size for sizes, own in zip(groups.kinds, number, strict=False) if own < 0 for size in sizes}
    return CellNoise(tuple(kinds), number[groups.kind_of_cell], tuple(sorted(others)))


def _by_kind(
    demand: Demand, calibration: Calibration, groups: CellGroups
) -> list[tuple[tuple[GroupSize, ...], Laws, float]]:
    """Return the sizes of each kind with their laws and the least scale for all of them.

    Large groups come first: where they need all noise, others that are in the same cells only do not matter.
    """
    most, promise = calibration.noise.scale, calibration.guarantee
    laws, scales = dict[GroupSize, Laws](), dict[GroupSize, float]()
    for size in sorted({size for sizes in groups.kinds for size in sizes}, reverse=True):
        around = [sizes for sizes in groups.kinds if size in sizes]
        if all(max(scales.get(one, 0.0) for one in sizes) >= most * _WORTHWHILE for sizes in around):
            continue
        laws[size] = demand.facts.laws(demand.tables, demand.weights, [size])
        try:
            scales[size] = demand.scale(laws[size], promise)
        except Refused:
            scales[size] = most
    found = list[tuple[tuple[GroupSize, ...], Laws, float]]()
    for sizes in groups.kinds:
        known = [size for size in sizes if size in laws]  # all, unless the largest need all noise
        found.append((sizes, SeveralLaws([laws[size] for size in known]), max(scales[size] for size in known)))
    return found
