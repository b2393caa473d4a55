"""Movements of all answers along an autoregressive sequence, step by step: adding a release is quick (M15, M16).

A release moves a little for a secret at each step near its rows. These movements are summed in an array by steps, of
which only the part near a new release changes. Secrets farther away move less than 2^-40 of the whole, which is added.
But rounding values to a grid, or crossing a border of their class, may happen to any row and does not decay.

To distant rows it hardly ever happens (M1, M4). Whatever all other rows are, no value of a row has a density above f =
1/(s·√(2π)), s² = variance·(1 − φ²)/(1 + φ²). A row at distance d moves by v = φ^d·|a − b|. So it crosses one of n
borders with probability at most n·f·v; for several columns these are summed. Classes have the same borders for all
queries. On an interval every function has borders of its own, and may be chosen after other answers about the row. Let
such answers have loss x (Laplace noise), or loss x of order 2 (Gaussian). They turn a probability p into at most
e^x·√p. This is Cauchy–Schwarz for the law of row and answers, against the law in which answers are about a fixed row.
Sum the probabilities over all rows beyond a distance, and all functions that read a row. The sum is at most the part
that δ covers. Outside this event rows beyond the distance do not move at all.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, final

import msgspec
import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.correlations import AR1, spanned
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import AnySecret, Derived, Initial, Secret
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.published.cost import Cost, Shape
from pufferflow.queries.statistic import Statistic
from pufferflow.sensitivity.shift import farthest, lengths_along

_PART = 2048
_LOST = 2.0**-40
_LONGEST = 1 << 20
_MOST_PARTS = 1024
"""Of older releases only the largest movement at any step is kept."""
_MOST_STORED = 1 << 24
_BORDERS = 2.0**40
"""More borders than a function on an interval has: 200 pieces, each of at most 2^31 steps."""
_MOST_READ = 2.0**12
_MOST_LOSS = 16.0
FAMILIES = {1: Laplace, 2: Gaussian}
"""Noises by the norm in which movements add up to one loss."""


@final
class RepeatedRelease(NamedTuple):
    """A release repeated `times` times, `every` steps apart: without end if `times` is ∞."""

    cost: Cost
    steps: int
    times: float

    def turn(self, number: int) -> Cost:
        """Return the cost of one of the releases; rows are added, none goes away."""
        cost, by = self.cost, self.steps * number
        seen = None if cost.steps_seen is None else (cost.steps_seen[0], cost.steps_seen[1] + by)
        return msgspec.structs.replace(cost, offset=cost.offset + by, steps_seen=seen)


@final
@dataclass(frozen=True, eq=False)
class _Contribution:
    """The contribution of one release to the sums at steps from `first` on, and to those at all steps."""

    first: int
    steps: Floats
    """For a secret at each step, four numbers.

    The first is its movement to the power of the norm, without what is `everywhere`. The others are the number of
    functions that read the row, their loss about the row, and how much the row grows on the grid.
    """
    everywhere: Floats
    """What does not depend on the step: the movement for a distant secret, and that of rounding rows to the grid."""

    def repeated(self, every: int, times: float, end: float) -> Floats:
        """Return the sum of so many, `every` steps after each other; as far as `end`, all are alike from there.

        In rows of as many steps a row is the sum of those that reach it: of 1, 2, 4, … and so of any number.
        """
        width = -(-self.steps.shape[1] // every)
        count = int(
            times
            if math.isinf(end)
            else min(times, width + max(-(-(end - self.first) // every), 0) + 2)
        )
        left, size, done = min(count, width), 1, 0
        rows = np.zeros((4, width + left - 1, every))
        rows.reshape(4, -1)[:, : self.steps.shape[1]] = self.steps * (1 + 64 * UNIT)
        total = np.zeros_like(rows)
        while left:
            if left % 2:
                total[:, done:] += rows[:, : rows.shape[1] - done]
                done += size
            rows[:, size:] += rows[:, :-size].copy()
            left, size = left // 2, 2 * size
        same = np.repeat(total[:, width - 1 : width], max(count - width, 0), axis=1)
        return np.concatenate([total[:, :width], same, total[:, width:]], axis=1).reshape(4, -1)


@final
class Movements:
    """The movements of releases under one prior; ∞ where they do not add along one autoregressive sequence."""

    def __init__(self, scenario: Scenario, prior: Prior, costs: Iterable[Cost] = ()) -> None:
        self._secret, self._prior = scenario.secret, prior
        self._costs = [cost for cost in costs if not cost.selects_nothing]
        self._sums = dict[tuple[int, float], _MovementSums]()

    @staticmethod
    def fit(scenario: Scenario, prior: Prior) -> bool:
        """Return whether rows are of an autoregressive sequence, and the secret is a row's value."""
        autoregressive = isinstance(prior, GaussianPrior) and isinstance(prior.covariance, AR1)
        return autoregressive and _of_a_row(scenario.secret)

    def add(self, cost: Cost) -> None:
        """Count one more release."""
        if not cost.selects_nothing:
            self._costs.append(cost)

    def length(
        self,
        norm: int,
        more: Sequence[Cost] = (),
        *,
        spare: float = 0.0,
        schedule: RepeatedRelease | None = None,
    ) -> float:
        """Return how far all sums move together, in units of their noise, outside an event of probability `spare`."""
        prior, secret = self._prior, self._secret
        if not isinstance(prior, GaussianPrior) or not _of_a_row(secret):
            return math.inf
        far = distance(prior, secret, spare) if spare else math.inf
        cut = far if _in_classes(secret) else math.inf
        if (norm, cut) not in self._sums:
            self._sums[norm, cut] = _MovementSums(prior, secret, norm, cut)
        selecting = [cost for cost in more if not cost.selects_nothing]
        return self._sums[norm, cut].length(self._costs, selecting, schedule, far)


