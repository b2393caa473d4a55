"""The best allocation of shifts to steps, the Gaussian shift that an iteration is equivalent to (M34), and its loss.

Let step t move the iterate by s_t, and let its noise hide a_t of the movement so far. Then a_1 + … + a_t may not exceed
s_1 + … + s_t, and in the end all is hidden. The loss is that of Gaussian noise with Σ(a_t/σ_t)². It is least if the
sums of a follow the greatest convex minorant of the sums of s over those of σ². With contractions c_t everything is
divided by c_1···c_t first.

The minorant is found by pooling: neighbouring blocks of steps are joined as long as the earlier one has more shift per
variance. A block has a sum of shifts and one of variances, as they are at its last step. So no product of contractions
leaves the range of floats. Joins at which rounding decides the comparison change the sum by a square of rounding.

Under Gaussian noise a displacement is equivalent to one Gaussian shift of μ = √Σ(a_t/σ_t)² deviations, for odds, orders
and trade-off curves. A pair of trajectories is one displacement. A coupling of them costs at most what its worst pair
does. At one order or one δ it costs at most the mean over pairs (M1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.calibration.transport_bounds import least, mean_of_shifts, mean_renyi, of_orders
from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.rounding import SMALLEST, UNIT, upwards
from pufferflow.learning.displacements import Displacements, Trajectories
from pufferflow.learning.iteration import Iteration
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily, Pure
from pufferflow.privacy.renyi import Renyi, Zcdp
from pufferflow.privacy.tradeoff import Gdp

_EXPANDS = 1e100
"""Steps that expand by more are not joined to earlier ones: not joining is always sound."""
_FURTHEST = 200.0
"""The logarithm of the largest expansion of a block of steps."""
_FEW = 1 / 8
_MOST_AT_ONCE = 1 << 22


@final
@dataclass(eq=False)
class Blocks:
    """Consecutive steps that share shifts: block i begins at step `first[i]` of displacement `owner[i]`."""

    owner: Indices
    first: Indices
    shift: Floats
    """The sum of shifts, as they are at the last step of the block."""
    variance: Floats
    """The sum of variances, likewise, in units of the largest variance."""
    growth: Floats
    """The product of the contractions of the block's steps."""
    joins: int = 8
    """The largest number of additions in sequence in a block."""

    def pool(self) -> None:
        """Join blocks until shifts per variance rise: many at once first, then one by one."""
        while True:
            later = self._falls(np.arange(1, len(self.owner)))
            if len(later) <= max(len(self.owner) * _FEW, 32):
                break
            follows = np.zeros(len(self.owner), dtype=np.bool_)
            follows[later] = True
            self._join(_every_other(follows))
        self._join_one_by_one(later)

    def _falls(self, later: Indices) -> Indices:
        """Return the blocks that have less shift per variance than the one before."""
        before = later - 1
        with np.errstate(over="ignore", invalid="ignore"):
            falls = self.shift[before] * (self.variance[later] / self.variance[before]) > (
                self.shift[later] * self.growth[later]
            )
        return later[
            falls & (self.owner[before] == self.owner[later]) & (self.growth[later] <= _EXPANDS)
        ]

    def _join(self, follows: Flags) -> None:
        """Join each marked block, no two of which are neighbours, to the one before."""
        later = np.flatnonzero(follows)
        before, growth = later - 1, self.growth[later]
        with np.errstate(under="ignore", over="ignore"):
            self.shift[before] = _moved_on(self.shift[before], growth) + self.shift[later]
            self.variance[before] = self.variance[before] * growth * growth + self.variance[later]
            self.growth[before] *= growth
        self._keep(~follows)
        self.joins += 4

    def _keep(self, kept: Flags) -> None:
        self.owner, self.first = self.owner[kept], self.first[kept]
        self.shift, self.variance, self.growth = (
            self.shift[kept],
            self.variance[kept],
            self.growth[kept],
        )

    def _join_one_by_one(self, later: Indices) -> None:
        """Join blocks to the one before, until no block has less shift per variance than the one before it."""
        if not len(later):
            return
        count, joins = len(self.owner), 0
        owner: list[int] = self.owner.tolist()
        shift: list[float] = self.shift.tolist()
        variance: list[float] = self.variance.tolist()
        growth: list[float] = self.growth.tolist()
        before, after = list(range(-1, count - 1)), list(range(1, count + 1))
        gone = [False] * count

        def falls(at: int, then: int) -> bool:
            if at < 0 or then >= count or owner[at] != owner[then] or growth[then] > _EXPANDS:
                return False
            return shift[at] * (variance[then] / variance[at]) > shift[then] * growth[then]

        for start in later.tolist():
            at = int(start)
            if gone[at]:
                continue
            while True:
                if falls(before[at], at):
                    at, then = before[at], at
                elif falls(at, after[at]):
                    then = after[at]
                else:
                    break
                by = growth[then]
                shift[at] = (max(shift[at] * by, SMALLEST) if shift[at] else 0.0) + shift[then]
                variance[at] = variance[at] * by * by + variance[then]
                growth[at] *= by
                gone[then], after[at], joins = True, after[then], joins + 1
                if after[at] < count:
                    before[after[at]] = at
        self.shift, self.variance, self.growth = (
            np.array(shift),
            np.array(variance),
            np.array(growth),
        )
        self._keep(~np.array(gone))
        self.joins += 4 * joins

    def deviations(self, count: int) -> Floats:
        """Return √Σ(shift²/variance) for each displacement, rounded up, before it is divided by the largest scale."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            parts = self.shift / np.sqrt(self.variance)
        parts = np.where(np.isnan(parts), np.inf, parts)  # an infinite shift
        largest = np.full(count, SMALLEST)
        np.maximum.at(largest, self.owner, parts)
        with np.errstate(under="ignore", invalid="ignore"):
            squares = np.bincount(self.owner, (parts / largest[self.owner]) ** 2, minlength=count)
        moved = np.bincount(self.owner, parts > 0, minlength=count) > 0
        rounding = 1 + (self.joins + np.bincount(self.owner, minlength=count) + 16) * UNIT
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.where(np.isinf(largest), np.inf, np.sqrt(squares) * largest * rounding)
        return np.where(moved, np.maximum(total, SMALLEST), 0.0)


def _moved_on(shift: Floats, growth: Floats) -> Floats:
    """Return shifts some steps later; what underflows is rounded up."""
    return np.where(shift > 0, np.maximum(shift * growth, SMALLEST), 0.0)


def _every_other(follows: Flags) -> Flags:
    """Return every second mark of each run, the first one of the run among them."""
    place = np.arange(len(follows))
    start = np.maximum.accumulate(np.where(follows, 0, place))
    return follows & ((place - start) % 2 == 1)


def deviations(iteration: Iteration, moved: Displacements) -> Floats:
    """Return for each displacement the μ for which the iteration is equivalent to one shift of μ deviations (M34).

    >>> import pufferflow as pf
    >>> iteration = pf.learning.Iteration(steps=4, noise=pf.Gaussian(2.0))
    >>> deviations(iteration, Displacements.of([[0, 2, 0, 0]], 4)).round(9)
    array([0.57735027])
    """
    largest = float(iteration.scales.max())
    at_once = _MOST_AT_ONCE if iteration.uniform else max(_MOST_AT_ONCE // iteration.steps, 1)
    found: list[Floats] = []
    for part in moved.in_parts(at_once):
        blocks = (
            _runs(iteration, part) if iteration.uniform else _single_steps(iteration, part, largest)
        )
        blocks.pool()
        found.append(blocks.deviations(part.count))
    with np.errstate(over="ignore"):
        return np.concatenate(found) / largest * (1 + UNIT)


def allocations(iteration: Iteration, moved: Displacements) -> Floats:
    """Return the part of each displacement that the noise of each step hides (M34), of shape (displacements, steps)."""
    largest = float(iteration.scales.max())
    blocks = _single_steps(iteration, moved, largest)
    blocks.pool()
    return _shares(iteration, moved.count, blocks, largest)


def _runs(iteration: Iteration, moved: Displacements) -> Blocks:
    """Return a block for each step that moves, with the steps up to the next one that do not."""
    owner, c = moved.owner, float(iteration.contractions[0])
    last = np.append(moved.at[1:], iteration.steps)
    last[moved.first[1:][np.diff(moved.first) > 0] - 1] = iteration.steps
    runs = (last - moved.at).astype(np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if c == 1:
            return Blocks(owner, moved.at, moved.sizes.copy(), runs, np.ones(len(runs)))
        log = math.log(c) if c > 0 else -math.inf
        used = (
            np.minimum(runs, max(1.0, _FURTHEST / log)) if log > 0 else runs
        )  # unused noise hides less
        shift = _moved_on(moved.sizes, c ** (used - 1)) * (1 + 8 * UNIT)
        variance = np.expm1(2 * used * log) / np.expm1(2 * log) * (1 - 1024 * UNIT)
        variance = np.where(variance >= 1, variance, 1.0)
        return Blocks(owner, moved.at, shift, variance, np.where(used < runs, np.inf, c**runs))


def _single_steps(iteration: Iteration, moved: Displacements, largest: float) -> Blocks:
    """Return a block for each step of each displacement."""
    steps, count = iteration.steps, moved.count
    sizes = np.zeros((count, steps))
    sizes[moved.owner, moved.at] = moved.sizes
    scales = np.broadcast_to(iteration.scales / largest, steps)
    return Blocks(
        np.repeat(np.arange(count), steps),
        np.tile(np.arange(steps), count),
        sizes.ravel(),
        np.tile(scales * scales, count),
        np.tile(np.broadcast_to(iteration.contractions, steps), count),
    )


def _shares(iteration: Iteration, count: int, blocks: Blocks, largest: float) -> Floats:
    """Return σ_t²·(contractions from step t on to the block's last step)·shift/variance."""
    steps = iteration.steps
    scales = np.broadcast_to(iteration.scales / largest, steps)
    contractions = np.broadcast_to(iteration.contractions, steps)
    shares = np.zeros((count, steps))
    last = np.append(blocks.first[1:], steps)
    last[np.append(blocks.owner[1:] != blocks.owner[:-1], True)] = steps
    slopes = blocks.shift / blocks.variance
    for owner, first, end, slope in zip(blocks.owner, blocks.first, last, slopes, strict=True):
        later = np.append(contractions[first + 1 : end], 1.0)[::-1].cumprod()[::-1]
        shares[owner, first:end] = scales[first:end] ** 2 * later * slope
    return shares


def largest_displacement(
    iteration: Iteration, moved: Displacements, kind: GuaranteeFamily
) -> tuple[float, int]:
    """Return the largest loss of some displacements, and the displacement that has it."""
    if iteration.gaussian:
        shifts = deviations(iteration, moved)
        worst = int(shifts.argmax())
        return least(gaussian_promises(float(shifts[worst])), kind), worst
    losses = [
        least(_additive_promises(iteration, moved, place, kind), kind)
        for place in range(moved.count)
    ]
    worst = int(np.argmax(losses))
    return losses[worst], worst


def gaussian_promises(shift: float) -> list[Guarantee]:
    """Return the guarantees of one Gaussian shift of this many deviations."""
    if shift == 0:
        return [Pure(0.0)]
    return [Gdp(shift)] if shift < math.inf else []


def likely_pairs(iteration: Iteration, moved: Trajectories, kind: GuaranteeFamily) -> float:
    """Return the mean loss of a coupling's pairs: of a Rényi order, or at a δ (M1); ∞ for other guarantees."""
    masses = moved.masses / moved.masses.sum()
    if iteration.gaussian:
        shifts = deviations(iteration, moved.displacements)
        return mean_of_shifts(shifts, masses, kind)
    pairs = range(moved.displacements.count)

    def of_order(alpha: float) -> float:
        renyi = GuaranteeFamily(Renyi(alpha, 0.0))
        losses = [
            least(_additive_promises(iteration, moved.displacements, k, renyi), renyi)
            for k in pairs
        ]
        return mean_renyi(np.array(losses), masses, alpha)

    return least(of_orders(of_order, kind), kind)


def _additive_promises(
    iteration: Iteration, moved: Displacements, place: int, kind: GuaranteeFamily
) -> list[Guarantee]:
    """Return the guarantees of the iteration with noise of any family: losses of the shifts hidden at each step add.

    Shifts are distributed as is best for Gaussian noise, or hidden where they occur: each is sound.
    """
    at, sizes = moved.part(place)
    alone = Displacements.of_parts([(at, sizes)])
    at_once = np.zeros(iteration.steps)
    at_once[at] = sizes
    rounding = 1 + (iteration.steps + 64) * UNIT
    ways = [allocations(iteration, alone)[0] * rounding, at_once]
    dimension = iteration.dimension

    def total(measure: Callable[[Noise, float], float]) -> float:
        return min(_total(iteration, shares, measure) for shares in ways)

    def renyi(alpha: float) -> float:
        return total(lambda noise, shift: noise.renyi_within(shift, alpha, dimension))

    promises = (
        of_orders(renyi, kind)
        if kind.example.divergence.about_odds or kind.example.alpha < math.inf
        else []
    )
    pure = total(lambda noise, shift: noise.pure_within(shift, dimension))
    rho = total(lambda noise, shift: noise.zcdp_within(shift, dimension))
    squares = total(lambda noise, shift: noise.gdp_within(shift, dimension) ** 2 * (1 + 2 * UNIT))
    promises += [Pure(pure)] if pure < math.inf else []
    promises += [Zcdp(rho)] if rho < math.inf else []
    return promises + ([Gdp(upwards(math.sqrt(squares)))] if squares < math.inf else [])


def _total(iteration: Iteration, shares: Floats, measure: Callable[[Noise, float], float]) -> float:
    """Return the sum over steps of the cost of a shift under the step's noise, rounded up."""
    terms: list[float] = []
    for place, noise in enumerate(iteration.noises):
        shifts = shares if len(iteration.noises) == 1 else shares[iteration.noise_of == place]
        values, counts = np.unique(shifts[shifts > 0], return_counts=True)
        terms += [
            count * measure(noise, value)
            for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        ]
    return upwards(math.fsum(terms), 4 * UNIT) if terms else 0.0
