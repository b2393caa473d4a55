"""What an account owes: nothing above its limit, one charge and one noise for an id, and the same story everywhere."""

import datetime as dt
import hashlib
import json
import math
import threading

import ledgers
import msgspec
import polars as pl
import pytest
from ledgers import OTHER_PRIOR, SCENARIO, SECRET, answer, plan, ready, release

import pufferflow as pf
from pufferflow.accounting.ledger import log
from pufferflow.accounting.ledger.ledger import Ledger


@pytest.fixture
def account(ledger):
    return ledger.open("power", SCENARIO, limit=pf.Pure(3.0))


def test_the_limit_holds(account, ledger):
    """What fits is charged, what does not is refused with nothing appended, and the message says what is left."""
    for left in (2, 1, 0):
        release(account, ready(1.0))
        assert account.remaining(plan(1.0)) == left
    head = ledger.head()
    with pytest.raises(
        pf.LimitReached, match=r"epsilon 4, above its limit Pure\(epsilon=3.0\); 3 is spent"
    ) as refused:
        account.reserve(ready(1.0), "one more")
    assert "0 more releases" in refused.value.allowed
    assert ledger.head() == head
    assert account.spent().epsilon == pytest.approx(3.0)
    assert len(account.history()) == 3
    ledger.verify()


def test_what_is_reserved_is_spent(account):
    """A cost counts from its reservation on, whether a release follows or not."""
    account.reserve(ready(2.0), "lost")
    assert account.spent().epsilon == pytest.approx(2.0)
    assert [entry.state for entry in account.history()] == ["reserved"]
    with pytest.raises(pf.LimitReached):
        account.reserve(ready(1.5), None)


def test_an_id_is_charged_and_drawn_once(account):
    """The same id again gives what is stored; nothing is charged or drawn."""
    first = release(account, ready(), "monday")
    again = account.reserve(ready(), "monday")
    assert again.stored is not None
    assert answer(again.stored) == answer(first) == answer(account.release("monday"))
    assert again.stored.certificate == first.certificate
    assert again.entry == first.certificate.entry
    assert len(account.history()) == 1
    assert account.spent().epsilon == pytest.approx(1.0)


def test_the_first_commit_wins(account):
    """Two that complete one reservation get the release of the first; the other's noise is thrown away."""
    made = ready()
    one, two = account.reserve(made, "x"), account.reserve(made, "x")
    assert one.entry == two.entry
    first = one.commit(ledgers.drawn(made, one.entry))
    second = two.commit(ledgers.drawn(made, two.entry))
    assert answer(first) == answer(second) == answer(account.release("x"))
    assert len(account.history()) == 1


def test_a_release_goes_to_its_own_entry(account):
    """A release is kept under the entry that its certificate names, and under no other."""
    made = ready()
    one, two = account.reserve(made, "x"), account.reserve(made, "y")
    with pytest.raises(pf.InternalError, match="another entry"):
        one.commit(ledgers.drawn(made, two.entry))
    assert {entry.state for entry in account.history()} == {"reserved"}


def test_another_plan_needs_another_id(account):
    """An id belongs to the plan that it was first used with; the same plan by another version of the library is it."""
    account.reserve(ready(1.0), "x")
    with pytest.raises(pf.UsageError, match="'x' belongs to another plan"):
        account.reserve(ready(0.5), "x")
    same = ready(1.0)
    same.certificate = msgspec.structs.replace(same.certificate, library="newer", entry="1:abc")
    assert account.reserve(same, "x").stored is None


def test_without_an_id_every_call_is_new(account):
    """No id: a release of its own each time, found in the history by the id it was given."""
    found = [release(account, ready()) for _ in range(2)]
    ids = [entry.release_id for entry in account.history()]
    assert len(set(ids)) == 2
    assert [answer(account.release(one)) for one in ids] == [answer(one) for one in found]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "\ud800", 3, b"x", "a\0b"])
def test_names_are_short_texts_to_print(account, ledger, name):
    """Ids, accounts and data sets are texts of 1 to 200 printable characters."""
    for call in (
        lambda: account.reserve(ready(), name),
        lambda: account.release(name),
        lambda: ledger.open(name, SCENARIO, limit=pf.Pure(1.0)),
        lambda: ledger.open("other", SCENARIO, limit=pf.Pure(1.0), dataset=name),
    ):
        with pytest.raises(pf.UsageError):
            call()