@final
class _MovementSums:
    """The sums of the contributions of releases at all steps, in one norm, in parts of `_PART` steps near releases."""

    def __init__(self, prior: GaussianPrior, secret: AnySecret, norm: int, cut: float) -> None:
        self._prior, self._secret, self._norm, self._cut = prior, secret, norm, cut
        self._whole = (
            cut if math.isfinite(cut) else _steps(_size(prior), 2 / (1 - _size(prior)), _LOST)
        )
        self._contributions = dict[str, _Contribution]()
        self._place: tuple[str, float] | None = None
        self._begin(1)

    def _begin(self, reach: int) -> None:
        """Begin with no release, for movements that reach so far."""
        self._reach, self._added, self._span = reach, 0, (math.inf, -math.inf)
        self._parts, self._most, self._everywhere = dict[int, Floats](), np.zeros(4), np.zeros(2)
        self._left = set[int]()
        self._contributions.clear()

    def length(
        self,
        costs: Sequence[Cost],
        more: Sequence[Cost],
        schedule: RepeatedRelease | None,
        far: float,
    ) -> float:
        """Return the norm of the movements of all releases, if rows beyond `far` do not move."""
        if not self._added:
            self._place = None
        new = [*costs[self._added :], *more, *([schedule.cost] if schedule else [])]
        if schedule is not None and not schedule.steps:
            return math.inf
        if not all(map(self._fits, new)) or not self._reaches(new, schedule):
            return math.inf
        parts, self._most, self._everywhere = self._with(costs[self._added :])
        self._keep(parts)
        self._added = len(costs)
        parts, most, (far_away, grid) = self._with(more, schedule)
        # an upper bound on the movements beyond the reach, which are not stored
        lost = most[2] * _LOST**self._norm
        rounded = 1 + (len(costs) + len(more) + (64 if schedule is None else _LONGEST)) * UNIT
        root = 1 / self._norm
        near = ((self._farthest(parts, most) + lost + far_away) * rounded) ** root * (1 + 4 * UNIT)
        if math.isinf(far):
            return float(near + (grid * rounded) ** root * (1 + 4 * UNIT))
        if _in_classes(self._secret):
            return float(near)
        known = most[1] <= _MOST_READ and most[2] <= _MOST_LOSS
        return float(near + (2 * far + 1) * most[3] * rounded) if known else math.inf

    def _fits(self, cost: Cost) -> bool:
        """Return whether a release selects rows at whole steps of the common clock, and its noise is known."""
        shape, start = cost.shape, cost.start if isinstance(self._secret, Initial) else 0.0
        linear = shape.slopes is not None or shape.values is not None
        noisy = isinstance(shape.noise, FAMILIES[self._norm]) and shape.noise.scale > 0
        if not linear or not noisy or not shape.runs or start is None or start != int(start):
            return False
        self._place = self._place or (cost.clock, start)
        return self._place == (cost.clock, start)

    def _reaches(self, new: Sequence[Cost], schedule: RepeatedRelease | None) -> bool:
        """Return whether movements reach as far as needed, after starting anew if they did not."""
        if not new:
            return True
        spans = [self._span, *(cost.window for cost in new)]
        low, high = min(first for first, _ in spans), max(end for _, end in spans)
        if isinstance(self._secret, Initial) and self._place:
            low, high = min(low, self._place[1]), max(high, self._place[1] + 1)
        length = high - low + (0 if schedule is None else schedule.steps * (schedule.times - 1))
        wanted = (
            self._whole
            if length > self._whole
            else min(self._whole, 2 ** math.ceil(math.log2(length)))
        )
        if wanted > _LONGEST:
            return False
        if wanted > self._reach:
            self._begin(int(wanted))
        self._span = low, high
        return True

    def _with(
        self, costs: Sequence[Cost], schedule: RepeatedRelease | None = None
    ) -> tuple[dict[int, Floats], Floats, Floats]:
        """Return the parts that change, the largest sums, and the addition at all steps, with some more releases."""
        parts, everywhere = dict[int, Floats](), self._everywhere.copy()
        shapes = {cost.shape.digest: cost.shape for cost in costs}
        places = dict[tuple[str, int], list[int]]()
        for (digest, place), often in Counter(
            (cost.shape.digest, cost.offset) for cost in costs
        ).items():
            places.setdefault((digest, often), []).append(place)
        for (digest, often), offsets in places.items():
            added = self._contribution(shapes[digest])
            for first, every, times in _runs(sorted(offsets)):
                everywhere += often * times * added.everywhere
                steps = added.steps if times == 1 else added.repeated(every, times, math.inf)
                self._put(parts, first + added.first, steps if often == 1 else often * steps)
        if schedule is not None:
            added, first = self._contribution(schedule.cost.shape), schedule.cost.offset
            everywhere += [one * schedule.times if one else 0.0 for one in added.everywhere]
            steps = added.repeated(
                schedule.steps, schedule.times, self._span[1] + self._reach - first
            )
            self._put(parts, first + added.first, steps)
        return (
            parts,
            np.max([self._most, *(part.max(axis=1) for part in parts.values())], axis=0),
            everywhere,
        )

    def _farthest(self, parts: dict[int, Floats], most: Floats) -> float:
        """Return the power of the movement for the worst secret, or for the one at the start."""
        if not isinstance(self._secret, Initial):
            return float(most[0])
        part, at = divmod(int(self._place[1]) if self._place else 0, _PART)
        return float(parts.get(part, self._parts.get(part, np.zeros((4, _PART))))[0, at])

    def _put(self, parts: dict[int, Floats], place: int, steps: Floats) -> None:
        """Add sums to copies of the parts where they are."""
        end = place + steps.shape[1]
        for part in range(place // _PART, (end - 1) // _PART + 1):
            if part not in parts:
                known = self._parts.get(part)
                parts[part] = (
                    np.zeros((4, _PART)) + self._most[:, None] * (part in self._left)
                    if known is None
                    else known.copy()
                )
            low, high = max(place, part * _PART), min(end, (part + 1) * _PART)
            parts[part][:, low - part * _PART : high - part * _PART] += steps[
                :, low - place : high - place
            ]

    def _keep(self, parts: dict[int, Floats]) -> None:
        """Keep parts that have changed, and leave those that have not for long, unless the secret is there."""
        for part, sums in parts.items():
            self._parts.pop(part, None)
            self._parts[part] = sums
        start = (
            int(self._place[1]) // _PART
            if self._place and isinstance(self._secret, Initial)
            else None
        )
        for part in list(self._parts)[: max(len(self._parts) - _MOST_PARTS, 0)]:
            if part != start:
                del self._parts[part]
                self._left.add(part)

    def _contribution(self, shape: Shape) -> _Contribution:
        """Return the contribution of a release of a shape, computed once."""
        if shape.digest in self._contributions:
            return self._contributions[shape.digest]
        first, end = (int(step) for step in shape.window)
        first, size = first - self._reach, end - first + 2 * self._reach
        table = np.array(
            shape.slopes if shape.slopes is not None else shape.values, dtype=np.float64
        )
        tables = table - table.min(axis=1, keepdims=True)
        growth, scale = np.array(shape.rounding or (0.0,) * len(tables)), shape.noise.scale
        cells = sorted({cell for _, _, cell in shape.runs})
        rows = np.zeros((len(cells), size))
        for low, high, cell in shape.runs:
            rows[cells.index(cell), low - first : high - first] = 1.0
        moved, beyond = self._moved(
            shape, np.repeat(rows, len(tables), axis=0), np.tile(tables, (len(cells), 1))
        )
        losses = ((tables.max(axis=1) + growth) / scale) ** self._norm
        grown = np.outer(growth, rows.sum(axis=1)).ravel() / scale
        read = np.array([[len(tables)], [losses.sum()], [growth.sum() / scale]]) * (
            1 + (len(tables) + 4) * UNIT
        )
        grid = float((grown**self._norm).sum() * (1 + (len(grown) + 4) * UNIT))
        if len(self._contributions) * 8 * self._reach > _MOST_STORED:
            self._contributions.clear()
        steps = np.concatenate([moved[None], rows.max(axis=0) * read])
        self._contributions[shape.digest] = _Contribution(first, steps, np.array([beyond, grid]))
        return self._contributions[shape.digest]

    def _moved(self, shape: Shape, weights: Floats, tables: Floats) -> tuple[Floats, float]:
        """Return the power of the movement for a secret at each step, and for one however far away."""
        unsigned = shape.unsigned or (shape.rows is not None and shape.rows.covers)
        scaled = tables / shape.noise.scale * (1 + 2 * UNIT)
        statistic = Statistic(weights, scaled, np.arange(weights.shape[1]), column=shape.column)
        least = _size(self._prior) ** self._whole
        lengths = lengths_along(
            self._prior,
            statistic,
            self._secret,
            self._norm,
            open_cells=unsigned,
            least=least,
            fades=math.isfinite(self._cut),
        )
        powers = lengths**self._norm * (1 + 4 * UNIT)
        classes = _in_classes(self._secret) and math.isinf(self._cut)
        beyond = float(max(powers[0], powers[-1])) if classes else 0.0
        return np.maximum(powers - beyond, 0.0), beyond


@cache
def distance(prior: GaussianPrior, secret: AnySecret, spare: float) -> float:
    """Return the distance beyond which no row moves outside an event of the given probability; ∞ if there is none."""
    size = _size(prior)
    if not spare:
        return math.inf
    density = math.sqrt((1 + size**2) / (1 - size**2) / (2 * math.pi))
    classes = _in_classes(secret) and secret.reads
    borders = float(len(classes[1].points) + 1) if classes else _BORDERS
    crossing = borders * density * farthest(prior, secret)
    if not math.isfinite(crossing):
        return math.inf
    if classes:
        return _steps(size, 2 * crossing / (1 - size), spare)
    often = _MOST_READ * math.exp(_MOST_LOSS) * math.sqrt(crossing)
    return _steps(math.sqrt(size), 2 * often / (1 - math.sqrt(size)), spare)


def _of_a_row(secret: AnySecret) -> bool:
    """Return whether the secret is a value of a row, or one of several queried values."""
    return isinstance(secret, Secret | Initial) or (
        isinstance(secret, Derived) and secret.tuples is not None
    )


def _in_classes(secret: AnySecret) -> bool:
    return secret.reads is not None and secret.reads[1].finite


def _runs(places: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield stretches of growing places that are equally far apart: the first, the distance, and how many there are."""
    at = 0
    while at < len(places):
        end = at + 1
        every = places[end] - places[at] if end < len(places) else 1
        while end < len(places) and places[end] - places[end - 1] == every:
            end += 1
        yield places[at], every, end - at
        at = end


def _steps(ratio: float, first: float, rest: float) -> float:
    """Return after how many steps a geometric series from `first` with this ratio is down to a rest."""
    if ratio == 0 or first <= rest:
        return 1.0
    return max(math.ceil(math.log(rest / first) / math.log(ratio) * (1 + 1e-9)) + 1.0, 1.0)


def _size(prior: GaussianPrior) -> float:
    return max(map(abs, spanned(getattr(prior.covariance, "phi", 1.0))))
