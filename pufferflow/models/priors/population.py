"""The prior of a secret about the whole data set: independent rows, given the law that they are drawn from (M59)."""

from dataclasses import dataclass
from typing import final

from pufferflow.models.population import Population
from pufferflow.models.priors.base import Prior, wrong_secret
from pufferflow.models.secret import AnySecret


@final
@dataclass(frozen=True)
class IndependentGiven(Prior, kind="independent given the population"):
    """Rows are independent draws from the law that `pf.Population` hides, so all of them reveal it.

    A scenario with that secret makes it of `pf.Independent()`. By themselves rows are not independent: one reveals
    something about the law, and so about the others. Nothing that holds for independent rows alone applies to them.

    >>> import pufferflow as pf
    >>> scenario = pf.Scenario(pf.Population.share("ill", [0.1, 0.2]), prior=pf.Independent())
    >>> scenario.priors
    (IndependentGiven(),)
    """

    shared_class = True
    joint_laws = True
    allows_weights = True
    allows_missing = True

    def describe(self) -> str:
        return "rows are independent of each other, given the law that all of them are drawn from"

    def check(self, secret: AnySecret) -> None:
        if not isinstance(secret, Population):
            raise wrong_secret(
                "IndependentGiven",
                secret,
                allowed="pf.Population, which has the laws",
                instead="pf.Independent()",
            )

    def of_population(self) -> Prior:
        return self
