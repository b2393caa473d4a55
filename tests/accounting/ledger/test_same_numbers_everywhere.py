"""One thing has one number: what is spent, in Python, in a terminal, on a page, and in what a refusal says."""

import html
import json
import re

import ledgers
import msgspec
import polars as pl
import pytest
from typer.testing import CliRunner

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.ledger import budget as budgets
from pufferflow.accounting.ledger.ledger import facts_of
from pufferflow.cli.app import app
from pufferflow.reports import pages as report
from pufferflow.reports.numbers import SPENT, at_most, total

STAY = [[0.9, 0.1], [0.1, 0.9]]
HOURS = 24
SCENARIO = pf.Scenario(
    pf.Secret("on", domain=[0, 1]), pf.MarkovChain(STAY), order_by="hour", within="house"
)


def day(number, epsilon=0.5, scenario=SCENARIO):
    frame = pl.DataFrame(
        {"house": "a", "hour": range(HOURS * number, HOURS * (number + 1)), "on": [0, 1] * 12}
    )
    batch = pf.protect(frame, scenario).private_sum("on")
    return batch.plan(pf.Pure(epsilon), bound=pf.Messages() if scenario is SCENARIO else "auto")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def account(place):
    with pf.Ledger(place) as ledger:
        yield ledger.open("hours", SCENARIO, limit=pf.Pure(1.0))


def shown(place, *options):
    """What `pufferflow ledger show` tells."""
    found = CliRunner().invoke(
        app, ["ledger", "show", str(place), *options], env={"COLUMNS": "300"}
    )
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.slow
def test_the_total_of_an_entry_is_what_was_spent_then(account):
    """Each entry tells what the account had spent when it was made; the last, what is spent."""
    spent = []
    for number in range(4):
        day(number).release(account)
        spent.append(account.spent().epsilon)
    assert [entry.total for entry in account.history()] == spent
    assert all(entry.at_most >= entry.total for entry in account.history())
    assert spent == sorted(spent)
    assert [charge.total for charge in account.budget(ahead=0).charges] == spent
    assert account.budget(ahead=0).spent == spent[-1]


def test_entries_tell_after_the_ledger_is_closed(place):
    """A history is complete when it is given."""
    with pf.Ledger(place) as ledger:
        account = ledger.open("hours", SCENARIO, limit=pf.Pure(1.0))
        day(0).release(account)
        history, spent = account.history(), account.spent().epsilon
    assert history[-1].total == spent


def test_one_release_costs_what_it_promises(account):
    """Not a hair less, which calibration leaves; and what adds nothing makes it no less."""
    day(0, 0.3).release(account)
    assert account.spent() == pf.Pure(0.3)
    assert account.forecast(day(0, 0.3), every=HOURS, until=HOURS).total > 0.3
    far = day(10, 0.3)
    far.release(account)
    assert account.spent() == pf.Pure(0.3)


def test_the_total_after_a_plan_is_what_its_release_makes_it(account):
    """`after`, `forecast` and `spent` agree."""
    day(0).release(account)
    after, ahead = account.after(day(1)), account.forecast(day(1), every=HOURS, until=HOURS)
    day(1).release(account)
    assert after == account.spent() == ahead.guarantee


def test_the_total_does_not_depend_on_the_limit():
    """Where steps are too many to go through, a quick proof is the one, whether or not the limit asks for it."""
    first = day(0).cost
    far = msgspec.structs.replace(first, offset=10**12, steps_seen=(10**12, 10**12 + HOURS - 1))
    found = []
    for limit in (0.6, 3.0, 100.0):
        spent = AccountCosts([SCENARIO], pf.Pure(limit))
        for cost in (first, far):
            spent.add(cost)
        found.append(spent.total().total)
    assert found[0] == found[1] == found[2] < 0.6


def test_a_refusal_rounds_up_as_accounts_do(place):
    """A total just above the limit is not told to be the limit."""
    with pf.Ledger(place) as ledger:
        account = ledger.open("levels", ledgers.SCENARIO, limit=pf.Pure(1.0))
        ledgers.release(account, ledgers.ready(0.25000001))
        with pytest.raises(
            pf.LimitReached, match=r"to epsilon 1\.00001, above its limit .*; 0\.250001 is spent"
        ):
            ledgers.release(account, ledgers.ready(0.75000002))


