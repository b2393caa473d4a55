"""The costs of all releases of an account: their total for every prior, and a quick one that grows with each.

If a prior is wrong, all releases together still have totals of the same noises under other priors. If rows are
independent, the loss is that of a row's own change (M27): differential privacy, over the pairs of values that the
scenario hides. If they may depend on each other in any way, all rows of a group may change (M7).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, final

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
from pufferflow.accounting.rules.base import UnitReleases, steps_seen_by
from pufferflow.accounting.rules.choice import TRANSLATION, RuleTotal, least, meters_for
from pufferflow.accounting.rules.exact import RULE as BUDGETS
from pufferflow.accounting.rules.exact import epsilon_within
from pufferflow.accounting.running_total import RunningTotal
from pufferflow.core.errors import Refused
from pufferflow.core.notebook import InNotebooks
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.simple import AnyCorrelation, Independent
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Initial, Presence, ValueSecret
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, GuaranteeFamily, Pure
from pufferflow.published.cost import Cost, Shape, digest_of

_NOTHING_ASKED = "no release about any row"
_MOST_TIMES = 1 << 17
_RTOL = 2e-6


@final
@dataclass(frozen=True)
class Composed(InNotebooks):
    """The total of several releases: a guarantee that holds for all of them, and the rule that proves it.

    `adaptive` says whether later queries may have been chosen after seeing earlier answers. `belief` is the prior under
    which the loss is the largest.

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
    meter: str | None = None
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
class AccountCosts:
    """The costs of an account, in order; totals are computed on demand.

    If guarantees are not pure, one `meter` counts the total for the whole life of an account. It is chosen by the first
    release that selects a row, since the choice of the proof must not depend on earlier answers. Answers about no row
    are noise alone, without any loss.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        limit: Guarantee,
        meter: str | None = None,
        priors: Sequence[Prior] | None = None,
        opening: Opening | None = None,
    ) -> None:
        opening, self.scenario = opening or Opening(), scenarios[-1]
        self.reserved, self.keys_delta = (
            opening.reserved,
            opening.share_of_keys(self.scenario, limit),
        )
        every = [prior for scenario in scenarios for prior in scenario.priors]
        chosen = _counted(self.scenario, every) if priors is None else priors
        self.priors = list({digest_of(prior): prior for prior in chosen}.values())
        self.kind, self.limit, self.meter = single_kind(limit), limit, meter
        self._kind_of_sums = (
            self.kind.reserve_delta(self.keys_delta) if self.keys_delta else self.kind
        )
        self._costs = list[Cost]()
        self._running = [RunningTotal(self.scenario, prior) for prior in self.priors]
        self._pure = self.kind.example.divergence is Divergence.LOG_RATIO
        self._promises = list[float]()
        """The guarantees of single releases, each once, in order."""
        self._last: tuple[int, Composed] | None = None
        """The last total that was computed, and its number of releases."""

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
    def meters(self) -> list[str]:
        """The accounting methods for the account: the chosen one, or all."""
        return meters_for(self.kind, self.priors) if self.meter is None else [self.meter]

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
        return self._anew(self._costs if costs is None else costs, self.meter, [prior])

    def for_prior(self, prior: Prior) -> "AccountCosts":
        """Return the releases that select a row, counted under one of the priors; no release can be added to them."""
        view: AccountCosts = copy(self)
        view._costs, view._last, view.priors = list(self.costs), None, [prior]
        view._running = [running for running in self._running if running.prior is prior]
        return view

    def method_meant(self, recorded: str | None, cost: Cost) -> str | None:
        """Return the accounting method for a recorded name and the cost of the account's first release.

        Older versions had one name for Rényi losses along one coupling and within hidden classes, and took the smaller
        total. Now the method is the one that suits the first release, as in a new account.
        """
        if recorded != "renyi" or not any(isinstance(one, GaussianMixture) for one in self.priors):
            return recorded
        suits = self._anew((), None, self.priors).proven([cost])
        return "classes" if suits is not None and suits.meter == "classes" else recorded

    def begun(self, cost: Cost) -> "AccountCosts":
        """Return the costs of the account as they are counted once a release with this cost is its first."""
        if (
            self.meter is not None
            or self.reserved is not None
            or self._pure
            or cost.selects_nothing
            or self.costs
        ):
            return self
        total = self.proven([cost])
        return self if total is None else self._anew(self._costs, total.meter, self.priors)

    def first(self, count: int) -> "AccountCosts":
        """Return the costs of the first `count` releases, under the present priors."""
        return self._anew(
            self._costs[:count], self.meter, self.priors, [one.restarted() for one in self._running]
        )

    def _anew(
        self,
        costs: Sequence[Cost],
        meter: str | None,
        priors: Sequence[Prior],
        running: list[RunningTotal] | None = None,
    ) -> "AccountCosts":
        account = AccountCosts(
            [self.scenario], self.limit, meter, priors, Opening(self.reserved, self.keys_delta)
        )
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
        if more or fixed:
            return self._least(more, fixed=fixed)
        if self._last is None or self._last[0] != len(self):
            self._last = len(self), self._least((), fixed=False)
        return self._last[1]

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
        costs = [*self._costs, *more]
        selecting, seen = [cost for cost in costs if not cost.selects_nothing], steps_seen_by(costs)
        unseen_rows = any(cost.selects_nothing and cost.steps_seen is None for cost in costs)
        by_belief = [
            UnitReleases(
                self.scenario,
                one.prior,
                selecting,
                seen,
                one.movements,
                more,
                unseen_rows=unseen_rows,
                first_request=next(iter(selecting), None),
            )
            for one in self._running
        ]
        if self.reserved is not None:
            return self._of_reserved(self.reserved, by_belief)
        if self.limit.delta and any(cost.shape.exact_sums is not None for cost in selecting):
            return self._of_designed(by_belief)
        refusal = self._of_key_delta(by_belief)
        totals = [self._by(meter, by_belief, fixed=fixed) for meter in self.meters]
        best = min(range(len(totals)), key=lambda at: totals[at][0].value)
        (chosen, belief), single = totals[best], self._of_one(by_belief)
        chosen = chosen if refusal is None else chosen._replace(value=math.inf)
        if single is not None and single.value < chosen.value:
            chosen = single
        chosen = chosen._replace(value=self.promised(chosen.value, more))
        quick = None if fixed or refusal is not None else self._quickly(more)
        if quick is not None and quick.total < chosen.value:
            return quick
        if math.isinf(chosen.value):
            all_for_keys = (
                bool(self.limit.delta) and self.keys_delta >= self.limit.delta
            )  # and none for sums
            raise (
                refusal
                or self._of_total_variation(more)
                or total_unknown(self.priors, len(costs), self.meter, all_for_keys=all_for_keys)
            )
        meter = None if self._pure or not selecting else self.meters[best]
        return Composed(
            self.kind.at(chosen.value),
            chosen.rule,
            adaptive=chosen.adaptive,
            meter=meter,
            belief=belief,
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
        """Return the ε of releases about one unit: by budgets from the first on, or by one meter that the first chose.

        Budgets may also follow pure losses, whose shares of δ they start from (`exact_budgets`). After other meters
        they may not: a path counted by its meter and one with a designed release could both use all of δ.
        """
        first = replace(releases, costs=releases.costs[:1], movements=None)
        meter = self.meter or min(self.meters, key=lambda one: least(first, self.kind, one).value)
        if all(cost.shape.exact_sums is None for cost in releases.costs):
            return least(releases, self.kind, meter).value
        if first.costs[0].shape.exact_sums is None and meter != "pure":
            raise designed_too_late(meter)
        return epsilon_within(releases, self.limit)

    def _of_total_variation(self, more: Sequence[Cost]) -> Refused | None:
        """Return the refusal of releases whose ε is bounded, but whose total variation exceeds the guarantee."""
        odds, *others = self.kind.example.singles
        if not others:
            return None
        account = AccountCosts(
            [self.scenario], odds, self.meter, self.priors, Opening(keys_delta=self.keys_delta)
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
        self, meter: str, by_belief: Sequence[UnitReleases], *, fixed: bool
    ) -> tuple[RuleTotal, Prior | None]:
        """Return the total by one meter for the worst prior and the worst unit, and this prior."""
        totals = [
            (least(of_unit, self._kind_of_sums, meter, fixed=fixed), of_unit.prior)
            for releases in by_belief
            for of_unit in self._of_units(releases)
        ]
        return max(
            totals, key=lambda one: one[0].value, default=(RuleTotal(0.0, _NOTHING_ASKED), None)
        )

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
            return None if self.meter is None else self.along(more)
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
        totals = list[tuple[RuleTotal, str, Prior]]()
        for meter in self.meters:
            by_belief = list[tuple[RuleTotal, str, Prior]]()
            for one in self._running:
                releases = UnitReleases(
                    self.scenario, one.prior, more, None, one.movements, more, schedule
                )
                by_belief.append(
                    (
                        least(releases, self._kind_of_sums, meter, rules=[TRANSLATION]),
                        meter,
                        one.prior,
                    )
                )
            totals.append(max(by_belief, key=lambda one: one[0].value))
        total, meter, belief = min(totals, key=lambda one: one[0].value)
        if not 0 < total.value < math.inf:
            return None
        guarantee = self.kind.at(self.promised(total.value, more))
        return Composed(guarantee, total.rule, meter=None if self._pure else meter, belief=belief)

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


def differential_privacy(account: AccountCosts) -> Guarantee | None:
    """Return the joint differential privacy of one row's value under all releases; None if unknown.

    It is that of the first row of a sequence if the secret is that row's value. It is unknown for the presence of
    units, for derived secrets, and for queries on another column than the secret's.
    """
    secret, costs = account.scenario.secret, account.costs
    if not isinstance(secret, ValueSecret) or asks_elsewhere(costs, secret.column):
        return None
    if isinstance(secret, Initial):
        costs = [cost for cost in costs if not _begins_later(cost)]
    total = account.under(Independent(), costs).proven()
    return None if total is None else total.guarantee


def group_privacy(account: AccountCosts) -> Guarantee | None:
    """Return the joint guarantee of releases under any dependence of the rows of one group; None if unknown."""
    total = account.under(AnyCorrelation()).proven()
    return None if total is None else total.guarantee


def asks_elsewhere(costs: Sequence[Cost], column: str) -> bool:
    """Return whether a release reads another column than the secret's."""
    return any(cost.shape.column not in {None, column} for cost in costs)


def _begins_later(cost: Cost) -> bool:
    """Return whether a release selects no first row of a sequence, as far as places are known."""
    placed = cost.shape.rows is not None and cost.shape.rows.runs is not None
    return placed and cost.start is not None and cost.window[0] > cost.start
