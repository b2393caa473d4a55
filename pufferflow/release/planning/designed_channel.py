"""A channel that takes the place of noise on one sum: what it draws for any sum there may be, and its error bars."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT
from pufferflow.noise.channel import Channel
from pufferflow.published.exact_sums import ExactSum, ExactSums

COVERED = Fraction(95, 100)
"""The probability with which an error bar holds the exact answer."""


@final
@dataclass(frozen=True, eq=False)
class DesignedChannel:
    """The sum that a channel reads, about so many rows; it was designed for an account."""

    exact_sums: ExactSums

    @property
    def rows(self) -> int:
        """How many rows are added up."""
        return self.exact_sums.rows

    @property
    def sum(self) -> ExactSum:
        """The only sum."""
        return self.exact_sums.sums[0]

    @cached_property
    def channel(self) -> Channel:
        """The channel, whose inputs are answers in ascending order."""
        return Channel.from_json(self.sum.channel)

    @property
    def outputs(self) -> tuple[float, ...]:
        """The numbers that can be published."""
        return cast(tuple[float, ...], self.channel.outputs)

    @cached_property
    def name(self) -> str:
        """A digest of the sum and its channel."""
        return hashlib.sha256(repr(self.exact_sums).encode()).hexdigest()

    def draw(self, steps: int) -> int:
        """Return the place of an output for a sum of so many steps, with the operating system's randomness.

        Sums that the table holds impossible are read as the nearest possible one, and no error reveals about them.
        """
        nearest = min(self._steps, key=lambda one: (abs(one - steps), one))
        return int(self.channel.draw(np.array([self._steps.index(nearest)], dtype=np.intp))[0])

    @cached_property
    def _steps(self) -> list[int]:
        unit = Fraction(self.sum.unit)
        return [int(Fraction(cast(float, one)) / unit) for one in self.channel.inputs]

    def bar(self, output: int) -> tuple[float, float]:
        """Return the ends of the answers for which an output is among the likeliest that make up 95 %."""
        inputs = [float(cast(float, one)) for one in self.channel.inputs]
        held = [answer for answer, likely in zip(inputs, self._likely, strict=True) if output in likely]
        return (min(held), max(held)) if held else (inputs[0], inputs[-1])

    @cached_property
    def _likely(self) -> list[set[int]]:
        """For every answer, the fewest outputs with 95 % of its probability."""
        found: list[set[int]] = []
        for row in self.channel.probabilities:
            order, mass, likely = sorted(range(len(row)), key=lambda at: (-row[at], at)), Fraction(0), set[int]()
            for at in order:
                if mass >= COVERED:
                    break
                mass, likely = mass + row[at], {*likely, at}
            found.append(likely)
        return found

    @cached_property
    def least_scale(self) -> float:
        """A scale of Laplace noise whose exposures are those of the channel or more, whatever other rows are; maybe 0.

        The log ratio of likelihoods at sums d steps apart is at most d over the scale.
        """
        matrix: Floats = self.channel.matrix
        if (matrix <= 0).any() or len(self._steps) != self._steps[-1] - self._steps[0] + 1:
            return 0.0
        logs = np.log(matrix)
        widest = [float(np.abs(logs[apart:] - logs[:-apart]).max()) / apart for apart in range(1, len(logs))]
        steepest = max(widest, default=0.0)
        return 1 / (steepest * (1 + 64 * UNIT) + 64 * UNIT) if steepest else 1.0
