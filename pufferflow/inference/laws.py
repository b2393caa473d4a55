"""The laws that a scenario implies for a statistic, for the curious and for calibration."""

from pufferflow.bounds.laws import Together
from pufferflow.errors import Misuse
from pufferflow.inference.implied import implied
from pufferflow.queries import Statistic
from pufferflow.scenario import Scenario


def laws(scenario: Scenario, query: Statistic) -> Together:
    """Return the pairs of laws of an answer: under any two values of the secret, for every prior of the scenario.

    They go where pairs go, into `pf.calibrate` and `pf.loss`; going through them lists the pairs one by one, which is
    for short sequences only.

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
    if not isinstance(scenario, Scenario):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise Misuse(
            f"The scenario is of type {type(scenario).__name__}.", allowed="a pf.Scenario", instead="pf.Scenario(...)"
        )
    if not isinstance(query, Statistic):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise Misuse(
            f"The query is of type {type(query).__name__}.",
            allowed="a pf.Statistic of one group of rows that hang together",
            instead="pf.Statistic.total(24)",
        )
    scenario.check_sound()
    return Together([implied(prior, query, scenario.secret) for prior in scenario.priors])