def test_any_printable_name_will_do(ledger):
    """Names in any script come back as they were given."""
    for name in (
        "ñandú 北京 🦤",
        "x" * 200,
        "'; DROP TABLE pufferflow_events; --",
        '"quoted" \\ %s :x',
    ):
        account = ledger.open(name, SCENARIO, limit=pf.Pure(1.0), dataset=name)
        release(account, ready(), name)
        assert ledger.account(name).history()[0].release_id == name
    assert len(ledger.accounts()) == 4
    ledger.verify()


def test_a_release_that_is_not_there(account):
    """What was never asked for and what is only reserved are told apart."""
    account.reserve(ready(), "pending")
    with pytest.raises(pf.UsageError, match="no release 'unknown'"):
        account.release("unknown")
    with pytest.raises(pf.UsageError, match="reserved, and not committed yet"):
        account.release("pending")


def test_opening_again_is_the_same_account(account, ledger):
    """Opening is idempotent; what differs is named."""
    release(account, ready())
    assert ledger.open("power", SCENARIO, limit=pf.Pure(3.0)).spent() == account.spent()
    assert ledger.open("power", SCENARIO, limit=pf.Pure(3.0), dataset="power").name == "power"
    assert ledger.accounts() == ("power",)
    for wrong, scenario, limit, dataset in (
        ("limit", SCENARIO, pf.Pure(4.0), None),
        ("prior", OTHER_PRIOR, pf.Pure(3.0), None),
        ("dataset", SCENARIO, pf.Pure(3.0), "water"),
    ):
        with pytest.raises(pf.UsageError, match=f"has another {wrong}"):
            ledger.open("power", scenario, limit=limit, dataset=dataset)


def test_one_account_for_a_data_set(account, ledger):
    """A second account on a data set is refused unless it is said to be about other people."""
    del account
    with pytest.raises(pf.UsageError, match="two would ignore each other's spending"):
        ledger.open("more", SCENARIO, limit=pf.Pure(3.0), dataset="power")
    ledger.open("more", SCENARIO, limit=pf.Pure(3.0), dataset="power", separate=True)
    assert ledger.account("more").dataset == "power"


def test_an_unknown_account(ledger):
    """An account that was never opened is not made by looking for it."""
    with pytest.raises(pf.UsageError, match="no account 'power'"):
        ledger.account("power")


def test_limits_have_one_epsilon(ledger):
    """Guarantees that have no single epsilon, and things that are no guarantee, are no limits."""
    with pytest.raises(pf.Refused, match="no single epsilon"):
        ledger.open("x", SCENARIO, limit=pf.RenyiCurve([2, 4], [1, 1]))
    with pytest.raises(pf.UsageError, match="The limit is of type float"):
        ledger.open("x", SCENARIO, limit=3.0)
    with pytest.raises(pf.UsageError, match="The scenario is of type str"):
        ledger.open("x", "scenario", limit=pf.Pure(3.0))
    assert ledger.accounts() == ()


def shares_of(account):
    """Return the accounting methods of an account with their shares."""
    return account._log.read(lambda reader: reader.spent("power").methods.shares)


LIMITS = [pf.Approx(2.0, 1e-6), pf.Renyi(4, 2.0), pf.ApproxRenyi(4, 2.0, 1e-6)]


@pytest.mark.parametrize("limit", LIMITS, ids=["approx", "renyi", "approx renyi"])
def test_every_kind_of_limit(file, limit):
    """Totals are of the limit's kind; a new process goes on with the methods that the first release fixed."""
    with Ledger(file) as ledger:
        account = ledger.open("power", SCENARIO, limit=limit)
        before = [release(account, ready(0.5)) and account.spent() for _ in range(3)]
        shares = shares_of(account)
        assert sum(shares.values()) <= 1
    assert all(type(spent) is type(limit) for spent in before)
    with Ledger(file) as ledger:
        account = ledger.account("power")
        assert account.limit == limit
        assert shares_of(account) == shares
        assert account.spent() == before[-1]
        release(account, ready(0.5))
        with pytest.raises(pf.LimitReached):
            account.reserve(ready(3.0), None)
        events = [
            json.loads(line)["event"]
            for line in ledger.export(file.with_suffix(".n")).read_text().splitlines()
        ]
    assert [event["shares"] for event in events if "shares" in event] == [shares]
    assert {event.get("meter") for event in events} - {None} <= set(shares)


