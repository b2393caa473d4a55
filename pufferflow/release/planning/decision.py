"""The decision: everything about a release that is fixed before a private row is read.

A ledger stores its name. The last digits of scales, movements and losses are those of one processor and one version of
NumPy, so the name covers the request, the terms and the public facts, and no computed number. A release that was
reserved and not finished is completed with the reserved noise, where it agrees with this machine's own up to such
digits, and this machine's proof accepts it.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np
from msgspec import structs

from pufferflow.calibration.bound import Bound
from pufferflow.calibration.bound_names import named_bound
from pufferflow.calibration.calibrate import Bounds, Calibration, loss
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import InternalError, UsageError
from pufferflow.core.rounding import UNIT, agree, upwards
from pufferflow.models.secret import Presence
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.certificate import Certificate, ChosenKeys
from pufferflow.published.cost import Answered, Cost
from pufferflow.queries.engine_interface import GroupSize, Measure
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.planning.cell_noise import CellNoise, Proof, shortened
from pufferflow.release.planning.exact_sums import DesignedChannel, exact_sums
from pufferflow.release.planning.key_threshold import KeyThreshold, for_sums, keys_share, least_threshold
from pufferflow.release.planning.options import PlanOptions
from pufferflow.release.planning.public_metadata import PublicMetadata, SourceDigest
from pufferflow.release.planning.sum_tables import Tables, free_tables
from pufferflow.release.planning.units import present

_ROW_PRIVACY = "row"
"""What digests of plans call it: those of older ledgers stay what they are."""
_ROUNDINGS = 64 * UNIT
NOISE_MARGIN: Final = 1 + 56 * UNIT
"""The factor by which the noise of every sum exceeds that of the weighted sums, division by weights included."""
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
class CellsAlike:
    """The places of the cells with one noise: that of their weighted sums, and that of each sum in whole steps."""

    noise: Noise
    places: Array | slice
    noises: tuple[Noise, ...]


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """Noise for all sums of a request, weighted into units of their own, and the guarantee that it keeps.

    Where noise is correlated the sums here are combinations of those of the request (`facts.combined`).
    The calibration is about all cells, and its noise is enough for each; some of the `cells` may have less.
    """

    facts: PublicMetadata
    terms: PlanOptions
    tables: list[list[Tables]]
    """For each prior the representations of all sums."""
    weights: Floats
    family: Family
    laws: Laws
    """The laws of the weighted sums."""
    row_laws: Laws | None
    """The laws of the weighted sums if the secret's row is independent of all others; None if no sum reads it."""
    calibration: Calibration
    certify: Callable[["Decision"], Certificate]
    """It writes the certificate, with the sentences of the explanations."""
    reserved: Cost | None = None
    """The cost that an account has reserved, perhaps from another machine."""
    cells: CellNoise | None = None
    """The cells that need less noise than the calibration has; None if all have the same."""
    channel: DesignedChannel | None = None
    """The channel that takes the place of noise; the calibration's noise exposes a row at least as much."""

    @property
    def request(self) -> Request:
        """The batch."""
        return self.facts.request

    @property
    def promise(self) -> Guarantee:
        """The guarantee about all answers together: that of the sums, and what keys take that the data chooses."""
        if not self.request.discovers:
            return self.calibration.guarantee
        return self.terms.example.with_losses([self.calibration.guarantee.loss])

    @property
    def key_delta(self) -> float:
        """The part of the guarantee's δ that keys take which the data chooses."""
        return keys_share(self.terms.example) if self.request.discovers else 0.0

    @cached_property
    def threshold(self) -> KeyThreshold | None:
        """The noisy number of rows above which a key appears; None where keys are public."""
        secret = self.request.scenario.secret
        if not self.request.discovers or not isinstance(secret, Presence):
            return None
        if self.facts.combined is not None:
            raise InternalError(
                "The noise of rows is combined from others, and keys need noise of their own.", instead="reporting it"
            )
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
        return self.terms.row_privacy

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise that is drawn for each sum in whole steps, its scale rounded up; none where no row moves the sum.

        That of the cells that need most, where they differ.
        """
        return noises_at(self.calibration.noise, self.weights)

    @property
    def least_noise(self) -> Noise:
        """The noise of the weighted sums in the cells that have the least."""
        return self.calibration.noise if self.cells is None else self.cells.least

    @cached_property
    def by_noise(self) -> tuple[CellsAlike, ...]:
        """The cells with equal noise, for each noise, the largest first."""
        most = self.calibration.noise
        found = [(most, slice(None))] if self.cells is None else self.cells.by_noise(most)
        return tuple(CellsAlike(noise, places, noises_at(noise, self.weights)) for noise, places in found)

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
        combined = self.facts.combined
        pairs = zip(noises if combined is None else combined.of_sums(noises), self.facts.weights.units, strict=True)
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
        noises = self.in_units(noises_at(noise, self.weights))
        places_of = {id(query): places for query, places in self.request.reads}
        parts = {id(query): self._parts(query, places_of[id(query)], noises) for query in self.request.queries}
        columns = self._outputs(noises)
        return [(column, parts[id(column.query)] or [(slice(None), column.noise)]) for column in columns]

    def _parts(self, query: Query, places: Sequence[int], noises: Sequence[Noise]) -> list[NoiseAt]:
        """Return the places of cells by the sum that a query is made of there; nothing if that is the same in all."""
        own = query.measure_in(self.facts.size_of(query)) if query.exclusive else None
        if own is None:
            return []
        return [(np.flatnonzero(own == number), noises[places[number]]) for number in np.unique(own).tolist()]

    @property
    def certificate(self) -> Certificate:
        """The facts that are published with the answers."""
        return self._certificate

    @cached_property
    def _certificate(self) -> Certificate:
        return self.certify(self)

    @property
    def cost(self) -> Cost:
        """The release as composition sees it."""
        return self.certificate.cost

    @cached_property
    def joint_cost(self) -> Cost:
        """The cost with the exact sums behind it, where there are such: for accounts with designed releases."""
        alone = self.channel is None and self.facts.combined is None and not self.cost.shape.row_by_row
        if not alone or not self.request.counts_are_public:
            return self.cost
        sums = exact_sums(self.request, int(self.facts.cells.rows.sum()), self.noises)
        return self.cost if sums is None else structs.replace(self.cost, answered=Answered((), sums))

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
        return free_tables(self.request.scenario.secret, self.request.column, self.facts.functions)

    @cached_property
    def group_laws(self) -> Laws:
        """The laws if the rows of a group may depend on each other in any way: group privacy."""
        return self.facts.laws([[self.free_tables]], self.weights)

    def group_laws_of(self, sizes: Sequence[GroupSize]) -> Laws:
        """Return the same for groups of some sizes."""
        return self.facts.laws([[self.free_tables]], self.weights, sizes)

    @cached_property
    def source(self) -> SourceDigest:
        """The public facts that noise and cost rest on, to be compared with the source at a release."""
        return self.facts.digest(self.tables, by_cell=self.cells is not None)

    @property
    def name(self) -> str:
        """A name that is the same on every machine for the same queries, terms and public facts."""
        return self._name

    @cached_property
    def _name(self) -> str:
        terms, request, noise = self.terms, self.request, self.calibration.noise
        promise = self.promise if terms.accuracy is None else (terms.accuracy, terms.kind.at(1.0))
        parameters: dict[str, float | str | None] = {"k": None, "epsilon": None, "gamma": None, **noise.parameters}
        if gamma := parameters["gamma"]:
            parameters["gamma"] = f"{gamma:.6g}"  # it may be computed
        shares = [
            Fraction(1) if terms.shares is None else Fraction(float(terms.shares[query.name]))
            for query in request.queries
        ]
        parts = (
            *(request.scenario.fingerprint, request.digest, promise),
            repr((type(noise).__name__, *parameters.values())),
            _bounds_in_words(terms.bound, self.calibration.guarantee, noise),
            _ROW_PRIVACY if self.row_privacy else None,
            [str(share / sum(shares)) for share in shares],
            self.source.digest,
            *(() if self.facts.combined is None else ("combined",)),
            *([] if self.channel is None else [self.channel.name]),
        )
        return SCHEME + hashlib.sha256(repr(parts).encode()).hexdigest()

    def at(self, reserved: Cost) -> "Decision":
        """Return the decision with the noise of a reserved cost, perhaps another machine's; refuse one without proof.

        Noise is drawn a little above what is charged, so it is the charged noise that has to keep the guarantee.
        """
        if reserved == self.cost:
            return self
        if self.channel is not None or not agree(self.cost, reserved):
            raise _refused("its cost is not that of this plan, not even but for rounding")
        charged, promise = reserved.shape.noise, reserved.shape.promise
        promise = for_sums(promise) if self.request.discovers else promise
        of_row = None if self.row_laws is self.laws or not self.row_privacy else self.row_laws
        own = Proof(promise, [self.calibration.bound, self.terms.bound], of_row)  # the best bound is tried first
        factor = charged.scale / self.least_noise.scale if self.least_noise.scale else 1.0  # near 1
        noise = charged if self.cells is None else charged.at(self.calibration.noise.scale * factor)
        proof, cells = own.of(self.laws, noise), None if self.cells is None else self.cells.charged(factor, own)
        if proof is None or (cells is None) != (self.cells is None):
            raise _refused("the proof that is made here requires more noise")
        cells = None if cells is None else cells.shortened(NOISE_MARGIN)
        return replace(self, calibration=shortened(proof, NOISE_MARGIN), cells=cells, reserved=reserved)

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """The calibrations of all kinds of cells, in units in which all cells have the least noise.

        There movements in cells with more noise are so much shorter, and no other movement is longer than it was.
        """
        if self.cells is None:
            return (self.calibration,)
        least = self.least_noise
        every = (self.calibration, *(kind.calibration for kind in self.cells.kinds))
        return tuple(
            replace(
                one, noise=least, sensitivity=upwards(one.sensitivity * (least.scale / one.noise.scale), _ROUNDINGS)
            )
            for one in every
        )


def noises_at(noise: Noise, weights: Floats) -> tuple[Noise, ...]:
    """Return the noise of every sum for a noise of the weighted sums, larger by a few roundings than necessary.

    So the loss stays below a guarantee that is no short binary fraction, and ten times 0.1 fit into 1.
    """
    scales = [upwards(noise.scale / weight, _ROUNDINGS) if weight > 0 else 0.0 for weight in weights.tolist()]
    return tuple(noise.at(scale) for scale in scales)


def sensitivity_unit(decision: Decision) -> tuple[float, str]:
    """Return the factor by which shown movements of the weighted sums are multiplied, and their unit.

    With one sum it is the unit of the answer; with several no unit is that of all.
    """
    weights, units = decision.weights, decision.facts.weights.units
    if len(weights) == 1 and weights[0] > 0 and decision.facts.combined is None:
        return float(units[0]) / float(weights[0]), "in the unit of the answer"
    return 1.0, "in units in which one row moves all sums by at most 1"


def _shown(query: Query, places: Sequence[int], noises: Sequence[Noise]) -> Sequence[int]:
    """Return the sums that columns of the answer are made of: of exclusive ones that with the most noise."""
    return [max(places, key=lambda place: noises[place].scale)] if query.exclusive else places


def _bounds_in_words(bound: Bounds, guarantee: Guarantee, noise: Noise) -> str:
    if isinstance(bound, str):
        return repr(named_bound(bound, guarantee, noise) or bound)
    return repr(bound) if isinstance(bound, Bound) else repr([_bounds_in_words(one, guarantee, noise) for one in bound])


def _refused(why: str) -> UsageError:
    return UsageError(
        f"The release was reserved with noise that cannot be used here: {why}. Nothing was drawn or charged.",
        allowed="the plan that was reserved, or the same on another machine, whose noise differs by at most 1e-9",
        instead="releasing on the machine that reserved it; or another id (a job has --revision 2), which costs again",
    )
