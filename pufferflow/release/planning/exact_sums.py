"""Sums of rows that are draws from a table: exact sums for accounts, and a channel in place of noise.

What a plan reads of rows that are draws from a table, as exact sums: accounts compose them exactly (M23).

A batch has exact sums if all its rows are in one cell, each an independent draw from a table, and every row adds whole
steps that follow from a value of a finite domain. Other batches are counted by the exposures of their costs alone.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast, final

import numpy as np

from pufferflow.accounting.exact_answers import table_of
from pufferflow.core.arrays import Floats
from pufferflow.core.rounding import UNIT
from pufferflow.models.domain import Product
from pufferflow.noise.base import Noise
from pufferflow.noise.channel import Channel
from pufferflow.published.cost import ExactSum, ExactSums
from pufferflow.queries.request import Request
from pufferflow.release.planning.sum_tables import SumFunctions, on_interval

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


def reads_exactly(request: Request) -> bool:
    """Return whether a batch adds up functions of rows that are draws from tables, all rows in one cell."""
    scenario, functions = request.scenario, [one.values for one in request.measures if one is not None]
    return (
        not request.by
        and not on_interval(request)
        and not isinstance(request.domain, Product)
        and all(values.weight is None for values in functions)
        and all(table_of(prior, scenario.secret) is not None for prior in scenario.priors)
    )


def exact_sums(request: Request, rows: int, noises: Sequence[Noise]) -> ExactSums | None:
    """Return the sums of a batch about so many rows, and the noise on their steps; None if they are not of this kind.

    Noises are left out for sums that a channel reads.
    """
    if not reads_exactly(request):
        return None
    terms = SumFunctions.of(request).at_values.tolist()
    stored = [own.stored() for own in noises] or [{}] * len(terms)
    sums = tuple(
        ExactSum(tuple(int(one) for one in row), str(unit), noise)
        for row, unit, noise in zip(terms, request.units, stored, strict=True)
    )
    return ExactSums(rows, selected_by(request), request.column, sums)


def selected_by(request: Request) -> str:
    """Return a digest of how rows are selected; empty if all are.

    Releases of an account with the same digest and number of rows are taken to be about the same rows.
    """
    if not request.filters:  # then derived columns select nothing
        return ""
    return hashlib.sha256(repr(request.conditions).encode()).hexdigest()[:32]