def test_plans_of_another_scenario(account):
    """Only plans of the account's scenario are paid for, or looked at."""
    for call in (
        lambda: account.reserve(ready(scenario=OTHER_PRIOR), None),
        lambda: account.remaining(plan(scenario=OTHER_PRIOR)),
    ):
        with pytest.raises(pf.UsageError, match="of another scenario"):
            call()
    with pytest.raises(pf.UsageError, match="The plan is of type int"):
        account.remaining(3)


def test_superseding(account, ledger):
    """What was spent stays, plans are of the new scenario, all priors count; nothing but the prior may differ."""
    stored = release(account, ready(), "old")
    newer = ledger.replace_prior("power", OTHER_PRIOR, regardless_of_answers=True)
    assert newer.scenario == OTHER_PRIOR
    assert newer.scenarios == (SCENARIO, OTHER_PRIOR)
    assert account.scenario == OTHER_PRIOR
    assert newer.spent().epsilon == pytest.approx(1.0)
    with pytest.raises(pf.UsageError, match="of another scenario"):
        account.reserve(ready(), None)
    release(newer, ready(scenario=OTHER_PRIOR))
    assert newer.spent().epsilon == pytest.approx(2.0)
    assert answer(account.reserve(ready(), "old").stored) == answer(stored)
    for wrong, scenario in (
        ("public", pf.Scenario(SECRET, pf.Independent(), public=["day"])),
        ("secret", pf.Scenario(pf.Secret("other", domain=[0, 1]), pf.Independent())),
        ("within", pf.Scenario(SECRET, pf.Independent(), within="meter")),
    ):
        with pytest.raises(pf.UsageError, match=wrong):
            ledger.replace_prior("power", scenario, regardless_of_answers=True)
    head = ledger.head()
    ledger.replace_prior("power", OTHER_PRIOR, regardless_of_answers=True)
    assert ledger.head() == head
    with pytest.raises(pf.UsageError, match="prior"):
        ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
    ledger.verify()


def test_a_new_prior_after_releases_needs_the_declaration_that_no_answer_decided_on_it(
    account, ledger
):
    """Before the first release nothing could; later certificates say what the total under the new prior is about."""
    before = release(account, ready(), "before")
    head = ledger.head()
    with pytest.raises(pf.UsageError, match="whose answers must not have influenced") as caught:
        ledger.replace_prior("power", OTHER_PRIOR)
    assert "regardless_of_answers=True" in caught.value.instead
    with pytest.raises(pf.UsageError, match="regardless_of_answers"):
        ledger.replace_prior("power", OTHER_PRIOR, regardless_of_answers="yes")
    assert ledger.head() == head
    later = ledger.replace_prior("power", OTHER_PRIOR, regardless_of_answers=True)
    kept = later.reserve(ready(scenario=OTHER_PRIOR), "after")
    assert "declared that no answer decided" in kept.certified(before.certificate).notes[-1]
    unused = ledger.open("unused", SCENARIO, limit=pf.Pure(3.0), dataset="unused")
    assert unused.scenarios == (SCENARIO,)
    assert ledger.replace_prior("unused", OTHER_PRIOR).scenarios == (SCENARIO, OTHER_PRIOR)


def test_an_older_ledger_does_not_know_whether_answers_decided_on_a_prior():
    """So certificates say that the total under this prior is about transcripts in which it came."""
    from pufferflow.accounting.ledger.events import Opened, Superseded
    from pufferflow.accounting.ledger.state import AccountState

    stated = SCENARIO.to_json(), SCENARIO.fingerprint
    state = AccountState(
        Opened(
            1,
            "power",
            "",
            "power",
            False,
            limit=pf.Pure(1.0),
            scenario=stated[0],
            fingerprint=stated[1],
        )
    )
    assert state.notes == ()
    state.apply(Superseded(2, "power", "", OTHER_PRIOR.to_json(), OTHER_PRIOR.fingerprint))
    assert "answers may have decided on it" in state.notes[0]


def test_a_total_that_cannot_be_told_is_not_superseded(ledger):
    """A prior under which what was spent cannot be totalled is refused, and nothing changes."""
    account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
    for _ in range(2):
        made = ready()
        known = {made.cost.shape.priors[0]: 1.0}
        cost = msgspec.structs.replace(
            made.cost,
            shape=msgspec.structs.replace(
                made.cost.shape, group_movement=None, coupled_movements=known
            ),
        )
        made.cost, made.certificate = cost, msgspec.structs.replace(made.certificate, cost=cost)
        release(account, made)
    before = ledger.head(), account.spent()
    with pytest.raises(pf.Refused):
        ledger.replace_prior("power", OTHER_PRIOR, regardless_of_answers=True)
    assert (ledger.head(), account.spent()) == before


