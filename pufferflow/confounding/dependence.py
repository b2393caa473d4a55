"""The parts of a privacy loss: the releases' own laws, their dependence through the data, and that of tied noises.

Given the secret let J be the law of all outputs, J⁰ that with all noises untied, and ψ_i that of one release. At every
outcome the loss log J_s/J_s′ is the sum of three parts:

    Σ log ψ_i,s/ψ_i,s′  +  log (J⁰_s/Πψ_i,s)/(J⁰_s′/Πψ_i,s′)  +  log (J_s/J⁰_s)/(J_s′/J⁰_s′)

By Sklar the second is of the copula that the data make of independent releases (DCP's eq. 11), the third of the copulas
of the noises (eq. 12, Prop. 3). Proposition 3 has the releases' laws given the secret in the copula of the noises. That
is wrong unless the secret fixes the data. With the copula of a pair's outputs in eq. 12 the data count twice within it.
The split is exact for outputs that are labels too. On average over outcomes it splits the Kullback–Leibler divergence;
at the worst outcome of channels, the pure loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast, final

import numpy as np

from pufferflow.confounding.additive import Additive, staircase_cells
from pufferflow.confounding.joint_law import (
    MOST_STEPS,
    CellLaws,
    Outcomes,
    Pairs,
    ProjectedTable,
    Release,
    TiedCoordinates,
    check_size,
    is_noisy,
    noisy_laws,
    read_by,
    revealing,
    single_coordinates,
)
from pufferflow.confounding.law_pairs import ExactPair
from pufferflow.confounding.tied import CopulaNoise, noise_edges, tied_grid
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused
from pufferflow.core.notebook import InNotebooks
from pufferflow.models.domain import Label
from pufferflow.noise.channel import Channel, cell_masses
from pufferflow.noise.staircase import Staircase

_MOST_CELLS = 4_000_000
_MOST_OF_ONE = 800
_FINE, _COARSE = 160, 60
"""The cells of one noisy answer in a split, for averages within a thousandth; half a per cent where many do not fit."""


@final
@dataclass(frozen=True)
class Parts(InNotebooks):
    """A privacy loss of all outputs, and the parts that add up to it.

    `marginals` has the parts of the releases' own laws. Each of the releases that a copula ties has one of its own.
    """

    marginals: tuple[float, ...]
    dependence_of_noise: float
    """What the copulas of tied noises add; 0 where no noises are tied."""
    dependence_of_data: float
    """What the releases' dependence through the data adds, as if their noises were untied."""
    outputs: tuple[Any, ...] | None
    """The outcome; None for the average."""

    @property
    def dependence(self) -> float:
        """What all dependence of the releases adds: that of their noises and that through the data."""
        return self.dependence_of_noise + self.dependence_of_data

    @property
    def total(self) -> float:
        """The loss itself."""
        parts = *self.marginals, self.dependence_of_noise, self.dependence_of_data
        return math.fsum(parts) if all(map(math.isfinite, parts)) else sum(parts)


@final
@dataclass(frozen=True)
class Dependence(InNotebooks):
    """The split of the loss at the worst outcome, and on average over outcomes, for the pair with the largest loss.

    >>> import pufferflow as pf
    >>> table = pf.Table({"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]})
    >>> plain = pf.confounding.Channel.revealing("test", [0, 1])
    >>> worst = pf.confounding.cost(table, [plain, plain]).dependence.worst
    >>> round(worst.total, 6), [round(one, 6) for one in worst.marginals], round(worst.dependence_of_data, 6)
    (0.405465, [0.405465, 0.405465], -0.405465)
    """

    pair: tuple[Label, Label]
    average: Parts
    at_worst: Parts | None
    """The parts at the worst outcome of channels; None for continuous noise."""

    @property
    def worst(self) -> Parts:
        """The parts at the outcome with the largest loss, of releases that are channels."""
        if self.at_worst is None:
            raise Refused(
                "With continuous noise the loss is not split at the worst outcome.",
                allowed="dependence.average, over all outcomes; dependence.worst of releases that are channels",
                instead="pf.confounding.Channel.of_noise(reads, inputs, outputs, noise)",
            )
        return self.at_worst


