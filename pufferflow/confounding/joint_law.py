"""The joint law of all outputs of several releases under every value of a secret, and its pairs (M22, M23, M31).

Given the data all releases are independent of each other; given the secret they are not, since they read the same rows.
Channels alone are enumerated in whole numbers. Continuous noise is told by cells, of which there are as many as fit;
Gaussian releases are first brought to as few coordinates as their answers span, which loses nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, final

import numpy as np

from pufferflow.arrays import Array, Floats
from pufferflow.channels import Channel
from pufferflow.confounding.additive import Additive, Cells, cells_of
from pufferflow.confounding.coupled_pair import CoupledPair
from pufferflow.confounding.exact_pair import ExactPair
from pufferflow.confounding.law_pair import LawPair
from pufferflow.confounding.noisy_pair import NoisyPair
from pufferflow.confounding.reading import Seen
from pufferflow.errors import Misuse, Refused
from pufferflow.noise import Gaussian, Noise
from pufferflow.rounding import UNIT, log_above
from pufferflow.scenario import Label

Release = Channel | Additive
MOST_STEPS = 6_000_000
_MOST_CELLS = 1_000_000
_MOST_FLOATS = 60_000_000
_ONE_COORDINATE = 20_000
_FARTHEST = 10**9


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """How likely every combination of outputs of channels is at every point, in whole numbers of one unit."""

    masses: Array
    total: int
    labels: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, seen: Seen, channels: Sequence[Channel]) -> "Outcomes":
        """Return the outcomes of channels; those that cannot happen at any point are left out."""
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
    """Refuse what takes too long to enumerate."""
    if steps > MOST_STEPS:
        raise Refused(
            f"The joint law has {what}, and takes {steps} steps to work out.",
            allowed=f"at most {MOST_STEPS} steps: values of the secret × points that are read × joint outputs",
            instead="fewer or coarser outputs, fewer columns that are read, or coarser columns",
        )


def read_by(release: Channel, seen: Seen, at: int) -> int:
    """Return the place of the input that a channel reads at a point."""
    return release.place(seen.place(release.reads, seen.points[at]))


def as_releases(given: Any) -> tuple[Release, ...]:
    """Return releases as a tuple."""
    listed = cast(Sequence[Any], given) if isinstance(given, list | tuple) else (given,)
    for one in listed:
        if not isinstance(one, Channel | Additive):
            raise Misuse(
                f"A release is of type {type(one).__name__}.",
                allowed="pf.confounding.Channel or pf.confounding.Additive, or a list of them",
                instead='[pf.confounding.Additive("score", pf.Laplace(2.0))]',
            )
        if not one.reads:
            raise Misuse(
                f"{one!r} names no column that it reads.",
                allowed="channels of columns of the table",
                instead='channel.reading("score")',
            )
    return tuple(listed)


def columns_read(releases: Sequence[Release]) -> list[str]:
    """Return the columns that releases read, each once."""
    return list(dict.fromkeys(name for one in releases for name in one.reads))


Pairs = list[tuple[tuple[Label, Label], LawPair]]


def pairs_of(seen: Seen, releases: Sequence[Release]) -> Pairs:
    """Return the laws of all outputs for every ordered pair of secrets, in every table."""
    silent = [one for one in releases if isinstance(one, Additive) and one.noise.scale == 0]
    noisy = [one for one in releases if isinstance(one, Additive) and one.noise.scale > 0]
    channels = [one for one in releases if isinstance(one, Channel)]
    channels += [Channel.revealing(one.reads, _inputs(seen, one)) for one in silent]
    most = math.prod(len(one.outputs) for one in channels) * len(seen.points) * len(seen.values)
    if noisy and most > MOST_STEPS:
        return _coupled_pairs(seen, channels, noisy)
    outcomes = Outcomes.of(seen, channels)
    if noisy and not _each(_coordinates(seen, noisy), len(seen.points), outcomes.masses.shape[1], _ONE_COORDINATE):
        return _coupled_pairs(seen, channels, noisy)
    if noisy:
        return _noisy_pairs(seen, outcomes, noisy)
    pairs: Pairs = []
    for laws, total in seen.laws:
        joint = laws @ outcomes.masses
        unit = total * outcomes.total
        pairs += [(_labels(seen, pair), ExactPair(joint[pair[0]], joint[pair[1]], unit)) for pair in seen.pairs]
    return pairs


def _coupled_pairs(seen: Seen, channels: Sequence[Channel], noisy: Sequence[Additive]) -> Pairs:
    """Return upper bounds for every pair, from what the releases lose between any two points."""
    size = len(seen.points)
    check_size(size * size * len(seen.pairs), f"{size} points, too many outputs to enumerate, and their pairs")
    steps, squares = np.zeros((size, size)), np.zeros((size, size))
    for channel in channels:
        rows = channel.probabilities
        read = [read_by(channel, seen, at) for at in range(size)]
        losses = np.array([[max_log_ratio(one, other) for other in rows] for one in rows])
        steps += np.maximum(losses, losses.T)[np.ix_(read, read)]
    for one in _coordinates(seen, noisy, spanned=False):
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


def _labels(seen: Seen, pair: tuple[int, int]) -> tuple[Label, Label]:
    return seen.values[pair[0]], seen.values[pair[1]]


def _inputs(seen: Seen, release: Additive) -> list[Any]:
    return list(dict.fromkeys(seen.place(release.reads, point) for point in seen.points))


def _noisy_pairs(seen: Seen, outcomes: Outcomes, noisy: Sequence[Additive]) -> Pairs:
    width, off, sharp, laws = noisy_laws(seen, outcomes, noisy)
    pairs: Pairs = []
    for whole, joint in zip((whole for whole, _ in seen.laws), laws, strict=True):
        for first, second in seen.pairs:
            same = bool((whole[first] == whole[second]).all())
            pair = NoisyPair(joint[first], joint[second], np.zeros_like(width) if same else width, off, sharp)
            empty = ExactPair(np.ones(1, dtype=object), np.ones(1, dtype=object), 1)
            pairs.append((_labels(seen, (first, second)), empty if same else pair))
    return pairs


def noisy_laws(
    seen: Seen, outcomes: Outcomes, noisy: Sequence[Additive], most: int = _ONE_COORDINATE
) -> tuple[Floats, float, bool, list[Floats]]:
    """Return the widths of all cells, their error, whether they are sharp, and for every table their masses.

    Masses are of shape (values of the secret, cells × outcomes).
    """
    coordinates = _coordinates(seen, noisy)
    parts = _cells(coordinates, len(seen.points), outcomes.masses.shape[1], most)
    discrete = np.array([[one / outcomes.total for one in row] for row in outcomes.masses.tolist()])
    off = sum(part.off for part in parts) + (len(seen.points) + 2 * len(parts) + 16) * UNIT
    width = np.zeros(1)
    for part in parts:
        width = (width[:, None] + part.width[None, :]).ravel()
    width = np.repeat(width, discrete.shape[1]) * (1 + 8 * UNIT)
    laws = [np.array([[one / total for one in row] for row in whole.tolist()]) for whole, total in seen.laws]
    return width, off, all(part.sharp for part in parts), [_mixed(law, parts, discrete) for law in laws]


def _mixed(law: Floats, parts: Sequence[Cells], discrete: Floats) -> Floats:
    """Return Σ_x P(x|s)·Π masses, a row of the first part's cells at a time."""
    rest = np.ones((law.shape[1], 1))
    for part in parts[1:]:
        rest = (rest[:, :, None] * part.masses[:, None, :]).reshape(law.shape[1], -1)
    rest = (rest[:, :, None] * discrete[:, None, :]).reshape(law.shape[1], -1)
    mixed = [(law * parts[0].masses[:, cell]) @ rest for cell in range(parts[0].masses.shape[1])]
    return np.concatenate(mixed, axis=1) if rest.shape[1] > 1 else np.hstack(mixed)


