"""What several releases tell together: for every belief, the tightest rule that applies (M20, M23–M27).

What all releases keep together if a belief is wrong: ordinary differential privacy of a row, and group privacy.

Both are totals of the same noises under other beliefs. If rows tell nothing of each other, a row's own change is all
that answers tell of it (M27): that is differential privacy, over the pairs of values that the scenario hides. If they
may have anything to do with each other, all rows of a group may change (M7).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.composition.additive import SingleRule, beyond, sets_of
from pufferflow.composition.autoregression import RepeatedRelease
from pufferflow.composition.cost import Cost, Shape, digest_of
from pufferflow.composition.rule import UnitReleases
from pufferflow.composition.rules import RuleTotal, along, least, meters_of
from pufferflow.composition.running_total import RunningTotal
from pufferflow.composition.timeline import window_of
from pufferflow.errors import Refused
from pufferflow.guarantees import Divergence, Guarantee, Kind, Pure
from pufferflow.scenario import Initial, Scenario, ValueSecret
from pufferflow.scenario.priors import AnyCorrelation, Independent, Prior

_MOST_TIMES = 1 << 17
_HAIR = 2e-6
_COUNTED = {
    "pure": ("pure losses", "pf.Laplace"),
    "gaussian": ("standard deviations of Gaussian noise", "pf.Gaussian"),
    "renyi": ("Rényi losses", "pf.Laplace or pf.Gaussian"),
}
NOTHING_ASKED = "no release about any row"


@final
@dataclass(frozen=True)
class Composed:
    """What releases tell together: a promise that holds for all of them, and the rule that carries it.

    `adaptive` says whether later queries may have been chosen after seeing earlier answers; `belief` is the prior under
    which they tell most.

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
        """The ε of the promise."""
        return self.guarantee.epsilon

    def __repr__(self) -> str:
        """Show the promise and what carries it."""
        queries = "later queries may depend on earlier answers" if self.adaptive else "for queries fixed beforehand"
        return f"<Composed {self.guarantee!r} by {self.rule}; {queries}>"


def single_kind(guarantee: Guarantee) -> Kind:
    """Return a promise without its ε; refuse promises of several."""
    if guarantee.kind is None:
        raise Refused(
            f"A total in the kind of {type(guarantee).__name__}: it has no single epsilon.",
            allowed="pf.Pure, pf.Approx, pf.Renyi or pf.ApproxRenyi",
            instead="pf.Renyi(alpha=4, epsilon=1.0), for one order",
        )
    return guarantee.kind


