"""A channel: what a row publishes in place of its value, with exact probabilities, and how it is drawn.

Probabilities are whole numbers of 2⁻³², so a draw reads 32 random bits and compares whole numbers. What is said of
privacy is said of these probabilities, not of those that they were rounded from.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from pufferflow.arguments import finite_number, instance, shown
from pufferflow.arrays import Array, Floats, Indices
from pufferflow.errors import Misuse, Refused
from pufferflow.local.setting import LocalPrivacy
from pufferflow.rounding import UNIT, float_above, upwards
from pufferflow.suggestions import Suggesting

if TYPE_CHECKING:
    from pufferflow.scenario import Label

BITS: Final = 32
TOTAL: Final = 2**BITS
MOST_LABELS: Final = 128
ERASED: Final = None
"""The output that says nothing; null in a column."""
_FEW: Final = 16
_EXACT: Final = 1e-9
_WIDEST: Final = 2**127
_LARGEST: Final = sys.float_info.max
_ALLOWED: Final = "a row of probabilities for every input, each row adding up to 1"
Bits = Callable[[int], bytes]


@final
@dataclass(frozen=True, repr=False)
class Channel(Suggesting):
    """What a value is published as: `weights[x][y]` of 2³² is the probability of the output y for the input x.

    `pf.local.randomized_response` and `pf.local.binary_erasure` make channels for an ε; `Channel.of` takes any table of
    probabilities. The output None is an erased value, null in a column.

    >>> channel = Channel.of(["no", "yes"], ["no", "yes"], [[0.75, 0.25], [0.25, 0.75]])
    >>> round(channel.epsilon, 6), channel.tv
    (1.098612, 0.5)
    """

    inputs: "tuple[Label, ...]"
    outputs: "tuple[Label | None, ...]"
    weights: tuple[tuple[int, ...], ...]
    name: str = "a channel"
    family: "Callable[[float], Channel] | None" = field(default=None, repr=False, compare=False)
    """The channels of the same kind for any ε; None where there are none."""

    def __post_init__(self) -> None:
        """Check that the weights are probabilities."""
        _check_labels(self.inputs, "inputs", at_least=1)
        _check_labels(self.outputs, "outputs", at_least=1)
        if len(self.weights) != len(self.inputs) or any(len(row) != len(self.outputs) for row in self.weights):
            raise _no_table(f"the table is not {len(self.inputs)} by {len(self.outputs)}")
        if any(weight < 0 for row in self.weights for weight in row) or any(sum(row) != TOTAL for row in self.weights):
            raise _no_table("some weights are negative, or a row does not add up to 2^32")

    @classmethod
    def of(cls, inputs: Sequence[Any], outputs: Sequence[Any], probabilities: Sequence[Sequence[Any]]) -> "Channel":
        """Return the channel with these probabilities, each rounded to a multiple of 2⁻³²; none above 0 becomes 0."""
        rows = [[_probability(one) for one in row] for row in probabilities]
        if any(abs(sum(row) - 1) > _EXACT for row in rows):
            raise _no_table("some row adds up to another number")
        return cls(tuple(inputs), tuple(outputs), tuple(_whole(row) for row in rows))

    @cached_property
    def probabilities(self) -> Floats:
        """The probabilities as floats, of shape (inputs, outputs); exact, since they have 32 bits."""
        return np.array(self.weights, dtype=np.float64) / TOTAL

    @cached_property
    def epsilon(self) -> float:
        """The largest log ratio of an output's probabilities for two inputs, rounded up; ∞ if one is 0 for one only."""
        columns = list(zip(*self.weights, strict=True))
        if any(0 in column and any(column) for column in columns):
            return math.inf
        return log_above(max(Fraction(max(column), min(column)) for column in columns if any(column)))

    @cached_property
    def tv(self) -> float:
        """The largest total variation of the outputs for two inputs, its η: the Dobrushin coefficient."""
        rows = np.array(self.weights, dtype=np.int64)
        distances = [int(np.maximum(rows - row, 0).sum(axis=1).max()) for row in rows]
        return float_above(Fraction(max(distances), TOTAL))

    @property
    def privacy(self) -> LocalPrivacy:
        """Its ε and η."""
        return LocalPrivacy(self.epsilon, self.tv)

    def at(self, epsilon: float) -> "Channel":
        """Return the channel of the same kind with another ε.

        >>> import pufferflow as pf
        >>> round(pf.local.randomized_response(["no", "yes"], epsilon=1.0).at(2.0).epsilon, 6)
        2.0
        """
        if self.family is None:
            raise Misuse(
                "A channel given by its probabilities has no others of its kind.",
                allowed="plan() without a promise, which says what the channel keeps; or a mechanism with an epsilon",
                instead="pf.local.randomized_response(labels, epsilon=1.0)",
            )
        return self.family(epsilon)

    def erased(self, share: float) -> "Channel":
        """Return the same with each output erased with a probability, but for rounding: η falls by that share, ε stays.

        No output becomes likelier than it was beside those of other inputs; what rounding takes off is erased as well.

        >>> import pufferflow as pf
        >>> half = pf.local.randomized_response(["no", "yes"], epsilon=1.0).erased(0.5)
        >>> half.outputs, round(half.epsilon, 6), round(half.tv, 6)
        (('no', 'yes', None), 1.0, 0.231059)
        """
        lost = finite_number(
            share, "share", allowed="a number in [0, 1)", instead="erased(0.5)", fits=lambda share: 0 <= share < 1
        )
        if self.epsilon == math.inf:
            raise _no_epsilon()
        family = None if self.family is None else partial(_erased_at, self.family, lost)
        return self if lost == 0 else self._thinned(1 - Fraction(lost), family)

    def _thinned(self, kept: Fraction, family: "Callable[[float], Channel] | None") -> "Channel":
        """Return the channel whose outputs stay with a probability, and are erased otherwise."""
        columns = list(zip(*self.weights, strict=True))
        ratio = max(Fraction(max(column), min(column)) for column in columns if any(column))
        thinner = list[tuple[int, ...]]()
        for label, column in zip(self.outputs, columns, strict=True):
            if label is not ERASED:
                scaled = [math.floor(weight * kept) for weight in column]
                thinner.append(tuple(min(weight, math.floor(ratio * min(scaled))) for weight in scaled))
        rows = [(*row, TOTAL - sum(row)) for row in zip(*thinner, strict=True)]
        outputs = (*(label for label in self.outputs if label is not ERASED), ERASED)
        return Channel(self.inputs, outputs, tuple(rows), f"{self.name}, part of it erased", family)

    def draw(self, places: Indices, bits: Bits = os.urandom) -> Indices:
        """Return the places of outputs drawn for the places of inputs, with fresh random bits for each.

        The output is the number of cumulative weights of the input's row that are not above the 32 bits.
        """
        drawn = np.frombuffer(bits(BITS // 8 * len(places)), dtype="<u4")
        if len(self.outputs) > _FEW:
            rows = places.astype(np.uint64)
            found = np.searchsorted(self._steps.ravel(), (rows << np.uint64(BITS)) | drawn, side="right")
            return found - places * (len(self.outputs) - 1)
        found = np.zeros(len(places), dtype=np.intp)
        for step in (self._steps - self._starts).T.astype(np.int64):
            found += drawn >= step[places]
        return found

    @cached_property
    def _starts(self) -> Array:
        return np.arange(len(self.inputs), dtype=np.uint64)[:, None] << np.uint64(BITS)

    @cached_property
    def _steps(self) -> Array:
        """The cumulative weights of every row but the last, each row from its own multiple of 2³² on."""
        return np.cumsum(np.array(self.weights, dtype=np.uint64), axis=1)[:, :-1] + self._starts

    def sample(self, values: Sequence[Any], rng: np.random.Generator | None = None) -> "list[Label | None]":
        """Return outputs for values, drawn with the operating system's randomness; a Generator is for tests.

        >>> import numpy as np, pufferflow as pf
        >>> pf.local.randomized_response(["no", "yes"], epsilon=1.0).sample(["no", "yes"], np.random.default_rng(3))
        [...]
        """
        bits = (
            os.urandom if rng is None else instance(rng, np.random.Generator, "rng", allowed=_RNG, instead=_SEED).bytes
        )
        place = {label: at for at, label in enumerate(self.inputs)}
        unknown = next((value for value in values if value not in place), None)
        if unknown is not None:
            raise Misuse("Some value is no input of the channel.", allowed=f"{len(place)} declared inputs")
        drawn = self.draw(np.array([place[value] for value in values], dtype=np.intp), bits)
        return [self.outputs[at] for at in drawn.tolist()]

    def __repr__(self) -> str:
        """Show the kind of channel, its size, ε and η."""
        size = f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"<Channel {self.name}: {size}, epsilon={self.epsilon:.6g}, tv={self.tv:.6g}>"


def _erased_at(family: Callable[[float], Channel], share: float, epsilon: float) -> Channel:
    return family(epsilon).erased(share)


_RNG: Final = "None for the operating system's randomness, or a numpy.random.Generator for tests"
_SEED: Final = "rng=numpy.random.default_rng(1)"


def log_above(ratio: Fraction) -> float:
    """Return the logarithm of a ratio ≥ 1, rounded up.

    >>> log_above(Fraction(1)), round(log_above(Fraction(3)), 6)
    (0.0, 1.098612)
    """
    return upwards(math.log1p(float_above(ratio - 1)), 4 * UNIT)


def exp_below(epsilon: float) -> Fraction:
    """Return e^ε for ε ≥ 0, rounded down far enough that its logarithm, rounded up, is not above ε.

    >>> exp_below(0.0), log_above(exp_below(1.0)) <= 1.0
    (Fraction(1, 1), True)
    """
    return 1 + Fraction(math.expm1(epsilon)) * (1 - 32 * Fraction(UNIT)) if epsilon else Fraction(1)


def read_labels(given: object, name: str = "labels") -> "tuple[Label, ...]":
    """Return the labels of an alphabet: two at least, all different."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise Misuse(f"{name} is {shown(given)}.", allowed="a list of labels", instead='["no", "yes"]')
    labels = tuple(cast("Sequence[Label]", given))
    _check_labels(labels, name, at_least=2)
    return labels


def _check_labels(labels: "Sequence[Label | None]", name: str, *, at_least: int) -> None:
    if any(not isinstance(label, str | int | float) and (label is not None or name == "inputs") for label in labels):
        raise Misuse(f"Some of the {name} is no label.", allowed="texts or numbers", instead='["no", "yes"]')
    if any(label != label for label in labels) or len(set(labels)) < len(labels):  # noqa: PLR0124 - NaN
        raise Misuse(f"The {name} are not different.", allowed="each label once, and no NaN", instead='["no", "yes"]')
    if not _fit_one_column([label for label in labels if label is not None]):
        raise Misuse(
            f"The {name} do not fit into one column.",
            allowed="texts, or finite numbers that keep their values beside each other",
            instead='["1", "other"]',
        )
    if not at_least <= len(labels) <= MOST_LABELS + 1:
        raise Misuse(
            f"There are {len(labels)} {name}.", allowed=f"{at_least} to {MOST_LABELS} labels", instead="wider classes"
        )


def _fit_one_column(labels: "Sequence[Label]") -> bool:
    """Return whether labels are all texts, or all numbers that one column holds as they are."""
    if any(isinstance(label, str) for label in labels):
        return all(isinstance(label, str) for label in labels)
    numbers = cast("Sequence[int | float]", labels)
    if any(isinstance(number, float) for number in numbers):
        return all(abs(number) <= _LARGEST and float(number) == number for number in numbers)
    return all(abs(number) < _WIDEST for number in numbers)


def _probability(given: object) -> Fraction:
    fits = isinstance(given, Fraction | int | float) and 0 <= given <= 1
    if not fits:
        raise _no_table("something in it is no number from 0 to 1")
    return Fraction(cast(float, given))


def _whole(row: Sequence[Fraction]) -> tuple[int, ...]:
    """Return probabilities as weights out of 2³²; the likeliest output takes what rounding leaves over."""
    weights = [max(round(one * TOTAL), 1) if one else 0 for one in row]
    weights[weights.index(max(weights))] += TOTAL - sum(weights)
    return tuple(weights)


def _no_table(why: str) -> Misuse:
    return Misuse(
        f"The probabilities are no channel: {why}.",
        allowed=_ALLOWED,
        instead='pf.local.Channel.of(["no", "yes"], ["no", "yes"], [[0.75, 0.25], [0.25, 0.75]])',
    )


def _no_epsilon() -> Refused:
    return Refused(
        "Some output of the channel is possible for one input and not for another: it gives that away.",
        allowed="channels whose outputs are possible for all inputs, or for none",
        instead="pf.local.randomized_response(labels, epsilon=1.0)",
    )
