"""The joint law of all outputs of several releases under every value of a secret, and its pairs (M22, M23, M31).

Given the data all releases are independent of each other. Given the secret they are not, since they read the same rows.
Channels alone are enumerated in whole numbers. Continuous noise is represented by cells, as many as fit; Gaussian
releases are first reduced to the coordinates that their answers span, without loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from pufferflow.confounding.additive import Additive, Cells
from pufferflow.confounding.coordinates import TiedCoordinates, cells_that_fit, coordinates_of, room_for
from pufferflow.confounding.coupled_pair import CoupledPair
from pufferflow.confounding.exact_pair import ExactPair
from pufferflow.confounding.law_pair import LawPair
from pufferflow.confounding.noisy_pair import NoisyPair
from pufferflow.confounding.reading import ProjectedTable
from pufferflow.confounding.tied import CopulaNoise
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, log_above, upwards
from pufferflow.models.domain import Label
from pufferflow.noise.channel import Channel
from pufferflow.noise.gaussian import Gaussian

Release = Channel | Additive | CopulaNoise
MOST_STEPS = 6_000_000
_ONE_COORDINATE = 20_000


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """The likelihoods of every combination of outputs of channels at every point, in whole numbers of one unit."""

    masses: Array
    total: int
    labels: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, seen: ProjectedTable, channels: Sequence[Channel]) -> "Outcomes":
        """Return the outcomes of channels; those that are impossible at all points are left out."""
        masses, total = np.ones((len(seen.points), 1), dtype=object), 1
        labels: list[tuple[Any, ...]] = [()]
        for channel in channels:
            rows, unit = channel.whole
            read = [read_by(channel, seen, at) for at in range(len(seen.points))]
            size = masses.shape[1] * len(channel.outputs)
            check_size(size * len(seen.points) * len(seen.values), f"{size} joint outputs")
            masses = (masses[:, :, None] * rows[read][:, None, :]).reshape(len(seen.points), -1)
            labels = [(*before, output) for before in labels for output in channel.outputs]
            there = np.flatnonzero((masses != 0).any(axis=0))
            masses, total = masses[:, there], total * unit
            labels = [labels[at] for at in there.tolist()]
        return cls(masses, total, tuple(labels))


def check_size(steps: int, what: str) -> None:
    """Refuse an enumeration that takes too long."""
    if steps > MOST_STEPS:
        raise Refused(
            f"The joint law has {what}, and takes {steps} steps to work out.",
            allowed=f"at most {MOST_STEPS} steps: values of the secret × points that are read × joint outputs",
            instead="fewer or coarser outputs, fewer columns that are read, or coarser columns",
        )


def read_by(release: Channel, seen: ProjectedTable, at: int) -> int:
    """Return the place of the input that a channel reads at a point."""
    return release.place(seen.place(release.reads, seen.points[at]))


def as_releases(given: Any) -> tuple[Release, ...]:
    """Return releases as a tuple."""
    listed = cast(Sequence[Any], given) if isinstance(given, list | tuple) else (given,)
    for one in listed:
        if not isinstance(one, Channel | Additive | CopulaNoise):
            raise UsageError(
                f"A release is of type {type(one).__name__}.",
                allowed="pf.confounding.Channel or pf.confounding.Additive, two tied by a copula, or a list of them",
                instead='[pf.confounding.Additive("score", pf.Laplace(2.0))]',
            )
        if not one.reads:
            raise UsageError(
                f"{one!r} names no column that it reads.",
                allowed="channels of columns of the table",
                instead='channel.reading("score")',
            )
    return tuple(listed)


def is_noisy(release: Release) -> bool:
    """Return whether a release has continuous noise."""
    return isinstance(release, CopulaNoise) or (isinstance(release, Additive) and release.noise.scale > 0)


def columns_read(releases: Sequence[Release]) -> list[str]:
    """Return the columns that releases read, each once."""
    return list(dict.fromkeys(name for one in releases for name in one.reads))


Pairs = list[tuple[tuple[Label, Label], LawPair]]


def pairs_of(seen: ProjectedTable, releases: Sequence[Release]) -> Pairs:
    """Return the laws of all outputs for every ordered pair of secrets, in every table."""
    silent = [one for one in releases if isinstance(one, Additive) and one.noise.scale == 0]
    noisy = [one for one in releases if isinstance(one, Additive | CopulaNoise) and is_noisy(one)]
    channels = [one for one in releases if isinstance(one, Channel)]
    channels += [Channel.revealing(one.reads, _inputs(seen, one)) for one in silent]
    most = math.prod(len(one.outputs) for one in channels) * len(seen.points) * len(seen.values)
    if noisy and most > MOST_STEPS:
        return _coupled_pairs(seen, channels, noisy)
    outcomes = Outcomes.of(seen, channels)
    if noisy and not room_for(coordinates_of(seen, noisy), len(seen.points), outcomes.masses.shape[1], _ONE_COORDINATE):
        return _coupled_pairs(seen, channels, noisy)
    if noisy:
        return _noisy_pairs(seen, outcomes, noisy)
    pairs: Pairs = []
    for laws, total in seen.laws:
        joint = laws @ outcomes.masses
        unit = total * outcomes.total
        pairs += [(_labels(seen, pair), ExactPair(joint[pair[0]], joint[pair[1]], unit)) for pair in seen.pairs]
    return pairs


def _coupled_pairs(seen: ProjectedTable, channels: Sequence[Channel], noisy: Sequence[Additive | CopulaNoise]) -> Pairs:
    """Return upper bounds for every pair, from what the releases lose between any two points."""
    size = len(seen.points)
    check_size(size * size * len(seen.pairs), f"{size} points, too many outputs to enumerate, and their pairs")
    steps, squares = np.zeros((size, size)), np.zeros((size, size))
    for channel in channels:
        rows = channel.probabilities
        read = [read_by(channel, seen, at) for at in range(size)]
        losses = np.array([[max_log_ratio(one, other) for other in rows] for one in rows])
        steps += np.maximum(losses, losses.T)[np.ix_(read, read)]
    for one in coordinates_of(seen, noisy, spanned=False):
        if isinstance(one, TiedCoordinates):
            raise Refused(
                "Noises tied by a copula, beside so much else that cells do not fit.",
                allowed="few other noisy answers and outputs beside them, in one cost",
                instead="channels on a grid: pf.confounding.Channel.of_noise(reads, inputs, outputs, noise)",
            )
        moves = np.abs(np.subtract.outer(one.answers, one.answers))
        reach = float(one.answers.max()) * 64 * UNIT  # answers are rounded
        moves = np.where(moves > 0, moves * (1 + 8 * UNIT) + reach, 0.0)
        if isinstance(one.noise, Gaussian):
            squares += moves**2
        else:
            steps += one.noise.pure(moves)
    steps, shifts = steps * (1 + 64 * UNIT), np.sqrt(squares) * (1 + 64 * UNIT)
    return [
        (_labels(seen, pair), CoupledPair(laws[pair[0]], laws[pair[1]], total, steps, shifts))
        for laws, total in seen.laws
        for pair in seen.pairs
    ]


def max_log_ratio(top: Sequence[Fraction], bottom: Sequence[Fraction]) -> float:
    """Return the largest log ratio of two laws, rounded up; ∞ where the second is 0 alone."""
    if any(q == 0 < p for p, q in zip(top, bottom, strict=True)):
        return math.inf
    return log_above(max(p / q for p, q in zip(top, bottom, strict=True) if p > 0))


def _labels(seen: ProjectedTable, pair: tuple[int, int]) -> tuple[Label, Label]:
    return seen.values[pair[0]], seen.values[pair[1]]


def _inputs(seen: ProjectedTable, release: Additive) -> list[Any]:
    return list(dict.fromkeys(seen.place(release.reads, point) for point in seen.points))


def _noisy_pairs(seen: ProjectedTable, outcomes: Outcomes, noisy: Sequence[Additive | CopulaNoise]) -> Pairs:
    cells = noisy_laws(seen, outcomes, noisy)
    pairs: Pairs = []
    for whole, joint in zip((whole for whole, _ in seen.laws), cells.laws, strict=True):
        for first, second in seen.pairs:
            same = bool((whole[first] == whole[second]).all())
            empty = ExactPair(np.ones(1, dtype=object), np.ones(1, dtype=object), 1)
            pairs.append((_labels(seen, (first, second)), empty if same else cells.pair(joint[first], joint[second])))
    return pairs


@final
@dataclass(frozen=True, eq=False)
class CellLaws:
    """The masses of all cells for every table, of shape (values of the secret, cells × outcomes)."""

    width: Floats
    off: float
    sharp: bool
    blur: Floats
    """The error of masses beside the relative error `off`."""
    laws: list[Floats]

    def pair(self, p: Floats, q: Floats) -> NoisyPair:
        """Return two of these laws as a pair."""
        return NoisyPair(p + self.blur, np.maximum(q - self.blur, 0.0), self.width, self.off, self.sharp, self.doubt)

    @cached_property
    def doubt(self) -> float:
        """The error of sums of masses beside the relative error."""
        return upwards(2 * float(np.sum(np.broadcast_to(self.blur, self.width.shape))), 64 * UNIT)


def noisy_laws(
    seen: ProjectedTable, outcomes: Outcomes, noisy: Sequence[Additive | CopulaNoise], most: int = _ONE_COORDINATE
) -> CellLaws:
    """Return the laws of noisy answers beside the outcomes of channels, by cells."""
    parts = cells_that_fit(coordinates_of(seen, noisy), len(seen.points), outcomes.masses.shape[1], most)
    discrete = np.array([[one / outcomes.total for one in row] for row in outcomes.masses.tolist()])
    off = sum(part.off for part in parts) + (len(seen.points) + 2 * len(parts) + 16) * UNIT
    width, blur, largest = np.zeros(1), np.zeros(1), np.ones(1)
    for part in parts:
        width, highest = np.add.outer(width, part.width).ravel(), part.masses.max(axis=0)
        blur = (np.multiply.outer(blur, highest + part.blur) + np.multiply.outer(largest, part.blur)).ravel()
        largest = np.multiply.outer(largest, highest).ravel()
    width = np.repeat(width, discrete.shape[1]) * (1 + 8 * UNIT)
    blur = np.multiply.outer(blur, discrete.max(axis=0)).ravel() * (1 + 64 * UNIT)
    laws = [np.array([[one / total for one in row] for row in whole.tolist()]) for whole, total in seen.laws]
    sharp = all(part.sharp for part in parts)
    return CellLaws(width, off, sharp, blur, [_mixed(law, parts, discrete) for law in laws])


def _mixed(law: Floats, parts: Sequence[Cells], discrete: Floats) -> Floats:
    """Return Σ_x P(x|s)·Π masses, a row of the first part's cells at a time."""
    rest = np.ones((law.shape[1], 1))
    for part in parts[1:]:
        rest = (rest[:, :, None] * part.masses[:, None, :]).reshape(law.shape[1], -1)
    rest = (rest[:, :, None] * discrete[:, None, :]).reshape(law.shape[1], -1)
    mixed = [(law * parts[0].masses[:, cell]) @ rest for cell in range(parts[0].masses.shape[1])]
    return np.concatenate(mixed, axis=1) if rest.shape[1] > 1 else np.hstack(mixed)
