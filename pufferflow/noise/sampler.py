"""Drawing noise for publication: exact, on a grid that does not depend on the data (M13).

A draw is round(X/g), the continuous noise X rounded to whole steps of a grid of width g. The answer is rounded to the
same grid and the two are added as whole numbers, so the result is a rounding of answer + X: post-processing, for which
every loss of the continuous noise holds. The set of possible results is the whole grid, for every answer. (Floats show
each point rounded to 53 bits, which is a function of the point alone.)

A draw is the quantile of a uniform number U with infinitely many random bits. Floats propose the step, from 64 bits of
U. It is accepted only if every continuation of these bits falls inside it. The tail probabilities at both of its edges
have to show that, with a margin a hundred times their error. Otherwise more bits are read and mpmath decides, at a
precision that grows with them. On grids too fine for floats to separate the steps, a range of steps is drawn in this
way. Then one step of it is proposed uniformly, and accepted with its probability (von Neumann's rejection). So no tail
is cut, and the law of a draw is that of the noise up to the correctness of mpmath. Bits come from the operating system
(`os.urandom`), or from a NumPy Generator that the caller passes.

Tests compare 10⁶ draws of every noise with the law's tail probabilities on some forty cells (χ²). The same test has to
fail for a scale 10 % off either way. Tests also compare the slow path with the fast one on the same bits, and the sets
of results for different answers.
"""

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Floats, Whole
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import check_not_masked, instance

Bits = Callable[[int], bytes]
"""A source of random bytes, given their number."""
STEPS_PER_SCALE = 1024
"""The least number of grid steps per scale."""
_MARGIN = 1e-11
_LARGEST_STEP = 2.0**50
_LARGEST_ANSWER = 2**61
_EVERYDAY_EXPONENT = 900
_MOST_AT_ONCE = 1 << 18
_COARSE_BITS = 20
"""The log2 of the number of ranges per scale, where sizes are drawn range by range."""
_MOST_EXTRA = 4
_HALF = Fraction(1, 2)
_WORD = 64


class Drawable(Protocol):
    """The methods of `Noise` that drawing uses; the noise is symmetric around 0."""

    @property
    def scale(self) -> float: ...
    def at(self, scale: float) -> Any: ...
    def tail(self, x: Array) -> Any: ...
    def reach(self, tails: Floats) -> Floats: ...
    def precise_tail(self, units: Any, mp: Any) -> Any: ...
    def steepness(self, units: float) -> float | None: ...


@final
@dataclass(frozen=True, eq=False)
class Noisy(InNotebooks):
    """Answers with noise: `values` on a grid of width `grid`, and whether they may be published.

    >>> import pufferflow as pf
    >>> pf.Laplace(1.0).release(5, rng=np.random.default_rng(1)).for_release
    False
    """

    values: Floats
    grid: Fraction
    for_release: bool
    steps: Array = field(repr=False)
    """The same values as whole numbers of grid steps, exact at any size."""

    def __repr__(self) -> str:
        warning = "" if self.for_release else ", NOT FOR RELEASE: drawn from a given generator"
        return f"Noisy({self.values!r}, grid={self.grid}{warning})"


def grid_of(scale: float) -> Fraction:
    """Return the width of the grid for a scale: the power of two next below scale/1024; only the scale matters.

    >>> grid_of(1.0), grid_of(1000.0)
    (Fraction(1, 1024), Fraction(1, 2))
    """
    _, exponent = math.frexp(scale)
    return Fraction(2) ** (exponent - 1) / STEPS_PER_SCALE


def sample(noise: Drawable, size: int | tuple[int, ...], rng: np.random.Generator | None) -> Floats:
    """Return draws of the noise on its grid, as floats."""
    shape = _read_shape(size)
    bits = bit_source(rng)
    if noise.scale == 0:
        return np.zeros(shape)
    grid = grid_of(noise.scale)
    return _floats(_draw(noise, math.prod(shape), grid, bits), grid).reshape(shape)


def release(
    noise: Drawable, answers: npt.ArrayLike, rng: np.random.Generator | None, grid: object = None
) -> Noisy:
    """Return answers with noise, on the grid."""
    values = _read_answers(answers, plain=noise.scale > 0)
    bits = bit_source(rng)
    if noise.scale == 0:
        return Noisy(_floats(values, Fraction(1)), Fraction(0), rng is None, values)
    width = grid_of(noise.scale) if grid is None else _read_grid(grid, noise.scale)
    steps = _add_steps(values, _draw(noise, values.size, width, bits).reshape(values.shape), width)
    return Noisy(_floats(steps, width), width, rng is None, steps.astype(object, copy=False))


