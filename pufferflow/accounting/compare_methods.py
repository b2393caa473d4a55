"""The total of a schedule by each accounting method, and by profiles that are reserved beforehand."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

from pufferflow.accounting.account_costs import AccountCosts, Composed
from pufferflow.accounting.forecast import later, read_every
from pufferflow.accounting.methods import Methods
from pufferflow.accounting.reserved import Opening, ReservedProfiles, read_pairs, read_reserved
from pufferflow.accounting.rules.additive import sets_of
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import instance
from pufferflow.models.scenario import Scenario
from pufferflow.privacy.guarantee import Divergence, Guarantee
from pufferflow.published.cost import Cost


def compare_accounting(
    schedule: Iterable[tuple[object, int]],
    scenario: Scenario,
    limit: Guarantee,
    *,
    every: object = None,
) -> tuple[Composed, ...]:
    """Return the total of a schedule by each accounting method that proves one, the least first.

    `schedule` is pairs of a plan and a number of releases. Each release of a plan selects rows `every` so many steps
    later than the one before; `every` may be a duration. Without `every` all releases select the same rows. The total
    by profiles is for an account that is opened with `reserve=`. An account keeps the other methods, each with its
    share of the limit; here each has the whole.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
    >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(0.1))
    >>> for way in pf.compare_accounting([(plan, 100)], scenario, pf.Approx(10.0, 1e-6)):
    ...     print(round(way.total, 3), way.method, way.rule)
    4.693 None profiles reserved beforehand, by the laws of their losses (M26)
    6.156 gaussian one coupling of the data, along which losses add (M24)
    10.0 pure one coupling of the data, along which losses add (M24)
    """
    limit = instance(
        limit, Guarantee, "The limit", allowed="a guarantee", instead="limit=pf.Approx(3.0, 1e-6)"
    )
    instance(
        scenario, Scenario, "The scenario", allowed="a pf.Scenario", instead="pf.Scenario(...)"
    )
    pairs = read_pairs(schedule, "schedule")
    by_plan = [_releases(plan, times, scenario, every) for plan, times in pairs]
    costs = [cost for releases in by_plan for cost in releases]
    ways = list[Composed]()
    for method in AccountCosts([scenario], limit).known_methods:
        with suppress(Refused):
            ways.append(_total(AccountCosts([scenario], limit, Methods.only(method)), costs))
    if limit.divergence is Divergence.HOCKEY_STICK and limit.delta > 0:
        with suppress(Refused):
            reserved = _reserved(pairs, by_plan, scenario, limit)
            ways.append(_total(AccountCosts([scenario], limit, opening=Opening(reserved)), costs))
    return tuple(sorted(ways, key=lambda way: way.total))


def _total(account: AccountCosts, costs: Sequence[Cost]) -> Composed:
    for cost in costs:
        account.add(cost)
    return account.total()


def _releases(plan: object, times: int, scenario: Scenario, every: object) -> list[Cost]:
    """Return the costs of a plan's releases, each so many steps later than the one before."""
    cost = getattr(plan, "cost", None)
    if not isinstance(cost, Cost):
        raise UsageError(
            f"A schedule of something of type {type(plan).__name__}.",
            allowed="pairs of a plan and a number of releases",
            instead="pf.compare_accounting([(plan, 365)], scenario, limit)",
        )
    if every is None:
        return [cost] * times
    if scenario.order_by is None:
        raise UsageError(
            "every needs order_by in the scenario: without it no row is later than another.",
            allowed="every with order_by, or releases that are all about the same rows",
            instead="pf.compare_accounting([(plan, 365)], scenario, limit)",
        )
    gap = read_every(every, scenario)
    return [later(cost, gap, turn, scenario) for turn in range(times)]


def _reserved(
    schedule: Sequence[tuple[object, int]],
    by_plan: Sequence[Sequence[Cost]],
    scenario: Scenario,
    limit: Guarantee,
) -> ReservedProfiles:
    """Return as many profiles of every plan as one unit needs: releases that no unit shares may have the same one."""
    costs = [cost for releases in by_plan for cost in releases]
    sets = [some for prior in scenario.priors for some in sets_of(scenario, prior, costs)]
    counts = [Counter(map(id, some)) for some in sets]
    needed = [
        max(sum(count[one] for one in set(map(id, releases))) for count in counts)
        for releases in by_plan
    ]
    plans = [plan for plan, _ in schedule]
    return read_reserved(
        [(plan, times) for plan, times in zip(plans, needed, strict=True) if times], scenario, limit
    )
