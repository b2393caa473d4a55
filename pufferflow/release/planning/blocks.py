"""Noise by cell and by kind of rows, never below that of one independent row.

The floor of noise: what a single independent row needs, whatever the prior, and a little where none is needed.

A prior may hide a row by itself: a value has probability 0, or rows cancel each other out. Then the prior alone needs
little noise, or none. An adversary who knows more than the prior would see the row. So noise is never below that of the
same batch and guarantee under `pf.Independent()`: every release is also differentially private for the value of one
row.

Noise cell by cell: each kind of cells has the noise that the groups with rows there need.

Groups are independent, and a group's secret moves only cells in which it has selected rows (M2). So the loss about this
secret depends on the noise of these cells alone. The largest loss over all kinds of cells is that of the release (M25).
The cells of each group are public, and so are the scales. Cells of no group hide nothing; they have the least noise.

Weights of sums of kinds of rows, such as groups with bounds of their own: each kind has the noise it needs.

A row moves the sums of its own kind only. Shares of the budget give each sum noise in proportion to its range. But
units of one kind may have more rows than those of another, or depend on each other more closely. So the weights of each
kind's sums may be raised until its rows alone need as much noise as the kind that needs most. The calibration of all
sums together then finds what units of several kinds need. With many such units equal shares may be better; the smaller
error decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast, final

import numpy as np

from pufferflow.calibration.calibrate import Bounds, Calibration, calibrate_each, loss, proof_of
from pufferflow.calibration.laws import Laws, SeveralLaws
from pufferflow.core.arrays import Array, Flags, Floats
from pufferflow.core.errors import Refused
from pufferflow.models.domain import Label
from pufferflow.models.priors.simple import Independent
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Initial
from pufferflow.noise.base import Family, Noise
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.queries.engine_interface import CellGroups, GroupSize
from pufferflow.release.planning.basis import NOISE_MARGIN, Basis, short_binary
from pufferflow.release.planning.laws_of_sums import laws_of
from pufferflow.release.planning.options import PlanOptions
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.sum_functions import Tables, tables_of

_LOUDEST = 2.0**12
_DOUBLINGS = 16
_HARDLY = (
    "the guarantee needs hardly any noise; a little is added so that an account can add up releases"
)


def row_laws(public: PublicMetadata, basis: Basis, laws: Laws | None) -> Laws | None:
    """Return the laws of the weighted sums for a row independent of all others: `laws` itself if the prior says so.

    None if no sum reads the row's own secret. Units that may be absent have a floor of their own. Derived secrets are
    not values of rows. A law of all rows has the floor of its column. The selected rows may contain no first values.
    """
    secret = public.request.scenario.secret.of_row
    if secret is None or public.request.column != secret.column:
        return None
    if isinstance(secret, Initial) and not _selects_first_rows(public):
        return None
    if laws is not None and public.request.scenario.priors == (Independent(),):
        return laws
    return laws_of(public, [tables_of(Independent(), secret, basis.functions)], basis.weights)


def _selects_first_rows(public: PublicMetadata) -> bool:
    """Return whether a sequence's first row may be selected; true if no row is."""
    patterns = [
        pattern
        for prior in public.request.scenario.priors
        for pattern in public.patterns(prior).distinct
    ]
    return not patterns or any(
        pattern.positions is None or (pattern.cells[pattern.positions == pattern.start] >= 0).any()
        for pattern in patterns
    )