def independent_pairs(seen: ProjectedTable, releases: Sequence[Release]) -> Pairs:
    """Return the products of the releases' own laws for every ordered pair of secrets, in every table."""
    if any(map(is_noisy, releases)):
        return _independent_noisy(seen, releases)
    own = [_own_laws(seen, cast(Channel | Additive, one)) for one in releases]
    pairs: Pairs = []
    for place in range(len(seen.masses)):
        joint, total = np.ones((len(seen.values), 1), dtype=object), 1
        for laws in own:
            law, unit = laws[place]
            check_size(joint.size * law.shape[1], f"{joint.shape[1] * law.shape[1]} joint outputs")
            joint, total = _beside(joint, law), total * unit
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
        raise Refused(
            f"The product of the releases' own laws has {size} cells.",
            allowed=f"at most {_MOST_CELLS} cells; the cost itself may be known all the same",
            instead="fewer releases with continuous noise, or channels",
        )
    joint = reduce(_product, own)
    return [
        (_labels(seen, pair), joint.pair(law[pair[0]], law[pair[1]]))
        for law in joint.laws
        for pair in seen.pairs
    ]


def _product(first: CellLaws, second: CellLaws) -> CellLaws:
    """Return the laws of two outputs that are independent given the secret."""
    width = np.add.outer(first.width, second.width).ravel()
    laws = [_beside(one, other) for one, other in zip(first.laws, second.laws, strict=True)]
    largest, beside = (
        np.max([law.max(axis=0) for law in one.laws], axis=0) for one in (first, second)
    )
    blur = np.multiply.outer(first.blur, beside + second.blur) + np.multiply.outer(
        largest, second.blur
    )
    return CellLaws(width, first.off + second.off, first.sharp and second.sharp, blur.ravel(), laws)


def _own_cells(seen: ProjectedTable, release: Release) -> CellLaws:
    if is_noisy(release):
        return noisy_laws(
            seen, Outcomes.of(seen, []), [cast(Additive | CopulaNoise, release)], most=_MOST_OF_ONE
        )
    exact = _own_laws(seen, cast(Channel | Additive, release))
    laws = [_as_floats(law, total) for law, total in exact]
    zeros = np.zeros(laws[0].shape[1])
    return CellLaws(zeros, 2e-15, True, zeros, laws)


@final
@dataclass(frozen=True, eq=False)
class _Tied:
    """Likelihoods of the outcomes of releases with one randomness at all points, of shape (points, outcomes)."""

    joint: Array
    total: int
    """How many units of `joint` make 1."""
    own: tuple[Array, ...]
    """Those of what each of the releases publishes in every outcome."""
    totals: tuple[int, ...]
    labels: tuple[Any, ...]

    @property
    def untied(self) -> Array:
        """The same with independent randomness."""
        return math.prod(self.own[1:], start=self.own[0])

    def in_floats(self) -> "_Tied":
        """Return the same as floats."""
        own = zip(self.own, self.totals, strict=True)
        return _Tied(
            _as_floats(self.joint, self.total),
            1,
            tuple(_as_floats(one, total) for one, total in own),
            (1,) * len(self.own),
            self.labels,
        )


def _as_floats(masses: Array, total: int) -> Floats:
    if masses.dtype != object:
        return masses
    return np.array([[one / total for one in row] for row in masses.tolist()])


