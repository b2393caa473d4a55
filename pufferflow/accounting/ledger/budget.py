"""An account's budget as plain values for a report: the spending, its cause, and a forecast.

The values are totals of the past and of a schedule (M20–M27). Sentences explain the cause of a total, and the joint
guarantee of the releases if a prior is wrong.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

from pufferflow.accounting.account_costs import AccountCosts, Composed
from pufferflow.accounting.forecast import Every, ScheduledReleases, alike, read_every, recurring
from pufferflow.accounting.ledger.reader import Entry
from pufferflow.accounting.ledger.state import AccountState
from pufferflow.accounting.methods import methods_in_words
from pufferflow.accounting.row_and_group_privacy import (
    asks_elsewhere,
    differential_privacy,
    group_privacy,
)
from pufferflow.accounting.rules.additive import CouplingRule
from pufferflow.accounting.rules.windows import WindowsRule
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import finite_number
from pufferflow.models.population import Population
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.latent_class import LatentClass, LatentClassesNear
from pufferflow.models.priors.markov import SequencePrior
from pufferflow.models.priors.memory import forgotten_after, measure_of_memory
from pufferflow.models.priors.population import IndependentGiven
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial, Presence, ValueSecret
from pufferflow.models.time_steps import step_in_words
from pufferflow.privacy.guarantee import Divergence, Guarantee
from pufferflow.published.cost import Cost
from pufferflow.reports.evidence import Budget, Charge, WhatIf
from pufferflow.reports.numbers import SPENT, at_most, counted, downwards

MOST_CHARGES: Final = 500
_SECONDS: Final = 3.0
_MOST_TOTALLED: Final = 600_000
"""The number of releases with totals in a report: all after a year of days, the newest of very many."""
_UNKNOWN: Final = "no forecast: no two releases of one kind show how often they come"
_IRREGULAR: Final = "no forecast: no filter shows how far apart the releases of one kind are"
_SAME: Final = "the forecast repeats the same query: no filter separates the rows of one release from those of others"
_LEAST: Final = 2
_WINDOWS: Final = (
    "Each window counts by the law of its whole sum, which may reveal less about a row than its terms do. "
    "What windows reveal about rows of others travels along the chain."
)
_UNITS: Final = (
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
)


@final
class ChargedTotal(NamedTuple):
    """A total and the rule that proves it; or an upper bound of the total."""

    total: float
    rule: str
    at_most: bool = False


@final
@dataclass(frozen=True)
class Spending:
    """The spending, and its cause; None if no rule totals it any more, which `note` explains."""

    spent: float | None
    why: str = ""
    what_if: tuple[WhatIf, ...] = ()
    note: str = ""


@final
@dataclass(frozen=True)
class Outlook:
    """Further releases: the totals after each, the total of an endless schedule, and how many the limit allows."""

    totals: tuple[float, ...] = ()
    endless: float | None = None
    fits: int | None = None
    every: str = ""
    rule: str = ""
    note: str = ""


def budget_of(
    account: AccountState,
    entries: Sequence[Entry],
    spending: Spending,
    totals: Mapping[int, ChargedTotal],
    outlook: Outlook,
) -> Budget:
    """Return an account as one value; a total that no rule bounds any more is at most that of its charge."""
    spent = spending.spent
    if spent is None:
        spent = entries[-1].at_most if entries else 0.0
    return Budget(
        account=account.name,
        dataset=account.dataset,
        limit=repr(account.limit),
        limit_epsilon=account.limit.loss,
        spent=spent,
        charges=charges(entries, totals),
        every=outlook.every,
        ahead=outlook.totals,
        endless=outlook.endless,
        fits=outlook.fits,
        rule=outlook.rule,
        note="; ".join(filter(None, (spending.note, outlook.note))),
        releases=len(entries),
        why=spending.why,
        what_if=spending.what_if,
    )


def charges(entries: Sequence[Entry], totals: Mapping[int, ChargedTotal]) -> tuple[Charge, ...]:
    """Return the entries whose totals are given, by their places, as charges."""
    chosen = (
        (entries[place], total) for place, total in sorted(totals.items()) if place < len(entries)
    )
    return tuple(
        Charge(entry.number, entry.release_id, entry.state, entry.at, repr(entry.promise), *total)
        for entry, total in chosen
    )


def over_time(
    spent: AccountCosts, entries: Sequence[Entry], *, superseded: bool = False
) -> dict[int, ChargedTotal]:
    """Return the total after each release; for very many after some, spread over time, with the first and the last.

    Those of the newest releases are computed as long as that is quick, the last one always. The others are at most what
    was proven when they were charged (by the priors of that time), and at most every later total.
    """
    last, places = len(entries) - 1, places_among(len(entries), MOST_CHARGES)[::-1]
    until, left, totals = time.monotonic() + _SECONDS, _MOST_TOTALLED, dict[int, ChargedTotal]()
    later = ChargedTotal(math.inf, "", at_most=True)
    for place in places:
        left -= place + 1
        proven = None
        if place == last or (left >= 0 and time.monotonic() < until):
            total = spent.first(place + 1).proven()
            proven = None if total is None else ChargedTotal(total.total, total.rule)
        if proven is None:
            charged = ChargedTotal(
                entries[place].at_most, entries[place].at_most_rule, at_most=True
            )
            proven = later if superseded or later.total < charged.total else charged
        totals[place] = proven
        later = proven._replace(at_most=True)
    return totals


def places_among(count: int, most: int) -> list[int]:
    """Return the places of `count` things; of more than `most` some at even distances, with the first and the last.

    >>> places_among(3, 500), places_among(1000, 3)
    ([0, 1, 2], [0, 500, 999])
    """
    chosen = min(count, most)
    return sorted({round(place * (count - 1) / max(chosen - 1, 1)) for place in range(chosen)})


def spending_of(spent: AccountCosts) -> Spending:
    """Return the spending and its cause, and the guarantee that holds if priors are wrong."""
    try:
        composed = spent.total()
    except Refused as refusal:
        return Spending(None, note=refusal.problem)
    refusal = (
        f"this version refuses the prior: {spent.scenario.refusal}"
        if spent.scenario.refusal
        else ""
    )
    counted = "" if spent.methods is None else methods_in_words(spent.methods, composed.method)
    why = " ".join(filter(None, (_why(spent, composed), counted)))
    return Spending(composed.total, why, _if_wrong(spent), refusal)


def _why(spent: AccountCosts, total: Composed) -> str:
    """Explain the size of a total by what releases reveal about rows that they do not select."""
    scenario, belief = spent.scenario, total.belief
    if spent.reserved is not None:
        many = spent.reserved.releases
        return f"The account reserved {counted(many, 'release')} beforehand; all count together from the first one on."
    if isinstance(scenario.secret, Presence) and spent.costs:
        if scenario.secret.once and scenario.secret.groups is None:
            return (
                f"The rows of a unit were chosen once, {scenario.secret.rows} at most. So releases with Laplace or "
                "Gaussian noise add up only if they may be about the same row."
            )
        return "Every release that reads the rows of a unit reveals whether they are there, so all of them add up."
    if belief is None:
        return ""
    whose = (
        f"The largest total is under the prior that {belief.describe()}. "
        if len(spent.priors) > 1
        else ""
    )
    return whose + _because(scenario, belief, total.rule)


def _because(scenario: Scenario, belief: Prior, rule: str) -> str:
    group = _group(scenario)
    begun = group[:1].upper() + group[1:]
    if belief.independent_rows:
        return "Rows reveal nothing about each other, so only releases about the same row add up."
    if belief.any_correlation:
        return f"{begun} may depend on each other in any way, so what all releases reveal about them adds up."
    if isinstance(belief, IndependentGiven | LatentClass | LatentClassesNear | GaussianMixture):
        share = (
            "are drawn from one law" if isinstance(belief, IndependentGiven) else "share a class"
        )
        return f"{begun} {share}, and a release about any of them reveals something about it."
    if rule == CouplingRule.name and not isinstance(belief, SequencePrior):
        return f"All of {group} move together in one way. Every release adds how far its answer moves with them."
    never_forgotten = (
        rule == CouplingRule.name
        and measure_of_memory(belief) is not None
        and forgotten_after(belief) is None
    )
    if rule == CouplingRule.name and not never_forgotten:
        return (
            "Forgetting along the chain is not counted, as the noise has no pure loss or rows have no common clock. "
            f"So every release adds what it reveals if {group} change all at once (group privacy)."
        )
    return _WINDOWS if rule == WindowsRule.name else _remembered(scenario, belief)


def _remembered(scenario: Scenario, belief: Prior) -> str:
    """Say after how many steps a row is forgotten, if it ever is."""
    initial, what = isinstance(scenario.secret, Initial), "The value of a row"
    if isinstance(scenario.secret, ValueSecret):
        what = (
            f"The first {scenario.secret.column!r}"
            if initial
            else f"A row's {scenario.secret.column!r}"
        )
    if measure_of_memory(belief) is None:
        return f"{what} is partly revealed by releases about rows near it; how soon that ends is not one number."
    steps = forgotten_after(belief)
    if steps is None:  # as along chains that go round, or stay
        return f"{what} is never forgotten, so releases add up however far apart their rows are."
    far = counted(steps, "step") + (
        f" ({step_in_words(steps * scenario.step)})" if scenario.timed else ""
    )
    if initial:
        return f"{what} is forgotten to 1 % after {far}: releases about rows from there on reveal hardly anything."
    return (
        f"{what} is forgotten to 1 % after {far}: releases about rows so far apart hardly add up."
    )


def _group(scenario: Scenario) -> str:
    return (
        f"the rows of one {scenario.group_in_words}"
        if scenario.within
        else "the rows of the whole frame"
    )


def _if_wrong(spent: AccountCosts) -> tuple[WhatIf, ...]:
    """Return the joint guarantee of all releases if rows are independent, and if they are correlated in any way."""
    scenario, secret = spent.scenario, spent.scenario.secret
    row = "the first row of a sequence" if isinstance(secret, Initial) else "one row"
    some_pairs = isinstance(secret, ValueSecret) and secret.pairs != "all"
    pairs = ", between the values that are hidden from each other" if some_pairs else ""
    no_row = no_group = "not known"
    if isinstance(secret, Presence):
        no_row = (
            "nothing is said about a row's value: the secret is whether the rows of a unit exist"
        )
        no_group = "not known: under the prior units exist independently of each other"
    elif all(prior.independent_rows for prior in spent.priors):
        no_group = "not known: under the prior rows are independent, and the sizes of groups were not computed"
    if isinstance(secret, Population):
        no_row = "nothing is said about a row's value: the secret is the law of all rows"
    elif isinstance(secret, Derived):
        no_row = "nothing is said about a row's value: the secret is not a column"
    elif isinstance(secret, ValueSecret) and asks_elsewhere(spent.costs, secret.column):
        no_row = f"nothing is said about a row's {secret.column!r}: a query was on another column"
    return (
        _what_if(
            f"if rows are independent of each other (differential privacy of {row}{pairs})",
            differential_privacy(spent),
            no_row,
        ),
        _what_if(
            f"if {_group(scenario)} depend on each other in any way (group privacy)",
            group_privacy(spent),
            no_group,
        ),
    )


def _what_if(wrong: str, guarantee: Guarantee | None, unknown: str) -> WhatIf:
    if guarantee is None:
        return WhatIf(wrong, unknown, None)
    parts = [f"{guarantee.measure} {at_most(guarantee.loss, SPENT)}"]
    if guarantee.divergence is Divergence.RENYI:
        parts.append(f"at alpha {downwards(guarantee.alpha, SPENT):g}")
    if "delta" in guarantee.__struct_fields__:
        parts.append(f"with delta {at_most(guarantee.delta, SPENT)}")
    if "tv" in guarantee.numbers():
        parts.append(f"and tv {at_most(guarantee.numbers()['tv'], SPENT)}")
    return WhatIf(
        wrong, f"all releases together keep {' '.join(parts)}", guarantee.loss, guarantee.measure
    )


def read_ahead(given: object) -> int:
    """Return how many releases to forecast."""
    return int(
        finite_number(
            given,
            "ahead",
            allowed="a whole number from 0 to 1000",
            instead="ahead=24",
            fits=lambda number: 0 <= number <= 1000 and number == int(number),
        )
    )


def outlook_of(
    spent: AccountCosts, cost: Cost | None, every: object, limit: Guarantee, times: int
) -> Outlook:
    """Return the future spending of a schedule: the named one, or that of the last releases."""
    try:
        if every is None:
            return _of_recurring_releases(spent, cost, limit, times)
        gap = read_every(every, spent.scenario)
        if cost is None and not spent.costs:
            return Outlook(note="no forecast: nothing was released yet, and no plan is given")
        return _of_schedule(spent, cost or spent.costs[-1], gap, limit, times)
    except (Refused, UsageError) as error:
        return Outlook(note=f"no forecast: {error.problem}")


def _of_recurring_releases(
    spent: AccountCosts, cost: Cost | None, limit: Guarantee, times: int
) -> Outlook:
    """Return the future spending of releases of one kind at their distance so far; `note` names omissions."""
    pattern = recurring(spent, cost)
    if pattern is None:
        return Outlook(note=_UNKNOWN if alike(spent, cost) < _LEAST else _IRREGULAR)
    if pattern.every is None:
        outlook = _of_same_rows(spent, pattern.last, times)
    else:
        outlook = _of_schedule(spent, pattern.last, pattern.every, limit, times)
    notes = [outlook.note]
    if pattern.distances is not None and pattern.every is not None:
        shortest, longest = map(in_words, pattern.distances)
        notes.append(
            f"releases lie {shortest} to {longest} apart, and the forecast takes {in_words(pattern.every)}"
        )
    if pattern.others:
        notes.append(
            "the forecast continues with releases like the last, without those of other kinds"
        )
    return replace(outlook, note="; ".join(filter(None, notes)))


def _of_same_rows(spent: AccountCosts, cost: Cost, times: int) -> Outlook:
    """Return the future spending of one release, repeated."""
    totals = [spent.total([cost] * count) for count in range(1, times + 1)]
    left = spent.remaining(cost)
    return Outlook(
        totals=tuple(composed.total for composed in totals),
        fits=None if math.isinf(left) else int(left),
        rule=totals[-1].rule if totals else "",
        note=_SAME,
    )


def _of_schedule(
    spent: AccountCosts, cost: Cost, gap: Every, limit: Guarantee, times: int
) -> Outlook:
    """Return the spending after each release of a schedule, as far as that is quick to compute, and without end."""
    totals, until, note, rule = list[float](), time.monotonic() + _SECONDS, "", ""
    schedule = ScheduledReleases(spent, cost, gap)
    for count in range(1, times + 1):
        after = schedule.total(count)
        totals.append(after.total)
        rule = after.rule
        if time.monotonic() > until and count < times:
            note = f"totals after more than {count} releases take long to work out"
            break
    endless = schedule.forecast(None, limit)
    return Outlook(
        totals=tuple(totals),
        endless=endless.total if math.isfinite(endless.total) else None,
        fits=None if math.isinf(endless.fits) else int(endless.fits),
        every=in_words(gap),
        rule=endless.rule
        if math.isfinite(endless.total)
        else rule,  # an endless total that is ∞ has none
        note="; ".join(filter(None, (note, endless.note))),
    )


def in_words(gap: Every) -> str:
    """Return a distance in words."""
    if gap.ticks is not None:
        for name, size in _UNITS:
            if gap.ticks % size == 0:
                return f"{gap.ticks // size}{name}"
    if not gap.steps:
        return ", ".join(f"{by} of {name!r}" for name, by in gap.columns)
    return "1 step" if gap.steps == 1 else f"{gap.steps} steps"