def not_silent(
    calibration: Calibration, laws: Sequence[Laws], bound: Bounds, least: float
) -> Calibration:
    """Return a calibration whose noise has at least this scale; its bound is that of the first laws.

    Noise on an answer that needs none is post-processing; other losses fall as noise grows, or it stays as it is. Where
    they may rise again, the noise is the first larger one that is proven for all laws.
    """
    noise, promise = calibration.noise, calibration.guarantee
    if noise.scale >= least:
        return calibration
    louder, kind = noise.at(least), promise.kind
    if not noise.monotone and noise.scale > 0:
        tried = (noise.at(least * 2.0**power) for power in range(_DOUBLINGS))
        demands = [(own, bound if place == 0 else "auto") for place, own in enumerate(laws)]
        louder = next(
            (candidate for candidate in tried if proof_of(demands, promise, candidate) is not None),
            noise,
        )
    proven = (
        calibration.loss
        if kind is None
        else min(calibration.loss, loss(laws[0], louder, kind, bound))
    )
    return replace(
        calibration,
        noise=louder,
        loss=proven,
        note=_HARDLY if louder.scale >= least else calibration.note,
    )


def least_scale(public: PublicMetadata, basis: Basis, promise: Guarantee) -> float:
    """Return a scale not far below one row's movement of the weighted sums, less for guarantees that hide very little.

    Where prior and other rows hide the secret by themselves, hardly any noise would do, and would compose with no other
    release. This least noise is too small to be visible in the answers.
    """
    farthest = float((basis.functions.ranges * basis.weights).max(initial=0.0))
    if (
        public.request.scenario.priors == (Independent(),)
        and (own := row_laws(public, basis, None)) is not None
    ):
        farthest = min(
            farthest, own.winf(np.inf).length
        )  # between the secret's own pairs, which may be near
    epsilon = 0.0 if promise.kind is None else promise.loss
    return farthest / max(_LOUDEST, 4 * epsilon)


def impossible_values(scenario: Scenario) -> list[Label]:
    """Return the values of probability 0 at some positions under a prior, which therefore does not hide them there."""
    values = [
        value for prior in scenario.priors for value in prior.sometimes_impossible(scenario.secret)
    ]
    return list(dict.fromkeys(values))


_WORTHWHILE: Final = 0.99
"""Cells whose noise would be less by no more than this have that of the others."""
_RTOL: Final = 1e-6


@final
@dataclass(frozen=True, eq=False)
class Block:
    """Some cells with one noise: the laws of their weighted sums, and the calibration that hides these.

    The first block of a plan has the most noise, enough for every group; the cells of others need less.
    """

    cells: Array | slice
    laws: Laws
    calibration: Calibration
    sizes: tuple[GroupSize, ...] | None = None
    """The sizes of the groups that the laws are of; None for all groups."""

    @property
    def noise(self) -> Noise:
        """The noise of the weighted sums."""
        return self.calibration.noise

    def with_noise(self, noise: Noise, proof: "Proof") -> "Block | None":
        """Return the block with a noise from a ledger, drawn a little shorter; None if it has no proof."""
        found = proof.of(self.laws, noise)
        if found is None:
            return None
        shorter = found.noise.at(found.noise.scale / NOISE_MARGIN)
        return replace(self, calibration=replace(found, noise=shorter))


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


@final
@dataclass(frozen=True, eq=False)
class Demand:
    """What noise is made for: the weighted laws of some tables, and those of one row alone, if it has to be hidden."""

    public: PublicMetadata
    options: PlanOptions
    tables: list[list[Tables]]
    basis: Basis
    family: Family
    of_row: Laws | None = None
    end: float | None = None
    beat: float = math.inf
    """A scale that is no better than noise that was found before."""

    def scale(self, laws: Laws, promise: Guarantee, *, row: bool = False) -> float:
        """Return the least scale that hides laws, those of one `row` alone by whatever bound."""
        bound = "auto" if row else self.options.bound
        return calibrate_each([(laws, bound)], promise, self.family, self.end)[0].noise.scale


def blocks_of(demand: Demand, whole: Block) -> tuple[Block, ...]:
    """Return the block of all cells, whose noise suffices for every group; and those of cells that need less.

    Only of families whose losses fall as noise grows.
    """
    noise, public, promise = whole.noise, demand.public, whole.calibration.guarantee
    enough = noise.scale * _WORTHWHILE
    if (
        not (demand.options.per_group and noise.monotone and noise.scale > 0)
        or not public.may_differ_by_cell
    ):
        return (whole,)
    least = least_scale(public, demand.basis, promise)
    if demand.of_row is not None:
        least = max(least, demand.scale(demand.of_row, promise, row=True))
    groups = public.groups_in_cells if least < enough else None
    if groups is None or len(groups.kinds) < 2:
        return (whole,)
    return _by_need(demand, whole, groups, least)


