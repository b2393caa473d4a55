"""The costs of all releases of an account: their total for every prior, and a quick one that grows with each.

The total is the least of those that the account's methods prove, each within its share of the limit (M61).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, NamedTuple, final

from pufferflow.accounting.methods import Methods, shares_for
from pufferflow.accounting.reserved import (
    RESERVED,
    Opening,
    ReservedProfiles,
    TotalVariationPassed,
    designed_too_late,
    keys_not_reserved,
    keys_pass,
    total_unknown,
)
from pufferflow.accounting.rules.additive import SingleRule, sets_of
from pufferflow.accounting.rules.autoregression import RepeatedRelease
from pufferflow.accounting.rules.base import (
    CompositionRule,
    UnitReleases,
    from_pure,
    steps_seen_by,
)
from pufferflow.accounting.rules.choice import (
    PAIR,
    PURE,
    RULES,
    TRANSLATION,
    RuleTotal,
    least,
    methods_for,
)
from pufferflow.accounting.rules.exact import RULE as BUDGETS
from pufferflow.accounting.rules.exact import epsilon_within
from pufferflow.accounting.running_total import RunningTotal
from pufferflow.core.errors import Refused
from pufferflow.core.notebook import InNotebooks
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.simple import Independent
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Presence
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, GuaranteeFamily, Pure
from pufferflow.published.cost import Cost, Shape, digest_of

_NOTHING_ASKED = "no release about any row"
_MOST_TIMES = 1 << 17
_RTOL = 2e-6


@final
@dataclass(frozen=True)
class Composed(InNotebooks):
    """The total of several releases: a guarantee that holds for all of them, and the rule that proves it.

    `adaptive` says whether later queries may have been chosen after seeing earlier answers. `method` is the accounting
    method that proves it. `belief` is the prior under which the loss is the largest.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation())
    >>> plan = pf.protect(pl.DataFrame({"on": [0, 1]}), scenario).private_sum("on").plan(pf.Pure(0.5))
    >>> pf.compose([plan, plan], scenario)
    <Composed Pure(epsilon=0.99...) by one coupling of the data, along which losses add (M24); later queries may ...>
    """

    guarantee: Guarantee
    rule: str
    adaptive: bool = True
    note: str = ""
    method: str | None = None
    belief: Prior | None = None

    @property
    def total(self) -> float:
        """The loss of the guarantee, its ε, ρ or μ."""
        return self.guarantee.loss

    def __repr__(self) -> str:
        queries = (
            "later queries may depend on earlier answers"
            if self.adaptive
            else "for queries fixed beforehand"
        )
        return f"<Composed {self.guarantee!r} by {self.rule}; {queries}>"


def single_kind(guarantee: Guarantee) -> GuaranteeFamily:
    """Return a guarantee without its loss; refuse guarantees of several."""
    if guarantee.kind is None:
        raise Refused(
            f"A total in the kind of {type(guarantee).__name__}: it has no single epsilon.",
            allowed="pf.Pure, pf.Approx, pf.TradeOff, pf.Renyi, pf.ApproxRenyi, pf.Zcdp or pf.Gdp",
            instead="pf.Renyi(alpha=4, epsilon=1.0), for one order",
        )
    return guarantee.kind


@final
class AccountMethod(NamedTuple):
    """An accounting method of an account: its share of the limit, and the total of all releases that it proves.

    It is dead, and its total ∞, if some release was above its share.
    """

    name: str
    share: float
    total: float
    alive: bool


@final
class MethodTotal(NamedTuple):
    """The total that an accounting method proves; ∞ if it proves none."""

    value: float
    rule: str
    adaptive: bool
    method: str
    belief: Prior | None


@final
class AccountCosts:
    """The costs of an account, in order; totals are computed on demand.

    If guarantees are not pure, the account counts by several accounting `methods`. Their shares of the limit are fixed
    with the first release that selects a row. The total is the least of those that are alive. Answers about no row are
    noise alone, without any loss.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        limit: Guarantee,
        methods: Methods | None = None,
        priors: Sequence[Prior] | None = None,
        opening: Opening | None = None,
    ) -> None:
        opening, self.scenario = opening or Opening(), scenarios[-1]
        self.offered = opening.methods
        """The names of the methods that the account may count by; None if the one that suits the first release is."""
        self.reserved, self.keys_delta = (
            opening.reserved,
            opening.share_of_keys(self.scenario, limit),
        )
        every = [prior for scenario in scenarios for prior in scenario.priors]
        chosen = _counted(self.scenario, every) if priors is None else priors
        self.priors = list({digest_of(prior): prior for prior in chosen}.values())
        self.kind, self.limit, self.methods = single_kind(limit), limit, methods
        self._kind_of_sums = (
            self.kind.reserve_delta(self.keys_delta) if self.keys_delta else self.kind
        )
        self._costs = list[Cost]()
        self._running = [RunningTotal(self.scenario, prior) for prior in self.priors]
        self._pure = self.kind.example.divergence is Divergence.LOG_RATIO
        if self._pure:
            self.methods = Methods.only(PURE)
        self._promises = list[float]()
        """The guarantees of single releases, each once, in order."""
        self._last: tuple[int, Sequence[Cost], Composed] | None = None
        """The last total, after how many releases and further ones: these are usually the next to be added."""
        self._buried = list[tuple[int, Sequence[str]]]()
        """The methods that died, and after how many releases."""
        self._by_method: tuple[int, list[Cost], dict[str, MethodTotal]] | None = None
        """The last totals by method, with the number of releases and the further ones that they count."""
        self._as_begun: tuple[Cost, int, AccountCosts] | None = None
        """What `begun` last returned, for which cost and after how many releases."""

    @property
    def costs(self) -> tuple[Cost, ...]:
        """The costs of all releases so far that selected a row."""
        return tuple(cost for cost in self._costs if not cost.selects_nothing)

    @property
    def all_costs(self) -> Sequence[Cost]:
        """The costs of all releases so far, including those that selected no row."""
        return tuple(self._costs)

    @property
    def designed(self) -> bool:
        """Whether a release was designed for the account, so that its published outputs count."""
        shapes = {id(cost.shape): cost.shape for cost in self._costs}
        return any(shape.exact_sums is not None for shape in shapes.values())

    def counted(self, plan: Any) -> Cost:
        """Return the cost of a plan as the account counts it: with exact sums if some release was designed for it."""
        return getattr(plan, "joint_cost", plan.cost) if self.designed else plan.cost

    @property
    def steps_seen(self) -> tuple[int, int] | None:
        """The first and the last step of all rows that releases have seen; None if steps are unknown."""
        return steps_seen_by(self._costs)

    @property
    def known_methods(self) -> list[str]:
        """The names of the accounting methods that the account may be counted by."""
        known = methods_for(self.kind, self.priors)
        if self.offered is None:  # of an older version, which had no such method
            return [method for method in known if method != PAIR]
        return [method for method in known if not self.offered or method in self.offered]

    def __len__(self) -> int:
        return len(self._costs)

    def add(self, cost: Cost) -> None:
        """Add the cost of one release."""
        if not self._costs or self._costs[-1].shape is not cost.shape:
            epsilon = self._epsilon(cost.shape)
            place = bisect_left(self._promises, epsilon)
            if self._promises[place : place + 1] != [epsilon]:
                self._promises.insert(place, epsilon)
        self._costs.append(cost)
        for running in self._running:
            running.add(cost)

    def under(self, prior: Prior, costs: Sequence[Cost] | None = None) -> "AccountCosts":
        """Return the same releases, or others, counted under one prior only."""
        return self._anew(self._costs if costs is None else costs, self.methods, [prior])

    def for_prior(self, prior: Prior) -> "AccountCosts":
        """Return the releases that select a row, counted under one of the priors; no release can be added to them."""
        view: AccountCosts = copy(self)
        view._costs, view._last, view.priors = list(self.costs), None, [prior]
        view._by_method = view._as_begun = None
        view._running = [running for running in self._running if running.prior is prior]
        return view

    def method_meant(self, recorded: str | None, cost: Cost) -> Methods | None:
        """Return the accounting method for a recorded name and the cost of the account's first release.

        Older versions kept one method. They had one name for Rényi losses along one coupling and within hidden classes,
        and took the smaller total. Now the method is the one that suits the first release.
        """
        if recorded == "renyi" and "classes" in methods_for(self.kind, self.priors):
            firsts = self._anew((), None, self.priors).alone_by_method(cost)
            recorded = min(("renyi", "classes"), key=firsts.__getitem__)
        return None if recorded is None else Methods.only(recorded)

    def begun(self, cost: Cost) -> "AccountCosts":
        """Return the costs of the account as they are counted once a release with this cost is its first."""
        if self.methods is not None or self.reserved is not None or self.costs:
            return self
        known = self._as_begun
        if known is None or known[0] is not cost or known[1] != len(self):
            methods = self._begun_by(cost)
            begun = self if methods is None else self._anew(self._costs, methods, self.priors)
            known = self._as_begun = cost, len(self), begun
        return known[2]

    def _begun_by(self, cost: Cost) -> Methods | None:
        """Return the methods and their shares that a first release decides on; None if it decides on none."""
        if cost.selects_nothing or (self.limit.delta and cost.shape.exact_sums is not None):
            return None
        firsts = self.alone_by_method(cost)
        suited = Methods.only(min(firsts, key=firsts.__getitem__))
        if self.offered is None:
            return suited
        shared = shares_for(self.limit, self.priors, firsts)
        totals = self._anew((), shared, self.priors).totals_by_method([cost]).values()
        fits = any(one.value <= self.limit.loss for one in totals)
        return shared if fits else suited  # the first release alone needs no shares

    def alone_by_method(self, cost: Cost) -> dict[str, float]:
        """Return the total of one release by each method, as if it had the whole limit."""
        fixed = self._anew((), Methods.of_fixed(self.known_methods), self.priors)
        return {method: one.value for method, one in fixed.totals_by_method([cost]).items()}

    def first(self, count: int) -> "AccountCosts":
        """Return the costs of the first `count` releases, under the present priors."""
        methods = self.methods
        if methods is not None and self._buried:
            then = [died for after, died in self._buried if after <= count]
            methods = Methods(methods.shares).without([one for died in then for one in died])
        return self._anew(
            self._costs[:count],
            methods,
            self.priors,
            [one.restarted() for one in self._running],
        )

    def _anew(
        self,
        costs: Sequence[Cost],
        methods: Methods | None,
        priors: Sequence[Prior],
        running: list[RunningTotal] | None = None,
    ) -> "AccountCosts":
        opening = Opening(self.reserved, self.keys_delta, self.offered)
        account = AccountCosts([self.scenario], self.limit, methods, priors, opening)
        account._running = running or account._running
        for cost in costs:
            account.add(cost)
        return account

    def total(
        self, more: Sequence[Cost] = (), *, enough: float | None = None, fixed: bool = False
    ) -> Composed:
        """Return the total of all releases, and of `more` of them.

        With `enough`, any proven total of at most `enough` may be returned, even if a smaller one can be proven.
        Without it the total is the same whatever the limit is.
        """
        if (
            enough is not None
            and (quick := self._quickly(more)) is not None
            and quick.total <= enough
        ):
            return quick
        if fixed:
            return self._least(more, fixed=True)
        if self._last is None or not self._are_those(*self._last[:2], more):
            self._last = len(self), list(more), self._least(more, fixed=False)
        return self._last[2]

    def _are_those(self, after: int, then: Sequence[Cost], more: Sequence[Cost]) -> bool:
        """Return whether all releases, and `more` of them, are the first ones and those that came `then`."""
        if len(self) - after + len(more) != len(then):
            return False
        return all(map(is_, [*self._costs[after:], *more], then))

    def proven(self, more: Sequence[Cost] = (), *, enough: float | None = None) -> Composed | None:
        """Return the same; None if no rule bounds it."""
        try:
            return self.total(more, enough=enough)
        except Refused:
            return None

    def fits(self, more: Sequence[Cost], allowed: float) -> bool:
        """Return whether some total of all releases and of `more` of them is proven to be allowed."""
        total = self.proven(more, enough=allowed)
        return total is not None and total.total <= allowed

    def _least(self, more: Sequence[Cost], *, fixed: bool) -> Composed:
        """Return the least proven total; the quick total is proven too, but seldom the least."""
        by_belief = self._by_belief(more)
        selecting = by_belief[0].costs
        if self.reserved is not None:
            return self._of_reserved(self.reserved, by_belief)
        if self.limit.delta and any(cost.shape.exact_sums is not None for cost in selecting):
            return self._of_designed(by_belief)
        begun = self._begun_with(selecting)
        if begun is not self:
            return begun.total(more, fixed=fixed)
        refusal = self._of_key_delta(by_belief)
        totals = self.totals_by_method(more, fixed=fixed)
        chosen, single = min(totals.values(), key=lambda one: one.value), self._of_one(by_belief)
        chosen = chosen if refusal is None else chosen._replace(value=math.inf)
        if single is not None and single.value < chosen.value:
            chosen = chosen._replace(value=single.value, rule=single.rule, adaptive=single.adaptive)
        chosen = chosen._replace(value=self.promised(chosen.value, more))
        quick = None if fixed or refusal is not None else self._quickly(more)
        if quick is not None and quick.total < chosen.value:
            return quick
        if math.isinf(chosen.value):
            raise refusal or self._of_total_variation(more) or self._unknown(len(self) + len(more))
        return Composed(
            self.kind.at(chosen.value),
            chosen.rule,
            adaptive=chosen.adaptive,
            method=None if self._pure or not selecting else chosen.method,
            belief=chosen.belief,
        )

    def _unknown(self, count: int) -> Refused:
        """Return the refusal of a total that no method bounds."""
        counted = None if self._pure or self.methods is None else self.methods.alive
        for_sums = not self.limit.delta or self.keys_delta < self.limit.delta
        return total_unknown(self.priors, count, counted, all_for_keys=not for_sums)

    def _by_belief(self, more: Sequence[Cost]) -> list[UnitReleases]:
        """Return all releases that select a row, and of `more` of them, with each prior."""
        costs = [*self._costs, *more]
        selecting, seen = [cost for cost in costs if not cost.selects_nothing], steps_seen_by(costs)
        unseen = any(cost.selects_nothing and cost.steps_seen is None for cost in costs)
        return [
            UnitReleases(
                *(self.scenario, one.prior, selecting, seen, one.movements, more),
                unseen_rows=unseen,
                first_request=next(iter(selecting), None),
            )
            for one in self._running
        ]

    def _begun_with(self, costs: Sequence[Cost]) -> "AccountCosts":
        """Return the costs as they are counted if the first of some releases is the account's first."""
        return self if self.methods is not None or not costs else self.begun(costs[0])

    def totals_by_method(
        self, more: Sequence[Cost], *, fixed: bool = False
    ) -> dict[str, MethodTotal]:
        """Return the total of all releases, and of `more` of them, by each method that is alive."""
        known = None if fixed else self._by_method
        if known is not None and self._are_those(*known[:2], more):
            return known[2]
        by_belief = self._by_belief(more)
        methods = self.methods or Methods.of_fixed(self.known_methods)
        totals = dict[str, MethodTotal]()
        for method in methods.alive:
            total, belief = self._by(method, methods, by_belief, fixed=fixed)
            totals[method] = MethodTotal(*total, method=method, belief=belief)
        if not fixed:
            self._by_method = len(self), list(more), totals
        return totals

    def fixed_by(self, cost: Cost) -> tuple[dict[str, float], tuple[str, ...]]:
        """Return the shares of methods that a release fixes as the first about a row, and the methods that die."""
        begun = self.begun(cost)
        shares = {} if begun.methods is None or begun is self else dict(begun.methods.shares)
        return {} if self.offered is None else shares, begun.dying([cost])

    def dying(self, more: Sequence[Cost]) -> tuple[str, ...]:
        """Return the methods that admit all releases so far, and not with `more` of them."""
        if self.methods is None or self.reserved is not None or not self.methods.mortal:
            return ()
        allowed, totals = self.limit.loss, self.totals_by_method(more)
        return tuple(
            method for method in self.methods.mortal if not totals[method].value <= allowed
        )

    def bury(self, methods: Sequence[str]) -> None:
        """Count by some methods no longer."""
        if self.methods is not None and methods:
            self.methods, self._by_method = self.methods.without(methods), None
            self._last = None
            self._buried.append((len(self), methods))

    @property
    def only_method(self) -> str | None:
        """The method that counts alone; None if there are several."""
        alive = [] if self.methods is None else self.methods.alive
        return alive[0] if len(alive) == 1 else None

    def by_each_method(self) -> list["AccountCosts"]:
        """Return the same releases as each method that is alive counts them."""
        if self.methods is None or len(self.methods.alive) == 1:
            return [self]
        views = list[AccountCosts]()
        for method in self.methods.alive:
            view: AccountCosts = copy(self)
            others = [other for other in self.methods.alive if other != method]
            view.methods, view._by_method, view._last = self.methods.without(others), None, None
            views.append(view)
        return views

    def from_pure(self, epsilon: float) -> float:
        """Return the account's total that follows from a pure loss."""
        methods = self.methods or Methods.only(PURE)
        kind = methods.kind(PURE, self.limit, self._kind_of_sums)
        return methods.whole(PURE, kind, from_pure(epsilon, kind))

    def by_methods(self) -> tuple[AccountMethod, ...]:
        """Return the accounting methods with their totals of all releases; () if there is no choice of methods."""
        if self.methods is None or self._pure or self.designed:
            return ()
        totals = self.totals_by_method(())
        return tuple(
            AccountMethod(
                method,
                share,
                totals[method].value if method in totals else math.inf,
                method in totals,
            )
            for method, share in self.methods.shares.items()
        )

    def _of_key_delta(self, by_belief: Sequence[UnitReleases]) -> Refused | None:
        """Return a refusal if keys that the data chooses take more δ than the account has for keys."""
        taken = max(
            (unit.key_delta for releases in by_belief for unit in self._of_units(releases)),
            default=0.0,
        )
        if taken <= self.keys_delta:
            return None
        return keys_pass(taken, self.keys_delta, self.limit)

    def _of_designed(self, by_belief: Sequence[UnitReleases]) -> Composed:
        """Return the limit if designed releases, and others about the same rows, keep it at every output."""
        if not isinstance(self.limit, Approx):
            raise Refused(
                f"A designed release on an account with the limit {self.limit!r}.",
                allowed="designed releases on accounts with a limit of pf.Pure or pf.Approx",
                instead="additive noise: batch.plan(…)",
            )
        totals = [
            self._beside_designed(of_unit)
            for releases in by_belief
            for of_unit in self._of_units(releases)
        ]
        if math.isinf(max(totals)):
            raise total_unknown(self.priors, len(by_belief[0].costs))
        return Composed(self.kind.at(max(totals)), BUDGETS)

    def _beside_designed(self, releases: UnitReleases) -> float:
        """Return the ε of releases about one unit: by budgets from the first on, or by methods that the first chose.

        Budgets may also follow pure losses, whose shares of δ they start from (`exact_budgets`). After other methods
        they may not: a path counted by these and one with a designed release could both use all of δ.
        """
        first = releases.costs[0]
        methods = self.methods or self._begun_by(first)
        if methods is not None and all(cost.shape.exact_sums is None for cost in releases.costs):
            totals = [self._by_share(one, methods, releases).value for one in methods.alive]
            return min(totals, default=math.inf)
        alone = methods is None or methods.shares.get(PURE) == 1
        if first.shape.exact_sums is None and methods is not None and not alone:
            raise designed_too_late(list(methods.shares))
        return epsilon_within(releases, self.limit)

    def _of_total_variation(self, more: Sequence[Cost]) -> Refused | None:
        """Return the refusal of releases whose ε is bounded, but whose total variation exceeds the guarantee."""
        odds, *others = self.kind.example.singles
        if not others:
            return None
        account = AccountCosts(
            [self.scenario], odds, self.methods, self.priors, Opening(keys_delta=self.keys_delta)
        )
        for cost in self._costs:
            account.add(cost)
        if account.proven(more) is None:
            return None
        count, variation = len(self) + len(more), others[0].delta
        return TotalVariationPassed(
            f"What {count} releases reveal together may pass the total variation {variation:g} of "
            f"the guarantee, whatever its epsilon.",
            allowed="fewer releases or more noise, or a limit with a larger tv",
            instead="a limit of pf.Approx(epsilon, delta), which bounds no total variation",
        )

    def _by(
        self, method: str, methods: Methods, by_belief: Sequence[UnitReleases], *, fixed: bool
    ) -> tuple[RuleTotal, Prior | None]:
        """Return the total by one method for the worst prior and the worst unit, and this prior."""
        totals = [
            (self._by_share(method, methods, of_unit, fixed=fixed), of_unit.prior)
            for releases in by_belief
            for of_unit in self._of_units(releases)
        ]
        return max(
            totals, key=lambda one: one[0].value, default=(RuleTotal(0.0, _NOTHING_ASKED), None)
        )

    def _by_share(
        self,
        method: str,
        methods: Methods,
        releases: UnitReleases,
        *,
        fixed: bool = False,
        rules: Sequence[CompositionRule] = RULES,
    ) -> RuleTotal:
        """Return the account's total by one method, which proves what its share allows."""
        kind = methods.kind(method, self.limit, self._kind_of_sums)
        total = least(releases, kind, method, fixed=fixed, rules=rules)
        return total._replace(value=methods.whole(method, kind, total.value))

    def _of_units(self, releases: UnitReleases) -> Iterator[UnitReleases]:
        """Yield sets of releases such that all releases about one unit are in one of them."""
        sets = [some for some in sets_of(self.scenario, releases.prior, releases.costs) if some]
        for some in sets:
            whole = len(sets) == 1 and len(some) == len(releases.costs)
            movements = releases.movements if whole else None  # they are those of all releases
            yield replace(releases, costs=some, movements=movements)

    def _of_reserved(
        self, reserved: ReservedProfiles, by_belief: Sequence[UnitReleases]
    ) -> Composed:
        """Return the total of all reserved profiles; refuse a release for which no profile is left.

        The rows of a unit may be at several places, where each release has a part of the unit's loss only. Whether one
        profile covers these parts is not known.
        """
        count, spread = len(by_belief[0].costs), isinstance(self.scenario.secret, Presence)
        units = [
            unit
            for releases in by_belief
            for unit in ([releases] if spread else self._of_units(releases))
        ]
        if any(unit.key_delta for unit in units):
            raise keys_not_reserved()
        for unit in units:
            reserved.check(unit, count)
        if count and math.isinf(reserved.epsilon):
            raise self._of_total_variation(()) or total_unknown(self.priors, count)
        return Composed(
            self.kind.at(reserved.epsilon if count else 0.0), RESERVED if count else _NOTHING_ASKED
        )

    def _of_one(self, by_belief: Sequence[UnitReleases]) -> RuleTotal | None:
        """Return the guarantee of a single release that selects rows, if it was made for all priors."""
        costs = by_belief[0].costs
        if len(costs) != 1 or any(
            one.beyond_promises or one.digest not in costs[0].shape.priors for one in by_belief
        ):
            return None
        return RuleTotal(self.kind.loss_from(costs[0].shape.promise), SingleRule.name)

    def remaining(self, cost: Cost) -> int | float:
        """Return how many more times a release with this cost fits into the limit; ∞ if it costs nothing."""
        begun = self.begun(cost)
        if begun is not self:
            return begun.remaining(cost)
        allowed = self.limit.loss

        def surely_fits(times: int) -> bool:
            quick = self._quickly([cost] * times)
            return quick is not None and quick.total <= allowed

        def fits(times: int) -> bool:
            return self.fits([cost] * times, allowed)

        sure = most(surely_fits, _MOST_TIMES)
        return sure if math.isinf(sure) or not fits(int(sure) + 1) else most(fits, _MOST_TIMES)

    def _quickly(self, more: Sequence[Cost]) -> Composed | None:
        """Return a total that needs no pass through all releases, if there is one."""
        if not self._pure:
            return None if self.methods is None else self.along(more)
        totals = [(*running.total_with(more), running.prior) for running in self._running]
        total, rule, belief = max(totals, key=lambda one: one[0])
        return (
            None
            if math.isinf(total)
            else Composed(Pure(self.promised(total, more)), rule, belief=belief)
        )

    def along(
        self, more: Sequence[Cost] = (), schedule: RepeatedRelease | None = None
    ) -> Composed | None:
        """Return a total of movements along one sequence for the worst prior; None if there is none.

        Its running time does not grow with the number of releases, so a schedule may be endless.
        """
        if self.reserved is not None or any(running.movements is None for running in self._running):
            return None
        methods = self.methods or Methods.of_fixed(self.known_methods)
        totals = list[tuple[RuleTotal, str, Prior]]()
        for method in methods.alive:
            by_belief = list[tuple[RuleTotal, str, Prior]]()
            for one in self._running:
                releases = UnitReleases(
                    self.scenario, one.prior, more, None, one.movements, more, schedule
                )
                found = self._by_share(method, methods, releases, rules=[TRANSLATION])
                by_belief.append((found, method, one.prior))
            totals.append(max(by_belief, key=lambda one: one[0].value))
        total, method, belief = min(totals, key=lambda one: one[0].value)
        if not 0 < total.value < math.inf:
            return None
        guarantee = self.kind.at(self.promised(total.value, more))
        known = None if self._pure else method
        return Composed(guarantee, total.rule, method=known, belief=belief)

    def promised(self, total: float, more: Sequence[Cost]) -> float:
        """Return the total, or a release's guarantee if that is within a relative margin above it.

        So a single release costs what it guarantees, and a release that adds nothing costs nothing.
        """
        place = bisect_left(self._promises, total)
        shapes = {id(cost.shape): cost.shape for cost in more}.values()
        known = [*self._promises[place : place + 1], *map(self._epsilon, shapes)]
        return min((one for one in known if total <= one <= total * (1 + _RTOL)), default=total)

    def _epsilon(self, shape: Shape) -> float:
        """Return the ε that a release guarantees; ∞ if its guarantee is of another kind than the totals."""
        return shape.promise.epsilon if self._pure and isinstance(shape.promise, Pure) else math.inf


def most(fits: Callable[[int], bool], largest: int) -> int | float:
    """Return the largest number of times that fits, if all smaller numbers fit; ∞ if `largest` fits.

    >>> most(lambda times: times <= 5, 100)
    5
    """
    low, high = 0, 1
    while fits(high):
        low, high = high, high * 2
        if low >= largest:
            return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _counted(scenario: Scenario, priors: Sequence[Prior]) -> list[Prior]:
    """Return the priors whose totals count, with independence of rows where a prior gives a value probability 0.

    At such positions a prior hides nothing. Noise is calibrated for one row alone there, and so the limit of an account
    also bounds the loss about one row alone.
    """
    hidden_from_nobody = any(prior.sometimes_impossible(scenario.secret) for prior in priors)
    return [*priors, *([Independent()] if hidden_from_nobody else [])]
