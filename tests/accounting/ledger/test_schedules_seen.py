"""An account sees the schedule that its releases keep wherever people would, and says why where it does not."""

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.forecast import recurring
from pufferflow.accounting.ledger.budget import in_words

ON = pf.Secret("on", domain=[0, 1])
CHAIN = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
PRIORS = {
    "chain": CHAIN,
    "independent": pf.Independent(),
    "any": pf.AnyCorrelation(),
    "class": pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]),
}
BEGIN, DAY = datetime.fromisoformat("2026-01-01"), timedelta(days=1)
HOURS = 24 * 16


def table():
    times = [BEGIN + timedelta(hours=hour) for hour in range(HOURS)]
    frame = pl.DataFrame(
        {"house": ["a"] * HOURS, "time": times, "hour": range(HOURS), "on": [0, 1] * (HOURS // 2)}
    )
    return frame.with_columns(
        date=pl.col("time").dt.date(),
        number=pl.col("hour") // 24,
        name=pl.col("time").dt.strftime("%Y-%m-%d"),
    )


TABLE = table()
PUBLIC = ["date", "number", "name", "district"]


def timed(prior, **options):
    return pf.Scenario(
        ON, prior, order_by="time", step="1h", within="house", public=PUBLIC, **options
    )


def by_time(batch, first, end):
    return batch.filter(pl.col("time") >= BEGIN + first * DAY, pl.col("time") < BEGIN + end * DAY)


def by_date(batch, first, end):
    return batch.filter(
        pl.col("date").is_between((BEGIN + first * DAY).date(), (BEGIN + (end - 1) * DAY).date())
    )


def by_number(batch, first, end):
    return batch.filter(pl.col("number").is_between(first, end - 1))


def by_name(batch, first, _):
    return batch.filter(pl.col("name") == (BEGIN + first * DAY).strftime("%Y-%m-%d"))


def account_of(ledger, scenario, periods, filtered, frames=lambda *_: TABLE, promise=0.5):
    """Return an account with a release for each period, which is (first day, day after the last)."""
    account = ledger.open("hours", scenario, limit=pf.Pure(50.0))
    promises = promise if isinstance(promise, list) else [promise] * len(periods)
    for (first, end), epsilon in zip(periods, promises, strict=True):
        frame = frames(first, end).with_columns(district=pl.lit("north"))
        batch = filtered(pf.protect(frame, scenario), first, end).private_sum("on")
        bound = {"bound": pf.Messages()} if scenario.priors == (CHAIN,) else {}
        batch.plan(pf.Pure(epsilon), **bound).release(account)
    return account


@pytest.fixture
def ledger(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as found:
        yield found


DAYS = [(day, day + 1) for day in range(4)]


@pytest.mark.parametrize("prior", thinned(PRIORS.values(), 0.25), ids=PRIORS)
@pytest.mark.parametrize("filtered", [by_time, by_date], ids=["moments", "dates"])
def test_days_are_seen_by_any_filter_on_time(ledger, prior, filtered):
    """Under every prior, and what is forecast is what a release a day later makes it."""
    account = account_of(ledger, timed(prior), DAYS, filtered)
    found = account.budget(ahead=2)
    assert found.every == "1d"
    assert "no forecast" not in found.note
    batch = filtered(
        pf.protect(TABLE.with_columns(district=pl.lit("north")), account.scenario), 4, 5
    )
    after = account.after(batch.private_sum("on").plan(pf.Pure(0.5)))
    assert found.ahead[0] == pytest.approx(after.epsilon, rel=1e-5)


@pytest.mark.slow
def test_days_are_seen_though_the_file_grows(ledger):
    """Every day the file has one more day of rows that are not asked about: costs differ, what is asked does not."""
    account = account_of(ledger, timed(CHAIN), DAYS, by_time, lambda _, end: TABLE.head(24 * end))
    assert account.budget(ahead=2).every == "1d"


@pytest.mark.slow
def test_days_are_seen_though_each_has_a_file(ledger):
    """No filter at all: the rows of a sequence know their hours."""
    account = account_of(
        ledger,
        timed(CHAIN),
        DAYS,
        lambda batch, *_: batch,
        lambda first, end: TABLE[24 * first : 24 * end],
    )
    assert account.budget(ahead=2).every == "1d"


@pytest.mark.slow
def test_days_are_seen_though_their_noise_differs(ledger):
    """Hours that a day lacks or has twice, other guarantees, last digits of another machine."""
    account = account_of(
        ledger,
        timed(CHAIN),
        DAYS,
        by_time,
        lambda first, _: TABLE.filter(pl.col("hour") != 24 * first + 2) if first % 2 else TABLE,
        promise=[0.5, 0.4, 0.5, 0.3],
    )
    assert account.budget(ahead=2).every == "1d"
    account._total(_last_digits)


def _last_digits(spent):
    shapes = [cost.shape for cost in spent.costs]
    other = {**shapes[-1].stored_noise, "scale": shapes[-1].noise.scale * (1 + 1e-15)}
    last = msgspec.structs.replace(shapes[-1], stored_noise=other)
    moved = msgspec.structs.replace(spent.costs[-1], shape=last, offset=spent.costs[-1].offset + 24)
    spent.add(moved)
    found = recurring(spent)
    assert found.last is moved
    assert found.every.steps == 24


@pytest.mark.slow
def test_weeks_are_seen(ledger):
    """One every seven days."""
    account = account_of(ledger, timed(CHAIN), [(0, 7), (7, 14)], by_time)
    assert account.budget(ahead=2).every == "7d"


def test_months_are_seen_and_their_lengths_are_said():
    """Months differ in length: the forecast takes the commonest, and says what there was."""
    lengths = [31, 28, 31, 30, 31]
    found = recurring(spent_of([sum(lengths[:at]) for at in range(6)], lengths=[*lengths, 30]))
    assert in_words(found.every) == "31d"
    assert [in_words(one) for one in found.distances] == ["28d", "31d"]


def spent_of(firsts, lengths=None, scenario=None):
    """Return what is spent by releases about days that begin there, from one plan and its later likes."""
    from pufferflow.accounting.account_costs import AccountCosts
    from pufferflow.published.cost import Rows

    scenario = timed(CHAIN) if scenario is None else scenario
    frame = TABLE.with_columns(district=pl.lit("north"))
    cost = (
        by_time(pf.protect(frame, scenario), 0, 1)
        .private_sum("on")
        .plan(pf.Pure(0.5), bound=pf.Messages())
        .cost
    )
    spent = AccountCosts([scenario], pf.Pure(9.0))
    for first, days in zip(firsts, lengths or [1] * len(firsts), strict=True):
        ns = 24 * 3_600_000_000_000
        low = cost.regions["time"].low
        region = msgspec.structs.replace(
            cost.regions["time"], low=low + first * ns, high=low + (first + days) * ns
        )
        shape = msgspec.structs.replace(cost.shape, rows=Rows(24 * days, runs=((0, 24 * days, 0),)))
        spent.add(
            msgspec.structs.replace(
                cost, shape=shape, offset=cost.offset + 24 * first, regions={"time": region}
            )
        )
    return spent


@pytest.mark.parametrize(
    ("firsts", "every", "differ"),
    [
        ([0, 1, 3, 4], "1d", True),
        ([0, 1, 2, 1], "1d", False),
        ([3, 2, 1, 0], "1d", False),
        ([0, 2, 4, 6], "2d", False),
        ([0, 0, 1, 1, 2, 2], "1d", False),
    ],
    ids=["one missing", "one corrected", "backwards", "every other", "each twice"],
)
def test_what_is_missing_or_corrected_does_not_hide_a_schedule(firsts, every, differ):
    """The commonest distance of neighbours counts, and the schedule goes on after the last of them in time."""
    found = recurring(spent_of(firsts))
    assert in_words(found.every) == every
    assert (found.distances is not None) == differ
    assert found.last.offset == max(cost.offset for cost in spent_of(firsts).costs)


def test_numbers_of_days_and_of_steps_are_filters_too(ledger):
    """Under priors without order a filter on a number moves on; so does one on steps that are numbers."""
    account = account_of(ledger, timed(pf.Independent()), DAYS, by_number)
    found = account.budget(ahead=3)
    assert found.every == "1 of 'number'"
    assert found.ahead == pytest.approx((0.5, 0.5, 0.5))
    assert found.endless == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_steps_that_are_numbers(ledger, prior):
    """A schedule along numbers is seen under every prior."""
    scenario = pf.Scenario(ON, prior, order_by="hour", within="house", public=PUBLIC)
    account = account_of(
        ledger,
        scenario,
        DAYS,
        lambda batch, first, end: batch.filter(pl.col("hour").is_between(24 * first, 24 * end - 1)),
    )
    assert account.budget(ahead=1).every == "24 steps"


@pytest.mark.slow
def test_days_by_name_are_seen_along_a_chain(ledger):
    """What a text names does not matter to a chain, whose rows know their hours."""
    assert account_of(ledger, timed(CHAIN), DAYS, by_name).budget(ahead=1).every == "1d"


def test_days_by_name_are_not_seen_where_names_keep_rows_apart(ledger):
    """And the page does not say that there are no two releases of one kind."""
    found = account_of(ledger, timed(pf.Independent()), DAYS, by_name).budget(ahead=1)
    assert found.ahead == ()
    assert "no two releases" not in found.note
    assert "no filter shows how far apart the releases" in found.note


@pytest.mark.slow
def test_other_kinds_of_releases_are_said_to_be_left_out(ledger):
    """Two jobs on one account: the schedule of the newest is seen, and the note says that others are not in it."""
    scenario = timed(CHAIN)
    account = account_of(ledger, scenario, DAYS[:2], by_time)
    frame = TABLE.with_columns(district=pl.lit("north"))
    for first in (0, 7):
        batch = by_time(pf.protect(frame, scenario), first, first + 7)
        batch.private_count(pl.col("on") == 0).plan(pf.Pure(0.5), bound=pf.Messages()).release(
            account
        )
    found = account.budget(ahead=1)
    assert found.every == "7d"
    assert "without those of other kinds" in found.note
    assert (
        account.budget(
            by_time(pf.protect(frame, scenario), 0, 1).private_sum("on").plan(pf.Pure(0.5))
        ).every
        == "1d"
    )


@pytest.mark.slow
def test_two_districts_are_two_schedules(ledger):
    """Releases of each district every day: a day is the distance, not a district."""
    scenario = timed(pf.Independent())
    account = ledger.open("hours", scenario, limit=pf.Pure(50.0))
    for day in range(3):
        for district in ("north", "south"):
            frame = TABLE.with_columns(district=pl.lit(district))
            batch = by_time(pf.protect(frame, scenario), day, day + 1).filter(
                pl.col("district") == district
            )
            batch.private_sum("on").plan(pf.Pure(0.5)).release(account)
    assert account.budget(ahead=1).every == "1d"


@pytest.mark.slow
def test_the_forecast_goes_on_where_other_shapes_have_been(ledger):
    """A plan for a day that was released with other noise is not counted a second time."""
    scenario = timed(CHAIN)
    account = account_of(ledger, scenario, DAYS, by_time, lambda _, end: TABLE.head(24 * end))
    frame = TABLE.with_columns(district=pl.lit("north"))
    plan = (
        by_time(pf.protect(frame, scenario), 0, 1)
        .private_sum("on")
        .plan(pf.Pure(0.5), bound=pf.Messages())
    )
    assert account.forecast(plan, every="1d").total == pytest.approx(
        account.budget(ahead=1).endless, rel=1e-6
    )
    totals = [account.forecast(plan, every="1d", until=f"{days}d").total for days in (1, 2, 3)]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(totals))
    assert totals[-1] < 0.6


@pytest.mark.slow
def test_without_two_releases_of_one_kind_nothing_is_foreseen(ledger):
    """The sentence is said where it is true."""
    scenario = timed(CHAIN)
    account = account_of(ledger, scenario, DAYS[:1], by_time)
    assert "no two releases of one kind" in account.budget().note
    frame = TABLE.with_columns(district=pl.lit("north"))
    other = by_time(pf.protect(frame, scenario), 1, 2).private_count(pl.col("on") == 0)
    other.plan(pf.Pure(0.5), bound=pf.Messages()).release(account)
    assert "no two releases of one kind" in account.budget().note
