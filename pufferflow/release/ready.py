"""What a release needs of a plan: the questions, a noise for every sum, and the certificate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from pufferflow.composition import Cost
from pufferflow.noise import Noise
from pufferflow.queries import Measure
from pufferflow.questions import Questions
from pufferflow.release.certificate import Certificate
from pufferflow.release.public_facts import PublicFacts


def unit_of(measure: Measure | None) -> Fraction:
    """Return the width of a step of a sum; rows are counted one by one."""
    return Fraction(1) if measure is None else measure.values.unit


def in_units(noises: Sequence[Noise], measures: Sequence[Measure | None]) -> tuple[Noise, ...]:
    """Return the noises of sums of whole steps in the units of the answers."""
    pairs = zip(noises, measures, strict=True)
    return tuple(noise.at(noise.scale * float(unit_of(measure))) for noise, measure in pairs)


@final
@dataclass(frozen=True, eq=False)
class Ready:
    """Everything that is decided before a private row is read."""

    questions: Questions
    noises: tuple[Noise, ...]
    """The noise of each sum, in steps of its unit."""
    certificate: Certificate
    public: PublicFacts | None = None
    """What noise and cost rest on: it has to be the same when the rows are read. None: nothing is compared."""
    name: str = ""
    """What a ledger knows the plan by: plans share it that ask the same of the same rows, on every machine."""
    reserved: Callable[[Cost], "Ready"] | None = None
    """The way to the same with the noise of a cost that was reserved, perhaps by another machine, or refused."""

    def at(self, cost: Cost) -> "Ready":
        """Return what is to be drawn where this cost is reserved: what is charged is what is drawn."""
        return self if self.reserved is None or cost == self.cost else replace(self.reserved(cost), public=self.public)

    @property
    def cost(self) -> Cost:
        """What the release will tell, as composition needs to know it."""
        return self.certificate.cost

    @property
    def scales(self) -> tuple[Noise, ...]:
        """The same noises in the units of the answers."""
        return in_units(self.noises, self.questions.measures)