@final
@dataclass(frozen=True, eq=False)
class _Laws:
    """What a table says of all outcomes: their likelihoods at all points, tied and untied."""

    tied: Sequence[_Tied]
    joint: Array
    untied: Array

    @classmethod
    def of(cls, tied: Sequence[_Tied]) -> "_Laws":
        """Return the likelihoods of all combinations of outcomes."""
        joint, untied = (one.joint for one in tied), (one.untied for one in tied)
        return cls(tied, reduce(_beside, joint), reduce(_beside, untied))

    def logs(self, law: Array, total: int) -> Floats:
        """Return the logs of each release's own law at every outcome, of J/J⁰, and of J⁰ over the product."""
        shape = [len(one.labels) for one in self.tied]
        own: list[Floats] = []
        for axis, group in enumerate(self.tied):
            beside = [size if at == axis else 1 for at, size in enumerate(shape)]
            for one, unit in zip(group.own, group.totals, strict=True):
                logs = _logs(law @ one, total * unit).reshape(beside)
                own.append(np.broadcast_to(logs, shape).ravel())
        joint = _logs(law @ self.joint, total * math.prod(one.total for one in self.tied))
        units = math.prod(unit for one in self.tied for unit in one.totals)
        untied = _logs(law @ self.untied, total * units)
        return np.stack([*own, _over(joint, untied), _over(untied, np.sum(own, axis=0))])

    def labels(self, at: int) -> tuple[Any, ...]:
        """Return the outputs of an outcome."""
        places = np.unravel_index(at, [len(one.labels) for one in self.tied])
        return tuple(one.labels[int(place)] for one, place in zip(self.tied, places, strict=True))


def _beside(first: Array, second: Array) -> Array:
    """Return the likelihoods of pairs of outcomes."""
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _over(top: Floats, bottom: Floats) -> Floats:
    """Return the log of a quotient, 0 where the denominator is 0 already."""
    there = np.isfinite(bottom)
    return np.where(there, top - np.where(there, bottom, 0.0), 0.0)


def _logs(masses: Array, total: int) -> Floats:
    """Return logs of masses in parts of a total; both may be whole numbers of any size."""
    if masses.dtype == object:
        unit = math.log(total)
        return np.array([math.log(one) - unit if one else -math.inf for one in masses.tolist()])
    with np.errstate(divide="ignore"):
        return np.log(masses)


def dependence_of(seen: ProjectedTable, releases: Sequence[Release]) -> Dependence:
    """Return the split for the pair of secrets, and the table, with the largest loss.

    That is the pure loss of channels, and the average loss of continuous noise, which is found by quadrature.
    """
    noisy = any(map(is_noisy, releases))
    cells = _cells_that_fit(seen, releases)
    tied = [_likelihoods(seen, one, cells) for one in releases]
    outcomes = math.prod(len(one.labels) for one in tied)
    check_size(outcomes * len(seen.points) * len(seen.values), f"{outcomes} joint outcomes")
    laws = _Laws.of([one.in_floats() for one in tied] if noisy else tied)
    found = [
        _split(seen, laws, (_as_floats(law, total), 1) if noisy else (law, total), pair)
        for law, total in seen.laws
        for pair in seen.pairs
    ]
    return max(found, key=lambda one: one.average.total if noisy else one.worst.total)


def _cells_that_fit(seen: ProjectedTable, releases: Sequence[Release]) -> int:
    """Return the number of cells for each noisy number."""
    noisy = [one for one in releases if isinstance(one, CopulaNoise | Additive) and is_noisy(one)]
    numbers = sum(2 if isinstance(one, CopulaNoise) else len(one.reads) for one in noisy)
    outputs = math.prod(len(one.outputs) for one in releases if isinstance(one, Channel))
    room = MOST_STEPS / (len(seen.points) * len(seen.values) * outputs)
    return min(max(int(room ** (1 / max(numbers, 1))), _COARSE), _FINE)


def _likelihoods(seen: ProjectedTable, release: Release, cells: int) -> _Tied:
    if isinstance(release, Channel):
        return _of_channel(seen, release)
    if isinstance(release, CopulaNoise):
        return _of_tied_noises(seen, release, cells)
    if not is_noisy(release):
        return _of_channel(seen, revealing(seen, release))
    of = _of_tied_noises if release.correlation else _of_noise
    return of(seen, release, cells)