@pytest.mark.slow
def test_the_terminal_says_one_number(place, account):
    """The header, the last row and the overview of `ledger show` have the same number, with as many digits."""
    for number in range(3):
        day(number).release(account)
    told = f"{at_most(account.spent().epsilon, SPENT)}"
    lines = shown(place, "--account", "hours").rstrip().splitlines()
    assert f"spent epsilon {told} of 1" in lines[0]
    assert lines[-1].split()[-1] == told
    assert f"epsilon {told} of 1" in shown(place)
    document = json.loads(shown(place, "--account", "hours", "--json"))["accounts"][0]
    assert (
        document["history"][-1]["total"] == document["spent"]["epsilon"] == account.spent().epsilon
    )
    assert [entry["total"] for entry in document["history"]] == [
        entry.total for entry in account.history()
    ]


@pytest.mark.slow
def test_pages_say_the_same_number(place, account):
    """So do the page's table of accounts, its sentence, its figure and the last row of charges."""
    for number in range(3):
        day(number).release(account)
    told = total(account.spent().epsilon)
    assert told == at_most(account.spent().epsilon, SPENT)
    with pf.Ledger(place) as ledger:
        page = html.unescape(report.ledger_page(facts_of(ledger)))
    words = re.sub(r"<[^>]+>", " ", page)
    assert words.count(told) >= 4
    assert f"has spent {told} of its limit of 1" in words
    assert set(re.findall(r"0\.5\d+", words)) <= {
        told,
        *map(total, (entry.total for entry in account.history())),
    } | {total(one) for one in (*account.budget().ahead, account.budget().endless)}


@pytest.mark.slow
def test_totals_that_are_not_worked_out_are_said_to_be_at_most(place, account, monkeypatch):
    """Of very many releases some totals are only bounded: no number of theirs is given as the total."""
    for number in range(4):
        day(number).release(account)
    monkeypatch.setattr(budgets, "_MOST_TOTALLED", 5)
    found = account.budget(ahead=0)
    assert [charge.at_most for charge in found.charges] == [True, True, True, False]
    assert found.charges[-1].total == account.spent().epsilon
    assert all(
        charge.total >= entry.total
        for charge, entry in zip(found.charges, account.history(), strict=True)
    )
    rows = json.loads(shown(place, "--account", "hours", "--json"))["accounts"][0]["history"]
    assert [row["total"] is None for row in rows] == [True, True, True, False]
    assert rows[-1]["total"] == rows[-1]["total_at_most"]
    assert shown(place, "--account", "hours").count("≤ ") == 3
    with pf.Ledger(place) as ledger:
        page = html.unescape(report.ledger_page(facts_of(ledger)))
    assert page.count(">≤ ") == 3


def test_after_another_belief_totals_are_those_of_today(place):
    """What was proven under an older prior does not bound a total under a newer one."""
    weaker = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), order_by="hour", within="house"
    )
    with pf.Ledger(place) as ledger:
        account = ledger.open("hours", SCENARIO, limit=pf.Pure(100.0))
        for number in range(3):
            day(number).release(account)
        ledger.replace_prior("hours", weaker, regardless_of_answers=True)
        totals = [entry.total for entry in account.history()]
        assert totals[-1] == account.spent().epsilon > 1.0
        assert totals == sorted(totals)
        assert totals[0] > account.history()[0].at_most
        spread = budgets.over_time(Told(totals), account.history(), superseded=True)
        assert all(spread[place].total >= totals[place] for place in spread)


class Told:
    """Costs whose totals are known, but for those that nobody can tell any more."""

    def __init__(self, totals):
        self.totals = totals

    def first(self, count):
        return Told(self.totals[:count])

    def proven(self):
        if len(self.totals) < 3:
            return None
        return pf.compose([], SCENARIO).__class__(pf.Pure(self.totals[-1]), "a rule")
