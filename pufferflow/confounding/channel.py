"""A mechanism with finitely many outputs, as a frozen value: what it reads, and how likely each output is then.

All probabilities are rational, so that losses of channels are exact, and what is drawn has these very probabilities.
"""

import json
import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Self, cast, final

import numpy as np

from pufferflow.arguments import decimal_reading, finite_number, instance, set_fields, shown
from pufferflow.arrays import Array
from pufferflow.confounding.additive import cell_masses
from pufferflow.confounding.reading import columns_of, label, read_inputs
from pufferflow.errors import Misuse
from pufferflow.noise import Noise
from pufferflow.scenario import Label
from pufferflow.scenario.priors import Values
from pufferflow.suggestions import suggests_arguments

_TOLERANCE = Fraction(1, 10**9)
_LONGEST = 4000
_INSTEAD = 'pf.confounding.Channel("x", inputs=[0, 1], outputs=["no", "yes"], probabilities=[[0.7, 0.3], [0.3, 0.7]])'


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
@dataclass(frozen=True)
class Channel:
    """A mechanism γ(y|x) that reads columns of a row and publishes one of finitely many outputs.

    `reads` is a column, or a list of several whose values it is given as tuples. `probabilities` has a row for every
    input and a column for every output; floats are read as the decimals they are written as.

    >>> coin = Channel("x", inputs=[0, 1], outputs=["no", "yes"], probabilities=[[0.75, 0.25], [0.25, 0.75]])
    >>> coin.probability(0, "yes"), coin.release([0, 1, 1]).for_release
    (Fraction(1, 4), True)
    >>> Channel.from_json(coin.to_json()) == coin
    True
    """

    reads: tuple[str, ...]
    inputs: tuple[Values, ...]
    outputs: tuple[Label | Values, ...]
    probabilities: tuple[tuple[Fraction, ...], ...]

    def __init__(
        self, reads: str | Sequence[str], inputs: Sequence[Any], outputs: Sequence[Any], probabilities: Any
    ) -> None:
        columns = columns_of(reads)
        points = read_inputs(inputs, columns)
        published = tuple(label(one, "An output") for one in _listed(outputs, "outputs"))
        if len(set(points)) < len(points) or len(set(published)) < len(published) or not points or not published:
            what = "inputs" if len(set(points)) < len(points) or not points else "outputs"
            raise Misuse(
                f"{what} has no value, or one twice.",
                allowed="at least one value, each once",
                instead=_INSTEAD,
            )
        set_fields(
            self,
            reads=columns,
            inputs=points,
            outputs=published,
            probabilities=_read_rows(probabilities, len(points), len(published)),
        )

    @classmethod
    def revealing(cls, reads: str | Sequence[str], inputs: Sequence[Any]) -> Self:
        """Return the channel that publishes what it reads, without any noise.

        >>> Channel.revealing("x", [0, 1]).outputs
        (0, 1)
        """
        points = read_inputs(inputs, columns_of(reads))
        plain = [one[0] if len(one) == 1 else one for one in points]
        return cls(reads, plain, plain, np.eye(len(points), dtype=int).tolist())

    @classmethod
    def of_noise(cls, reads: str, inputs: Sequence[Any], outputs: Sequence[float], noise: Noise) -> Self:
        """Return the channel that adds noise to a number and publishes the output next to it.

        Rounding noise is post-processing, so what `noise` promises holds, up to a relative 1e-12 by which the channel's
        probabilities are off from those of the noise; what `cost` says of the channel is exact.

        >>> import pufferflow as pf
        >>> Channel.of_noise("x", [0, 1], [0, 1], pf.Laplace(1.0)).probability(0, 1) < 0.31
        True
        """
        instance(noise, Noise, "noise", allowed="a noise", instead="pf.Laplace(2.0)")
        grid = sorted({_number(one, "An output") for one in _listed(outputs, "outputs")})
        edges = [(low + high) / 2 for low, high in pairwise(grid)]
        answers = [_number(point[0], "An input") for point in read_inputs(inputs, columns_of(reads))]
        if not edges:
            return cls(reads, inputs, grid, [[1]] * len(answers))
        if noise.scale == 0:
            return cls(
                reads,
                inputs,
                grid,
                [[int(at == bisect_left(edges, one)) for at in range(len(grid))] for one in answers],
            )
        masses, _ = cell_masses(noise, np.array(edges), np.array(answers))
        rows = [[Fraction(one) for one in row] for row in masses.tolist()]
        return cls(reads, inputs, grid, [[one / sum(row) for one in row] for row in rows])

    def probability(self, given: Any, output: Any) -> Fraction:
        """Return γ(output | given)."""
        if output not in self.outputs:
            raise Misuse(f"{shown(output)} is no output.", allowed=f"one of {list(self.outputs)[:6]}")
        return self.probabilities[self.place(given)][self.outputs.index(output)]

    def place(self, given: Any) -> int:
        """Return the place of an input; a refusal says nothing about it."""
        point = tuple(cast(Sequence[Any], given)) if isinstance(given, list | tuple) else (_plain(given),)
        if point not in self._places:
            raise Misuse(
                f"A value of {', '.join(map(repr, self.reads))} is none of the channel's {len(self.inputs)} inputs.",
                allowed="its inputs",
                instead="clipping and filling before it is read",
            )
        return self._places[point]

    @cached_property
    def _places(self) -> dict[Values, int]:
        return {point: place for place, point in enumerate(self.inputs)}

    @cached_property
    def whole(self) -> tuple[Array, int]:
        """All probabilities as whole numbers of one common unit, and how many units make 1."""
        total = math.lcm(*(one.denominator for row in self.probabilities for one in row))
        rows = [[one.numerator * (total // one.denominator) for one in row] for row in self.probabilities]
        return np.array(rows, dtype=object), total

    @cached_property
    def _ladders(self) -> list[list[int]]:
        return [list(accumulate(row)) for row in self.whole[0].tolist()]

    def sample(self, given: Sequence[Any], rng: np.random.Generator | None = None) -> list[Any]:
        """Return an output for each input, independently, with exactly the channel's probabilities.

        Without `rng` they come from the operating system's randomness; a Generator is for tests and simulations.
        """
        bits = os.urandom if rng is None else _checked(rng).bytes
        return [self.outputs[self._draw(self.place(one), bits)] for one in _listed(given, "given")]

    def release(self, given: Sequence[Any], rng: np.random.Generator | None = None) -> Drawn:
        """Return an output for each input, and whether they may be published: not if they can be drawn again."""
        return Drawn(tuple(self.sample(given, rng)), rng is None)

    def _draw(self, place: int, bits: Callable[[int], bytes]) -> int:
        """Return the first output whose ladder is above a uniform whole number below the total."""
        total = self.whole[1]
        width = total.bit_length()
        while True:
            number = int.from_bytes(bits((width + 7) // 8), "little") & ((1 << width) - 1)
            if number < total:
                return bisect_right(self._ladders[place], number)

    def to_json(self) -> str:
        """Return the channel as JSON text, which `from_json` reads back unchanged."""
        rows = [[str(one) for one in row] for row in self.probabilities]
        stored = {"reads": self.reads, "inputs": self.inputs, "outputs": self.outputs, "probabilities": rows}
        return json.dumps(stored)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the channel that `to_json` wrote."""
        try:
            stored = json.loads(text)
            rows = [[_stored(one) for one in row] for row in stored["probabilities"]]
            return cls(stored["reads"], stored["inputs"], stored["outputs"], rows)
        except (ValueError, TypeError, KeyError, ZeroDivisionError, RecursionError) as error:
            why = error.problem if isinstance(error, Misuse) else ""
            raise Misuse(f"The text is no stored channel. {why}".strip(), allowed="what to_json wrote") from None

    def __repr__(self) -> str:
        read = ", ".join(self.reads)
        return f"<Channel that reads {read}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def _listed(given: Any, name: str) -> list[Any]:
    """Return a list; a single label stands for itself."""
    if isinstance(given, str | int | float | Fraction):
        return [given]
    try:
        return list(given.tolist() if hasattr(given, "tolist") else given)
    except TypeError:
        raise Misuse(f"{name} is of type {type(given).__name__}.", allowed="a list", instead=_INSTEAD) from None


def _read_rows(given: Any, inputs: int, outputs: int) -> tuple[tuple[Fraction, ...], ...]:
    """Return the rows of probabilities as rationals with sum 1."""
    listed = [_listed(row, "A row of probabilities") for row in _listed(given, "probabilities")]
    if len(listed) != inputs or any(len(row) != outputs for row in listed):
        shape = f"{len(listed)} rows of {sorted({len(row) for row in listed})} numbers"
        raise Misuse(
            f"probabilities has {shape}, for {inputs} inputs and {outputs} outputs.",
            allowed="a row for every input, and in it a number for every output",
            instead=_INSTEAD,
        )
    return tuple(_read_row(row) for row in listed)


def _read_row(given: list[Any]) -> tuple[Fraction, ...]:
    allowed = "numbers >= 0, with sum 1 in every row (within 1e-9)"
    for one in given:
        finite_number(_plain(one), "A probability", allowed=allowed, instead=_INSTEAD, fits=lambda p: p >= 0)
    row = [decimal_reading(_plain(one)) for one in given]
    total = sum(row, Fraction(0))
    if abs(total - 1) > _TOLERANCE:
        raise Misuse(f"A row of probabilities has the sum {float(total):.12g}.", allowed=allowed, instead=_INSTEAD)
    return tuple(one / total for one in row)


def _plain(given: Any) -> Any:
    return cast(Any, given).item() if isinstance(given, np.generic) else given


def _stored(text: str) -> Fraction:
    """Return a stored probability: digits over digits, and nothing that would take for ever to read."""
    if len(text) > _LONGEST or not set(text) <= set("0123456789/"):
        raise ValueError
    return Fraction(text)


def _number(given: Any, name: str) -> float:
    return finite_number(given, name, allowed="finite numbers", instead="numbers, or a channel that is written down")


def _checked(rng: object) -> np.random.Generator:
    allowed = "None for the operating system's randomness, or a numpy.random.Generator for tests"
    return instance(rng, np.random.Generator, "rng", allowed=allowed, instead="rng=numpy.random.default_rng(1)")
