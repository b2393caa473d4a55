"""The prior of clones: the rows of a group are copies of one another, or have nothing to do with each other."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, set_fields
from pufferflow.models.priors.base import Prior, wrong_secret
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.probabilities import Probability, read_law, restored_law, stored_law
from pufferflow.models.secret import AnySecret, Secret


@final
@suggests_arguments
@dataclass(frozen=True)
class Clones(Prior, kind="clones"):
    """With probability `share` all rows of a group have one value, drawn by `law`; else each row draws its own.

    Given which of the two it is, and the value that all have, rows are independent: this is a hidden class with one
    more value than the domain has points.

    >>> Clones(0.1, [0.5, 0.5]).describe()
    'with probability 0.1 the rows of a group are copies of one, and are independent otherwise'
    """

    share: float
    law: tuple[Probability, ...]
    shared_class = True
    joint_laws = True

    def __init__(self, share: float, law: Any) -> None:
        allowed, instead = "a probability", "pf.Clones(0.1, [0.5, 0.5])"
        number = finite_number(
            share, "share", allowed=allowed, instead=instead, fits=lambda number: 0 <= number <= 1
        )
        set_fields(self, share=number, law=read_law(law, "law"))

    @cached_property
    def classes(self) -> LatentClass:
        """The same prior with its hidden class."""
        points = range(len(self.law))
        copies = [[int(point == value) for point in points] for value in points]
        weights = [1 - self.share, *(self.share * float(mass) for mass in self.law)]
        return LatentClass(weights, [list(map(float, self.law)), *copies])

    def check(self, secret: AnySecret) -> None:
        if not isinstance(secret, Secret):
            raise wrong_secret(
                "pf.Clones", secret, allowed="pf.Secret", instead="pf.Secret(column, domain=[0, 1])"
            )
        self.classes.check(secret)

    def describe(self) -> str:
        return f"with probability {self.share:g} the rows of a group are copies of one, and are independent otherwise"

    def stored(self) -> dict[str, Any]:
        return {"kind": self.kind, "share": self.share, "law": stored_law(self.law)}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Clones":
        return cls(stored["share"], restored_law(stored["law"]))