@final
class AccountCosts:
    """The costs of an account, in the order in which they came; totals are worked out when asked for.

    Of promises that are not pure the total is of one `meter` for the whole life of an account, the one that suits its
    first release that asks about a row: which of several proofs holds must not depend on what earlier answers made
    somebody ask. Answers about no row are noise alone, which tells nothing whatever is chosen after it.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        limit: Guarantee,
        meter: str | None = None,
        priors: Sequence[Prior] | None = None,
    ) -> None:
        self.scenario = scenarios[-1]
        every = [prior for scenario in scenarios for prior in scenario.priors]
        self.priors = _distinct(_with_one_row(scenarios[-1], every) if priors is None else priors)
        self.kind, self.limit, self.meter = single_kind(limit), limit, meter
        self._costs = list[Cost]()
        self._envelopes = [RunningTotal(self.scenario, prior) for prior in self.priors]
        self._pure = self.kind.example.divergence is Divergence.LOG_RATIO
        self._promises = list[float]()
        """What single releases promise, each once, in order."""
        self._told: tuple[int, Composed] | None = None
        """The total that was worked out last, and of how many releases it is."""

    @property
    def costs(self) -> tuple[Cost, ...]:
        """All costs so far of releases that asked about some row."""
        return tuple(cost for cost in self._costs if not cost.silent)

    @property
    def steps_seen(self) -> tuple[int, int] | None:
        """The first and the last step of all rows that releases have seen; None if steps are not known."""
        return _steps_seen_by(self._costs)

    def add(self, cost: Cost) -> None:
        """Count one more release."""
        if not self._costs or self._costs[-1].shape is not cost.shape:
            epsilon = self._epsilon(cost.shape)
            place = bisect_left(self._promises, epsilon)
            if self._promises[place : place + 1] != [epsilon]:
                self._promises.insert(place, epsilon)
        self._costs.append(cost)
        for envelope in self._envelopes:
            envelope.add(cost)

    def under(self, prior: Prior, costs: Sequence[Cost] | None = None) -> "AccountCosts":
        """Return the same releases, or some others, as somebody sees them who has one belief only."""
        found = AccountCosts([self.scenario], self.limit, self.meter, [prior])
        for cost in self._costs if costs is None else costs:
            found.add(cost)
        return found

    def begun(self, cost: Cost) -> "AccountCosts":
        """Return the same, counted as an account counts once a release with this cost was its first."""
        if self.meter is not None or self._pure or cost.silent or self.costs:
            return self
        try:
            found = AccountCosts([self.scenario], self.limit, self.total([cost]).meter, self.priors)
        except Refused:
            return self
        for known in self._costs:
            found.add(known)
        return found

    def first(self, count: int) -> "AccountCosts":
        """Return what was spent when there were so many releases, by the beliefs of today."""
        found = AccountCosts([self.scenario], self.limit, self.meter, self.priors)
        found._envelopes = [envelope.anew() for envelope in self._envelopes]
        for cost in self._costs[:count]:
            found.add(cost)
        return found

    def __len__(self) -> int:
        """Return how many releases there are."""
        return len(self._costs)

    def total(self, more: Sequence[Cost] = (), *, enough: float | None = None, fixed: bool = False) -> Composed:
        """Return what all releases tell together, with `more` of them if that is asked.

        Any proof that it is at most `enough` will do; then the total may be less than what is returned. Without it
        there is one total, whatever the limit is.
        """
        if enough is not None and (quick := self._quickly(more)) is not None and quick.total <= enough:
            return quick
        if more or fixed:
            return self._least(more, fixed=fixed)
        if self._told is None or self._told[0] != len(self):
            self._told = len(self), self._least((), fixed=False)
        return self._told[1]

    def _least(self, more: Sequence[Cost], *, fixed: bool) -> Composed:
        """Return the least total that is proven; the quick one is seldom it, but what said yes is a proof still."""
        costs = [*self._costs, *more]
        meters = [self.meter] if self.meter is not None else meters_of(self.kind)
        found = [self._by(meter, costs, more, fixed=fixed) for meter in meters]
        best = min(range(len(found)), key=lambda at: found[at][0].value)
        (chosen, belief), single = found[best], self._of_one(costs)
        if single is not None and single.value < chosen.value:
            chosen = single
        chosen = chosen._replace(value=self.promised(chosen.value, more))
        quick = None if fixed else self._quickly(more)
        if quick is not None and quick.total < chosen.value:
            return quick
        if math.isinf(chosen.value):
            raise not_known(self.priors, costs, self.meter)
        meter = None if self._pure or all(cost.silent for cost in costs) else meters[best]
        return Composed(self.kind.at(chosen.value), chosen.rule, adaptive=chosen.adaptive, meter=meter, belief=belief)

    def remaining(self, cost: Cost) -> int | float:
        """Return how many more times a release with this cost fits into the limit; ∞ if it costs nothing."""
        begun = self.begun(cost)
        if begun is not self:
            return begun.remaining(cost)
        sure = most(lambda times: self._surely_fits([cost] * times), _MOST_TIMES)
        if math.isinf(sure) or not self._fits([cost] * (int(sure) + 1)):
            return sure
        return most(lambda times: self._fits([cost] * times), _MOST_TIMES)

    @property
    def _allowed(self) -> float:
        return self.limit.epsilon

    def _surely_fits(self, more: Sequence[Cost]) -> bool:
        """Say whether the quick total is enough to say yes."""
        quick = self._quickly(more)
        return quick is not None and quick.total <= self._allowed

    def _fits(self, more: Sequence[Cost]) -> bool:
        try:
            return self.total(more, enough=self._allowed).total <= self._allowed
        except Refused:
            return False

    def _by(
        self, meter: str, costs: Sequence[Cost], more: Sequence[Cost], *, fixed: bool
    ) -> tuple[RuleTotal, Prior | None]:
        """Return the total by one meter, that of the worst belief and the worst unit, and this belief."""
        steps_seen, found = _steps_seen_by(costs), list[tuple[RuleTotal, Prior]]()
        left_out = _left_out(costs)
        for prior, envelope in zip(self.priors, self._envelopes, strict=True):
            sets = [some for some in sets_of(self.scenario, prior, costs) if some]
            whole = [len(some) for some in sets] == [sum(not cost.silent for cost in costs)]
            movements = envelope.movements if whole else None  # they are those of all releases
            for some in sets:
                asked = UnitReleases(self.scenario, prior, some, steps_seen, movements, more, left_out=left_out)
                found.append((least(asked, self.kind, meter, fixed=fixed), prior))
        return max(found, key=lambda one: one[0].value, default=(RuleTotal(0.0, NOTHING_ASKED), None))

    def _of_one(self, costs: Sequence[Cost]) -> RuleTotal | None:
        """Return the promise of a single release that asks about rows, if it was made for all beliefs."""
        some = [cost for cost in costs if not cost.silent]
        if len(some) != 1:
            return None
        (cost,), steps_seen, left_out = some, _steps_seen_by(costs), _left_out(costs)
        if any(
            beyond(UnitReleases(self.scenario, prior, some, steps_seen, left_out=left_out)) for prior in self.priors
        ):
            return None
        if not all(digest_of(prior) in cost.shape.priors for prior in self.priors):
            return None
        return RuleTotal(self.kind.epsilon_from(cost.shape.promise), SingleRule.name)

    def _quickly(self, more: Sequence[Cost]) -> Composed | None:
        """Return a total that is found without going through all releases, if there is one."""
        if not self._pure:
            return None if self.meter is None else self.along(more)
        found = [(*envelope.total_with(more), envelope.prior) for envelope in self._envelopes]
        total, rule, belief = max(found, key=lambda one: one[0])
        if math.isinf(total):
            return None
        return Composed(Pure(self.promised(total, more)), rule, belief=belief)

    def along(
        self, more: Sequence[Cost] = (), schedule: RepeatedRelease | None = None, prior: Prior | None = None
    ) -> Composed | None:
        """Return a total of movements along one sequence, that of the worst belief or of one; None if there is none.

        It takes no longer the more releases there were, and a schedule may go on for ever.
        """
        envelopes = [one for one in self._envelopes if prior is None or one.prior is prior]
        if any(one.movements is None for one in envelopes):
            return None
        everything = [
            UnitReleases(self.scenario, one.prior, more, None, one.movements, more, schedule) for one in envelopes
        ]
        meters = [self.meter] if self.meter is not None else meters_of(self.kind)
        found = [
            max(
                ((along(asked, self.kind, meter), meter, asked.prior) for asked in everything),
                key=lambda one: one[0].value,
            )
            for meter in meters
        ]
        least, meter, belief = min(found, key=lambda one: one[0].value)
        if not 0 < least.value < math.inf:
            return None
        guarantee = self.kind.at(self.promised(least.value, more))
        return Composed(guarantee, least.rule, meter=None if self._pure else meter, belief=belief)

    def promised(self, total: float, more: Sequence[Cost]) -> float:
        """Return the total; the promise of a release if calibration ended a hair below it.

        So a release that is the only one is told to cost what it promises, and one that adds nothing to cost nothing.
        """
        place = bisect_left(self._promises, total)
        shapes = {id(cost.shape): cost.shape for cost in more}.values()
        known = [*self._promises[place : place + 1], *map(self._epsilon, shapes)]
        return min((one for one in known if total <= one <= total * (1 + _HAIR)), default=total)

    def _epsilon(self, shape: Shape) -> float:
        """Return the ε that a release promises; ∞ if its promise is of another kind than the totals."""
        return shape.promise.epsilon if self._pure and isinstance(shape.promise, Pure) else math.inf


def _left_out(costs: Sequence[Cost]) -> bool:
    """Say whether a release that asked about no row may have been shown rows that no other one saw."""
    return any(cost.silent and cost.steps_seen is None for cost in costs)


def _steps_seen_by(costs: Sequence[Cost]) -> tuple[int, int] | None:
    """Return the first and the last step of all rows that releases have seen.

    Steps of different clocks are less than one step apart: then a row may be a step before and behind those counted.
    """
    known = [cost for cost in costs if cost.steps_seen is not None]
    if not known:
        return None
    hulls = {cost.steps_seen for cost in known if cost.steps_seen is not None}
    first, last = min(first for first, _ in hulls), max(last for _, last in hulls)
    if len({cost.clock for cost in known}) == 1:
        return first, last
    starts = [math.floor(cost.start) for cost in known if cost.start is not None]
    return max(first - 1, min([first, *starts])) if starts else first - 1, last + 1


def most(fits: Callable[[int], bool], largest: int) -> int | float:
    """Return the largest number of times that fits, where fewer always do; ∞ if `largest` does.

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


