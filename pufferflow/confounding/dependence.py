"""The split of a loss by a copula: the parts of the releases' own laws, and the part of their dependence.

By Sklar the joint law of outputs given the secret is the product of their own laws times the density of a copula. The
privacy loss at every outcome is the sum of the single losses and of the copula's. The split is exact for outputs that
are labels too: the copula's part is the log ratio of joint law and product. On average over outcomes it splits the
Kullback–Leibler divergence; at the worst outcome, the pure loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, final

import numpy as np

from pufferflow.confounding.additive import Additive
from pufferflow.confounding.exact_pair import ExactPair
from pufferflow.confounding.joint_law import CellLaws, Outcomes, Pairs, Release, check_size, is_noisy, noisy_laws
from pufferflow.confounding.reading import ProjectedTable
from pufferflow.confounding.tied import CopulaNoise
from pufferflow.core.arrays import Array
from pufferflow.core.errors import Refused
from pufferflow.models.domain import Label
from pufferflow.noise.channel import Channel

_MOST_CELLS = 4_000_000
_MOST_OF_ONE = 800


@final
@dataclass(frozen=True)
class Parts:
    """A privacy loss of all outputs, the parts of the releases' own laws, and the part of their dependence."""

    total: float
    marginals: tuple[float, ...]
    dependence: float
    outputs: tuple[Any, ...] | None
    """The outcome; None for the average."""


@final
@dataclass(frozen=True)
class Dependence:
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
            joint, total = (joint[:, :, None] * law[:, None, :]).reshape(len(joint), -1), total * unit
        pairs += [(_labels(seen, pair), ExactPair(joint[pair[0]], joint[pair[1]], total)) for pair in seen.pairs]
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
    return [(_labels(seen, pair), joint.pair(law[pair[0]], law[pair[1]])) for law in joint.laws for pair in seen.pairs]


def _product(first: CellLaws, second: CellLaws) -> CellLaws:
    """Return the laws of two outputs that are independent given the secret."""
    width = np.add.outer(first.width, second.width).ravel()
    laws = [
        (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
        for one, other in zip(first.laws, second.laws, strict=True)
    ]
    largest, beside = (np.max([law.max(axis=0) for law in one.laws], axis=0) for one in (first, second))
    blur = np.multiply.outer(first.blur, beside + second.blur) + np.multiply.outer(largest, second.blur)
    return CellLaws(width, first.off + second.off, first.sharp and second.sharp, blur.ravel(), laws)


def _independent_noisy_refused(size: int) -> Pairs:
    raise Refused(
        f"The product of the releases' own laws has {size} cells.",
        allowed=f"at most {_MOST_CELLS} cells; the cost itself may be known all the same",
        instead="fewer releases with continuous noise, or channels",
    )


def _own_cells(seen: ProjectedTable, release: Release) -> CellLaws:
    if is_noisy(release):
        return noisy_laws(seen, Outcomes.of(seen, []), [cast(Additive | CopulaNoise, release)], most=_MOST_OF_ONE)
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
            "The split into own laws and dependence, with continuous noise.",
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
    tops, bottoms = (_split(seen, channels, joints[place], place, value, outcomes) for value in pair)
    with np.errstate(invalid="ignore"):  # outcomes of probability 0 under both secrets
        losses = tops - bottoms  # of shape (releases and the copula, outcomes)
    weights = np.array([float(Fraction(one, int(joints[place][pair[0]].sum()))) for one in joints[place][pair[0]]])
    there = weights > 0
    average = [float(np.sum(weights[there] * row[there])) for row in losses]
    return Dependence(
        _labels(seen, pair),
        _parts([float(row[worst]) for row in losses], outcomes.labels[worst]),
        _parts(average, None),
    )


def _parts(losses: Sequence[float], outputs: tuple[Any, ...] | None) -> Parts:
    return Parts(
        math.fsum(losses) if all(map(math.isfinite, losses)) else sum(losses), tuple(losses[:-1]), losses[-1], outputs
    )


def _split(  # noqa: PLR0913, PLR0917 - one table, one secret, and what is known of all
    seen: ProjectedTable, channels: Sequence[Channel], joint: Array, place: int, value: int, outcomes: Outcomes
) -> Any:
    """Return the logs of each release's own law at every outcome, and of joint law over product."""
    logs: list[Any] = []
    for at, channel in enumerate(channels):
        law, total = _own_laws(seen, channel)[place]
        known = {output: law[value][one] for one, output in enumerate(Outcomes.of(seen, [channel]).labels)}
        logs.append(np.array([_log(known[(label[at],)], total) for label in outcomes.labels]))
    whole = seen.laws[place][1] * outcomes.total
    together = np.array([_log(one, whole) for one in joint[value].tolist()])
    own = np.sum(logs, axis=0)
    return np.stack([*logs, np.where(np.isfinite(own), together - np.where(np.isfinite(own), own, 0.0), 0.0)])


def _log(mass: int, total: int) -> float:
    return math.log(mass) - math.log(total) if mass else -math.inf
