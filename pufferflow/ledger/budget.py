"""What an account has spent over time, and what it will spend if releases go on: plain values for a page (M20–M27)."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from pufferflow.composition import Cost, Spent, forecast
from pufferflow.composition.regions import Region
from pufferflow.composition.schedule import Every, later, read_every
from pufferflow.errors import Misuse, Refused
from pufferflow.guarantees import Guarantee
from pufferflow.ledger.entry import Entry
from pufferflow.reading import finite_number
from pufferflow.report.evidence import Budget, Charge

MOST_CHARGES: Final = 500
_SECONDS: Final = 3.0
_UNKNOWN: Final = "no forecast: there are no two releases of one kind that show how often they come"
_SAME: Final = "the forecast asks the same question of the same rows again and again"
_UNITS: Final = (("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000))


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


def budget_of(  # noqa: PLR0913 - an account, in parts
    name: str,
    dataset: str,
    limit: Guarantee,
    entries: Sequence[Entry],
    *,
    told: tuple[float | None, str],
    totals: Mapping[int, float],
    ahead: Ahead,
) -> Budget:
    """Return what an account tells of itself; a total that nobody can tell any more is that of the last entry."""
    spent, note = told
    if spent is None:
        spent = entries[-1].total if entries else 0.0
    return Budget(
        account=name,
        dataset=dataset,
        limit=repr(limit),
        limit_epsilon=float(getattr(limit, "epsilon", 0.0)),
        spent=spent,
        charges=charges(entries, totals),
        every=ahead.every,
        ahead=ahead.totals,
        endless=ahead.endless,
        fits=ahead.fits,
        rule=ahead.rule,
        note="; ".join(part for part in (note, ahead.note) if part),
        releases=len(entries),
    )


def charges(entries: Sequence[Entry], totals: Mapping[int, float]) -> tuple[Charge, ...]:
    """Return some of the entries, or all, as charges with their totals."""
    chosen = ((entries[place], total) for place, total in sorted(totals.items()) if place < len(entries))
    return tuple(
        Charge(one.number, one.release_id, one.state, one.at, repr(one.promise), total, one.rule)
        for one, total in chosen
    )


def over_time(spent: Spent, entries: Sequence[Entry]) -> dict[int, float]:
    """Return the total after each release; of very many after some, spread over time, with the first and the last.

    Entries keep a total that was quickly known, which may be too large. Those of the newest releases are worked out
    again as long as that is soon done; and no total is above a later one.
    """
    last, kept = len(entries) - 1, min(len(entries), MOST_CHARGES)
    places = sorted({round(place * last / max(kept - 1, 1)) for place in range(kept)}, reverse=True)
    until, least, found = time.monotonic() + _SECONDS, math.inf, dict[int, float]()
    for place in places:
        told = total_of(spent.first(place + 1))[0] if time.monotonic() < until else None
        least = min(least, entries[place].total if told is None else told)
        found[place] = least
    return found


def total_of(spent: Spent) -> tuple[float | None, str]:
    """Return what is spent, or None and why that cannot be told."""
    try:
        return spent.total().total, ""
    except Refused as refusal:
        return None, refusal.problem


def read_ahead(given: object) -> int:
    """Return how many releases to look ahead."""
    allowed, instead = "a whole number from 0 to 1000", "ahead=24"
    number = finite_number(given, "ahead", allowed=allowed, instead=instead)
    if not 0 <= number <= 1000 or number != int(number):
        raise Misuse(f"ahead is {number:g}.", allowed=allowed, instead=instead)
    return int(number)


def ahead_of(spent: Spent, cost: Cost | None, every: object, limit: Guarantee, times: int) -> Ahead:
    """Return what a schedule will tell: the one that is named, or the one that the last releases show."""
    try:
        if every is None:
            return _inferred(spent, cost, limit, times)
        gap = read_every(every, spent.scenario)
        return _scheduled(spent, cost or _last(spent), gap, limit, times)
    except (Refused, Misuse) as error:
        return Ahead(note=f"no forecast: {error.problem}")


def _last(spent: Spent) -> Cost:
    if not spent.costs:
        raise Refused("nothing was released yet, and no plan is given")
    return spent.costs[-1]


def _inferred(spent: Spent, cost: Cost | None, limit: Guarantee, times: int) -> Ahead:
    """Return what goes on as the last two releases of one kind did."""
    alike = [one for one in spent.costs if cost is None or one.shape.digest == cost.shape.digest]
    before = [one for one in alike[:-1] if one.shape.digest == alike[-1].shape.digest]
    if not before:
        return Ahead(note=_UNKNOWN)
    first, second = before[-1], alike[-1]
    if (first.shift, first.apart) == (second.shift, second.apart):
        return _again(spent, second, times)
    gap = gap_between(first, second, spent)
    return Ahead(note=_UNKNOWN) if gap is None else _scheduled(spent, second, gap, limit, times)


def gap_between(first: Cost, second: Cost, spent: Spent) -> Every | None:
    """Return how much later the second release is than the first, if it is the same but for that; None if not."""
    scenario = spent.scenario
    steps = second.shift - first.shift
    if steps == 0 and scenario.timed:
        ticks = [
            _moved(first.apart[column], region) for column, region in second.apart.items() if column in first.apart
        ]
        steps = max(ticks, default=0) // scenario.step
    if steps <= 0:
        return None
    gap = Every(steps, steps * scenario.step if scenario.timed else None)
    return gap if later(first, gap, 1, scenario).apart == second.apart else None


def _moved(first: Region, second: Region) -> int:
    """Return how far a region has moved; 0 if it is not seen to."""
    ends: list[tuple[Any, Any]] = [(first.low, second.low), (first.high, second.high)]
    ends += zip(first.labels or (), second.labels or (), strict=False)
    return next((b - a for a, b in ends if isinstance(a, int) and isinstance(b, int)), 0)


def _again(spent: Spent, cost: Cost, times: int) -> Ahead:
    """Return what the same release tells, made again and again."""
    totals, found = list[float](), None
    for count in range(1, times + 1):
        found = spent.total([cost] * count)
        totals.append(found.total)
    left = spent.remaining(cost)
    fits = None if math.isinf(left) else int(left)
    return Ahead(tuple(totals), None, fits, "", found.rule if found else "", _SAME)


def _scheduled(spent: Spent, cost: Cost, gap: Every, limit: Guarantee, times: int) -> Ahead:
    """Return what a schedule tells after each of its releases, as far as that is worked out soon, and for ever."""
    totals, until, note, rule = list[float](), time.monotonic() + _SECONDS, "", ""
    for count in range(1, times + 1):
        found = forecast(spent, cost, every=gap.steps, until=count * gap.steps, limit=limit)
        totals.append(found.total)
        rule = found.rule
        if time.monotonic() > until and count < times:
            note = f"totals after more than {count} releases take long to work out"
            break
    endless = forecast(spent, cost, every=gap.steps, limit=limit)
    return Ahead(
        totals=tuple(totals),
        endless=endless.total if math.isfinite(endless.total) else None,
        fits=None if math.isinf(endless.fits) else int(endless.fits),
        every=_in_words(gap),
        rule=endless.rule if math.isfinite(endless.total) else rule,  # an endless total that is ∞ has none
        note="; ".join(part for part in (note, endless.note) if part),
    )


def _in_words(gap: Every) -> str:
    """Return a distance as people write it."""
    if gap.ticks is not None:
        for name, size in _UNITS:
            if gap.ticks % size == 0:
                return f"{gap.ticks // size}{name}"
    return "1 step" if gap.steps == 1 else f"{gap.steps} steps"