def not_known(priors: Sequence[Prior], costs: Sequence[Cost], meter: str | None = None) -> Refused:
    """Return the refusal of a total that no rule bounds, saying what to declare, or which noise is counted."""
    believed = ", ".join(dict.fromkeys(f"pf.{type(prior).__name__}" for prior in priors))
    problem = f"What {len(costs)} releases tell together under {believed}: no rule of composition bounds it"
    if meter is not None:
        counted, noise = _COUNTED[meter]
        problem += f" by {counted}, by which an account counts that its first release began so"
        instead = f"noise={noise} in every plan for this account, or another account for other noise"
    else:
        problem += ", and the losses of single ones do not add"
        instead = "asking everything in one batch; or pf.AnyCorrelation() as the prior from the first release on"
    return Refused(
        f"{problem}.",
        allowed="answers with noise, about rows whose movements are known under one coupling, or rows of one chain",
        instead=instead,
    )


def _with_one_row(scenario: Scenario, priors: Sequence[Prior]) -> list[Prior]:
    """Return the beliefs whose totals count; that rows are independent, too, where another hides a value from nobody.

    At positions where a prior holds a value to be impossible no answer tells it anything. Noise is made for one row
    alone there, and so the limit of an account is one of what releases tell of one row.
    """
    hidden_from_nobody = any(prior.sometimes_impossible(scenario.secret) for prior in priors)
    return [*priors, *([Independent()] if hidden_from_nobody else [])]


