"""Rows that are nearly independent, by a distance between data sets (M17)."""

from dataclasses import dataclass
from typing import Any, Self, final

from pufferflow.errors import Misuse
from pufferflow.priors.prior import Prior, wrong_secret
from pufferflow.reading import finite_number_at_least_zero
from pufferflow.secrets import AnySecret, Initial, Secret
from pufferflow.suggestions import explained


@final
@explained
@dataclass(frozen=True)
class WeaklyDependent(Prior):
    """Given any value of one row, all rows lie within `distance` of independent rows (RPP Prop. 6.1; M17).

    What is declared: let each row have the law it has when nothing is known, all rows independent, and fix one row at a
    value a. For every row and every a, the data set given that value can be coupled with this one so that the rows
    differ, all together, by at most `distance` (the sum of |x_r − y_r|, always, not on average), in the unit of the
    column, after reading it into the domain. For the same row at b this is another step of up to `distance`, so an
    answer moves by what the row itself moves it, and by up to twice the distance.

    >>> WeaklyDependent(0.5).describe()
    'given one row, all rows together lie within 0.5 of independent ones'
    """

    distance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", finite_number_at_least_zero(self.distance, "distance"))

    def describe(self) -> str:
        """Say in words what an adversary may believe."""
        return f"given one row, all rows together lie within {self.distance:g} of independent ones"

    def stored(self) -> dict[str, Any]:
        """Return the distance."""
        return {"kind": "weakly dependent", "distance": self.distance}

    @classmethod
    def restored(cls, fields: dict[str, Any]) -> Self:
        """Return the prior that stored fields tell of."""
        return cls(fields["distance"])

    def check(self, secret: AnySecret) -> None:
        """Refuse secrets that are no value of one row, and domains in which no distance is measured."""
        allowed = "pf.Secret or pf.Initial with a domain of numbers"
        instead = "pf.Secret(column, domain=pf.Interval(0, 10))"
        if not isinstance(secret, Secret | Initial):
            raise wrong_secret("pf.WeaklyDependent", secret, allowed=allowed, instead=instead)
        if not secret.domain.numeric:
            raise Misuse("The prior pf.WeaklyDependent with a domain of labels.", allowed=allowed, instead=instead)
