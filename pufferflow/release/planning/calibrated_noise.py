"""Noise calibrated for the sums of a request: everything about it follows from public facts and the scenario.

A ledger stores the name of a plan. The last digits of computed scales, movements and losses depend on the processor and
the version of NumPy. So the name covers the request, the options and the public facts, but no computed number. A
release that was reserved but not finished is completed with the reserved noise under two conditions: it agrees with
this machine's noise up to such digits, and this machine's proof accepts it.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, cast, final

import numpy as np

from pufferflow.calibration.bound import Bound
from pufferflow.calibration.bound_names import named_bound
from pufferflow.calibration.calibrate import Bounds, Calibration, loss
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.rounding import upwards
from pufferflow.models.secret import Presence
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.certificate import ChosenKeys
from pufferflow.published.cost import ExactSums, Shape
from pufferflow.queries.engine_interface import GroupSize, Measure
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.planning.basis import ROUNDINGS, Basis
from pufferflow.release.planning.blocks import Block, Proof
from pufferflow.release.planning.key_threshold import (
    KeyThreshold,
    for_sums,
    keys_share,
    least_threshold,
)
from pufferflow.release.planning.laws_of_sums import laws_of
from pufferflow.release.planning.options import PlanOptions
from pufferflow.release.planning.public_metadata import PublicMetadata, SourceDigest
from pufferflow.release.planning.selected_rows import exact_sums, present
from pufferflow.release.planning.sum_functions import Tables, free_tables

_ROW_PRIVACY = "row"
"""What digests of plans call it: those of older ledgers stay what they are."""
SCHEME: Final = "2:"
"""The prefix of names without computed floats; older names are digests of certificates."""


@final
@dataclass(frozen=True, eq=False)
class AnswerColumn:
    """A column of the answer: its query, the sum that it is made of (of several the first), and the sum's noise.

    Where cells are made of different sums, it is that with the most noise.
    """

    name: str
    query: Query
    measure: Measure | None
    noise: Noise
    """In the unit of the answer."""


NoiseAt = tuple[Array | slice, Noise]
"""The places of some cells, and the noise of a column of the answer there."""


@final
@dataclass(frozen=True, eq=False)
class CellsOfOneNoise:
    """The places of the cells with one noise: that of their weighted sums, and that of each number in whole steps."""

    noise: Noise
    places: Array | slice
    noises: tuple[Noise, ...]


@final
@dataclass(frozen=True, eq=False)
class CalibratedNoise:
    """Noise for all sums of a request, in the units of its basis, and the guarantee that it keeps.

    The first block is about all cells, and its noise is enough for each; the cells of other blocks have less.
    """

    public: PublicMetadata
    options: PlanOptions
    tables: list[list[Tables]]
    """For each prior the representations of all sums."""
    basis: Basis
    family: Family
    row_laws: Laws | None
    """The laws of the weighted sums if the secret's row is independent of all others; None if no sum reads it."""
    blocks: tuple[Block, ...]

    @property
    def request(self) -> Request:
        """The batch."""
        return self.public.request

    @property
    def weights(self) -> Floats:
        """The weight of each number that noise is added to."""
        return self.basis.weights

    @property
    def laws(self) -> Laws:
        """The laws of the weighted sums."""
        return self.blocks[0].laws

    @property
    def calibration(self) -> Calibration:
        """The calibration whose noise is enough for every cell."""
        return self.blocks[0].calibration

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee about all answers together: that of the sums, and what keys take that the data chooses."""
        if not self.request.discovers:
            return self.calibration.guarantee
        return self.options.example.with_losses([self.calibration.guarantee.loss])

    @property
    def key_delta(self) -> float:
        """The part of the guarantee's δ that keys take which the data chooses."""
        return keys_share(self.options.example) if self.request.discovers else 0.0

    @cached_property
    def threshold(self) -> KeyThreshold | None:
        """The noisy number of rows above which a key appears; None where keys are public."""
        secret = self.request.scenario.secret
        if not self.request.discovers or not isinstance(secret, Presence):
            return None
        counts = present(self.request, secret).counts
        number = self.noises[self.request.measures.index(None)]
        return least_threshold(number, int(counts.max()), self.key_delta, len(counts))

    @property
    def chosen_keys(self) -> ChosenKeys | None:
        """When a key appears, for the certificate; None where keys are public."""
        own = self.threshold
        return None if own is None else ChosenKeys(float(own.above), own.surely, own.delta)

    @property
    def row_privacy(self) -> bool:
        """Whether the noise also suffices for a single row."""
        return self.options.row_privacy

    @property
    def differs_by_cell(self) -> bool:
        """Whether some cells have less noise than others."""
        return len(self.blocks) > 1

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise that is drawn for each number in whole steps, its scale rounded up; none where no row moves it.

        That of the cells that need most, where they differ.
        """
        return self.basis.noises(self.calibration.noise)

    @property
    def least_noise(self) -> Noise:
        """The noise of the weighted sums in the cells that have the least."""
        return min((block.noise for block in self.blocks), key=lambda noise: noise.scale)

    @cached_property
    def by_noise(self) -> tuple[CellsOfOneNoise, ...]:
        """The cells with equal noise, for each noise, the largest first."""
        found = dict[float, list[Block]]()
        for block in sorted(self.blocks, key=lambda block: -block.noise.scale):
            if isinstance(block.cells, slice) or len(block.cells):
                found.setdefault(block.noise.scale, []).append(block)
        return tuple(
            CellsOfOneNoise(some[0].noise, _cells_of(some), self.basis.noises(some[0].noise))
            for some in found.values()
        )

    @cached_property
    def noises_in_units(self) -> tuple[Noise, ...]:
        """The same noises in the units of the answers."""
        return self.in_units(self.noises)

    @cached_property
    def outputs(self) -> tuple[AnswerColumn, ...]:
        """The columns of the answer."""
        return self._outputs(self.noises_in_units)

    def in_units(self, noises: Sequence[Noise]) -> tuple[Noise, ...]:
        """Return noises in whole steps as those of each sum by itself, in the units of the answers."""
        pairs = zip(self.basis.transform.of_sums(noises), self.public.weights.units, strict=True)
        return tuple(noise.at(noise.scale * float(unit)) for noise, unit in pairs)

    def _outputs(self, noises: Sequence[Noise]) -> tuple[AnswerColumn, ...]:
        measures = self.request.measures
        return tuple(
            AnswerColumn(name, query, measures[place], noises[place])
            for query, places in self.request.reads
            for name, place in zip(query.outputs, _shown(query, places, noises), strict=False)
        )

    def columns_with(self, noise: Noise) -> list[tuple[AnswerColumn, list[NoiseAt]]]:
        """Return the columns of the answer for a noise of the weighted sums, each with its noise by places of cells.

        Cells that are made of different sums have noises of their own.
        """
        noises = self.in_units(self.basis.noises(noise))
        places_of = {id(query): places for query, places in self.request.reads}
        parts = {
            id(query): self._parts(query, places_of[id(query)], noises)
            for query in self.request.queries
        }
        columns = self._outputs(noises)
        return [
            (column, parts[id(column.query)] or [(slice(None), column.noise)]) for column in columns
        ]

    def _parts(self, query: Query, places: Sequence[int], noises: Sequence[Noise]) -> list[NoiseAt]:
        """Return the places of cells by the sum that a query is made of there; nothing if that is the same in all."""
        own = query.measure_in(self.public.size_of(query)) if query.exclusive else None
        if own is None:
            return []
        return [
            (np.flatnonzero(own == number), noises[places[number]])
            for number in np.unique(own).tolist()
        ]

    @property
    def largest_weight(self) -> float:
        """How far the weighted sums move together if the answers' sums move by 1, at most."""
        units = [float(unit) for unit in self.public.weights.units]
        return self.basis.transform.longest(self.weights, units)

    @property
    def sensitivity_unit(self) -> tuple[float, str]:
        """The factor by which shown movements of the weighted sums are multiplied, and their unit.

        With one sum it is the unit of the answer; with several no unit is that of all.
        """
        if len(self.weights) == 1 and self.weights[0] > 0:
            return float(self.public.weights.units[0]) / float(
                self.weights[0]
            ), "in the unit of the answer"
        return 1.0, "in units in which one row moves all sums by at most 1"

    def exact_sums(self, rows: int) -> ExactSums | None:
        """Return the exact sums of so many rows behind the noisy ones, for accounts; None without such."""
        if not self.basis.transform.one_by_one or not self.request.counts_are_public:
            return None
        return exact_sums(self.request, rows, self.noises)

    @cached_property
    def ordinary(self) -> Guarantee | None:
        """The ordinary differential privacy of a single row under the least noise, over the pairs of the secret."""
        kind = self.calibration.guarantee.kind
        if self.row_laws is None:
            return None
        if kind is None:
            return self.calibration.guarantee if self.row_privacy else None
        epsilon = loss(self.row_laws, self.least_noise, kind)
        return kind.at(epsilon) if math.isfinite(epsilon) else None

    @property
    def free_tables(self) -> Tables:
        """The functions of all sums if rows may depend on each other in any way."""
        return free_tables(self.request.scenario.secret, self.request.column, self.basis.functions)

    def group_laws(self, sizes: Sequence[GroupSize] | None = None) -> Laws:
        """Return the laws if rows of a group depend on each other in any way (group privacy); of groups of some sizes.

        Those of all groups are kept.
        """
        return (
            self._group_laws
            if sizes is None
            else laws_of(self.public, [[self.free_tables]], self.weights, sizes)
        )

    @cached_property
    def _group_laws(self) -> Laws:
        return laws_of(self.public, [[self.free_tables]], self.weights)

    @cached_property
    def source(self) -> SourceDigest:
        """The public facts that noise and cost rest on, to be compared with the source at a release."""
        return self.public.digest(self.tables, by_cell=self.differs_by_cell)

    def name(self, *further: str) -> str:
        """Return a name that is the same on every machine for the same queries, options and public facts."""
        options, request, noise = self.options, self.request, self.calibration.noise
        promise = (
            self.guarantee if options.accuracy is None else (options.accuracy, options.kind.at(1.0))
        )
        parameters: dict[str, float | str | None] = {
            "k": None,
            "epsilon": None,
            "gamma": None,
            **noise.parameters,
        }
        if gamma := parameters["gamma"]:
            parameters["gamma"] = f"{gamma:.6g}"  # it may be computed
        shares = [
            Fraction(1) if options.shares is None else Fraction(float(options.shares[query.name]))
            for query in request.queries
        ]
        parts = (
            *(request.scenario.fingerprint, request.digest, promise),
            repr((type(noise).__name__, *parameters.values())),
            _bounds_in_words(options.bound, self.calibration.guarantee, noise),
            _ROW_PRIVACY if self.row_privacy else None,
            [str(share / sum(shares)) for share in shares],
            self.source.digest,
            *self.basis.transform.parts_of_name,
            *further,
        )
        return SCHEME + hashlib.sha256(repr(parts).encode()).hexdigest()

    def charged_as(self, shape: Shape) -> "CalibratedNoise | None":
        """Return this noise as a ledger has charged it, perhaps from another machine; None where it has no proof here.

        Noise is drawn a little above what is charged, so it is the charged noise that has to keep the guarantee.
        """
        charged, promise = shape.noise, shape.promise
        promise = for_sums(promise) if self.request.discovers else promise
        of_row = None if self.row_laws is self.laws or not self.row_privacy else self.row_laws
        own = Proof(
            promise, [self.calibration.bound, self.options.bound], of_row
        )  # the best bound is tried first
        least = self.least_noise
        factor = charged.scale / least.scale if least.scale else 1.0  # near 1
        noises = [
            charged if one.noise is least else charged.at(one.noise.scale * factor)
            for one in self.blocks
        ]
        blocks = [
            one.with_noise(noise, own) for one, noise in zip(self.blocks, noises, strict=True)
        ]
        proven = tuple(one for one in blocks if one is not None)
        return replace(self, blocks=proven) if len(proven) == len(blocks) else None

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """The calibrations of all blocks, in units in which all cells have the least noise.

        There movements in cells with more noise are so much shorter, and no other movement is longer than it was.
        """
        least = self.least_noise
        return tuple(_in_units_of(block.calibration, least) for block in self.blocks)


def _in_units_of(calibration: Calibration, least: Noise) -> Calibration:
    """Return a calibration in units in which its noise is a smaller one."""
    if calibration.noise.scale == least.scale:
        return calibration
    shorter = upwards(calibration.sensitivity * (least.scale / calibration.noise.scale), ROUNDINGS)
    return replace(calibration, noise=least, sensitivity=shorter)


def _cells_of(blocks: Sequence[Block]) -> Array | slice:
    """Return the cells of blocks, in ascending order."""
    if len(blocks) == 1:
        return blocks[0].cells
    return np.sort(np.concatenate([cast(Array, block.cells) for block in blocks]))


def _shown(query: Query, places: Sequence[int], noises: Sequence[Noise]) -> Sequence[int]:
    """Return the sums that columns of the answer are made of: of exclusive ones that with the most noise."""
    return [max(places, key=lambda place: noises[place].scale)] if query.exclusive else places


def _bounds_in_words(bound: Bounds, guarantee: Guarantee, noise: Noise) -> str:
    if isinstance(bound, str):
        return repr(named_bound(bound, guarantee, noise) or bound)
    return (
        repr(bound)
        if isinstance(bound, Bound)
        else repr([_bounds_in_words(one, guarantee, noise) for one in bound])
    )
