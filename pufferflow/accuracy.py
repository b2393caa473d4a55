"""A promise about errors: how far noise may take an answer."""

from dataclasses import dataclass
from typing import final

from pufferflow.errors import Misuse
from pufferflow.reading import finite_number
from pufferflow.suggestions import explained


@final
@explained
@dataclass(frozen=True)
class Within:
    """Each answer, by itself, is within `error` of what it would be without noise, with probability `confidence`.

    >>> Within(5, confidence=0.95)
    Within(error=5.0, confidence=0.95)
    """

    error: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Read both numbers."""
        error = finite_number(self.error, "error", allowed="a finite number > 0", instead="pf.Within(5)")
        allowed, instead = "a number between 0 and 1", "pf.Within(5, confidence=0.95)"
        confidence = finite_number(self.confidence, "confidence", allowed=allowed, instead=instead)
        if error <= 0:
            raise Misuse(f"error is {error:g}.", allowed="a finite number > 0", instead="pf.Within(5)")
        if not 0 < confidence < 1:
            raise Misuse(f"confidence is {confidence:g}.", allowed=allowed, instead=instead)
        object.__setattr__(self, "error", error)
        object.__setattr__(self, "confidence", confidence)
