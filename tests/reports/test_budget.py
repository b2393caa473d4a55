"""What an account reveals about its budget is what it has charged, and what its own forecast says."""

import math
from types import SimpleNamespace

import ledgers
import msgspec
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.ledger import budget
from pufferflow.accounting.ledger.budget import MOST_CHARGES, charges, over_time
from pufferflow.accounting.ledger.reader import Entry
from pufferflow.reports import sections as spending

CHAIN = pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
ON = pf.Secret("on", domain=[0, 1])
HOURS = 24 * 3
LIMITS = {
    "pure": (pf.Pure(2.0), pf.Pure(0.5)),
    "approximate": (pf.Approx(2.0, 1e-5), pf.Approx(0.5, 1e-7)),
    "renyi": (pf.Renyi(4, 2.0), pf.Renyi(4, 0.3)),
}


def hours(prior=CHAIN, **options):
    scenario = pf.Scenario(ON, prior, order_by="hour", **options)
    return scenario, pf.protect(
        pl.DataFrame({"hour": range(HOURS), "on": [0, 1] * (HOURS // 2)}), scenario
    )


def day(batch, place, promise):
    return (
        batch.filter(pl.col("hour").is_between(24 * place, 24 * place + 23))
        .private_sum("on")
        .plan(promise, noise=pf.Laplace, bound=pf.Messages())
    )


@pytest.fixture
def ledger(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as found:
        yield found


@pytest.mark.parametrize("kind", thinned(LIMITS, 0.33))
def test_the_future_is_that_of_the_forecast(ledger, kind):
    """Totals after 1, 2, … further releases are those of account.forecast, and so are the end and what fits."""
    limit, promise = LIMITS[kind]
    scenario, batch = hours()
    account = ledger.open("hours", scenario, limit=limit)
    for place in (0, 1):
        day(batch, place, promise).release(account)
    plan = day(batch, 0, promise)
    found = account.budget(plan, every=24, ahead=3)
    assert found.spent == account.spent().epsilon
    assert found.ahead == tuple(account.forecast(plan, 24, 24 * times).total for times in (1, 2, 3))
    endless = account.forecast(plan, 24)
    assert found.endless == (endless.total if math.isfinite(endless.total) else None)
    assert found.fits == (None if math.isinf(endless.fits) else endless.fits)
    assert (found.every, found.limit, found.releases) == ("24 steps", repr(limit), 2)
    totals = [charge.total for charge in found.charges]
    assert totals[-1] == account.spent().epsilon
    assert (
        totals[0] == pytest.approx(promise.epsilon, rel=1e-6)
        if kind == "pure"
        else totals[0] <= totals[1]
    )


@pytest.mark.parametrize("kind", thinned(LIMITS, 0.33))
def test_a_schedule_is_seen_in_the_last_two_releases(ledger, kind):
    """Without a plan the forecast is that of the schedule which the last releases kept."""
    limit, promise = LIMITS[kind]
    scenario, batch = hours()
    account = ledger.open("hours", scenario, limit=limit)
    for place in (0, 2):
        day(batch, place, promise).release(account)
    found = account.budget(ahead=2)
    assert found.every == "48 steps"
    assert found.ahead == pytest.approx(
        account.budget(day(batch, 0, promise), every=48, ahead=2).ahead, rel=1e-12
    )


def test_a_forecast_without_end_names_the_rule_of_its_totals(ledger):
    """Where the total for ever is not bounded, the rule is that of the finite totals, and a page names no other."""
    scenario, batch = hours(pf.AnyCorrelation())
    account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
    plan = batch.private_sum("on").plan(pf.Pure(0.5))
    found = account.budget(plan, every=24, ahead=2)
    assert found.endless is None
    assert found.rule
    assert "no rule" not in found.rule
    old = msgspec.structs.replace(found, rule="no rule bounds it")
    assert "adds up by" in spending.account(found).body
    assert "adds up by" not in spending.account(old).body


@pytest.mark.slow
def test_durations_are_written_as_such(ledger):
    """Where steps are durations, so is the schedule, given or seen; filters on times move along."""
    times = pl.datetime_range(
        pl.datetime(2026, 11, 1), pl.datetime(2026, 11, 3, 23), "1h", eager=True
    )
    scenario = pf.Scenario(ON, CHAIN, order_by="time", step="1h")
    batch = pf.protect(pl.DataFrame({"time": times, "on": [0, 1] * 36}), scenario)
    account = ledger.open("times", scenario, limit=pf.Pure(2.0))
    plans = [
        batch.filter(pl.col("time").is_between(start, start + pl.duration(hours=23)))
        .private_sum("on")
        .plan(pf.Pure(0.5))
        for start in (pl.datetime(2026, 11, one) for one in (1, 2, 3))
    ]
    for plan in plans[:2]:
        plan.release(account)
    seen, named = account.budget(ahead=2), account.budget(plans[2], every="1d", ahead=2)
    assert (seen.every, named.every) == ("1d", "1d")
    assert seen.ahead == named.ahead
    assert len(seen.ahead) == 2
    evidence = plans[2].evidence(account, every="1d")
    assert evidence.budget.ahead[:2] == named.ahead


def test_the_same_question_again(ledger):
    """Releases that ask the same of the same rows go on doing so: totals grow until the limit is reached."""
    plan = ledgers.plan(1.0)
    account = ledger.open("levels", ledgers.SCENARIO, limit=pf.Pure(3.0))
    for _ in range(2):
        ledgers.release(account, ledgers.ready(1.0))
    found = account.budget(ahead=3)
    assert found.ahead == pytest.approx((3.0, 4.0, 5.0))
    assert (found.fits, found.endless) == (account.remaining(plan), None)
    assert "same query" in found.note


NOTES = {
    "nothing yet": (0, None, None, "no two releases"),
    "one release": (1, None, None, "no two releases"),
    "a schedule without a plan or releases": (0, None, 24, "nothing was released yet"),
    "a duration where steps are numbers": (1, "own", "1d", "is a duration"),
    "nonsense": (1, "own", -3, "every"),
    "another scenario": (1, "other", 24, "another scenario"),
    "no plan": (1, "text", 24, "of type str"),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_cannot_be_foreseen_is_a_note(ledger, name):
    """History is shown whatever cannot be revealed about the future."""
    releases, which, every, note = NOTES[name]
    scenario, batch = hours()
    account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
    for place in range(releases):
        day(batch, place, pf.Pure(0.5)).release(account)
    other = hours(pf.AnyCorrelation())[1].private_sum("on").plan(pf.Pure(0.5))
    plan = {None: None, "own": day(batch, 0, pf.Pure(0.5)), "other": other, "text": "no plan"}[
        which
    ]
    found = account.budget(plan, every)
    assert note in found.note
    assert found.ahead == ()
    assert len(found.charges) == releases
    assert found.spent == pytest.approx(0.5 * releases, rel=1e-3)


class Known:
    """Costs whose totals are known: one more for each, but no more than 1,500."""

    def __init__(self, count=0):
        self.count = count

    def first(self, count):
        return Known(count)

    def proven(self):
        return SimpleNamespace(total=min(float(self.count), 1500.0), rule="a rule")


def test_very_many_charges_are_spread_over_time():
    """Five hundred are kept of more, in order, with the first and the last, and with totals worked out anew."""
    entries = [
        Entry(n, f"r{n}", "committed", "", None, pf.Pure(1.0), (), "exact", 2.0 * n, "")
        for n in range(1, 2001)
    ]
    kept = charges(entries, over_time(Known(), entries))
    numbers = [charge.number for charge in kept]
    assert len(set(numbers)) == MOST_CHARGES
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (1, 2000)
    assert [charge.total for charge in kept] == [min(n, 1500) for n in numbers]
    sizes = [
        len(charges(entries[:count], over_time(Known(), entries[:count])))
        for count in (0, 1, 2, 500)
    ]
    assert sizes == [0, 1, 2, 500]


def test_totals_that_take_long_are_those_that_were_kept(monkeypatch):
    """Where there is no time to work totals out, the entries' own are told, none above a later one."""
    monkeypatch.setattr(budget, "_SECONDS", 0.0)
    totals = [5.0, 3.0, 4.0, 4.0]
    entries = [
        Entry(n, "", "committed", "", None, pf.Pure(1.0), (), "exact", totals[n], "")
        for n in range(4)
    ]
    assert [charge.total for charge in charges(entries, over_time(Known(), entries))] == [
        3,
        3,
        4,
        4,
    ]
