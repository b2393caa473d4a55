"""From a prior, a statistic and a secret to the laws of the answer under every two values of the secret."""

from collections.abc import Callable, Sequence
from functools import singledispatch

from pufferflow.arguments import instance
from pufferflow.bounds import Laws, SeveralLaws
from pufferflow.errors import InternalError, UsageError
from pufferflow.queries import Statistic
from pufferflow.scenario import AnySecret, Derived, Domain, Label, Scenario, Secret
from pufferflow.scenario.priors import Prior


@singledispatch
def implied(prior: Prior, statistic: Statistic, secret: AnySecret) -> Laws:
    """Return the laws of a statistic of one correlated group, under every two values of the secret that are paired.

    Each method file registers itself for the priors it covers.
    """
    del statistic, secret
    raise InternalError(
        f"No method derives laws from the prior {type(prior).__name__}.", instead="reporting it to the maintainers"
    )


def column_and_domain(prior: Prior, statistic: Statistic, secret: AnySecret) -> tuple[str, Domain]:
    """Return the column of a statistic and its domain, as prior or secret declare it.

    A statistic that names none is about the one that a derived secret names, or the only one beside the secret.
    """
    known = dict(prior.columns)
    if secret.reads is not None and (not known or secret.reads[0] in known):
        known[secret.reads[0]] = secret.reads[1]
    if statistic.column is None:
        if isinstance(secret, Derived) and secret.reads is not None and secret.reads[0] in known:
            return secret.reads
        hidden = secret.name if isinstance(secret, Derived) else secret.reads and secret.reads[0]
        others = {name: domain for name, domain in known.items() if name != hidden} or known
        if len(others) == 1:
            return next(iter(others.items()))
    if statistic.column not in known:
        named = "no column" if statistic.column is None else f"the column {statistic.column!r}"
        raise UsageError(
            f"The statistic is about {named}, and secret and prior declare {sorted(known)}.",
            allowed="a statistic of a column that has a declared domain",
            instead="naming the column, or a secret with a column and its domain",
        )
    return statistic.column, known[statistic.column]


def hidden_column(
    secret: AnySecret, values_of: Callable[[str], Sequence[Label]]
) -> tuple[str, Sequence[tuple[Label, Label]]]:
    """Return the column of a table that a secret hides, and its pairs; `values_of` are the values of a column there."""
    if isinstance(secret, Secret):
        return secret.column, secret.value_pairs()
    if isinstance(secret, Derived):
        return secret.name, secret.value_pairs(values_of(secret.name))
    raise InternalError("A table was given a secret that it had refused.", instead="reporting it")


def laws(scenario: Scenario, query: Statistic) -> SeveralLaws:
    """Return the pairs of laws of an answer: under any two values of the secret, for every prior of the scenario.

    They are passed to `pf.calibrate` and `pf.loss` as pairs; iteration lists the pairs one by one, which is possible
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
    instance(scenario, Scenario, "The scenario", allowed="a pf.Scenario", instead="pf.Scenario(...)")
    allowed = "a pf.Statistic of one correlated group of rows"
    instance(query, Statistic, "The query", allowed=allowed, instead="pf.Statistic.total(24)")
    scenario.check_sound()
    return SeveralLaws([implied(prior, query, scenario.secret) for prior in scenario.priors])
