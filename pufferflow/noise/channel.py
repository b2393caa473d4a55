"""A mechanism with finitely many outputs, as a frozen value: the columns it reads, and the output probabilities.

All probabilities are rational, so that losses of channels are exact, and draws have exactly these probabilities.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, Self, cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT, float_above, log_above, upwards
from pufferflow.core.suggestions import HelpfulAttributes, suggests_arguments
from pufferflow.core.validate import finite_number, instance, quoted, set_fields
from pufferflow.noise.base import Noise
from pufferflow.noise.channel_cells import rounded_to
from pufferflow.noise.channel_labels import (
    INSTEAD,
    Label,
    Values,
    as_plain,
    columns_of,
    label,
    listed,
    read_inputs,
    read_rows,
    stored_probability,
    unwrapped,
)
from pufferflow.noise.channel_sampler import Ladder
from pufferflow.noise.sampler import Bits, bit_source

ERASED: Final = None
"""The output that says nothing; null in a column."""
_WHOLE: Final = 2**62


@final
@dataclass(frozen=True)
class Drawn:
    """Outputs of a channel, and whether they may be published."""

    values: tuple[Any, ...]
    for_release: bool

    def __repr__(self) -> str:
        warning = "" if self.for_release else ", NOT FOR RELEASE: drawn from a given generator"
        return f"Drawn({list(self.values)!r}{warning})"


@final
@suggests_arguments
@dataclass(frozen=True, repr=False)
class Channel(HelpfulAttributes):
    """A mechanism γ(y|x) that reads columns of a row and publishes one of finitely many outputs.

    `reads` is a column, or a list of several whose values it is given as tuples; None of a column that is named where
    the channel is used. `probabilities` has a row for every input and a column for every output; floats are read as the
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

    def __init__(  # noqa: PLR0913 - the table, and what kind of channel it is
        self,
        reads: str | Sequence[str] | None,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        probabilities: Any,
        *,
        name: str = "",
        family: "Callable[[float], Channel] | None" = None,
    ) -> None:
        columns = () if reads is None else columns_of(reads)
        points = unwrapped(read_inputs(inputs, len(columns) or 1))
        published = tuple(ERASED if one is ERASED else label(one, "An output") for one in listed(outputs, "outputs"))
        for what, values in (("inputs", points), ("outputs", published)):
            if not values or len(set(values)) < len(values):
                raise UsageError(
                    f"{what} has no value, or one twice.", allowed="at least one value, each once", instead=INSTEAD
                )
        rows = read_rows(probabilities, len(points), len(published))
        set_fields(self, reads=columns, inputs=points, outputs=published, probabilities=rows, name=name, family=family)

    @classmethod
    def of(cls, inputs: Sequence[Any], outputs: Sequence[Any], probabilities: Any) -> Self:
        """Return the channel with these probabilities, of a column that is named where it is used.

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
    def of_noise(cls, reads: str, inputs: Sequence[Any], outputs: Sequence[float], noise: Noise) -> Self:
        """Return the channel that adds noise to a number and publishes the output next to it.

        Rounding noise is post-processing, so what `noise` guarantees holds, up to a relative 1e-12 by which the
        channel's probabilities are off from those of the noise; what `cost` says of the channel is exact.

        >>> import pufferflow as pf
        >>> Channel.of_noise("x", [0, 1], [0, 1], pf.Laplace(1.0)).probability(0, 1) < 0.31
        True
        """
        instance(noise, Noise, "noise", allowed="a noise", instead="pf.Laplace(2.0)")
        grid = sorted({_number(one, "An output") for one in listed(outputs, "outputs")})
        answers = [_number(point[0], "An input") for point in read_inputs(inputs, len(columns_of(reads)))]
        return cls(reads, inputs, grid, rounded_to(grid, answers, noise))

    def reading(self, columns: str | Sequence[str]) -> "Channel":
        """Return the same channel of other columns."""
        return Channel(columns, self.inputs, self.outputs, self.probabilities, name=self.name, family=self.family)

    def probability(self, given: Any, output: Any) -> Fraction:
        """Return γ(output | given)."""
        if output not in self.outputs:
            raise UsageError(f"{quoted(output)} is no output.", allowed=f"one of {list(self.outputs)[:6]}")
        return self.probabilities[self.place(given)][self.outputs.index(output)]

    def place(self, given: Any) -> int:
        """Return the index of an input; a refusal does not reveal it."""
        point = tuple(cast(Sequence[Any], given)) if isinstance(given, list | tuple) else (as_plain(given),)
        if point not in self._places:
            of = f" of {', '.join(map(repr, self.reads))}" if self.reads else ""
            raise UsageError(
                f"A value{of} is no input of the channel.",
                allowed=f"its {len(self.inputs)} inputs",
                instead="clipping and filling before it is read",
            )
        return self._places[point]

    @cached_property
    def points(self) -> tuple[Values, ...]:
        """The inputs as tuples, with a value for each column."""
        return cast(tuple[Values, ...], self.inputs if len(self.reads) > 1 else tuple((one,) for one in self.inputs))

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
        rows = [[one.numerator * (total // one.denominator) for one in row] for row in self.probabilities]
        return np.array(rows, dtype=object), total

    @cached_property
    def epsilon(self) -> float:
        """The largest log ratio of an output's probabilities for two inputs, rounded up; ∞ if one is 0 for one only."""
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
        return min(upwards(max(_farthest(self.matrix, row) for row in self.matrix), 4 * rows.shape[1] * UNIT), 1.0)

    def at(self, epsilon: float) -> "Channel":
        """Return the channel of the same kind with another ε.

        >>> import pufferflow as pf
        >>> round(pf.local.randomized_response(["no", "yes"], epsilon=1.0).at(2.0).epsilon, 6)
        2.0
        """
        if self.family is None:
            raise UsageError(
                "A channel given by its probabilities has no others of its kind.",
                allowed="plan() without a guarantee, which says what the channel keeps; or a mechanism with an epsilon",
                instead="pf.local.randomized_response(labels, epsilon=1.0)",
            )
        return self.family(epsilon)

    def erased(self, share: float) -> "Channel":
        """Return the same with each output erased with a probability: η falls by that share, ε stays.

        >>> import pufferflow as pf
        >>> half = pf.local.randomized_response(["no", "yes"], epsilon=1.0).erased(0.5)
        >>> half.outputs, round(half.epsilon, 6), round(half.tv, 6)
        (('no', 'yes', None), 1.0, 0.231059)
        """
        lost = finite_number(
            share, "share", allowed="a number in [0, 1)", instead="erased(0.5)", fits=lambda share: 0 <= share < 1
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
        """Return an output for each input, and whether they may be published: not if they can be drawn again."""
        return Drawn(tuple(self.sample(given, rng)), rng is None)

    def to_json(self) -> str:
        """Return the channel as JSON text, which `from_json` reads back unchanged, but for others of its kind."""
        rows = [[str(one) for one in row] for row in self.probabilities]
        stored = {"reads": self.reads, "inputs": self.inputs, "outputs": self.outputs, "probabilities": rows}
        return json.dumps({**stored, "name": self.name} if self.name else stored)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the channel that `to_json` wrote."""
        try:
            stored = json.loads(text)
            rows = [[stored_probability(one) for one in row] for row in stored["probabilities"]]
            name = instance(stored.get("name", ""), str, "name", allowed="a text", instead="what to_json wrote")
            return cls(stored["reads"] or None, stored["inputs"], stored["outputs"], rows, name=name)
        except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, RecursionError) as error:
            why = error.problem if isinstance(error, UsageError) else ""
            raise UsageError(f"The text is no stored channel. {why}".strip(), allowed="what to_json wrote") from None

    def __repr__(self) -> str:
        """Show the kind of channel, what it reads, its size, ε and η."""
        kind = " ".join([*([self.name] if self.name else []), *([f"of {', '.join(self.reads)}"] if self.reads else [])])
        size = f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"<Channel{kind and ' '}{kind}: {size}, epsilon={self.epsilon:.6g}, tv={self.tv:.6g}>"


def _farthest(rows: Array, row: Array) -> Any:
    """Return the largest sum of what other rows have more than a row."""
    return np.maximum(rows - row, 0).sum(axis=1).max().item()


def _erased_at(family: Callable[[float], Channel], share: float, epsilon: float) -> Channel:
    return family(epsilon).erased(share)


def _number(given: Any, name: str) -> float:
    return finite_number(given, name, allowed="finite numbers", instead="numbers, or a channel that is written down")


def _gives_away() -> Refused:
    return Refused(
        "Some output of the channel is possible for one input and not for another: it reveals the input.",
        allowed="channels whose outputs are possible for all inputs, or for none",
        instead="pf.local.randomized_response(labels, epsilon=1.0)",
    )
