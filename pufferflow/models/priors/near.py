"""Regions of laws around what a public reference counted, as priors store and describe them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import set_fields
from pufferflow.distributions.markov.law_regions import LawRegions
from pufferflow.models.stored import Stored

Rows = tuple[tuple[float, ...], ...]
_SUM = 1e-9


@final
@dataclass(frozen=True)
class Around(Stored):
    """Laws on one list of points: each with bounds on its cells and a ball of total variation around its centre.

    >>> Around([[0.5, 0.5]], [[0.4, 0.4]], [[0.6, 0.6]], [0.1]).regions.states
    2
    """

    centre: Rows
    low: Rows
    high: Rows
    radius: tuple[float, ...]

    def __init__(self, centre: Any, low: Any, high: Any, radius: Any) -> None:
        laws, least, most, balls = (
            np.array(part, dtype=np.float64) for part in (centre, low, high, radius)
        )
        shapes = {part.shape for part in (laws, least, most)}
        ordered = (
            len(shapes) == 1
            and laws.ndim == 2
            and bool(((least >= 0) & (least <= laws) & (laws <= most)).all())
        )
        if (
            not ordered
            or balls.shape != laws.shape[:1]
            or (np.abs(laws.sum(axis=1) - 1) > _SUM).any()
        ):
            raise UsageError(
                "The centre of a region of laws lies outside its bounds.",
                allowed="what a fit on a public reference gave",
                instead="pf.Table.fit(reference, columns, slack='confidence')",
            )
        rows = {"centre": laws, "low": least, "high": most}
        listed = {
            name: tuple(tuple(map(float, row)) for row in part) for name, part in rows.items()
        }
        set_fields(self, **listed, radius=tuple(balls.tolist()))

    @classmethod
    def of(cls, regions: LawRegions) -> "Around":
        """Return regions as they are stored."""
        return cls(regions.centre, regions.low, regions.high, regions.radius)

    @cached_property
    def regions(self) -> LawRegions:
        """The regions as arrays."""
        parts: list[Floats] = [
            np.array(part) for part in (self.centre, self.low, self.high, self.radius)
        ]
        return LawRegions(*parts)


def slack_in_words(slack: float | None, confidence: float | None, independent: str) -> str:
    """Describe how far around a counted law a class of laws goes, and what is assumed about the reference.

    >>> slack_in_words(0.05, None, "rows")
    'within 0.05 of counted ones'
    >>> slack_in_words(None, 0.95, "rows")
    'in joint 95 % confidence regions around counted ones, rows of the reference being independent'
    """
    if confidence is None:
        return f"within {slack:g} of counted ones"
    return (
        f"in joint {100 * confidence:g} % confidence regions around counted ones, "
        f"{independent} of the reference being independent"
    )
