"""The exact sums that a release reads of rows that are draws from a table, and the outputs published in their place.

The exposures of a cost bound the loss whatever other rows are. The joint law of the answers needs more (M22, M31): the
number of rows, what a row adds, and the noise or the channel on the sum.
"""

from fractions import Fraction
from typing import final

import msgspec

from pufferflow.noise.base import Noise


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """Base of the structs that ledgers store: plain values, and facts computed from them once."""


@final
class ExactSum(_Stored, frozen=True):
    """A sum over rows in whole steps, and what is published in its place."""

    terms: tuple[int, ...]
    """What a row adds at the points of the column's domain."""
    unit: str = "1"
    """The width of a step in the units of the answer: a rational number."""
    noise: dict[str, str | int | float] = {}
    """The noise on the steps; empty where a channel takes its place."""
    channel: str = ""
    """The channel that reads the answer, the steps times the unit; empty where noise is added."""

    @property
    def drawn_noise(self) -> Noise:
        """The noise on the steps."""
        return Noise.restored(self.noise)

    def answer(self, steps: int) -> int | float:
        """Return the answer of so many steps; a whole number where it is one.

        >>> ExactSum((0, 1), "1/2").answer(3), ExactSum((0, 1), "1/2").answer(4)
        (1.5, 2)
        """
        exact = steps * Fraction(self.unit)
        return int(exact) if exact.denominator == 1 else float(exact)


@final
class ExactSums(_Stored, frozen=True):
    """The sums of one release about the same rows."""

    rows: int
    """How many rows there are, a public number."""
    selection: str
    """A digest of how they are selected: filters, and columns made for them."""
    column: str | None
    """The column that is read; None if rows are only counted."""
    sums: tuple[ExactSum, ...]

    @property
    def same_rows(self) -> tuple[int, str]:
        """A key that releases about the same rows share."""
        return self.rows, self.selection

    @property
    def designed(self) -> bool:
        """Whether a channel takes the place of noise."""
        return any(one.channel for one in self.sums)


@final
class Answered(_Stored, frozen=True):
    """The outputs published in place of exact sums: a text for each.

    For noise it is the noisy sum in whole steps, a rational number; for a channel the place of its output. `exact_sums`
    is left out where the cost of the release has it.
    """

    outputs: tuple[str, ...]
    exact_sums: ExactSums | None = msgspec.field(default=None, name="asked")
