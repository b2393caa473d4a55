"""What an account has spent over time, and what it will spend if releases go on: plain values for a page (M20–M27).

Why an account's total is what it is, and what its releases keep if a belief is wrong: sentences of plain values.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

from pufferflow.arguments import finite_number
from pufferflow.composition import (
    AccountCosts,
    Composed,
    Cost,
    CouplingRule,
    Every,
    Recurring,
    ScheduledReleases,
    alike,
    asks_elsewhere,
    differential_privacy,
    group_privacy,
    read_every,
    recurring,
)
from pufferflow.errors import Misuse, Refused
from pufferflow.guarantees import Divergence, Guarantee
from pufferflow.ledger.state import Entry
from pufferflow.report import SPENT, at_most, counted, downwards
from pufferflow.report.evidence import Budget, Charge, WhatIf
from pufferflow.scenario import Derived, Initial, Presence, Scenario, ValueSecret, step_in_words
from pufferflow.scenario.priors import (
    AnyCorrelation,
    ChainPrior,
    LatentClass,
    Prior,
    forgotten_after,
    measure_of_memory,
)


def why(spent: AccountCosts, total: Composed) -> str:
    """Say why releases tell so much together, and no more: what they tell of rows that they do not ask about."""
    scenario, belief = spent.scenario, total.belief
    if isinstance(scenario.secret, Presence) and spent.costs:
        return "Every release that reads the rows of a unit tells whether they are there, so all of them add up."
    if belief is None:
        return ""
    whose = f"Most is told to somebody who believes that {belief.describe()}. " if len(spent.priors) > 1 else ""
    return whose + _because(scenario, belief, total.rule)


def if_wrong(spent: AccountCosts) -> tuple[WhatIf, ...]:
    """Return what all releases keep together if rows are independent, and if they hang together in any way."""
    row, group = differential_privacy(spent), group_privacy(spent)
    return (
        WhatIf(_independent(spent.scenario), _told(row, _no_row(spent)), _epsilon(row)),
        WhatIf(
            f"whatever {_group(spent.scenario)} have to do with each other (group privacy)",
            _told(group, _no_group(spent)),
            _epsilon(group),
        ),
    )


def _because(scenario: Scenario, belief: Prior, rule: str) -> str:
    group = _group(scenario)
    if belief.independent_rows:
        return "Rows tell nothing of each other, so only releases about the same row add up."
    if isinstance(belief, AnyCorrelation):
        return f"{_begun(group)} may have anything to do with each other, so what all releases tell of them adds up."
    if isinstance(belief, LatentClass):
        return f"{_begun(group)} share a class, of which every release tells, whichever of these rows it is about."
    chain = isinstance(belief, ChainPrior)
    if rule == CouplingRule.name and not chain:
        return f"All of {group} move together in one way, and every release adds how far that moves it."
    if rule == CouplingRule.name and not _never(belief):
        return (
            "How soon a row is forgotten along the chain is not counted (the noise has no pure loss, or rows are on no "
            f"common clock), so every release adds what it tells if {group} change all at once (group privacy)."
        )
    return _remembered(scenario, belief)


def _never(belief: Prior) -> bool:
    """Say whether a row is never forgotten, so far as that is known."""
    return measure_of_memory(belief) is not None and forgotten_after(belief) is None


def _remembered(scenario: Scenario, belief: Prior) -> str:
    """Say after how many steps a row is forgotten, if it ever is."""
    what = "The value of a row"
    if isinstance(scenario.secret, ValueSecret):
        first = "first " if isinstance(scenario.secret, Initial) else ""
        what = f"A row's {scenario.secret.column!r}" if not first else f"The first {scenario.secret.column!r}"
    if measure_of_memory(belief) is None:
        return f"{what} is told of by releases about rows near it; how soon it is forgotten is not one number."
    steps = forgotten_after(belief)
    if steps is None:  # as along chains that go round, or stay
        return f"{what} is not forgotten along the way, so releases about rows however far apart add up."
    far = counted(steps, "step") + (f" ({step_in_words(steps * scenario.step)})" if scenario.timed else "")
    if isinstance(scenario.secret, Initial):
        return f"{what} is forgotten to 1 % after {far}: releases about rows from there on tell hardly anything of it."
    return f"{what} is forgotten to 1 % after {far}: releases about rows so far apart hardly add up."


def _independent(scenario: Scenario) -> str:
    """Return what ordinary differential privacy is of, in words."""
    secret = scenario.secret
    row = "the first row of a sequence" if isinstance(secret, Initial) else "one row"
    some = isinstance(secret, ValueSecret) and secret.pairs != "all"
    pairs = ", between the values that are hidden from each other" if some else ""
    return f"if rows have nothing to do with each other (differential privacy of {row}{pairs})"


def _no_row(spent: AccountCosts) -> str:
    secret = spent.scenario.secret
    if isinstance(secret, Presence):
        return "nothing is said of a row's value: what is hidden is whether the rows of a unit are there"
    if isinstance(secret, Derived):
        return "nothing is said of a row's value: what is hidden is no column"
    if isinstance(secret, ValueSecret) and asks_elsewhere(spent.costs, secret.column):
        return f"nothing is said of a row's {secret.column!r}: another column was asked about"
    return "not known"


def _no_group(spent: AccountCosts) -> str:
    if isinstance(spent.scenario.secret, Presence):
        return "not known: units are believed to come and go by themselves"
    if all(prior.independent_rows for prior in spent.priors):
        return "not known: rows are believed to be independent, and how many there are in a group was not looked at"
    return "not known"


def _told(guarantee: Guarantee | None, unknown: str) -> str:
    if guarantee is None:
        return unknown
    parts = [f"epsilon {at_most(guarantee.epsilon, SPENT)}"]
    if guarantee.divergence is Divergence.RENYI:
        parts.append(f"at alpha {downwards(guarantee.alpha, SPENT):g}")
    if "delta" in guarantee.__struct_fields__:
        parts.append(f"with delta {at_most(guarantee.delta, SPENT)}")
    return f"all releases together keep {' '.join(parts)}"


def _epsilon(guarantee: Guarantee | None) -> float | None:
    return None if guarantee is None else guarantee.epsilon


def _group(scenario: Scenario) -> str:
    """Return the rows of one group in words."""
    return f"the rows of one {', '.join(scenario.within)}" if scenario.within else "the rows of the whole frame"


def _begun(words: str) -> str:
    return words[:1].upper() + words[1:]


MOST_CHARGES: Final = 500
_SECONDS: Final = 3.0
_MOST_TOTALLED: Final = 600_000
"""So many releases are added up for the totals of a page: all after a year of days, the newest of very many."""
_UNKNOWN: Final = "no forecast: there are no two releases of one kind that show how often they come"
_IRREGULAR: Final = "no forecast: releases of one kind follow each other, and no filter tells how far apart they lie"
_SAME: Final = (
    "the forecast asks the same question again and again: no filter tells the rows of one release from others"
)
_LEAST: Final = 2
_UNITS: Final = (("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000))


@final
class Total(NamedTuple):
    """A total and the rule that carries it; or a number that the total is at most."""

    total: float
    rule: str
    at_most: bool = False


@final
@dataclass(frozen=True)
class Ahead:
    """What further releases will tell: totals after each, the total of all there will ever be, and how many fit."""

    totals: tuple[float, ...] = ()
    endless: float | None = None
    fits: int | None = None
    every: str = ""
    rule: str = ""
    note: str = ""


@final
@dataclass(frozen=True)
class Told:
    """What is spent, and why; None if nobody can tell any more, which `note` explains."""

    spent: float | None
    why: str = ""
    what_if: tuple[WhatIf, ...] = ()
    note: str = ""


def budget_of(  # noqa: PLR0913 - an account, in parts
    name: str,
    dataset: str,
    limit: Guarantee,
    entries: Sequence[Entry],
    *,
    told: Told,
    totals: Mapping[int, Total],
    ahead: Ahead,
) -> Budget:
    """Return what an account tells of itself; a total that nobody can tell any more is at most that of its charge."""
    spent = told.spent
    if spent is None:
        spent = entries[-1].at_most if entries else 0.0
    return Budget(
        account=name,
        dataset=dataset,
        limit=repr(limit),
        limit_epsilon=limit.epsilon,
        spent=spent,
        charges=charges(entries, totals),
        every=ahead.every,
        ahead=ahead.totals,
        endless=ahead.endless,
        fits=ahead.fits,
        rule=ahead.rule,
        note="; ".join(part for part in (told.note, ahead.note) if part),
        releases=len(entries),
        why=told.why,
        what_if=told.what_if,
    )


def charges(entries: Sequence[Entry], totals: Mapping[int, Total]) -> tuple[Charge, ...]:
    """Return some of the entries, or all, as charges with their totals."""
    chosen = ((entries[place], total) for place, total in sorted(totals.items()) if place < len(entries))
    return tuple(
        Charge(one.number, one.release_id, one.state, one.at, repr(one.promise), *total) for one, total in chosen
    )


def over_time(spent: AccountCosts, entries: Sequence[Entry], *, superseded: bool = False) -> dict[int, Total]:
    """Return the total after each release; of very many after some, spread over time, with the first and the last.

    Those of the newest releases are worked out as long as that is soon done, the last one always. Of the others it is
    known that they are at most what was proven when they were charged (by the beliefs of then) and no later total.
    """
    last, kept = len(entries) - 1, min(len(entries), MOST_CHARGES)
    places = sorted({round(place * last / max(kept - 1, 1)) for place in range(kept)}, reverse=True)
    until, left, found = time.monotonic() + _SECONDS, _MOST_TOTALLED, dict[int, Total]()
    least = Total(math.inf, "", at_most=True)
    for place in places:
        left -= place + 1
        soon = left >= 0 and time.monotonic() < until
        told = _least(spent.first(place + 1)) if soon or place == last else None
        charged = Total(entries[place].at_most, entries[place].at_most_rule, at_most=True)
        later = least._replace(at_most=True)
        least = told or (later if superseded else min(charged, later, key=lambda one: one.total))
        found[place] = least
    return found


def told_of(spent: AccountCosts) -> Told:
    """Return what is spent and why, and what is left if beliefs are wrong."""
    try:
        total = spent.total()
    except Refused as refusal:
        return Told(None, note=refusal.problem)
    refusal = f"the belief is refused by now: {spent.scenario.refusal}" if spent.scenario.refusal else ""
    return Told(total.total, why(spent, total), if_wrong(spent), refusal)


def _least(spent: AccountCosts) -> Total | None:
    """Return the least total that is proven; None if none is."""
    try:
        found = spent.total()
    except Refused:
        return None
    return Total(found.total, found.rule)


def read_ahead(given: object) -> int:
    """Return how many releases to look ahead."""
    allowed, instead = "a whole number from 0 to 1000", "ahead=24"
    number = finite_number(given, "ahead", allowed=allowed, instead=instead)
    if not 0 <= number <= 1000 or number != int(number):
        raise Misuse(f"ahead is {number:g}.", allowed=allowed, instead=instead)
    return int(number)


def ahead_of(spent: AccountCosts, cost: Cost | None, every: object, limit: Guarantee, times: int) -> Ahead:
    """Return what a schedule will tell: the one that is named, or the one that the last releases show."""
    try:
        if every is None:
            return _inferred(spent, cost, limit, times)
        gap = read_every(every, spent.scenario)
        return _scheduled(spent, cost or _last(spent), gap, limit, times)
    except (Refused, Misuse) as error:
        return Ahead(note=f"no forecast: {error.problem}")


def _last(spent: AccountCosts) -> Cost:
    if not spent.costs:
        raise Refused("nothing was released yet, and no plan is given")
    return spent.costs[-1]


def _inferred(spent: AccountCosts, cost: Cost | None, limit: Guarantee, times: int) -> Ahead:
    """Return what goes on as the releases did that are of one kind."""
    found = recurring(spent, cost)
    if found is None:
        return Ahead(note=_UNKNOWN if alike(spent, cost) < _LEAST else _IRREGULAR)
    if found.every is None:
        ahead = _again(spent, found.last, times)
    else:
        ahead = _scheduled(spent, found.last, found.every, limit, times)
    return replace(ahead, note="; ".join(part for part in (ahead.note, *_beside(found)) if part))


def _beside(found: Recurring) -> Iterator[str]:
    """Yield what a forecast leaves out."""
    if found.distances is not None and found.every is not None:
        shortest, longest = map(in_words, found.distances)
        yield f"releases lie {shortest} to {longest} apart, and the forecast takes {in_words(found.every)}"
    if found.others:
        yield "the forecast goes on with releases like the last, and releases of other kinds are not in it"


def _again(spent: AccountCosts, cost: Cost, times: int) -> Ahead:
    """Return what the same release tells, made again and again."""
    totals, found = list[float](), None
    for count in range(1, times + 1):
        found = spent.total([cost] * count)
        totals.append(found.total)
    left = spent.remaining(cost)
    fits = None if math.isinf(left) else int(left)
    return Ahead(tuple(totals), None, fits, "", found.rule if found else "", _SAME)


def _scheduled(spent: AccountCosts, cost: Cost, gap: Every, limit: Guarantee, times: int) -> Ahead:
    """Return what a schedule tells after each of its releases, as far as that is worked out soon, and for ever."""
    totals, until, note, rule = list[float](), time.monotonic() + _SECONDS, "", ""
    schedule = ScheduledReleases(spent, cost, gap)
    for count in range(1, times + 1):
        found = schedule.total(count)
        totals.append(found.total)
        rule = found.rule
        if time.monotonic() > until and count < times:
            note = f"totals after more than {count} releases take long to work out"
            break
    endless = schedule.forecast(None, limit)
    return Ahead(
        totals=tuple(totals),
        endless=endless.total if math.isfinite(endless.total) else None,
        fits=None if math.isinf(endless.fits) else int(endless.fits),
        every=in_words(gap),
        rule=endless.rule if math.isfinite(endless.total) else rule,  # an endless total that is ∞ has none
        note="; ".join(part for part in (note, endless.note) if part),
    )


def in_words(gap: Every) -> str:
    """Return a distance as people write it."""
    if gap.ticks is not None:
        for name, size in _UNITS:
            if gap.ticks % size == 0:
                return f"{gap.ticks // size}{name}"
    if not gap.steps:
        return ", ".join(f"{by} of {name!r}" for name, by in gap.columns)
    return "1 step" if gap.steps == 1 else f"{gap.steps} steps"