def _distinct(priors: Sequence[Prior]) -> list[Prior]:
    return list({digest_of(prior): prior for prior in priors}.values())


def differential_privacy(spent: AccountCosts) -> Guarantee | None:
    """Return what releases keep together as differential privacy of one row's value; None where that is not known.

    It is that of the first row of a sequence where that is the secret. Nothing is said of the presence of units, of
    secrets that are derived, nor where another column than the secret's was asked about.
    """
    secret = spent.scenario.secret
    if not isinstance(secret, ValueSecret) or asks_elsewhere(spent.costs, secret.column):
        return None
    costs = spent.costs
    if isinstance(secret, Initial):
        costs = tuple(cost for cost in costs if not _begins_later(cost))
    return _total(spent.under(Independent(), costs))


def group_privacy(spent: AccountCosts) -> Guarantee | None:
    """Return what releases keep together whatever the rows of one group have to do with each other; None if unknown."""
    return _total(spent.under(AnyCorrelation()))


def _total(spent: AccountCosts) -> Guarantee | None:
    try:
        return spent.total().guarantee
    except Refused:
        return None


def asks_elsewhere(costs: Sequence[Cost], column: str) -> bool:
    """Say whether a release asked about another column."""
    return any(cost.shape.column not in {None, column} for cost in costs)


def _begins_later(cost: Cost) -> bool:
    """Say whether a release asks about no row at the beginning of its sequence, as far as places are known."""
    known = cost.start is not None and cost.shape.rows is not None and cost.shape.rows.runs is not None
    return known and cost.start is not None and window_of(cost)[0] > cost.start
