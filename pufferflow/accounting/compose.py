"""The loss of several releases together, by the rule that applies."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from pufferflow.accounting.account_costs import AccountCosts, Composed, single_kind
from pufferflow.accounting.methods import Methods
from pufferflow.accounting.reserved import Opening, may_discover
from pufferflow.accounting.rules.base import added
from pufferflow.accounting.rules.choice import methods_for
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import instance
from pufferflow.models.scenario import Scenario
from pufferflow.privacy.guarantee import (
    AnyGuaranteeFamily,
    Approx,
    Divergence,
    Guarantee,
    GuaranteeFamily,
    Pure,
)
from pufferflow.published.cost import Cost


def compose(
    releases: Iterable[Any],
    scenario: Scenario,
    kind: AnyGuaranteeFamily | None = None,
    *,
    method: str | None = None,
    fixed: bool = False,
) -> Composed:
    """Return the total loss of several releases about the secrets of a scenario; refused if no rule bounds it.

    Losses of single Pufferfish releases do not add: two releases of loss 0 may reveal everything. `releases` are
    releases, their certificates, or plans; all are taken to be about the same data. `kind` is the kind of guarantee to
    total (`pf.Pure`, `pf.Zcdp`, `pf.Renyi.of(alpha=4)` and so on), by default that of the releases.

    An `adaptive` total holds even if later queries were chosen after seeing earlier answers. Pure totals are adaptive.
    Others are if `method` was chosen before the first answer: "pure", "gaussian", "rows", "renyi", "classes" or "zcdp",
    as an account names it. Without a method the least total of all methods is returned, which holds for queries that
    were fixed beforehand. `fixed=True` declares that they were, so that more rules apply.

    >>> import polars as pl, pufferflow as pf
    >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour", public=["day"])
    >>> frame = pl.DataFrame({"hour": range(48), "day": [0] * 24 + [1] * 24, "on": [0, 1] * 24})
    >>> batch = pf.protect(frame, scenario)
    >>> days = [batch.filter(pl.col("day") == day).private_sum("on").release(epsilon=0.822639) for day in (0, 1)]
    >>> found = pf.compose(days, scenario)
    >>> round(found.total, 3), found.rule
    (0.87, 'messages along the chain (M20)')
    """
    costs = [_cost(one) for one in _listed(releases)]
    instance(
        scenario, Scenario, "The scenario", allowed="a pf.Scenario", instead="pf.Scenario(...)"
    )
    if any(cost.shape.setting != scenario.setting for cost in costs):
        raise UsageError(
            "A release was made under a scenario that differs in more than its prior.",
            allowed="releases with the same secret, within, order_by, step, start and public columns",
            instead="the scenario that the releases were planned with",
        )
    example = _example(costs, kind)
    pure = example.divergence is Divergence.LOG_RATIO
    chosen = (
        None if method is None else _method(method, single_kind(example), scenario, fixed=fixed)
    )
    opening = Opening(keys_delta=_of_keys(costs, scenario, example, fixed=method is None))
    methods = Methods.of_fixed(methods_for(single_kind(example), scenario.priors))
    account = AccountCosts(
        [scenario], example, methods if chosen is None else Methods.only(chosen), opening=opening
    )
    for cost in costs:
        account.add(cost)
    total = account.total(fixed=fixed)
    return total if pure or chosen is not None else replace(total, adaptive=False)


def _method(given: object, kind: GuaranteeFamily, scenario: Scenario, *, fixed: bool) -> str:
    """Read an accounting method, which must be one for the kind of guarantee."""
    known = methods_for(kind, scenario.priors)
    if fixed:
        raise UsageError(
            "method and fixed are both given.",
            allowed="a method for queries chosen by earlier answers, or fixed=True for queries chosen beforehand",
            instead="fixed=True alone: then the least total of all methods holds",
        )
    if given not in known:
        raise UsageError(
            f"There is no method {given!r} for {type(kind.example).__name__} under these priors.",
            allowed=", ".join(f'"{one}"' for one in known),
            instead=f'method="{known[-1]}"',
        )
    return str(given)


def _of_keys(
    costs: Sequence[Cost], scenario: Scenario, example: Guarantee, *, fixed: bool
) -> float:
    """Return the δ for keys: what keys take if queries are fixed beforehand, otherwise half as in an account."""
    if not may_discover(scenario, example):
        return 0.0
    return (
        min(added([cost.shape.key_delta or 0.0 for cost in costs]), example.delta)
        if fixed
        else example.delta / 2
    )


def _listed(releases: object) -> list[Any]:
    if isinstance(releases, Iterable) and not isinstance(releases, str | bytes):
        return list(cast(Iterable[Any], releases))
    raise UsageError(
        f"The releases are of type {type(releases).__name__}.",
        allowed="a list of releases, certificates or plans",
        instead="pf.compose([first, second], scenario)",
    )


def _cost(given: Any) -> Cost:
    """Return the cost of a release, certificate or plan."""
    cost = getattr(getattr(given, "certificate", given), "cost", given)
    if not isinstance(cost, Cost):
        raise UsageError(
            f"A release of type {type(given).__name__}, which has no cost.",
            allowed="releases, certificates or plans of this version of pufferflow",
            instead="pf.compose([first, second], scenario)",
        )
    return cost


def _example(costs: list[Cost], kind: AnyGuaranteeFamily | None) -> Guarantee:
    """Return a guarantee of the kind to total: δ is that of all releases together, 0 if their guarantees are pure."""
    if kind is not None:
        promise = (
            kind.example
            if isinstance(kind, GuaranteeFamily)
            else kind(0.0)
            if callable(kind)
            else kind
        )
        if not isinstance(promise, Guarantee):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise UsageError(
                "kind is not a kind of guarantee.",
                allowed="a guarantee without its epsilon",
                instead="kind=pf.Renyi.of(alpha=4)",
            )
        return promise
    if not costs:
        return Pure(0.0)
    kinds = {single_kind(cost.shape.promise).example for cost in costs}
    if len(kinds) > 1 and all(one.divergence.about_odds for one in kinds):
        return Approx(0.0, max(one.delta for one in kinds))
    if len(kinds) > 1:
        raise UsageError(
            "The releases have guarantees of several kinds.",
            allowed="the kind of guarantee to total",
            instead="pf.compose(releases, scenario, kind=pf.Approx.of(delta=1e-6))",
        )
    return kinds.pop()