def _of_channel(seen: ProjectedTable, channel: Channel) -> _Tied:
    outcomes = Outcomes.of(seen, [channel])
    labels = tuple(label for (label,) in outcomes.labels)
    untied = [_untied(channel, label) for label in labels]
    own: list[Array] = []
    totals: list[int] = []
    for parts in zip(*untied, strict=True):
        part, (rows, total) = parts[0][0], parts[0][0].whole
        read = [read_by(part, seen, at) for at in range(len(seen.points))]
        own.append(rows[read][:, [part.outputs.index(output) for _, output in parts]])
        totals.append(total)
    return _Tied(outcomes.masses, outcomes.total, tuple(own), tuple(totals), labels)


def _untied(channel: Channel, output: Any) -> list[tuple[Channel, Any]]:
    """Return the channels that a channel ties, and what each of them publishes with an output."""
    if not channel.tied:
        return [(channel, output)]
    return [
        part for one, own in zip(channel.tied, output, strict=True) for part in _untied(one, own)
    ]


def _of_noise(seen: ProjectedTable, release: Additive, cells: int) -> _Tied:
    """Return the likelihoods of the cells of answers with independent noise."""
    joint = np.ones((len(seen.points), 1))
    for one in single_coordinates(seen, release):
        if isinstance(one.noise, Staircase):
            masses = staircase_cells(one.noise, one.exact).masses
        else:
            edges = noise_edges(one.noise, one.answers, cells)
            masses, _ = cell_masses(one.noise, edges, one.answers)
        check_size(joint.size * masses.shape[1], f"{joint.shape[1] * masses.shape[1]} cells")
        joint = _beside(joint, masses)
    return _Tied(joint, 1, (joint,), (1,), tuple(range(joint.shape[1])))


def _of_tied_noises(seen: ProjectedTable, release: Additive | CopulaNoise, cells: int) -> _Tied:
    """Return the likelihoods of rectangles of two tied noises, by quadrature; own laws are their sums."""
    tied = TiedCoordinates.of(seen, release)
    masses = tied_grid(tied.noises, tied.answers, tied.ties, cells)
    ones = np.ones_like(masses)
    own = masses.sum(axis=2)[:, :, None] * ones, masses.sum(axis=1)[:, None, :] * ones
    first, second = (one.reshape(len(one), -1) for one in own)
    joint, labels = masses.reshape(len(masses), -1), tuple(range(first.shape[1]))
    return _Tied(joint, 1, (first, second), (1, 1), labels)


def _split(
    seen: ProjectedTable, laws: _Laws, table: tuple[Array, int], pair: tuple[int, int]
) -> Dependence:
    """Return the split of the loss of one value of the secret against another, in one table."""
    law, total = table
    tops, bottoms = (laws.logs(law[value], total) for value in pair)
    with np.errstate(invalid="ignore"):  # outcomes of probability 0 under both secrets
        losses = tops - bottoms  # of shape (releases and both kinds of dependence, outcomes)
    joint, other = (law[value] @ laws.joint for value in pair)
    there, whole = np.flatnonzero(joint > 0), joint.sum()
    weights = np.array([one / whole for one in joint[there].tolist()])
    average = _parts([float(np.sum(weights * row[there])) for row in losses], None)
    worst = None
    if law.dtype == object:
        at = ExactPair(joint, other, 1).largest_ratio[0]
        worst = _parts([float(row[at]) for row in losses], laws.labels(at))
    return Dependence(_labels(seen, pair), average, worst)


def _parts(losses: Sequence[float], outputs: tuple[Any, ...] | None) -> Parts:
    return Parts(tuple(losses[:-2]), losses[-2], losses[-1], outputs)
