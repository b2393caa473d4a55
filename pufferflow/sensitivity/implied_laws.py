"""From a prior, a statistic and a secret to the laws of the answer under every two values of the secret."""

from functools import singledispatch

from pufferflow.calibration.laws import Laws, SeveralLaws
from pufferflow.core.errors import InternalError
from pufferflow.core.validate import instance
from pufferflow.models.priors.base import Prior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import AnySecret
from pufferflow.queries.statistic import Statistic


@singledispatch
def implied(prior: Prior, statistic: Statistic, secret: AnySecret) -> Laws:
    """Return the laws of a statistic of one correlated group, under every two values of the secret that are paired.

    Each method file registers itself for the priors it covers.
    """
    del statistic, secret
    raise InternalError(
        f"No method derives laws from the prior {type(prior).__name__}.",
        instead="reporting it to the maintainers",
    )


def laws(scenario: Scenario, query: Statistic) -> SeveralLaws:
    """Return the pairs of laws of an answer: under any two values of the secret, for every prior of the scenario.

    Pass the result to `pf.calibrate` or `pf.loss` as `pairs`. Iterating over it lists the pairs one by one; that is
    possible for short sequences only.

    >>> import pufferflow as pf
    >>> scenario = pf.Scenario(
    ...     secret=pf.Secret("on", domain=[0, 1]), prior=pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), order_by="hour"
    ... )
    >>> pairs = pf.laws(scenario, pf.Statistic.total(2))
    >>> mu, nu = pairs[0]
    >>> mu
    Law([0, 1], [0.9, 0.1])
    >>> pf.calibrate(pf.laws(scenario, pf.Statistic.total(24)), pf.Pure(1.0)).noise.scale < 24
    True
    """
    instance(
        scenario, Scenario, "The scenario", allowed="a pf.Scenario", instead="pf.Scenario(...)"
    )
    allowed = "a pf.Statistic of one correlated group of rows"
    instance(query, Statistic, "The query", allowed=allowed, instead="pf.Statistic.total(24)")
    scenario.check_sound()
    return SeveralLaws([implied(prior, query, scenario.secret) for prior in scenario.priors])
