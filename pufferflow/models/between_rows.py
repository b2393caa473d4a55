"""The guarantee about two rows of one table: that X_i = a instead of X_j = b (M60 (i))."""

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import instance
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import ValueSecret
from pufferflow.privacy.guarantee import Guarantee

_SCENARIO = 'pf.Scenario(pf.Secret("level", domain=[0, 1]), prior)'


def between_rows(scenario: Scenario, guarantee: Guarantee) -> Guarantee:
    """Return what a guarantee of a plan or an account says about two rows: X_i = a against X_j = b (M60 (i)).

    A scenario hides which of two values the *same* row has. The pairs of different rows follow from that, whatever rows
    depend on each other and whatever was published. The total of an account may be given as well. An ε becomes at
    most 2ε. It is less where every possible value has some probability under all priors.

    >>> import pufferflow as pf
    >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
    >>> between_rows(scenario, pf.Pure(1.0))
    Pure(epsilon=1.0000...)
    >>> between_rows(pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent()), pf.Pure(1.0))
    Pure(epsilon=2.0)
    """
    return _known(_read(guarantee).between_rows(_least_probability(scenario)), guarantee)


def row_guarantee(scenario: Scenario, between: Guarantee) -> Guarantee:
    """Return the guarantee to plan with, or to limit an account by, so that `between` holds between two rows (M60 (i)).

    It is the inverse of `pf.between_rows`, rounded towards privacy.

    >>> import pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation())
    >>> row_guarantee(scenario, pf.Pure(1.0)), row_guarantee(scenario, pf.Gdp(0.5))
    (Pure(epsilon=0.5), Gdp(mu=0.25))
    """
    return _known(_read(between).within_rows(_least_probability(scenario)), between)


def _read(guarantee: object) -> Guarantee:
    allowed = "a guarantee of a plan, or the total of an account"
    instead = "plan.guarantee, account.spent() or pf.Pure(1.0)"
    return instance(guarantee, Guarantee, "The guarantee", allowed=allowed, instead=instead)


def _least_probability(scenario: object) -> float:
    """Return the least probability of a possible value under any prior; refuse secrets that are no values of rows."""
    read = instance(scenario, Scenario, "The scenario", allowed="a pf.Scenario", instead=_SCENARIO)
    secret = read.secret
    if not isinstance(secret, ValueSecret):
        raise UsageError(
            f"The secret pf.{type(secret).__name__} is no value of a row, so there are no two rows to compare.",
            allowed="pf.Secret, pf.Initial, or a list of pf.Secret",
            instead=_SCENARIO,
        )
    if secret.pairs != "all" and not secret.every_pair:
        raise Refused(
            "Only some pairs of values must be indistinguishable, so nothing follows about two rows.",
            allowed='pairs="all": what one row reveals about any two of its values',
            instead=f"pf.{type(secret).__name__}({secret.column!r}, domain, pairs='all')",
        )
    return min(prior.least_probability(secret) for prior in read.priors)


def _known(found: Guarantee | None, given: Guarantee) -> Guarantee:
    if found is None:
        raise Refused(
            f"For {type(given).__name__} it is not known what follows between two rows.",
            allowed="pf.Pure, pf.Approx, pf.TradeOff, pf.Zcdp or pf.Gdp",
            instead="guarantee.to_approx(1e-6)",
        )
    return found