def _by_need(demand: Demand, whole: Block, groups: CellGroups, least: float) -> tuple[Block, ...]:
    """Return a block for each kind of cells that needs less than others, but no less than the `least`; others first."""
    noise, calibration = whole.noise, whole.calibration
    proof = Proof(
        calibration.guarantee, [calibration.bound, demand.options.bound], demand.of_row
    )  # the best one first
    number = np.full(len(groups.kinds) + 1, -1)  # the last is that of cells of no group
    found = list[Block]()
    for place, (sizes, laws, scale) in enumerate(_by_kind(demand, calibration, groups)):
        tried = (max(scale, least) * factor for factor in (1.0, 1 + _RTOL))
        enough = (proof.of(laws, noise.at(own)) for own in tried if own < noise.scale * _WORTHWHILE)
        proven = next((one for one in enough if one is not None), None)
        if proven is not None:
            number[place] = len(found)
            found.append(Block(slice(0), laws, proven, sizes))
    if not found:
        return (whole,)
    number[-1] = min(range(len(found)), key=lambda place: found[place].noise.scale)
    of_cell = number[groups.kind_of_cell]
    return tuple(
        replace(one, cells=np.flatnonzero(of_cell == own))
        for own, one in enumerate([whole, *found], -1)
    )


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
        if all(
            max(scales.get(one, 0.0) for one in sizes) >= most * _WORTHWHILE for sizes in around
        ):
            continue
        laws[size] = laws_of(demand.public, demand.tables, demand.basis.weights, [size])
        try:
            scales[size] = demand.scale(laws[size], promise)
        except Refused:
            scales[size] = most
    found = list[tuple[tuple[GroupSize, ...], Laws, float]]()
    for sizes in groups.kinds:
        known = [size for size in sizes if size in laws]  # all, unless the largest need all noise
        found.append(
            (
                sizes,
                SeveralLaws([laws[size] for size in known]),
                max(scales[size] for size in known),
            )
        )
    return found


def weights_by_kind(demand: Demand) -> Floats | None:
    """Return the weights of sums, raised for kinds that need less noise than another.

    None where rows are independent, since shares are by what one row moves; and where some sum is of all rows.
    """
    public, promise = demand.public, demand.options.example
    kinds = None if None in public.weights.of_sums else public.weights.kinds
    dependent = any(not prior.independent_rows for prior in public.request.scenario.priors)
    if kinds is None or not dependent or demand.options.accuracy is not None:
        return None
    needs = np.array(
        [
            _need(
                replace(demand, basis=demand.basis.weighted(demand.basis.weights * kind)), promise
            )
            for kind in kinds
        ]
    )
    if not (needs > 0).all():
        return None
    return np.array(
        [short_binary(weight) for weight in (demand.basis.weights * _rises(kinds, needs)).tolist()]
    )


def _rises(kinds: Flags, needs: Floats) -> Floats:
    """Return by how much each sum may weigh more, so that no kind that moves it needs more noise than another did."""
    rises = np.where(kinds, (needs.max() / needs)[:, None], np.inf).min(axis=0)
    return np.where(np.isfinite(rises), rises, 1.0)  # sums that no row moves


def _need(demand: Demand, promise: Guarantee) -> float:
    """Return the scale of the noise of weighted sums that hides their rows, and one row alone; 0 if it is not known."""
    try:
        laws = laws_of(demand.public, demand.tables, demand.basis.weights)
        of_row = row_laws(demand.public, demand.basis, laws) if demand.options.row_privacy else None
        own = demand.scale(laws, promise)
        return own if of_row is None else max(own, demand.scale(of_row, promise, row=True))
    except Refused:
        return 0.0