def test_a_second_ledger_sees_what_the_first_wrote(address):
    """Two connections to one ledger share one truth, entry by entry."""
    with Ledger(address) as first, Ledger(address) as second:
        one = first.open("power", SCENARIO, limit=pf.Pure(3.0))
        two = second.account("power")
        for turn in range(3):
            found = release((one, two)[turn % 2], ready(), str(turn))
            for account in (one, two):
                assert len(account.history()) == turn + 1
                assert answer(account.release(str(turn))) == answer(found)
        for account in (one, two):
            with pytest.raises(pf.LimitReached):
                account.reserve(ready(), None)


def test_reopening_tells_the_same(address):
    """A new process finds accounts, limits, scenarios, history and releases as they were."""
    with Ledger(address) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0), dataset="homes")
        found = release(account, ready(0.5), "x")
        account.reserve(ready(0.25), "y")
        told = account.history(), account.spent(), ledger.head()
    with Ledger(address) as ledger:
        account = ledger.account("power")
        assert (account.history(), account.spent(), ledger.head()) == told
        assert (account.dataset, account.scenario, account.limit) == (
            "homes",
            SCENARIO,
            pf.Pure(3.0),
        )
        assert account.release("x").frame.equals(found.frame)


def test_threads_share_a_ledger(account):
    """Threads that race for the last of a budget never pass it, and each id has one noise."""
    found, refused = [], []

    def work(number):
        for turn in range(3):
            try:
                found.append(answer(release(account, ready(0.3), f"id {(number + turn) % 12}")))
            except pf.LimitReached:
                refused.append(number)

    threads = [threading.Thread(target=work, args=[number]) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(account.history()) == 10
    assert refused
    assert account.spent().epsilon <= 3.0


def test_an_estimate_is_recorded(account):
    """The history tells which releases rest on an estimate."""
    made = ready()
    made.certificate = msgspec.structs.replace(made.certificate, certainty="estimate")
    release(account, made)
    assert account.history()[0].certainty == "estimate"


def test_no_entry_has_an_answer(account, ledger, tmp_path):
    """The log tells what was asked and guaranteed; answers are in releases, which only a commit adds."""
    found = release(account, ready(), "x")
    text = ledger.export(tmp_path / "log.ndjson").read_text()
    assert repr(answer(found)) not in text
    assert [json.loads(line)["event"]["kind"] for line in text.splitlines()] == [
        "open",
        "reserve",
        "commit",
    ]


def test_an_export_can_be_checked_by_anybody(account, ledger, tmp_path):
    """Each line's hash is that of the line before and its event's text; the last is the head."""
    release(account, ready())
    place = ledger.export(tmp_path / "log.ndjson")
    head = "0" * 64
    for number, line in enumerate(place.read_bytes().splitlines(), 1):
        body = line[len(b'{"event":') : line.rindex(b',"hash":')]
        head = hashlib.sha256(head.encode() + body).hexdigest()
        assert json.loads(line)["hash"] == head
        assert json.loads(line)["event"]["number"] == number
    assert ledger.head() == f"{number}:{head}"
    with pytest.raises(pf.UsageError, match="Nothing can be written"):
        ledger.export(tmp_path / "nowhere" / "log.ndjson")
    assert [path.name for path in tmp_path.iterdir() if "log" in path.name] == ["log.ndjson"]


def test_times_decide_nothing(account, ledger, monkeypatch):
    """A clock that goes back, or stands in another century, changes no order and no decision."""

    class Backwards(dt.datetime):
        years = iter(range(2030, 1000, -100))

        @classmethod
        def now(cls, tz=None):
            return dt.datetime(next(cls.years), 1, 1, tzinfo=tz)

    monkeypatch.setattr(log, "datetime", Backwards)
    for turn in range(3):
        release(account, ready(), str(turn))
    with pytest.raises(pf.LimitReached):
        account.reserve(ready(), None)
    history = account.history()
    assert [entry.release_id for entry in history] == ["0", "1", "2"]
    assert [entry.at for entry in history] == sorted((entry.at for entry in history), reverse=True)
    ledger.verify()


def test_closed_ledgers_say_so(ledger):
    """After closing nothing is read or written; closing again does nothing."""
    account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
    ledger.close()
    ledger.close()
    for call in (ledger.head, ledger.verify, account.spent, account.history, ledger.accounts):
        with pytest.raises(pf.UsageError, match="closed"):
            call()


def test_a_release_that_costs_nothing_fits_always(ledger):
    """A plan whose cost is 0 fits infinitely often."""
    account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
    nothing = plan()
    shape = msgspec.structs.replace(nothing.cost.shape, group_movement=0.0)
    nothing.cost = msgspec.structs.replace(nothing.cost, shape=shape)
    assert account.remaining(nothing) == math.inf
    assert "power" in repr(account)
    assert "Ledger" in repr(ledger)


def test_another_filter_is_another_plan(tmp_path):
    """An id that was used for some rows is refused for others, also where filters say nothing that keeps rows apart."""
    scenario = pf.Scenario(pf.Secret("x", [0, 1]), pf.Independent(), public=["region"])
    batch = pf.protect(pl.DataFrame({"region": ["ax", "by"], "x": [0, 1]}), scenario)
    plans = [
        batch.filter(pl.col("region").str.contains(letter)).private_sum("x").plan(pf.Pure(0.5))
        for letter in ("x", "y")
    ]
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("regions", scenario, limit=pf.Pure(2.0))
        plans[0].release(account, id="one")
        with pytest.raises(pf.UsageError, match="another plan"):
            plans[1].release(account, id="one")


def test_a_limit_counts_one_row_where_a_prior_has_nothing_to_hide(tmp_path):
    """Where a prior knows a value already, an account still ends what averages of many releases would show."""
    chain = pf.MarkovChain([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]], initial=[1, 0, 0])
    scenario = pf.Scenario(
        pf.Secret("x", [0, 1, 2]), chain, order_by="hour", within="meter", start=0
    )
    frame = pl.DataFrame(
        {"meter": ["a", "b"] * 3, "hour": [0, 0, 1, 1, 2, 2], "x": [0, 2, 1, 0, 1, 1]}
    )
    plan = (
        pf.protect(frame, scenario)
        .filter(pl.col("hour") == 0)
        .group_by("meter")
        .private_sum("x")
        .plan(pf.Pure(0.1))
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("people", scenario, limit=pf.Pure(0.35))
        assert account.remaining(plan) == 3
        for _ in range(3):
            plan.release(account)
        assert account.spent().epsilon == pytest.approx(0.3)
        with pytest.raises(pf.LimitReached):
            plan.release(account)


def test_a_prospect_is_one_reading_of_what_several_questions_give(account, monkeypatch):
    """Before a release, while it is reserved and once it is committed: as `spent`, `after` and `remaining` tell."""
    release(account, ready(1.0), "monday")
    held, asked, readers = account.reserve(ready(0.5), "tuesday"), plan(0.5), []
    true = log.Reader.__init__

    def counted(reader, *given):
        readers.append(reader)
        true(reader, *given)

    states = {"monday": (True, True), "tuesday": (True, False), "wednesday": (False, False)}
    for name, (reserved, committed) in states.items():
        with monkeypatch.context() as counting:
            counting.setattr(log.Reader, "__init__", counted)
            found = account.prospect(asked, name)
        assert (found.reserved, found.committed, found.schedule) == (reserved, committed, None)
        assert found.spent == account.spent()
        assert found.after == (account.spent() if reserved else account.after(asked))
        assert found.remaining == account.remaining(asked) == 3
    assert len(readers) == len(states)
    held.commit(ledgers.drawn(ready(0.5), held.entry))
    assert account.prospect(asked, "tuesday").committed


def test_a_prospect_forecasts_a_schedule(account, ledger):
    """A schedule is forecast as `forecast` does; of one that cannot be, as of months, there is none."""
    asked = plan(1.0)
    with pytest.raises(pf.PufferflowError):
        account.forecast(asked, "1mo")
    assert account.prospect(asked, "monday", "1mo").schedule is None
    chain = pf.Scenario(SECRET, pf.MarkovChain([[0.7, 0.1, 0.1, 0.1]] * 4), order_by="hour")
    batch = (
        pf.protect(pl.DataFrame({"hour": range(24), "level": 1}), chain)
        .private_sum("level")
        .plan(pf.Pure(0.5))
    )
    hours = ledger.open("hours", chain, limit=pf.Pure(3.0))
    assert hours.prospect(batch, "monday", 24).schedule == hours.forecast(batch, 24)


def test_a_prospect_is_of_the_accounts_scenario(account):
    """A plan of another scenario is refused, as a release of it would be."""
    with pytest.raises(pf.UsageError):
        account.prospect(plan(1.0, OTHER_PRIOR), "monday")
