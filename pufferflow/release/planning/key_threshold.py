"""Keys of the answer that the data chooses: the noisy number of rows from which a key appears, and what that costs.

Keys are taken from the rows that are read, so a unit may have keys that no other unit has. At most `rows` rows of a
unit are read. A key appears if its noisy number of rows is above a threshold.

Statement. Let the noisy sums of listed keys keep (ε, δ'), or the same of a Rényi order. Let τ bound the probability
that a unit makes a key appear that only it has. Then the keys that appear, with their sums, keep (ε, τ + (1−τ)δ').

Proof. Let P be the law of the answer without the unit. With the unit, the noises of its own keys and of others' keys
are independent, so the law is (1−τ)Q + τR. Q is the law of the keys of others, where the unit moves some of the sums. R
is the law of answers with a key that only the unit has. Which of the others' keys appear is a function of their noisy
sums, so P and Q keep (ε, δ'). As P = (1−τ)P + τP, both laws are mixtures with equal weights: of P or Q, and of a rest
of mass τ. This also makes releases add up, adaptively. An event of the noise alone, with mass 1−Στ or more, makes all
of them releases of listed keys.

τ is the largest 1 − Π(1 − p(r_j)) over rows r_1 + … + r_m ≤ `rows` in keys of the unit alone. Here p(r) is the
probability that a noisy r is above the threshold. Noise beyond 0 has a falling density, so −log(1−p) is convex in r up
to the threshold. Hence the maximum is at one of two ends: every row in a key by itself, or all rows in one key. If so
many rows are read in each of several groups, and no key has rows of two groups, the same holds in each group. For
single rows and Laplace noise of scale b, partition selection has the threshold 1 + b·log(1/2τ). This one is half a step
of the grid less.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

from msgspec import structs

from pufferflow.accounting.reserved import LEAST_KEYS_DELTA
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import SMALLEST
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.noise.sampler import grid_of
from pufferflow.privacy.guarantee import Approx, Guarantee
from pufferflow.privacy.renyi import ApproxRenyi

_TAILS = 1e-10
"""The error of tail probabilities, relatively, with a margin."""
_SURELY: Final = 0.99


@final
@dataclass(frozen=True)
class KeyThreshold:
    """The noisy number of rows above which a key appears, for a noise on its `grid`.

    A key that only one unit has appears with probability `delta` at most. At most `rows` rows of a unit are read in
    each of `groups` groups, and no key has rows of two groups.
    """

    noise: Noise
    grid: Fraction
    above: Fraction
    rows: int
    delta: float
    groups: int = 1

    @property
    def surely(self) -> int:
        """The least number of rows of which a key appears with 99 % probability."""
        half = self.noise.interval(2 * _SURELY - 1)[1]
        return math.ceil(float(self.above) + half + float(self.grid))


def keys_share(promise: Guarantee) -> float:
    """Return the part of a guarantee's δ that keys may take; refuse guarantees without one."""
    _check_delta(promise)
    return promise.delta / 2


def for_sums(promise: Guarantee) -> Guarantee:
    """Return the guarantee that noisy sums have to keep, so that they keep this one together with their keys."""
    return structs.replace(promise, delta=promise.delta - keys_share(promise))


def least_threshold(noise: Noise, rows: int, delta: float, groups: int = 1) -> KeyThreshold:
    """Return the least threshold on the grid of a noisy number of rows with which keys cost at most δ."""
    if not isinstance(noise, Laplace | Gaussian):
        raise Refused(
            f'keys="discover" with {type(noise).__name__} noise on the number of rows of each key.',
            allowed="pf.Laplace or pf.Gaussian, whose tail probabilities have proven bounds",
            instead="noise=pf.Laplace",
        )
    grid = grid_below(noise)

    def above(steps: int) -> KeyThreshold:
        return KeyThreshold(noise, grid, rows + steps * grid, rows, delta, groups)

    low, high = -1, 1
    while new_key_chance(above(high)) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if new_key_chance(above(middle)) > delta else (low, middle)
    return above(high)


def new_key_chance(threshold: KeyThreshold) -> float:
    """Return the probability, rounded up, that a unit makes a key appear that only it has: of one row each, or of all.

    The threshold is not below the number of rows.
    """
    rows, groups = threshold.rows, threshold.groups
    alone, together = (
        _of_any(_appears(threshold, own), times)
        for own, times in ((1, rows * groups), (rows, groups))
    )
    return max(alone, together)


def grid_below(noise: Noise, *, finer: bool = False) -> Fraction:
    """Return the grid of a noisy sum of whole steps: the power of two next below scale/1024, at most one step (M13).

    So every sum is on the grid, and bringing it there costs nothing. A `finer` one is for sums that are worked out of
    up to eight noisy ones: rounded to the grid these move them no farther than one would.
    """
    return (
        min(grid_of(noise.scale) / (4 if finer else 1), Fraction(1)) if noise.scale else Fraction(1)
    )


def _appears(threshold: KeyThreshold, rows: int) -> float:
    """Return the probability that a noisy number of rows is above the threshold, rounded up.

    Noise is rounded to the grid, so it reaches the next step from halfway on.
    """
    beyond = float(threshold.above - rows + threshold.grid / 2)
    return max(threshold.noise.tail(beyond) * (1 + _TAILS), SMALLEST)


def _of_any(chance: float, times: int) -> float:
    """Return the probability of any of so many independent events, rounded up."""
    return 1.0 if chance >= 1 else min(-math.expm1(times * math.log1p(-chance)) * (1 + _TAILS), 1.0)


def _check_delta(promise: Guarantee) -> None:
    if not isinstance(promise, Approx | ApproxRenyi):
        raise Refused(
            f'keys="discover" under {promise!r}: a key of one unit alone may appear, with a small probability that '
            "only a delta covers.",
            allowed="a guarantee with a delta, pf.Approx or pf.ApproxRenyi; or listed keys",
            instead=f"pf.Approx({1.0 if math.isinf(promise.epsilon) else promise.epsilon:g}, 1e-6)",
        )
    if promise.delta < LEAST_KEYS_DELTA:
        raise UsageError(
            f'keys="discover" and the delta {promise.delta:g}: too small, as half of it is for keys of one unit alone.',
            allowed=f"a delta of {LEAST_KEYS_DELTA:g} or more, well below one over the number of units",
            instead="pf.Approx(1.0, 1e-6), or listed keys",
        )
