"""What is asked of a plan: a promise or an accuracy, and how to get there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from pufferflow.accuracy import Within
from pufferflow.calibration import Bounds
from pufferflow.guarantees import Guarantee, Kind, Pure
from pufferflow.noise import Family


@final
@dataclass(frozen=True)
class Wanted:
    """A promise; or errors, with the kind of promise whose ε is to be found. Noise and bound may be left open."""

    promise: Guarantee | Kind
    noise: Family | str = "auto"
    bound: Bounds = "auto"
    accuracy: Within | None = None
    shares: Mapping[str, float] | None = None
    floor: str | None = "row"
    """Whether noise has to be enough for one row alone ("row"), or for the prior only (None)."""

    @property
    def example(self) -> Guarantee:
        """A promise of the kind that is asked for."""
        return self.promise if isinstance(self.promise, Guarantee) else self.promise(1.0)

    @property
    def kind(self) -> Kind:
        """The kind of promise, where errors are given."""
        return Pure if isinstance(self.promise, Guarantee) else self.promise
