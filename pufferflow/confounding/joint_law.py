"""The data that releases read of a row, and the joint law of all their outputs under every value of a secret.

Given the data all releases are independent of each other. Given the secret they are not, since they read the same rows.
Channels alone are enumerated in whole numbers. Continuous noise is represented by cells, as many as fit. Gaussian
releases are first reduced to the coordinates that their answers span, without loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast, final

import numpy as np

from pufferflow.confounding.additive import (
    Additive,
    Cells,
    cells_of,
    count_of_steps,
    staircase_cells,
)
from pufferflow.confounding.latent import CopulaBySecret, Tie
from pufferflow.confounding.law_pairs import CoupledPair, ExactPair, LawPair, NoisyPair
from pufferflow.confounding.tied import CopulaNoise, tied_cells
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, log_above, upwards
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import decimal_reading, quoted
from pufferflow.models.domain import Label
from pufferflow.models.priors.table import Table, Values, table_of_rows
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Secret, hidden_column
from pufferflow.noise.base import Noise
from pufferflow.noise.channel import Channel
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.staircase import Staircase

_TABLES = (
    'pf.Table({"ill": ["no", "no", "yes"], "score": [0, 1, 1], "probability": [0.5, 0.25, 0.25]})'
)


@final
@dataclass(frozen=True, eq=False)
class ProjectedTable(InNotebooks):
    """Tables given a secret: the law of the values of some columns, given each value of the secret.

    There is an array of `masses` for every table, of shape (values of the secret, points): whole numbers, in units of
    one `total` for all. Several tables have the points of all of them.
    """

    secret: str
    values: tuple[Label, ...]
    pairs: tuple[tuple[int, int], ...]
    """Both orders of the pairs of values that must be indistinguishable, by their places."""
    columns: tuple[str, ...]
    points: tuple[Values, ...]
    masses: tuple[Array, ...]

    @cached_property
    def laws(self) -> tuple[tuple[Array, int], ...]:
        """For every table the laws of the points given the secret, in whole numbers of one unit, and its total."""
        return tuple(_conditional(joint) for joint in self.masses)

    @cached_property
    def chances(self) -> tuple[list[Fraction], ...]:
        """For every table the probabilities of the values of the secret."""
        return tuple(
            [Fraction(sum(row), joint.sum()) for row in joint.tolist()] for joint in self.masses
        )

    def place(self, columns: Sequence[str], point: Values) -> Values:
        """Return the values of some of the columns at a point."""
        return tuple(point[self.columns.index(name)] for name in columns)


def _conditional(joint: Array) -> tuple[Array, int]:
    sums = joint.sum(axis=1)
    total = math.lcm(*sums.tolist())
    return joint * np.array([total // one for one in sums.tolist()], dtype=object)[:, None], total


def see(table: Any, secret: Any, columns: Sequence[str]) -> ProjectedTable:
    """Return tables given a secret; for a scenario, its priors and its secret."""
    tables, secret = _tables(table, secret)
    hidden = _hidden(tables[0], secret, columns)
    for one in tables:
        for name in (*columns, hidden):
            if name not in one.names:
                raise UsageError(
                    f"The table has no column {name!r}.{did_you_mean(name, one.names)}",
                    allowed=f"one of {list(one.names)[:6]}",
                    instead="the name of a column of the table",
                )
    values = tuple(dict.fromkeys(sorted(value for one in tables for value in one.values(hidden))))
    pairs = _pairs(tables, hidden, secret, values)
    listed = [_joint(one, hidden, columns) for one in tables]
    points = tuple(sorted({point for joint in listed for _, point in joint}))
    places = {point: at for at, point in enumerate(points)}
    masses: list[Array] = []
    for joint in listed:
        unit = math.lcm(*(mass.denominator for mass in joint.values()))
        whole = np.zeros((len(values), len(points)), dtype=object)
        for (value, point), mass in joint.items():
            whole[values.index(value), places[point]] = mass.numerator * (unit // mass.denominator)
        masses.append(whole)
    return ProjectedTable(hidden, values, pairs, tuple(columns), points, tuple(masses))


def named_secret(table: Any, secret: Any) -> str | None:
    """Return the column of the secret that is named, itself or by a scenario; None if none is."""
    about = table.secret if secret is None and isinstance(table, Scenario) else secret
    if isinstance(about, Secret):
        return about.column
    return about.name if isinstance(about, Derived) else cast(str | None, about)


def tables_of(table: Any) -> list[Table]:
    """Return the tables of a prior: a table, several, or those of a scenario."""
    return _tables(table, None)[0]


def _tables(table: Any, secret: Any) -> tuple[list[Table], Any]:
    if isinstance(table, Scenario):
        priors, secret = table.priors, table.secret if secret is None else secret
    else:
        priors = cast(Sequence[Any], table) if isinstance(table, list | tuple) else (table,)
    tables = [table for table in map(table_of_rows, priors) if table is not None]
    if not tables or len(tables) < len(priors):
        raise UsageError(
            f"The table is {quoted(cast(object, table))}.",
            allowed="a pf.Table without shared columns, a list of them, or a scenario whose priors are such tables",
            instead=_TABLES,
        )
    return tables, secret


def _hidden(table: Table, secret: Any, columns: Sequence[str]) -> str:
    """Return the column of the secret: the one that is named, or the only one that nothing reads."""
    if isinstance(secret, Secret | Derived):
        return hidden_column(secret, table.values)[0] if isinstance(secret, Secret) else secret.name
    if isinstance(secret, str):
        return secret
    unread = [name for name in table.names if name not in columns]
    if secret is not None or len(unread) != 1:
        given = f"secret is {quoted(secret)}" if secret is not None else f"Nothing reads {unread}"
        raise UsageError(
            f"{given}: it is not clear which column is the secret.",
            allowed="the name of a column, pf.Secret or pf.Derived; left out, the only column that nothing reads",
            instead=f"secret={table.names[0]!r}",
        )
    return unread[0]


def _pairs(
    tables: Sequence[Table], hidden: str, secret: Any, values: tuple[Label, ...]
) -> tuple[tuple[int, int], ...]:
    """Return both orders of the pairs; refuse values of the secret that some table never produces."""
    if len(values) < 2:
        raise UsageError(
            f"The secret {hidden!r} has a single value, so there is nothing to hide.",
            allowed="two values of the secret or more",
            instead=_TABLES,
        )
    about = secret if isinstance(secret, Secret | Derived) else Derived(hidden)
    _, listed = hidden_column(about, lambda _: values)
    for one, other in listed:
        for table in tables:
            known = table.values(hidden)
            missing = [value for value in (one, other) if value not in known]
            if missing:
                raise UsageError(
                    f"A table never produces {hidden} = {missing[0]!r}: nothing can be said about it.",
                    allowed=f"values with a probability above 0: {list(known)[:6]}",
                    instead="pairs of the values that occur, or a table with all of them",
                )
    both = [(values.index(one), values.index(other)) for one, other in listed]
    return tuple(pair for one, other in both for pair in ((one, other), (other, one)))


def _joint(
    table: Table, hidden: str, columns: Sequence[str]
) -> dict[tuple[Label, Values], Fraction]:
    """Return the joint law of the secret and some columns; floats are the decimals they are written as."""
    own = table.cells[table.names.index(hidden)]
    read = [table.cells[table.names.index(name)] for name in columns]
    points: list[Values] = list(zip(*read, strict=True)) if columns else [()] * len(own)
    joint: dict[tuple[Label, Values], Fraction] = {}
    for value, point, mass in zip(own, points, table.probabilities, strict=True):
        if mass > 0:
            joint[value, point] = joint.get((value, point), Fraction(0)) + decimal_reading(mass)
    return joint


_MOST_CELLS = 1_000_000
_MOST_FLOATS = 60_000_000
_MOST_TIED = 700
_FEWEST = 24
_FARTHEST = 10**9


@final
@dataclass(frozen=True, eq=False)
class Coordinate:
    """Numbers of all points in units of a noise of scale 1, beginning at 0, and their error."""

    dimensions: ClassVar[int] = 1

    noise: Noise
    answers: Floats
    blurred: float = 0.0
    exact: tuple[Fraction, ...] = ()
    """The same as rational numbers, for staircases."""

    @property
    def least(self) -> int:
        """The number of cells that it needs: staircases have all of theirs, Laplace noise a knot for every answer."""
        return (
            count_of_steps(self.exact)
            if isinstance(self.noise, Staircase)
            else len(np.unique(self.answers))
        )

    def cells(self, most: int) -> Cells:
        """Return its cells."""
        if isinstance(self.noise, Staircase):
            return staircase_cells(self.noise, self.exact)
        return cells_of(self.noise, self.answers, most, self.blurred)


@final
@dataclass(frozen=True, eq=False)
class TiedCoordinates:
    """Two numbers of all points whose noises are tied by a Gaussian copula, in units of the noise."""

    dimensions: ClassVar[int] = 2

    noises: tuple[Noise, Noise]
    answers: tuple[Floats, Floats]
    ties: tuple[Tie, ...]
    """The correlation and the means of the copula at every point."""

    @classmethod
    def of(cls, seen: ProjectedTable, release: "Additive | CopulaNoise") -> "TiedCoordinates":
        """Return the coordinates of two tied noises."""
        parts = single_coordinates(seen, release)
        first, second = parts
        ties = _ties(seen, release)
        return cls((first.noise, second.noise), (first.answers, second.answers), ties)

    @property
    def least(self) -> int:
        """The number of cells that each of both numbers needs."""
        return max(len(np.unique(own)) for own in self.answers)

    def cells(self, most: int) -> Cells:
        """Return its cells: rectangles."""
        return tied_cells(self.noises, self.answers, self.ties, min(most, _MOST_TIED))


def single_coordinates(seen: ProjectedTable, release: Additive | CopulaNoise) -> list[Coordinate]:
    """Return the noisy answers of a release one by one, without what ties their noises."""
    parts = (release.first, release.second) if isinstance(release, CopulaNoise) else (release,)
    exact = [
        (part.noise.at(1.0), _answers(seen, name, part.noise.scale))
        for part in parts
        for name in part.reads
    ]
    return [
        Coordinate(noise, np.array([float(value) for value in own]), exact=own)
        for noise, own in exact
    ]


def _ties(seen: ProjectedTable, release: Additive | CopulaNoise) -> tuple[Tie, ...]:
    """Return what ties the noises of a release at every point."""
    copula = release.correlation
    if not isinstance(copula, CopulaBySecret):
        return (Tie(copula),) * len(seen.points)
    return tuple(copula.tie(seen.place([copula.column], point)[0]) for point in seen.points)


def coordinates_of(
    seen: ProjectedTable, noisy: Sequence[Additive | CopulaNoise], *, spanned: bool = True
) -> list[Coordinate | TiedCoordinates]:
    """Return all noisy answers, Gaussian ones as few as they span."""
    others: list[Coordinate | TiedCoordinates] = []
    bells: list[Floats] = []
    for one in noisy:
        single = single_coordinates(seen, one)
        ties = _ties(seen, one)
        one_correlation = len({tie.correlation for tie in ties}) == 1
        if one_correlation and all(isinstance(part.noise, Gaussian) for part in single):
            answers = [part.answers for part in single]
            bells += _independent(answers, ties) if one.correlation else answers
        elif isinstance(one, CopulaNoise):
            others.append(TiedCoordinates.of(seen, one))
        else:
            others += single
    if bells and spanned:
        return [*_spanned(np.stack(bells, axis=1)), *others]
    return [*(Coordinate(Gaussian(1.0), own - own.min()) for own in bells), *others]


def _independent(answers: list[Floats], ties: Sequence[Tie]) -> list[Floats]:
    """Return two answers in coordinates in which correlated Gaussian noises are independent (M28).

    Means of the latent numbers move the answers.
    """
    share = ties[0].correlation
    first = answers[0] + np.array([tie.first for tie in ties])
    second = answers[1] + np.array([tie.second for tie in ties])
    return [first, (second - share * first) / np.sqrt((1 - share) * (1 + share))]


def _answers(seen: ProjectedTable, name: str, scale: float) -> tuple[Fraction, ...]:
    """Return a column in units of a scale, less its smallest value."""
    values = [point[seen.columns.index(name)] for point in seen.points]
    if not all(isinstance(one, int | float) for one in values):
        raise UsageError(
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
    return tuple((one - least) / Fraction(scale) for one in exact)


def _spanned(answers: Floats) -> list[Coordinate]:
    """Return Gaussian answers (points, coordinates) along the axes that they span; noise off these reveals nothing.

    The error of an answer is its remainder beside these axes, and all rounding.
    """
    centred = answers - answers[0]
    size = float(np.abs(centred).max())
    if size == 0:
        return [Coordinate(Gaussian(1.0), np.zeros(len(answers)))]
    _, stretches, axes = np.linalg.svd(centred, full_matrices=False)
    along_axes = axes[stretches > 1e-11 * stretches[0]]
    along = centred @ along_axes.T
    beside = float(np.abs(centred - along @ along_axes).max()) * np.sqrt(answers.shape[1])
    blurred = beside + 64 * UNIT * size * answers.shape[1]
    return [Coordinate(Gaussian(1.0), own - own.min(), blurred) for own in along.T]


def room_for(
    coordinates: Sequence[Coordinate | TiedCoordinates], points: int, outcomes: int, most: int
) -> int:
    """Return the number of cells of each number; 0 if the cells that they need do not fit."""
    room = min(_MOST_CELLS, _MOST_FLOATS // points) // outcomes
    each = min(int(max(room, 1) ** (1 / sum(one.dimensions for one in coordinates))), most)
    least = max(one.least for one in coordinates)
    return each if each >= max(least, _FEWEST) else 0


def cells_that_fit(
    coordinates: Sequence[Coordinate | TiedCoordinates], points: int, outcomes: int, most: int
) -> list[Cells]:
    """Return cells of all coordinates, as many as fit."""
    each = room_for(coordinates, points, outcomes, most)
    if not each:
        raise Refused(
            f"{len(coordinates)} noisy answers of {points} points, with {outcomes} outputs of channels, need more than "
            f"{_MOST_CELLS} cells.",
            allowed="what bounds give: the cost itself, without the posterior and the cost as if independent",
            instead="one release of several queries less, coarser columns, or channels with few outputs",
        )
    return [one.cells(each) for one in coordinates]


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
                f"{one!r} does not name a column that it reads.",
                allowed="channels of columns of the table",
                instead='channel.reading("score")',
            )
    return tuple(listed)


def is_noisy(release: Release) -> bool:
    """Return whether a release has continuous noise."""
    return isinstance(release, CopulaNoise) or (
        isinstance(release, Additive) and release.noise.scale > 0
    )


def columns_read(releases: Sequence[Release]) -> list[str]:
    """Return the columns that releases read, each once."""
    return list(dict.fromkeys(name for one in releases for name in one.reads))


Pairs = list[tuple[tuple[Label, Label], LawPair]]


def pairs_of(seen: ProjectedTable, releases: Sequence[Release]) -> Pairs:
    """Return the laws of all outputs for every ordered pair of secrets, in every table."""
    silent = [one for one in releases if isinstance(one, Additive) and one.noise.scale == 0]
    noisy = [one for one in releases if isinstance(one, Additive | CopulaNoise) and is_noisy(one)]
    channels = [one for one in releases if isinstance(one, Channel)]
    channels += [revealing(seen, one) for one in silent]
    most = math.prod(len(one.outputs) for one in channels) * len(seen.points) * len(seen.values)
    if noisy and most > MOST_STEPS:
        return _coupled_pairs(seen, channels, noisy)
    outcomes = Outcomes.of(seen, channels)
    if noisy and not room_for(
        coordinates_of(seen, noisy), len(seen.points), outcomes.masses.shape[1], _ONE_COORDINATE
    ):
        return _coupled_pairs(seen, channels, noisy)
    if noisy:
        return _noisy_pairs(seen, outcomes, noisy)
    pairs: Pairs = []
    for laws, total in seen.laws:
        joint = laws @ outcomes.masses
        unit = total * outcomes.total
        pairs += [
            (_labels(seen, pair), ExactPair(joint[pair[0]], joint[pair[1]], unit))
            for pair in seen.pairs
        ]
    return pairs


def _coupled_pairs(
    seen: ProjectedTable, channels: Sequence[Channel], noisy: Sequence[Additive | CopulaNoise]
) -> Pairs:
    """Return upper bounds for every pair, from what the releases lose between any two points."""
    size = len(seen.points)
    check_size(
        size * size * len(seen.pairs),
        f"{size} points, too many outputs to enumerate, and their pairs",
    )
    steps, squares = np.zeros((size, size)), np.zeros((size, size))
    for channel in channels:
        rows = channel.probabilities
        read = [read_by(channel, seen, at) for at in range(size)]
        losses = np.array([[max_log_ratio(one, other) for other in rows] for one in rows])
        steps += np.maximum(losses, losses.T)[np.ix_(read, read)]
    for one in coordinates_of(seen, noisy, spanned=False):
        if isinstance(one, TiedCoordinates):
            raise Refused(
                "Noises tied by a copula need more cells than fit beside the other releases.",
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


def revealing(seen: ProjectedTable, release: Additive) -> Channel:
    """Return the channel that publishes what a release without noise reads."""
    return Channel.revealing(
        release.reads, list(dict.fromkeys(seen.place(release.reads, one) for one in seen.points))
    )


def _noisy_pairs(
    seen: ProjectedTable, outcomes: Outcomes, noisy: Sequence[Additive | CopulaNoise]
) -> Pairs:
    cells = noisy_laws(seen, outcomes, noisy)
    pairs: Pairs = []
    for whole, joint in zip((whole for whole, _ in seen.laws), cells.laws, strict=True):
        for first, second in seen.pairs:
            same = bool((whole[first] == whole[second]).all())
            empty = ExactPair(np.ones(1, dtype=object), np.ones(1, dtype=object), 1)
            pairs.append(
                (
                    _labels(seen, (first, second)),
                    empty if same else cells.pair(joint[first], joint[second]),
                )
            )
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
        return NoisyPair(
            p + self.blur,
            np.maximum(q - self.blur, 0.0),
            self.width,
            self.off,
            self.sharp,
            self.doubt,
        )

    @cached_property
    def doubt(self) -> float:
        """The error of sums of masses beside the relative error."""
        return upwards(2 * float(np.sum(np.broadcast_to(self.blur, self.width.shape))), 64 * UNIT)


def noisy_laws(
    seen: ProjectedTable,
    outcomes: Outcomes,
    noisy: Sequence[Additive | CopulaNoise],
    most: int = _ONE_COORDINATE,
) -> CellLaws:
    """Return the laws of noisy answers beside the outcomes of channels, by cells."""
    parts = cells_that_fit(
        coordinates_of(seen, noisy), len(seen.points), outcomes.masses.shape[1], most
    )
    discrete = np.array([[one / outcomes.total for one in row] for row in outcomes.masses.tolist()])
    off = sum(part.off for part in parts) + (len(seen.points) + 2 * len(parts) + 16) * UNIT
    width, blur, largest = np.zeros(1), np.zeros(1), np.ones(1)
    for part in parts:
        width, highest = np.add.outer(width, part.width).ravel(), part.masses.max(axis=0)
        blur = (
            np.multiply.outer(blur, highest + part.blur) + np.multiply.outer(largest, part.blur)
        ).ravel()
        largest = np.multiply.outer(largest, highest).ravel()
    width = np.repeat(width, discrete.shape[1]) * (1 + 8 * UNIT)
    blur = np.multiply.outer(blur, discrete.max(axis=0)).ravel() * (1 + 64 * UNIT)
    laws = [
        np.array([[one / total for one in row] for row in whole.tolist()])
        for whole, total in seen.laws
    ]
    sharp = all(part.sharp for part in parts)
    return CellLaws(width, off, sharp, blur, [_mixed(law, parts, discrete) for law in laws])


def _mixed(law: Floats, parts: Sequence[Cells], discrete: Floats) -> Floats:
    """Return Σ_x P(x|s)·Π masses, a value of the secret at a time."""
    rest = np.ones((law.shape[1], 1))
    for part in parts[1:]:
        rest = (rest[:, :, None] * part.masses[:, None, :]).reshape(law.shape[1], -1)
    rest = (rest[:, :, None] * discrete[:, None, :]).reshape(law.shape[1], -1)
    return np.stack([((own[:, None] * parts[0].masses).T @ rest).ravel() for own in law])
