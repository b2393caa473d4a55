"""Copula perturbation: two channels with correlated randomness, and the part of a loss that is their dependence.

A Gaussian copula ties two outputs at each pair of inputs: P(Y_1 ≤ y_1, Y_2 ≤ y_2) = Φ_ρ(Φ⁻¹(F_1(y_1)), Φ⁻¹(F_2(y_2))).
Each channel keeps its own loss, since its own law stays. The loss of both together is that of the joint channel, over
all pairs of inputs that can occur (M28). It may be more or less than with independent randomness. DCP's Theorem 4(ii),
which adds a guarantee of the copula's, is false.

The split of a loss by a copula: the parts of the releases' own laws, and the part of their dependence. By Sklar the
joint law of outputs given the secret is the product of their own laws times the density of a copula. The privacy loss
at every outcome is the sum of the single losses and of the copula's. The split is exact for outputs that are labels
too: the copula's part is the log ratio of joint law and product. On average over outcomes it splits the
Kullback–Leibler divergence; at the worst outcome, the pure loss.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, product
from typing import Any, cast, final, overload

import numpy as np
import scipy  # loads its parts when first used

from pufferflow.confounding.additive import Additive, read_correlation
from pufferflow.confounding.joint_law import (
    CellLaws,
    Outcomes,
    Pairs,
    ProjectedTable,
    Release,
    check_size,
    is_noisy,
    noisy_laws,
)
from pufferflow.confounding.law_pairs import ExactPair
from pufferflow.confounding.tied import CopulaNoise, normal_below
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import instance
from pufferflow.models.domain import Label
from pufferflow.models.priors.table import Values
from pufferflow.noise.channel import Channel

_UNIT = 2**60


@overload
def gaussian_copula(first: Channel, second: Channel, correlation: float) -> Channel: ...
@overload
def gaussian_copula(first: Additive, second: Additive, correlation: float) -> CopulaNoise: ...
def gaussian_copula(first: Any, second: Any, correlation: float) -> Any:
    """Return the release of the outputs of two, with randomness tied by a Gaussian copula; both own laws stay exactly.

    For two channels the result is a channel: its outputs are pairs, in the order of the channels' outputs, and it reads
    the columns of both. For two `Additive` releases it is noise on both columns, whose cost is computed by cells.

    >>> coin = Channel("x", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> tied = gaussian_copula(coin, coin, correlation=0.5)
    >>> tied.outputs, sum(tied.probability(0, (0, other)) for other in (0, 1))
    (((0, 0), (0, 1), (1, 0), (1, 1)), Fraction(3, 4))
    """
    rho = read_correlation(correlation)
    if isinstance(first, Additive):
        return CopulaNoise(first, second, rho)
    return tied_channels(
        first,
        second,
        lambda u, v: normal_below(scipy.special.ndtri(u), scipy.special.ndtri(v), rho),
    )


def tied_channels(
    first: Channel, second: Channel, copula: Callable[[Floats, Floats], Any]
) -> Channel:
    """Return the channel that publishes the outputs of two, tied by a copula: P(Y_1 ≤ y_1, Y_2 ≤ y_2) = C(u, v).

    `copula` is a function of two arrays of probabilities. Outputs are in the order of the channels. The result has
    exactly both own laws, and the copula's masses up to rounding.

    >>> import numpy as np
    >>> coin = Channel("x", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> tied_channels(coin, coin, np.minimum).probability(0, (0, 1))
    Fraction(0, 1)
    """
    for one, name in ((first, "first"), (second, "second")):
        instance(
            one,
            Channel,
            name,
            allowed="a pf.confounding.Channel",
            instead="pf.confounding.Channel(…)",
        )
    columns = tuple(dict.fromkeys([*first.reads, *second.reads]))
    inputs: list[Values] = []
    rows: list[list[Fraction]] = []
    tied: dict[tuple[int, int], list[Fraction]] = {}
    for (one, left), (two, right) in product(enumerate(first.points), enumerate(second.points)):
        known = dict(zip(first.reads, left, strict=True))
        if all(
            known.get(name, value) == value for name, value in zip(second.reads, right, strict=True)
        ):
            known |= dict(zip(second.reads, right, strict=True))
            inputs.append(tuple(known[name] for name in columns))
            if (one, two) not in tied:
                tied[one, two] = _tied(first.probabilities[one], second.probabilities[two], copula)
            rows.append(tied[one, two])
    outputs: list[Any] = list(product(first.outputs, second.outputs))
    return Channel(columns, inputs, outputs, rows)


def effective_correlation(correlation: float, variance: float) -> float:
    """Return the correlation of the copula of DCP's sampling: of Z_1 and ρZ_1 + √(1−ρ²)·Z_2, with Z_1 of a variance.

    >>> round(effective_correlation(0.5, 4.0), 6)
    0.755929
    """
    size = abs(correlation) * math.sqrt(variance)
    return math.copysign(
        size / math.sqrt(correlation**2 * variance + 1 - correlation**2), correlation
    )


def _tied(first: Sequence[Fraction], second: Sequence[Fraction], copula: Any) -> list[Fraction]:
    """Return a joint law with these two own laws exactly, close to the copula's.

    Whole numbers below the copula's masses are reduced until no row and no column has too much. The missing mass of
    each is filled in independently, which restores both own laws.
    """
    masses = np.maximum(_copula_masses(first, second, copula), 0.0)
    whole = [[Fraction(int(one * _UNIT), _UNIT) for one in row] for row in masses.tolist()]
    sums = [
        *zip(first, (sum(row) for row in whole), strict=True),
        *zip(second, (sum(column) for column in zip(*whole, strict=True)), strict=True),
    ]
    shrink = min([Fraction(1), *(own / found for own, found in sums if found > 0)])
    whole = [[one * shrink for one in row] for row in whole]
    rows = [own - sum(row) for own, row in zip(first, whole, strict=True)]
    columns = [
        own - sum(column) for own, column in zip(second, zip(*whole, strict=True), strict=True)
    ]
    missing = sum(rows, Fraction(0))
    if missing == 0:
        return [one for row in whole for one in row]
    return [
        one + rows[i] * columns[j] / missing
        for i, row in enumerate(whole)
        for j, one in enumerate(row)
    ]


def _copula_masses(first: Sequence[Fraction], second: Sequence[Fraction], copula: Any) -> Floats:
    """Return the masses that a copula gives to all pairs of outputs."""
    sums = [np.array([0.0, *map(float, accumulate(law))]).clip(0.0, 1.0) for law in (first, second)]
    u, v = (np.append(one[:-1], 1.0) for one in sums)
    shape = len(u), len(v)
    below = np.asarray(
        copula(*(np.ascontiguousarray(one) for one in np.broadcast_arrays(u[:, None], v[None, :])))
    )
    if below.shape != shape or not np.isfinite(below).all():
        raise UsageError(
            "The copula does not give a number for every pair of probabilities.",
            allowed="a function of two arrays of numbers from 0 to 1, with an array of numbers from 0 to 1",
            instead="tied_channels(first, second, numpy.minimum), or gaussian_copula(first, second, correlation=0.5)",
        )
    return np.diff(np.diff(below, axis=0), axis=1)


_MOST_CELLS = 4_000_000
_MOST_OF_ONE = 800


@final
@dataclass(frozen=True)
class Parts(InNotebooks):
    """A privacy loss of all outputs, the parts of the releases' own laws, and the part of their dependence."""

    total: float
    marginals: tuple[float, ...]
    dependence: float
    outputs: tuple[Any, ...] | None
    """The outcome; None for the average."""


@final
@dataclass(frozen=True)
class Dependence(InNotebooks):
    """The split of the loss at the worst outcome, and on average over outcomes, for the pair with the largest loss.

    >>> import pufferflow as pf
    >>> table = pf.Table({"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]})
    >>> twice = pf.confounding.cost(table, [pf.confounding.Channel.revealing("test", [0, 1])] * 2).dependence
    >>> round(twice.worst.total, 6), [round(one, 6) for one in twice.worst.marginals], round(twice.worst.dependence, 6)
    (0.405465, [0.405465, 0.405465], -0.405465)
    """

    pair: tuple[Label, Label]
    worst: Parts
    average: Parts


def independent_pairs(seen: ProjectedTable, releases: Sequence[Release]) -> Pairs:
    """Return the products of the releases' own laws for every ordered pair of secrets, in every table."""
    noisy = [one for one in releases if is_noisy(one)]
    if noisy:
        return _independent_noisy(seen, releases)
    own = [_own_laws(seen, cast(Channel | Additive, one)) for one in releases]
    pairs: Pairs = []
    for place in range(len(seen.masses)):
        joint, total = np.ones((len(seen.values), 1), dtype=object), 1
        for laws in own:
            law, unit = laws[place]
            check_size(joint.size * law.shape[1], f"{joint.shape[1] * law.shape[1]} joint outputs")
            joint, total = (
                (joint[:, :, None] * law[:, None, :]).reshape(len(joint), -1),
                total * unit,
            )
        pairs += [
            (_labels(seen, pair), ExactPair(joint[pair[0]], joint[pair[1]], total))
            for pair in seen.pairs
        ]
    return pairs


def _labels(seen: ProjectedTable, pair: tuple[int, int]) -> tuple[Label, Label]:
    return seen.values[pair[0]], seen.values[pair[1]]


def _own_laws(seen: ProjectedTable, release: Channel | Additive) -> list[tuple[Array, int]]:
    """Return the laws of a release's outputs given the secret, for every table."""
    if isinstance(release, Additive):  # without noise
        read = dict.fromkeys(seen.place(release.reads, point) for point in seen.points)
        release = Channel.revealing(release.reads, list(read))
    outcomes = Outcomes.of(seen, [release])
    return [(laws @ outcomes.masses, total * outcomes.total) for laws, total in seen.laws]


def _independent_noisy(seen: ProjectedTable, releases: Sequence[Release]) -> Pairs:
    own = [_own_cells(seen, one) for one in releases]
    size = math.prod(len(one.width) for one in own)
    if size > _MOST_CELLS:
        return _independent_noisy_refused(size)
    joint = own[0]
    for one in own[1:]:
        joint = _product(joint, one)
    return [
        (_labels(seen, pair), joint.pair(law[pair[0]], law[pair[1]]))
        for law in joint.laws
        for pair in seen.pairs
    ]


def _product(first: CellLaws, second: CellLaws) -> CellLaws:
    """Return the laws of two outputs that are independent given the secret."""
    width = np.add.outer(first.width, second.width).ravel()
    laws = [
        (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
        for one, other in zip(first.laws, second.laws, strict=True)
    ]
    largest, beside = (
        np.max([law.max(axis=0) for law in one.laws], axis=0) for one in (first, second)
    )
    blur = np.multiply.outer(first.blur, beside + second.blur) + np.multiply.outer(
        largest, second.blur
    )
    return CellLaws(width, first.off + second.off, first.sharp and second.sharp, blur.ravel(), laws)


def _independent_noisy_refused(size: int) -> Pairs:
    raise Refused(
        f"The product of the releases' own laws has {size} cells.",
        allowed=f"at most {_MOST_CELLS} cells; the cost itself may be known all the same",
        instead="fewer releases with continuous noise, or channels",
    )


def _own_cells(seen: ProjectedTable, release: Release) -> CellLaws:
    if is_noisy(release):
        return noisy_laws(
            seen, Outcomes.of(seen, []), [cast(Additive | CopulaNoise, release)], most=_MOST_OF_ONE
        )
    laws = [
        np.array([[one / total for one in row] for row in law.tolist()])
        for law, total in _own_laws(seen, cast(Channel | Additive, release))
    ]
    zeros = np.zeros(laws[0].shape[1])
    return CellLaws(zeros, 2e-15, True, zeros, laws)


def dependence_of(seen: ProjectedTable, releases: Sequence[Release]) -> Dependence:
    """Return the split for the pair of secrets, and the table, with the largest pure loss."""
    if not all(isinstance(one, Channel) for one in releases):
        raise Refused(
            "The split into own laws and dependence is not known for continuous noise.",
            allowed="releases that are channels; cost(...).as_if_independent is known for noise as well",
            instead="pf.confounding.Channel.of_noise(reads, inputs, outputs, noise)",
        )
    channels = [one for one in releases if isinstance(one, Channel)]
    outcomes = Outcomes.of(seen, channels)
    found: list[tuple[float, int, tuple[int, int], int]] = []
    joints = [laws @ outcomes.masses for laws, _ in seen.laws]
    for place, joint in enumerate(joints):
        for one, other in seen.pairs:
            pair = ExactPair(joint[one], joint[other], 1)
            found.append((pair.pure, place, (one, other), pair.largest_ratio[0]))
    _, place, pair, worst = max(found, key=lambda one: one[0])
    tops, bottoms = (
        _split(seen, channels, joints[place], place, value, outcomes) for value in pair
    )
    with np.errstate(invalid="ignore"):  # outcomes of probability 0 under both secrets
        losses = tops - bottoms  # of shape (releases and the copula, outcomes)
    weights = np.array(
        [float(Fraction(one, int(joints[place][pair[0]].sum()))) for one in joints[place][pair[0]]]
    )
    there = weights > 0
    average = [float(np.sum(weights[there] * row[there])) for row in losses]
    return Dependence(
        _labels(seen, pair),
        _parts([float(row[worst]) for row in losses], outcomes.labels[worst]),
        _parts(average, None),
    )


def _parts(losses: Sequence[float], outputs: tuple[Any, ...] | None) -> Parts:
    return Parts(
        math.fsum(losses) if all(map(math.isfinite, losses)) else sum(losses),
        tuple(losses[:-1]),
        losses[-1],
        outputs,
    )


def _split(  # noqa: PLR0913, PLR0917 - one table, one secret, and what is known of all
    seen: ProjectedTable,
    channels: Sequence[Channel],
    joint: Array,
    place: int,
    value: int,
    outcomes: Outcomes,
) -> Any:
    """Return the logs of each release's own law at every outcome, and of joint law over product."""
    logs: list[Any] = []
    for at, channel in enumerate(channels):
        law, total = _own_laws(seen, channel)[place]
        known = {
            output: law[value][one]
            for one, output in enumerate(Outcomes.of(seen, [channel]).labels)
        }
        logs.append(np.array([_log(known[(label[at],)], total) for label in outcomes.labels]))
    whole = seen.laws[place][1] * outcomes.total
    together = np.array([_log(one, whole) for one in joint[value].tolist()])
    own = np.sum(logs, axis=0)
    return np.stack(
        [*logs, np.where(np.isfinite(own), together - np.where(np.isfinite(own), own, 0.0), 0.0)]
    )


def _log(mass: int, total: int) -> float:
    return math.log(mass) - math.log(total) if mass else -math.inf