@final
@dataclass(frozen=True, eq=False)
class Coordinate:
    """Numbers of all points in units of a noise of scale 1, and by how much they may be off."""

    noise: Noise
    answers: Floats
    blurred: float = 0.0


def _coordinates(seen: Seen, noisy: Sequence[Additive], *, spanned: bool = True) -> list[Coordinate]:
    """Return all noisy answers, each in units of its noise and beginning at 0; Gaussian ones as few as they span."""
    plain: list[Coordinate] = []
    bells: list[Floats] = []
    for one in noisy:
        answers = [_answers(seen, name, one.noise.scale) for name in one.reads]
        if not isinstance(one.noise, Gaussian):
            plain += [Coordinate(one.noise.at(1.0), own) for own in answers]
        elif one.correlation:
            share = one.correlation
            bells += [answers[0], (answers[1] - share * answers[0]) / np.sqrt((1 - share) * (1 + share))]
        else:
            bells += answers
    if bells and spanned:
        return [*_spanned(np.stack(bells, axis=1)), *plain]
    return [*(Coordinate(Gaussian(1.0), own - own.min()) for own in bells), *plain]


def _answers(seen: Seen, name: str, scale: float) -> Floats:
    """Return a column in units of a scale, less its smallest value."""
    values = [point[seen.columns.index(name)] for point in seen.points]
    if not all(isinstance(one, int | float) for one in values):
        raise Misuse(
            f"Noise is added to {name!r}, which has labels.",
            allowed="columns of numbers",
            instead="a pf.confounding.Channel, or numbers for the labels",
        )
    exact = [Fraction(cast(float, one)) for one in values]
    least = min(exact)
    if max(exact) - least > _FARTHEST * Fraction(scale):
        raise Refused(
            f"The values of {name!r} lie more than {_FARTHEST} scales of the noise apart.",
            allowed="noise that hides some of them",
            instead="pf.confounding.Channel.revealing(reads, inputs), for what the noise does not hide",
        )
    return np.array([float((one - least) / Fraction(scale)) for one in exact])


