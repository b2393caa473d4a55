"""Channels: mechanisms with finitely many outputs, their labels, probabilities, draws, ε and η.

A draw reads a uniform number in [0, 1) bit by bit. The output is the number of cumulative probabilities that are not
above it. 32 bits decide that, unless a cumulative probability lies between the same two multiples of 2⁻³² as the
number. Then more bits are read until they decide.

All probabilities are rational, so that losses of channels are exact, and draws have exactly these probabilities.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, Final, Self, cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, float_above, log_above, upwards
from pufferflow.core.suggestions import HelpfulAttributes, suggests_arguments
from pufferflow.core.validate import decimal_reading, finite_number, instance, quoted, set_fields
from pufferflow.noise.base import Noise
from pufferflow.noise.sampler import Bits, bit_source

Label = str | int | float | bool
Values = tuple[Label, ...]
_TOLERANCE = Fraction(1, 10**9)
_LONGEST = 4000
INSTEAD: Final = (
    'pf.confounding.Channel("x", inputs=[0, 1], outputs=["no", '
    '"yes"], probabilities=[[0.7, 0.3], [0.3, 0.7]])'
)


def columns_of(reads: Any) -> tuple[str, ...]:
    """Return the names of the columns that something reads."""
    listed = cast(Sequence[Any], reads) if isinstance(reads, list | tuple) else [reads]
    names: tuple[Any, ...] = tuple(listed)
    if (
        not names
        or not all(isinstance(name, str) and name for name in names)
        or len(set(names)) < len(names)
    ):
        raise UsageError(
            f"reads is {quoted(cast(object, reads))}.",
            allowed="the name of a column, or a list of different ones",
            instead='reads="score", or reads=["first", "second"]',
        )
    return cast(tuple[str, ...], names)


def label(given: Any, name: str) -> Any:
    """Return a label: a text, a number or a truth value, or a tuple of such."""
    plain = as_plain(given)
    if isinstance(plain, list | tuple):
        return tuple(label(one, name) for one in cast(Sequence[Any], plain))
    if not isinstance(plain, str | int | float) or (
        isinstance(plain, float) and not math.isfinite(plain)
    ):
        raise UsageError(
            f"{name} is {quoted(cast(object, given))}.",
            allowed="texts and finite numbers, or tuples of them",
            instead='"yes", or 3',
        )
    return plain


def read_inputs(given: Any, columns: int) -> tuple[Values, ...]:
    """Return what is read as tuples, with a value for each of so many columns."""
    try:
        plain: Any = given.tolist() if hasattr(given, "tolist") else given
        listed: list[Any] = [label(one, "An input") for one in plain]
    except TypeError:
        raise UsageError(
            f"inputs is {quoted(given)}.", allowed="a list of values", instead="inputs=[0, 1, 2]"
        ) from None
    points = tuple(cast(Values, one if isinstance(one, tuple) else (one,)) for one in listed)
    if any(len(point) != columns for point in points):
        raise UsageError(
            f"An input does not have {columns} values, one for each column that is read.",
            allowed="a value for every column that is read",
            instead="tuples in the order of reads",
        )
    return points


def unwrapped(points: Sequence[Values]) -> tuple[Any, ...]:
    """Return the values of a single column as they are, of several as tuples."""
    return tuple(point[0] if len(point) == 1 else point for point in points)


def listed(given: Any, name: str) -> list[Any]:
    """Return a list; a single label stands for itself."""
    if isinstance(given, str | int | float | Fraction):
        return [given]
    try:
        return list(given.tolist() if hasattr(given, "tolist") else given)
    except TypeError:
        raise UsageError(
            f"{name} is of type {type(given).__name__}.", allowed="a list", instead=INSTEAD
        ) from None


def read_rows(given: Any, inputs: int, outputs: int) -> tuple[tuple[Fraction, ...], ...]:
    """Return the rows of probabilities as rationals with sum 1."""
    rows = [listed(row, "A row of probabilities") for row in listed(given, "probabilities")]
    if len(rows) != inputs or any(len(row) != outputs for row in rows):
        raise UsageError(
            f"probabilities has {len(rows)} rows of {sorted({len(row) for row in rows})} numbers, for {inputs} inputs "
            f"and {outputs} outputs.",
            allowed="a row for every input, and in it a number for every output",
            instead=INSTEAD,
        )
    return tuple(_read_row(row) for row in rows)


def _read_row(given: list[Any]) -> tuple[Fraction, ...]:
    allowed = "numbers >= 0, with sum 1 in every row (within 1e-9)"
    for one in given:
        finite_number(
            as_plain(one), "A probability", allowed=allowed, instead=INSTEAD, fits=lambda p: p >= 0
        )
    row = [decimal_reading(as_plain(one)) for one in given]
    total = sum(row, Fraction(0))
    if abs(total - 1) > _TOLERANCE:
        raise UsageError(
            f"A row of probabilities has the sum {float(total):.12g}.",
            allowed=allowed,
            instead=INSTEAD,
        )
    return tuple(row) if total == 1 else tuple(one / total for one in row)


def as_plain(given: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    return cast(Any, given).item() if isinstance(given, np.generic) else given


def stored_probability(text: str) -> Fraction:
    """Return a stored probability: digits over digits, of limited length."""
    if len(text) > _LONGEST or not set(text) <= set("0123456789/"):
        raise ValueError
    return Fraction(text)


BITS: Final = 32
_FURTHER: Final = 64
_FEW: Final = 16


@final
@dataclass(frozen=True, eq=False)
class Ladder:
    """The cumulative probabilities of every row, without the last ones, and their first 32 bits."""

    exact: tuple[tuple[Fraction, ...], ...]
    below: Array
    """⌊2³²·c⌋ for every cumulative probability c, of shape (rows, outputs − 1)."""
    above: Array
    """⌈2³²·c⌉."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[Fraction]]) -> "Ladder":
        """Return the ladder of rows of probabilities."""
        exact = tuple(tuple(accumulate(row))[:-1] for row in rows)
        floors = [[(one.numerator << BITS) // one.denominator for one in row] for row in exact]
        ceilings = [
            [-((-one.numerator << BITS) // one.denominator) for one in row] for row in exact
        ]
        return cls(exact, np.array(floors, dtype=np.int64), np.array(ceilings, dtype=np.int64))

    def draw(self, places: Indices, bits: Bits = os.urandom) -> Indices:
        """Return indices of outputs drawn for indices of rows, with fresh random bits for each."""
        words = np.frombuffer(bits(BITS // 8 * len(places)), dtype="<u4").astype(np.int64)
        drawn = _not_above(self.above, places, words)
        if (self.below != self.above).any():
            for at in np.flatnonzero(_not_above(self.below, places, words) != drawn).tolist():
                drawn[at] = self._decided(int(places[at]), int(words[at]), bits)
        return drawn

    def _decided(self, place: int, word: int, bits: Bits) -> int:
        """Return the output of a number whose first 32 bits do not decide it."""
        known = BITS
        while any(word < one * 2**known < word + 1 for one in self.exact[place]):
            word = (word << _FURTHER) | int.from_bytes(bits(_FURTHER // 8), "little")
            known += _FURTHER
        return sum(one * 2**known <= word for one in self.exact[place])


def _not_above(steps: Array, places: Indices, words: Array) -> Indices:
    """Return how many steps of its row are not above each word."""
    count = steps.shape[1]
    if count < _FEW:
        found = np.zeros(len(places), dtype=np.intp)
        for step in steps.T:
            found += words >= step[places]
        return found
    starts = np.arange(len(steps), dtype=np.int64)[:, None] << BITS
    return (
        np.searchsorted((steps + starts).ravel(), (places << BITS) | words, side="right")
        - places * count
    )


_TAIL_ERROR = 2e-13


def cell_masses(noise: Noise, edges: Floats, answers: Floats) -> tuple[Floats, float]:
    """Return the masses of cells, those at the ends unbounded, and their relative error.

    Each is a difference of tails on one side of the answer, which is relatively exact where tails fall fast.
    """
    at = edges[None, :] - answers[:, None]
    above = np.asarray(noise.tail(at.ravel())).reshape(at.shape)
    below = np.asarray(noise.tail(-at.ravel())).reshape(at.shape)
    right, left = above[:, :-1] - above[:, 1:], below[:, 1:] - below[:, :-1]
    mirrored = at[:, 1:] + at[:, :-1] < 0
    inner = np.where(mirrored, left, right)
    used = np.where(mirrored, below[:, 1:] + below[:, :-1], above[:, :-1] + above[:, 1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(used > 0, used / inner, 1.0)
    masses = np.concatenate([below[:, :1], inner, above[:, -1:]], axis=1)
    off = _TAIL_ERROR * (1 + float(error.max(initial=0.0)))
    if not off < 1e-4:
        raise Refused(
            "The inputs and outputs lie too many scales of the noise apart.",
            allowed="numbers within a few hundred scales of each other",
            instead="a larger scale, or pf.Channel with its probabilities",
        )
    return masses, off


def rounded_to(
    grid: Sequence[float], answers: Sequence[float], noise: Noise
) -> list[list[Fraction]]:
    """Return for every answer the probabilities with which answer and noise are next to each point of a sorted grid."""
    edges = np.array([(low + high) / 2 for low, high in pairwise(grid)])
    if not len(edges):
        return [[Fraction(1)] for _ in answers]
    if noise.scale == 0:
        nearest = np.searchsorted(edges, np.array(answers), side="left").tolist()
        return [[Fraction(int(at == place)) for at in range(len(grid))] for place in nearest]
    masses, _ = cell_masses(noise, edges, np.array(answers))
    rows = [[Fraction(one) for one in row] for row in masses.tolist()]
    return [[one / sum(row) for one in row] for row in rows]


ERASED: Final = None
"""The output that says nothing; null in a column."""
_WHOLE: Final = 2**62


@final
@dataclass(frozen=True)
class Drawn(InNotebooks):
    """Outputs of a channel, and whether they may be published."""

    values: tuple[Any, ...]
    for_release: bool

    def __repr__(self) -> str:
        warning = "" if self.for_release else ", NOT FOR RELEASE: drawn from a given generator"
        return f"Drawn({list(self.values)!r}{warning})"


@final
@suggests_arguments
@dataclass(frozen=True, repr=False)
class Channel(InNotebooks, HelpfulAttributes):
    """A mechanism γ(y|x) that reads columns of a row and publishes one of finitely many outputs.

    `reads` is a column, or a list of columns whose values arrive as tuples. It is None if the column is named where the
    channel is used. `probabilities` has a row for every input and a column for every output; floats are read as the
    decimals they are written as. The output None is an erased value, null in a column.

    >>> coin = Channel("x", inputs=[0, 1], outputs=["no", "yes"], probabilities=[[0.75, 0.25], [0.25, 0.75]])
    >>> coin.probability(0, "yes"), coin.release([0, 1, 1]).for_release, round(coin.epsilon, 6), coin.tv
    (Fraction(1, 4), True, 1.098612, 0.5)
    >>> Channel.from_json(coin.to_json()) == coin
    True
    """

    reads: tuple[str, ...]
    inputs: tuple[Label | Values, ...]
    outputs: tuple[Label | Values | None, ...]
    probabilities: tuple[tuple[Fraction, ...], ...]
    name: str
    family: "Callable[[float], Channel] | None" = field(compare=False)
    """The channels of the same kind for any ε; None where there are none."""
    tied: "tuple[Channel, ...]" = field(compare=False)
    """The channels whose randomness it ties, in the order of its outputs; none where it is one release."""

    def __init__(  # noqa: PLR0913 - the table, and what kind of channel it is
        self,
        reads: str | Sequence[str] | None,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        probabilities: Any,
        *,
        name: str = "",
        family: "Callable[[float], Channel] | None" = None,
        tied: "Sequence[Channel]" = (),
    ) -> None:
        columns = () if reads is None else columns_of(reads)
        points = unwrapped(read_inputs(inputs, len(columns) or 1))
        published = tuple(
            ERASED if one is ERASED else label(one, "An output")
            for one in listed(outputs, "outputs")
        )
        for what, values in (("inputs", points), ("outputs", published)):
            if not values or len(set(values)) < len(values):
                raise UsageError(
                    f"{what} is empty, or has a value twice.",
                    allowed="at least one value, each once",
                    instead=INSTEAD,
                )
        rows = read_rows(probabilities, len(points), len(published))
        set_fields(
            self,
            reads=columns,
            inputs=points,
            outputs=published,
            probabilities=rows,
            name=name,
            family=family,
            tied=tuple(tied),
        )

    @classmethod
    def of(cls, inputs: Sequence[Any], outputs: Sequence[Any], probabilities: Any) -> Self:
        """Return the channel with these probabilities, for a column that is named where the channel is used.

        >>> Channel.of(["no", "yes"], ["no", "yes"], [[0.75, 0.25], [0.25, 0.75]]).reading("smokes").reads
        ('smokes',)
        """
        return cls(None, inputs, outputs, probabilities)

    @classmethod
    def revealing(cls, reads: str | Sequence[str], inputs: Sequence[Any]) -> Self:
        """Return the channel that publishes what it reads, without any noise.

        >>> Channel.revealing("x", [0, 1]).outputs
        (0, 1)
        """
        plain = unwrapped(read_inputs(inputs, len(columns_of(reads))))
        return cls(reads, plain, plain, np.eye(len(plain), dtype=int).tolist())

    @classmethod
    def of_noise(
        cls, reads: str, inputs: Sequence[Any], outputs: Sequence[float], noise: Noise
    ) -> Self:
        """Return the channel that adds noise to a number and publishes the output next to it.

        Rounding noise is post-processing, so the guarantee of `noise` holds, up to a relative 1e-12: the error of the
        channel's probabilities. The channel's own `cost` is exact.

        >>> import pufferflow as pf
        >>> Channel.of_noise("x", [0, 1], [0, 1], pf.Laplace(1.0)).probability(0, 1) < 0.31
        True
        """
        instance(noise, Noise, "noise", allowed="a noise", instead="pf.Laplace(2.0)")
        grid = sorted({_number(one, "An output") for one in listed(outputs, "outputs")})
        answers = [
            _number(point[0], "An input") for point in read_inputs(inputs, len(columns_of(reads)))
        ]
        return cls(reads, inputs, grid, rounded_to(grid, answers, noise))

    def reading(self, columns: str | Sequence[str]) -> "Channel":
        """Return the same channel for other columns."""
        return Channel(
            columns,
            self.inputs,
            self.outputs,
            self.probabilities,
            name=self.name,
            family=self.family,
        )

    def probability(self, given: Any, output: Any) -> Fraction:
        """Return γ(output | given)."""
        if output not in self.outputs:
            raise UsageError(
                f"{quoted(output)} is not an output of the channel.",
                allowed=f"one of {list(self.outputs)[:6]}",
            )
        return self.probabilities[self.place(given)][self.outputs.index(output)]

    def place(self, given: Any) -> int:
        """Return the index of an input; a refusal does not reveal it."""
        point = (
            tuple(cast(Sequence[Any], given))
            if isinstance(given, list | tuple)
            else (as_plain(given),)
        )
        if point not in self._places:
            of = f" of {', '.join(map(repr, self.reads))}" if self.reads else ""
            raise UsageError(
                f"A value{of} is not an input of the channel.",
                allowed=f"its {len(self.inputs)} inputs",
                instead="clipping values and filling nulls before the channel",
            )
        return self._places[point]

    @cached_property
    def points(self) -> tuple[Values, ...]:
        """The inputs as tuples, with a value for each column."""
        return cast(
            tuple[Values, ...],
            self.inputs if len(self.reads) > 1 else tuple((one,) for one in self.inputs),
        )

    @cached_property
    def _places(self) -> dict[Values, int]:
        return {point: place for place, point in enumerate(self.points)}

    @cached_property
    def matrix(self) -> Floats:
        """The probabilities as the nearest floats, of shape (inputs, outputs)."""
        return np.array(self.probabilities, dtype=np.float64)

    @cached_property
    def whole(self) -> tuple[Array, int]:
        """All probabilities as whole numbers of one common unit, and how many units make 1."""
        total = math.lcm(*(one.denominator for row in self.probabilities for one in row))
        rows = [
            [one.numerator * (total // one.denominator) for one in row]
            for row in self.probabilities
        ]
        return np.array(rows, dtype=object), total

    @cached_property
    def epsilon(self) -> float:
        """The largest log ratio of an output's probabilities for two inputs, rounded up; ∞ if only one is 0."""
        columns = [column for column in zip(*self.probabilities, strict=True) if any(column)]
        if any(min(column) == 0 for column in columns):
            return math.inf
        return log_above(max(max(column) / min(column) for column in columns))

    @cached_property
    def tv(self) -> float:
        """The largest total variation of the outputs for two inputs, its η: the Dobrushin coefficient, rounded up."""
        rows, total = self.whole
        if total <= _WHOLE:
            small = rows.astype(np.int64)
            return float_above(Fraction(max(_farthest(small, row) for row in small), total))
        return min(
            upwards(
                max(_farthest(self.matrix, row) for row in self.matrix), 4 * rows.shape[1] * UNIT
            ),
            1.0,
        )

    def at(self, epsilon: float) -> "Channel":
        """Return the channel of the same kind with another ε.

        >>> import pufferflow as pf
        >>> round(pf.local.randomized_response(["no", "yes"], epsilon=1.0).at(2.0).epsilon, 6)
        2.0
        """
        if self.family is None:
            raise UsageError(
                "This channel is given by its probabilities, so it cannot be made for another guarantee.",
                allowed="plan() without a guarantee, which says what the channel keeps, or a mechanism with an epsilon",
                instead="pf.local.randomized_response(labels, epsilon=1.0)",
            )
        return self.family(epsilon)

    def erased(self, share: float) -> "Channel":
        """Return the channel that also erases each output with a probability: η falls by that share, ε stays.

        >>> import pufferflow as pf
        >>> half = pf.local.randomized_response(["no", "yes"], epsilon=1.0).erased(0.5)
        >>> half.outputs, round(half.epsilon, 6), round(half.tv, 6)
        (('no', 'yes', None), 1.0, 0.231059)
        """
        lost = finite_number(
            share,
            "share",
            allowed="a number in [0, 1)",
            instead="erased(0.5)",
            fits=lambda share: 0 <= share < 1,
        )
        if self.epsilon == math.inf:
            raise _gives_away()
        family = None if self.family is None else partial(_erased_at, self.family, lost)
        return self if lost == 0 else self._thinned(1 - Fraction(lost), family)

    def _thinned(self, kept: Fraction, family: "Callable[[float], Channel] | None") -> "Channel":
        """Return the channel whose outputs stay with a probability, and are erased otherwise."""
        told = [at for at, output in enumerate(self.outputs) if output is not ERASED]
        thinner = [[row[at] * kept for at in told] for row in self.probabilities]
        rows = [[*row, 1 - sum(row)] for row in thinner]
        outputs = [*(self.outputs[at] for at in told), ERASED]
        name = f"{self.name or 'channel'}, part of it erased"
        return Channel(self.reads or None, self.inputs, outputs, rows, name=name, family=family)

    @cached_property
    def _ladder(self) -> Ladder:
        return Ladder.of(self.probabilities)

    def draw(self, places: Indices, bits: Bits = os.urandom) -> Indices:
        """Return the places of outputs drawn for the places of inputs, with fresh random bits for each."""
        return self._ladder.draw(places, bits)

    def sample(self, given: Sequence[Any], rng: np.random.Generator | None = None) -> list[Any]:
        """Return an output for each input, independently, with exactly the channel's probabilities.

        Without `rng` they come from the operating system's randomness; a Generator is for tests and simulations.
        """
        bits = bit_source(rng)
        places = np.array([self.place(one) for one in listed(given, "given")], dtype=np.intp)
        return [self.outputs[at] for at in self.draw(places, bits).tolist()]

    def release(self, given: Sequence[Any], rng: np.random.Generator | None = None) -> Drawn:
        """Return an output for each input, and whether they may be published: not if a seed can draw them again."""
        return Drawn(tuple(self.sample(given, rng)), rng is None)

    def to_json(self) -> str:
        """Return the channel as JSON text; `from_json` restores all of it except `at` and `tied`."""
        rows = [[str(one) for one in row] for row in self.probabilities]
        stored = {
            "reads": self.reads,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "probabilities": rows,
        }
        return json.dumps({**stored, "name": self.name} if self.name else stored)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the channel that `to_json` wrote."""
        try:
            stored = json.loads(text)
            rows = [[stored_probability(one) for one in row] for row in stored["probabilities"]]
            name = instance(
                stored.get("name", ""), str, "name", allowed="a text", instead="what to_json wrote"
            )
            return cls(
                stored["reads"] or None, stored["inputs"], stored["outputs"], rows, name=name
            )
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            ZeroDivisionError,
            RecursionError,
        ) as error:
            why = error.problem if isinstance(error, UsageError) else ""
            raise UsageError(
                f"The text is not a stored channel. {why}".strip(), allowed="what to_json wrote"
            ) from None

    def __repr__(self) -> str:
        """Show the kind of channel, what it reads, its size, ε and η."""
        kind = " ".join(
            [
                *([self.name] if self.name else []),
                *([f"of {', '.join(self.reads)}"] if self.reads else []),
            ]
        )
        size = f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return (
            f"<Channel{kind and ' '}{kind}: {size}, epsilon={self.epsilon:.6g}, tv={self.tv:.6g}>"
        )


def _farthest(rows: Array, row: Array) -> Any:
    """Return the largest sum of the amounts by which another row exceeds a row."""
    return np.maximum(rows - row, 0).sum(axis=1).max().item()


def _erased_at(family: Callable[[float], Channel], share: float, epsilon: float) -> Channel:
    return family(epsilon).erased(share)


def _number(given: Any, name: str) -> float:
    return finite_number(
        given, name, allowed="finite numbers", instead="numbers, or a channel that is written down"
    )


def _gives_away() -> Refused:
    return Refused(
        "Some output of the channel is possible for one input and not for another: it reveals the input.",
        allowed="channels whose outputs are possible for all inputs, or for none",
        instead="pf.local.randomized_response(labels, epsilon=1.0)",
    )