def _add_steps(values: Array, moves: Array, width: Fraction) -> Array:
    """Return answers rounded to the grid and moved: int64 where no sum can overflow, or Python integers."""
    nearest = _nearest_steps(values, width) if moves.dtype != object else None
    if nearest is not None:
        return np.asarray(nearest + moves)  # |nearest| ≤ 2⁶¹ + 1 and |moves| < 2⁶²
    pairs = zip(values.ravel().tolist(), moves.ravel().tolist(), strict=True)
    if width == 1:
        return _object_array([round(value) + move for value, move in pairs], values.shape)
    return _object_array([round(value / width) + move for value, move in pairs], values.shape)


def _nearest_steps(values: Array, width: Fraction) -> Whole | None:
    """Return integers in whole steps as `round(value / width)` does, halves to even; None where int64 is too short."""
    if values.dtype == object:
        return None
    over, under = width.denominator, width.numerator
    largest = max(1, int(values.max(initial=0)), -int(values.min(initial=0)))
    if largest * over > _LARGEST_ANSWER or under > _LARGEST_ANSWER:
        return None
    floor, rest = np.divmod(values.astype(np.int64) * over, under)
    return floor + ((2 * rest > under) | ((2 * rest == under) & (floor % 2 == 1)))


def _draw(noise: Drawable, count: int, width: Fraction, bits: Bits) -> Array:
    """Return whole numbers of grid steps: int64, or Python integers where some are larger."""
    parts = [
        _draw_chunk(noise, min(count - at, _MOST_AT_ONCE), width, bits)
        for at in range(0, count, _MOST_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _draw_chunk(noise: Drawable, count: int, width: Fraction, bits: Bits) -> Array:
    """Draw sizes and signs; on a grid too fine for floats a range of sizes first, then one size of it."""
    extra = max(math.floor(math.log2(noise.scale) - _log2(width)) - _COARSE_BITS, 0)
    if extra <= _MOST_EXTRA or noise.steepness(1.0) is None:
        steps = _draw_sizes(noise, count, width, _HALF, bits)
    else:
        ranges = _draw_sizes(noise, count, width * 2**extra, Fraction(1, 2 ** (extra + 1)), bits)
        steps = _sizes_within(noise, ranges, extra, width, bits)
    signs = np.unpackbits(
        np.frombuffer(bits((count + 7) // 8), dtype=np.uint8), count=count
    ).astype(np.int64)
    return np.where(signs == 1, -steps, steps)


def _log2(width: Fraction) -> int:
    """Return the logarithm of a power of two, or of a number near it."""
    return width.numerator.bit_length() - width.denominator.bit_length()


def _draw_sizes(noise: Drawable, count: int, width: Fraction, back: Fraction, bits: Bits) -> Array:
    """Draw n with P(n > size) = P(|noise| > (size + 1 − back) steps): rounded to the nearest step, if back is 1/2.

    U = (words + rest)/2⁶⁴ is the probability P(|noise| > size).
    """
    words = np.frombuffer(bits(8 * count), dtype="<u8")
    step = width / Fraction(noise.scale)
    unit, relative, inwards = noise.at(1.0), float(step), float(back)
    low, high = words.astype(np.float64) / 2.0**_WORD, (words.astype(np.float64) + 1) / 2.0**_WORD
    with np.errstate(over="ignore"):
        sizes = np.floor(unit.reach(np.maximum((low + high) / 4, 2.0**-66)) / relative + inwards)
    fast = sizes < _LARGEST_STEP
    sizes = np.where(fast, sizes, 0.0)
    outer = 2 * unit.tail((sizes + 1 - inwards) * relative)
    inner = 2 * unit.tail(np.maximum(sizes - inwards, 0.0) * relative)
    inner = np.where(sizes == 0, 2.0, inner)
    sure = (
        fast
        & (low * (1 - _MARGIN) >= outer * (1 + _MARGIN))
        & (high * (1 + _MARGIN) <= inner * (1 - _MARGIN))
    )
    steps = sizes.astype(np.int64)
    unsure = np.flatnonzero(~sure)
    if len(unsure):
        exact = [_draw_precisely(unit, int(words[i]), step, back, bits) for i in unsure.tolist()]
        steps = steps.astype(object) if max(exact) >= 2**62 else steps
        steps[unsure] = exact
    return steps


def _sizes_within(noise: Drawable, ranges: Array, extra: int, width: Fraction, bits: Bits) -> Array:
    """Draw a size in each range of 2^extra sizes, with its conditional probability under the noise.

    A size is proposed uniformly, and accepted with the ratio of its probability to that of the first one, the largest:
    nearly always, so that few proposals need more than floats. Size 0 has half the width of others.
    """
    unit, step = noise.at(1.0), width / Fraction(noise.scale)
    firsts = [first << extra for first in ranges.tolist()]
    enough = (1 - _most_falling(unit, max(firsts, default=0), extra, step)) * 2.0**_WORD
    words = np.frombuffer(bits(8 * len(firsts)), dtype="<u8")
    surely, inside = (
        (words.astype(np.float64) < enough).tolist(),
        _numbers(len(firsts), extra, bits),
    )
    found = np.empty(len(firsts), dtype=object)
    for place, (first, below, sure) in enumerate(zip(firsts, inside, surely, strict=True)):
        size, word = first | below, int(words[place])
        taken = sure and size > 0
        while not taken and not _taken(unit, first, size, step, word, bits):
            size, word = first | _number(extra, bits), _number(_WORD, bits)
        found[place] = size
    return found


def _most_falling(unit: Drawable, first: int, extra: int, step: Fraction) -> float:
    """Return a bound on the share by which the noise is less likely at the end of a range than at its beginning."""
    width = float(step) * 2.0**extra
    steepness = unit.steepness(float(step) * first + width)
    return 1.0 if steepness is None else min(2 * steepness * width, 1.0)


def _numbers(count: int, length: int, bits: Bits) -> list[int]:
    """Return whole numbers of random bits, given their count and length."""
    size, rest = (length + 7) // 8, -length % 8
    drawn = bits(count * size)
    return [
        int.from_bytes(drawn[at : at + size], "little") >> rest
        for at in range(0, count * size, size)
    ]


def _number(length: int, bits: Bits) -> int:
    return _numbers(1, length, bits)[0]


def _taken(  # noqa: PLR0913, PLR0917 - a proposal, its range, and the random bits that decide
    unit: Drawable, first: int, size: int, step: Fraction, word: int, bits: Bits
) -> bool:
    """Return whether a proposed size is accepted: with its probability over that of the first size above 0."""
    mp, length = _long_floats(), _WORD
    mp.prec = 2 * max(-_log2(step), 0) + 4 * _WORD

    def mass(own: int) -> Any:
        low, high = (2 * own - 1) * step / 2, (2 * own + 1) * step / 2
        inner = (
            mp.mpf(1) / 2
            if own == 0
            else unit.precise_tail(mp.mpf(low.numerator) / low.denominator, mp)
        )
        return inner - unit.precise_tail(mp.mpf(high.numerator) / high.denominator, mp)

    ratio, slack = mass(size) / mass(max(first, 1)), mp.ldexp(mp.mpf(1), -2 * _WORD)
    while True:
        if mp.ldexp(mp.mpf(word + 1), -length) <= ratio * (1 - slack):
            return True
        if mp.ldexp(mp.mpf(word), -length) >= ratio * (1 + slack):
            return False
        if length > _WORD:  # the words equal the ratio within its error
            mp.prec, slack = 2 * mp.prec, slack * slack
            ratio = mass(size) / mass(max(first, 1))
        word, length = (word << _WORD) | _number(_WORD, bits), length + _WORD


def _draw_precisely(unit: Drawable, word: int, step: Fraction, back: Fraction, bits: Bits) -> int:
    """Return the step that U falls in, reading as many more bits as needed."""
    mp, length = _long_floats(), _WORD
    guess = int(
        min(float(unit.reach(np.asarray(max(word, 0.5) / 2.0 ** (_WORD + 1)))) / float(step), 1e300)
    )
    while True:
        mp.prec = 2 * length + 64

        def edge(size: int) -> Any:
            """Return P(|noise| > size + 1 − back steps); 1 below the first."""
            if size < 0:
                return mp.mpf(1)
            end = (size + 1 - back) * step
            return 2 * unit.precise_tail(mp.mpf(end.numerator) / end.denominator, mp)

        low, high = mp.ldexp(mp.mpf(word), -length), mp.ldexp(mp.mpf(word + 1), -length)
        slack = mp.ldexp(mp.mpf(1), -(2 * length))  # relative; the precision is 2⁻⁶⁴ of it
        # of U = 0.000… only an upper bound is known yet
        size = _first(lambda size, low=low: edge(size) <= low, guess) if word else None
        if (
            size is not None
            and edge(size) * (1 + slack) <= low
            and high <= edge(size - 1) * (1 - slack)
        ):
            return size
        if size == 0 and edge(0) * (1 + slack) <= low:
            return 0
        word, length = (word << _WORD) | int.from_bytes(bits(_WORD // 8), "little"), length + _WORD


_OF_THREAD = threading.local()


def _long_floats() -> Any:
    """Return this thread's own mpmath context: creating one takes longer than a draw."""
    if not hasattr(_OF_THREAD, "mp"):
        import mpmath  # pyright: ignore[reportMissingTypeStubs] - few draws need it, and it takes a while to load

        _OF_THREAD.mp = cast(Any, mpmath).mp.clone()
    return _OF_THREAD.mp


def _first(holds: Callable[[int], bool], guess: int) -> int:
    """Return the least whole number ≥ 0 for which something holds from there on, searched around a guess."""
    width = max(guess >> 36, 1)
    low, high = guess - width, guess + width
    while low >= 0 and holds(low):
        low, high, width = low - 4 * width, low, 4 * width
    low = max(low, -1)
    while not holds(high):
        low, high, width = high, high + 4 * width, 4 * width
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _floats(steps: Array, width: Fraction) -> Floats:
    """Return steps of the grid as floats, each rounded once."""
    over, under = width.denominator, width.numerator
    exponent = under.bit_length() - over.bit_length()
    binary = over & (over - 1) == 0 and under & (under - 1) == 0
    if binary and steps.dtype != object and abs(exponent) <= _EVERYDAY_EXPONENT:
        # int64 becomes a float in one rounding, and so far from either end of the floats the stretching is exact
        return np.asarray(np.ldexp(steps.astype(np.float64), exponent))
    exact = [_as_float(step * width) for step in steps.ravel().tolist()]
    return np.array(exact, dtype=np.float64).reshape(steps.shape)


def _as_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def bit_source(rng: object) -> Bits:
    """Return the operating system's randomness, or that of a generator passed by the caller."""
    if rng is None:
        return os.urandom
    allowed = "None for the operating system's randomness, or a numpy.random.Generator for tests"
    return instance(
        rng, np.random.Generator, "rng", allowed=allowed, instead="rng=numpy.random.default_rng(1)"
    ).bytes


def _read_shape(size: object) -> tuple[int, ...]:
    parts: tuple[Any, ...] = cast(tuple[Any, ...], size) if isinstance(size, tuple) else (size,)
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in parts):
        raise UsageError(
            f"size is {size!r}.",
            allowed="a whole number >= 0, or a tuple of them",
            instead="sample(10)",
        )
    return tuple(int(n) for n in parts)


def _read_answers(answers: npt.ArrayLike, *, plain: bool) -> Array:
    """Return answers as Fractions (arrays of integers `plain`); a refusal does not reveal them."""
    check_not_masked(answers, "answers", allowed="numbers, a list or a plain array of them")
    if plain and isinstance(answers, np.ndarray) and cast(Array, answers).dtype.kind in "iu":
        return np.asarray(cast(Array, answers))
    raw: Array = np.asarray(answers, dtype=object)
    try:
        exact = [_as_fraction(value) for value in raw.ravel().tolist()]
    except (AttributeError, ValueError, OverflowError) as error:
        raise UsageError(
            "An answer is not a finite number.",
            allowed="finite numbers: int, float, Fraction or Decimal",
            instead="clipping values and filling nulls before the aggregate",
        ) from error
    return _object_array(exact, raw.shape)


def _as_fraction(value: Any) -> Fraction:
    plain = cast(Any, value).item() if isinstance(value, np.generic) else value
    return Fraction(*plain.as_integer_ratio())


def _object_array(values: Sequence[object], shape: tuple[int, ...]) -> Array:
    """Return an array of Python numbers as they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def _read_grid(grid: object, scale: float) -> Fraction:
    allowed, instead = f"a width > 0 and at most scale/{STEPS_PER_SCALE}", "leaving grid out"
    try:
        width = Fraction(cast(Any, grid))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            "The grid is not a finite number.", allowed=allowed, instead=instead
        ) from error
    if width <= 0:
        raise UsageError(f"The grid has width {grid}.", allowed=allowed, instead=instead)
    if width * STEPS_PER_SCALE > Fraction(scale):
        raise Refused(
            f"The grid of width {grid} is too wide for noise of scale {scale:g}.",
            allowed=f"{allowed}; on a coarser grid the proven losses do not hold",
            instead=instead,
        )
    return width