def _spanned(answers: Floats) -> list[Coordinate]:
    """Return Gaussian answers (points, coordinates) along the axes that they span: the rest of the noise tells nothing.

    What is left of them beside these axes, and all rounding, is how far an answer may be off.
    """
    centred = answers - answers[0]
    size = float(np.abs(centred).max())
    if size == 0:
        return [Coordinate(Gaussian(1.0), np.zeros(len(answers)))]
    _, stretches, axes = np.linalg.svd(centred, full_matrices=False)
    kept = axes[stretches > 1e-11 * stretches[0]]
    along = centred @ kept.T
    beside = float(np.abs(centred - along @ kept).max()) * np.sqrt(answers.shape[1])
    blurred = beside + 64 * UNIT * size * answers.shape[1]
    return [Coordinate(Gaussian(1.0), own - own.min(), blurred) for own in along.T]


def _each(coordinates: Sequence[Coordinate], points: int, outcomes: int, most: int) -> int:
    """Return how many cells each coordinate may have; 0 if there is no room for every answer of Laplace noise."""
    room = min(_MOST_CELLS, _MOST_FLOATS // points) // outcomes
    each = min(int(max(room, 1) ** (1 / len(coordinates))), most)
    least = max(len(np.unique(one.answers)) for one in coordinates)
    return each if each >= max(least, 24) else 0


def _cells(coordinates: Sequence[Coordinate], points: int, outcomes: int, most: int) -> list[Cells]:
    """Return cells of all coordinates, as many as fit."""
    each = _each(coordinates, points, outcomes, most)
    if not each:
        raise Refused(
            f"{len(coordinates)} noisy answers of {points} points, with {outcomes} outputs of channels, need more than "
            f"{_MOST_CELLS} cells.",
            allowed="what bounds serve: the cost itself, without the posterior and what independence would cost",
            instead="one release of several queries less, coarser columns, or channels with few outputs",
        )
    return [cells_of(one.noise, one.answers, each, one.blurred) for one in coordinates]
