"""Accounts that reserve profiles: their total is that of all that was reserved, whatever is asked after an answer."""

import itertools
import math

import msgspec
import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.reserved import (
    Opening,
    ReservedProfile,
    ReservedProfiles,
    read_reserved,
)
from pufferflow.accounting.rules.release_movement import ReleaseMovement

LIMIT = pf.Approx(9.0, 1e-6)
ROWS = pl.DataFrame({"day": [0, 0, 1, 1], "level": [0, 3, 2, 1]})


def scenario_of(prior):
    return pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), prior, public="day")


def plan_of(prior, epsilon=0.1, day=None, **options):
    batch = pf.protect(ROWS, scenario_of(prior))
    asked = batch if day is None else batch.filter(pl.col("day") == day)
    return asked.private_sum("level").plan(pf.Pure(epsilon), noise=pf.Laplace, **options)


@pytest.fixture
def ledger(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as opened:
        yield opened


def hockey_stick(first, second, epsilon):
    """Return the exact hockey stick of two laws on the same outcomes."""
    return sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in zip(first, second, strict=True))


def test_profiles_chosen_by_answers_tell_more_than_any_fixed_order():
    """Randomised response, then by its answer another one or a rare reveal: only all that may come has a total."""
    yes = math.e / (1 + math.e)
    coin = (yes, 1 - yes), (1 - yes, yes)
    share = 0.2103
    reveal = (share, 0.0, 1 - share), (0.0, share, 1 - share)

    def product(one, two):
        return [p * q for p, q in itertools.product(one, two)]

    def chosen(row):
        """Return the law of the answers of one data set where the second question depends on the first answer."""
        return [coin[row][0] * p for p in coin[row]] + [coin[row][1] * p for p in reveal[row]]

    adaptive = hockey_stick(chosen(0), chosen(1), 1.5)
    fixed = [
        hockey_stick(product(coin[0], then[0]), product(coin[1], then[1]), 1.5)
        for then in (coin, reveal)
    ]
    assert adaptive == pytest.approx(0.2668, abs=1e-4)
    assert max(fixed) < adaptive - 0.05
    profiles = [ReservedProfile(((1.0, 0.0),), 2), ReservedProfile(((0.0, share),), 1)]
    reserved = ReservedProfiles(profiles, pf.Approx(9.0, adaptive))
    assert reserved.epsilon >= 1.5


def laplace_losses(shift, scale, step):
    """Return a law of the privacy loss of Laplace noise that reveals less than it: losses rounded down to a grid."""
    u = shift / scale
    cells = round(2 * u / step)
    edges = -u + step * np.arange(cells + 1)
    # P(loss ≤ l) under the first law is e^{(l-u)/2}/2 inside
    below = np.exp((edges - u) / 2) / 2
    masses = np.concatenate([[below[0]], np.diff(below), [0.5]])
    return -u, masses  # the loss of cell i is at least -u + (i-1)·step


def least_delta(shift, scale, times, epsilon, step=1e-3):
    """Return a lower bound of the hockey stick of so many answers with Laplace noise about one movement."""
    low, masses = laplace_losses(shift, scale, step)
    total = masses
    for _ in range(times - 1):
        total = np.convolve(total, masses)
    losses = times * low + step * (np.arange(len(total)) - times)
    return float(np.sum(total * np.maximum(0.0, -np.expm1(epsilon - losses))))


@pytest.mark.slow
def test_the_total_is_above_the_truth_and_near_it(ledger):
    """Of 30 answers along one movement; with nine tenths of the noise the truth would be above the total."""
    plan = plan_of(pf.AnyCorrelation(), 0.2)
    account = ledger.open("levels", plan.request.scenario, limit=LIMIT, reserve=[(plan, 30)])
    assert account.spent().epsilon == 0
    plan.release(account)
    spent = account.spent()
    assert spent.epsilon < 30 * 0.2
    moved, scale = 4 * 3.0, 60.0  # all four rows from 0 to 3
    assert least_delta(moved, scale, 30, spent.epsilon * 0.98) > LIMIT.delta
    assert least_delta(moved, scale, 30, spent.epsilon) <= LIMIT.delta
    assert least_delta(moved, scale * 0.9, 30, spent.epsilon) > LIMIT.delta


@pytest.mark.slow
def test_as_many_releases_as_were_reserved(ledger):
    """Each takes a profile; what is less private than all of them has none, and neither has the last."""
    plan, louder = plan_of(pf.AnyCorrelation()), plan_of(pf.AnyCorrelation(), 0.05)
    less_private = plan_of(pf.AnyCorrelation(), 0.11)
    account = ledger.open("levels", plan.request.scenario, limit=LIMIT, reserve=[(plan, 3)])
    assert account.remaining(plan) == account.remaining(louder) == 3
    assert account.remaining(less_private) == 0
    with pytest.raises(pf.LimitReached, match="those left allow less loss"):
        less_private.release(account)
    for each in (plan, louder, plan):
        total = account.after(each)
        each.release(account)
        assert account.spent() == total
    assert account.spent() == pf.Approx(account.spent().epsilon, LIMIT.delta)
    assert account.remaining(louder) == 0
    with pytest.raises(pf.LimitReached, match="of 4 releases the last has none"):
        louder.release(account)
    assert len(account.history()) == 3
    assert [entry.total for entry in account.history()] == [account.spent().epsilon] * 3


def test_small_profiles_are_taken_first(ledger):
    """A release that a small profile covers leaves the larger ones to others."""
    small, large = plan_of(pf.AnyCorrelation(), 0.05), plan_of(pf.AnyCorrelation(), 0.1)
    account = ledger.open(
        "levels", small.request.scenario, limit=LIMIT, reserve=[(large, 1), (small, 1)]
    )
    small.release(account)
    assert (account.remaining(large), account.remaining(small)) == (1, 1)
    small.release(account)
    assert (account.remaining(large), account.remaining(small)) == (0, 0)


def test_releases_about_different_rows_share_a_profile(ledger):
    """Where rows are independent those of one day are in no release about another (M27)."""
    days = [plan_of(pf.Independent(), day=day) for day in (0, 1)]
    account = ledger.open("levels", days[0].request.scenario, limit=LIMIT, reserve=[(days[0], 1)])
    for plan in days:
        plan.release(account)
    for plan in days:
        assert account.remaining(plan) == 0


def test_rows_of_a_unit_at_several_places_share_no_profile(ledger):
    """Their loss is spread over releases with disjoint filters, and one profile is not known to cover all parts."""
    scenario = pf.Scenario(pf.Presence("unit", rows=2, once=True), pf.Independent(), public="day")
    batch = pf.protect(pl.DataFrame({"unit": [1, 1], "day": [0, 1]}), scenario)
    days = [
        batch.filter(pl.col("day") == day).private_count().plan(pf.Pure(0.1), noise=pf.Laplace)
        for day in (0, 1)
    ]
    account = ledger.open("units", scenario, limit=LIMIT, reserve=[(days[0], 1)])
    days[0].release(account)
    assert account.remaining(days[1]) == 0


@pytest.mark.slow
def test_an_account_reopens_with_its_profiles(tmp_path):
    """Its total and what is left are the same after a restart, and another reservation is refused."""
    plan, other = plan_of(pf.AnyCorrelation()), plan_of(pf.AnyCorrelation(), 0.05)
    scenario, place = plan.request.scenario, tmp_path / "ledger.db"
    with pf.Ledger(place) as ledger:
        account = ledger.open("levels", scenario, limit=LIMIT, reserve=[(plan, 5)])
        plan.release(account)
        before = account.spent(), account.remaining(plan), account.reserved
    with pf.Ledger(place) as ledger:
        ledger.verify()
        for reserve in (None, [(plan, 5)]):
            account = ledger.open("levels", scenario, limit=LIMIT, reserve=reserve)
            assert (account.spent(), account.remaining(plan), account.reserved) == before
        for reserve in ([(plan, 6)], [(other, 5)]):
            with pytest.raises(pf.UsageError, match="another reserve"):
                ledger.open("levels", scenario, limit=LIMIT, reserve=reserve)
        assert "reserved 5 releases beforehand" in account.explain()


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", [pf.AnyCorrelation(), pf.Independent(), pf.MarkovChain([[0.25] * 4] * 4)], ids=repr
)
def test_ways_are_compared_beforehand(prior, ledger):
    """The totals are those that accounts of each way come to, the least first."""
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), prior, order_by="hour")
    rows = pl.DataFrame({"hour": range(4), "level": [0, 3, 2, 1]})
    plan = (
        pf.protect(rows, scenario)
        .private_sum("level")
        .plan(pf.Pure(0.05), noise=pf.Laplace, bound=pf.GWM())
    )
    ways = pf.compare_accounting([(plan, 60)], scenario, LIMIT)
    totals = [way.total for way in ways]
    assert totals == sorted(totals)
    by_rule = {"M26" in way.rule: way.total for way in ways}
    reserved = ledger.open("reserved", scenario, limit=LIMIT, reserve=[(plan, 60)])
    plain = ledger.open("plain", scenario, limit=LIMIT, dataset="the same")
    plan.release(reserved)
    assert reserved.spent().epsilon == by_rule[True]
    for place in range(3):
        plan.release(plain, id=str(place))
    assert by_rule[False] >= plain.spent().epsilon
    if not isinstance(prior, pf.MarkovChain):
        assert by_rule[True] < 0.85 * by_rule[False]


def test_a_schedule_is_pairs_of_plans_and_numbers():
    """What is given instead is named as what it is."""
    with pytest.raises(pf.UsageError, match="schedule contains something that is not a pair"):
        pf.compare_accounting([], scenario_of(pf.Independent()), LIMIT)
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.Independent())
    plan = (
        pf.protect(pl.DataFrame({"level": [0, 1]}), scenario)
        .private_sum("level")
        .plan(pf.Pure(0.1))
    )
    with pytest.raises(pf.UsageError, match="every needs order_by"):
        pf.compare_accounting([(plan, 9)], scenario, LIMIT, every=24)


def test_a_schedule_of_days_needs_profiles_for_the_rows_they_share():
    """Independent rows of different steps are in one release each, however many there are."""
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), order_by="hour"
    )
    rows = pl.DataFrame({"hour": range(24), "level": [0, 3, 2, 1] * 6})
    day = pf.protect(rows, scenario).filter(pl.col("hour").is_between(0, 23))
    plan = day.private_sum("level").plan(pf.Pure(0.1))
    apart, overlapping = (
        pf.compare_accounting([(plan, 9)], scenario, LIMIT, every=every) for every in (24, 12)
    )
    one = pf.compare_accounting([(plan, 1)], scenario, LIMIT)
    assert apart[0].total == pytest.approx(one[0].total, rel=1e-5)
    assert overlapping[0].total > 1.5 * one[0].total


def exact_delta(moves, scale, epsilon):
    """Return the hockey stick of Laplace noise around two points of the plane, by sums over a fine grid."""
    grid = (np.arange(-600, 600) + 0.5) / 40
    first = [np.exp(-np.abs(grid) / scale) / (2 * scale * 40) for _ in moves]
    second = [np.exp(-np.abs(grid - move) / scale) / (2 * scale * 40) for move in moves]
    joint, shifted = (np.outer(*some) for some in (first, second))
    return float(np.maximum(joint - math.exp(epsilon) * shifted, 0.0).sum())


@pytest.mark.parametrize("moves", [(1.0, 1.0), (2.0, 0.5), (0.3, 1.7)])
def test_movements_in_two_dimensions_tell_no_more_than_is_said(moves):
    """At every ε, for a movement in any direction of the ball; with nine tenths of the noise they would reveal more."""
    release = ReleaseMovement(pf.Laplace(1.0), sum(moves), 2)
    for epsilon in (0.0, 0.5, 1.5):
        truth = exact_delta(moves, 1.0, epsilon)
        assert truth <= release.deltas(np.array([epsilon]))[0] + 1e-4
    assert release.deltas(np.array([sum(moves), 900.0])).tolist() == [0, 0]
    less = ReleaseMovement(pf.Laplace(0.9), max(moves), 1)
    assert (
        less.deltas(np.array([0.0]))[0]
        > ReleaseMovement(pf.Laplace(1.0), max(moves), 1).deltas(np.array([0.0]))[0]
    )


def test_rows_published_one_by_one_tell_as_much_as_randomised_response():
    """Of a channel with a pure loss no more is known: noise that has the same loss would reveal less."""
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.Independent())
    rows = pl.DataFrame({"level": [0, 1]})
    row_by_row = pf.protect(rows, scenario).private_local("level").plan(pf.Pure(1.0))
    noise = pf.protect(rows, scenario).private_sum("level").plan(pf.Pure(1.0), noise=pf.Laplace)
    most = pf.Approx(99.0, 0.01)
    (of_rows,), (of_sum,) = (
        read_reserved([(plan, 1)], scenario, most).profiles for plan in (row_by_row, noise)
    )
    assert of_rows.deltas[0] >= math.tanh(row_by_row.guarantee.epsilon / 2) * (1 - 1e-4)
    assert of_sum.deltas[0] < 0.9 * of_rows.deltas[0]


def test_a_limit_on_the_total_variation_is_kept_too(ledger):
    """As many releases as its total variation allows, although its epsilon would allow for more."""
    plan = plan_of(pf.AnyCorrelation())
    scenario, few = plan.request.scenario, pf.TradeOff(9.0, 1e-6, tv=0.1)
    tv = 1 - math.exp(-0.05)
    ledger.open("two", scenario, limit=few, reserve=[(plan, 2)])
    assert tv * 3 > few.tv > tv * 2
    with pytest.raises(pf.LimitReached, match="above the limit"):
        ledger.open("many", scenario, limit=few, reserve=[(plan, 9)], dataset="many")


@pytest.mark.slow
def test_profiles_without_a_total_are_no_way_to_count():
    """Where profiles reveal more than the limit's δ the other ways are left, and no error about an infinite ε."""
    scenario = scenario_of(pf.AnyCorrelation())
    plan = pf.protect(ROWS, scenario).private_sum("level").plan(pf.Gdp(3.0), noise=pf.Gaussian)
    ways = pf.compare_accounting([(plan, 30)], scenario, pf.TradeOff(900.0, 1e-6, tv=0.5))
    assert ways == ()
    tiny = pf.compare_accounting([(plan, 2)], scenario, pf.Approx(900.0, 1e-305))
    assert all("M26" not in way.rule for way in tiny)


def test_units_with_the_same_releases_in_another_order_are_units_of_their_own():
    """Which profile a release takes must not depend on later ones: one unit's order does not stand for another's."""
    scenario = scenario_of(pf.Independent())
    quiet, loud = (
        [plan_of(pf.Independent(), epsilon, day) for day in (0, 1)] for epsilon in (0.05, 0.1)
    )
    quiet, loud = (
        [msgspec.structs.replace(plan.cost, shape=plans[0].cost.shape) for plan in plans]
        for plans in (quiet, loud)
    )
    variation = 0.5 * (1 - math.exp(-0.05)) + 0.5 * (1 - math.exp(-0.025))
    reserve = [
        (pf.Pure(0.1001), 1),
        (pf.Tv(variation), 1),
    ]  # the first covers both, the second the quiet one only
    reserved = read_reserved(reserve, scenario, pf.Approx(9.0, 0.2))
    account = AccountCosts([scenario], pf.Approx(9.0, 0.2), opening=Opening(reserved))
    for cost in (quiet[0], loud[1], quiet[1]):
        account.add(cost)
    assert account.total().total == reserved.epsilon
    with pytest.raises(pf.LimitReached):
        account.total([loud[0]])


@pytest.mark.parametrize(
    ("reserve", "limit", "error", "match"),
    [
        ([], LIMIT, pf.UsageError, "something that is not a pair"),
        (7, LIMIT, pf.UsageError, "of type int"),
        ([("plan", 3)], LIMIT, pf.UsageError, "of type str"),
        ([(pf.Pure(0.1), 0)], LIMIT, pf.UsageError, "number of releases is 0"),
        ([(pf.Pure(0.1), 2.5)], LIMIT, pf.UsageError, "number of releases"),
        ([(pf.Pure(0.1), 10**7)], LIMIT, pf.UsageError, "10000000 profiles"),
        ([(pf.Pure(0.1), 3)], pf.Pure(1.0), pf.Refused, "under the limit"),
        ([(pf.Pure(0.1), 3)], pf.Renyi(4, 1.0), pf.Refused, "under the limit"),
        ([(pf.Pure(1.0), 300)], LIMIT, pf.LimitReached, "above the limit"),
        ([(plan_of(pf.AnyCorrelation()), 3)], LIMIT, pf.UsageError, "another scenario"),
    ],
)
def test_what_cannot_be_reserved(reserve, limit, error, match, ledger):
    """Nothing is opened then, and the error says what to reserve."""
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation())
    with pytest.raises(error, match=match):
        ledger.open("levels", scenario, limit=limit, reserve=reserve)
    assert ledger.accounts() == ()


@pytest.mark.parametrize(
    "promise",
    [
        pf.Pure(0.3),
        pf.Approx(0.3, 1e-9),
        pf.Renyi(8, 0.01),
        pf.Zcdp(0.01),
        pf.Gdp(0.2),
        pf.TradeOff(0.3, 1e-9, tv=0.1),
    ],
    ids=lambda promise: type(promise).__name__,
)
def test_promises_are_profiles_too(promise):
    """One reservation of a guarantee costs no less than the guarantee itself."""
    scenario = scenario_of(pf.AnyCorrelation())
    reserved = read_reserved([(promise, 1)], scenario, LIMIT)
    assert reserved.epsilon >= promise.approx_epsilon(LIMIT.delta) * (1 - 1e-9)


def test_a_release_about_rows_that_earlier_ones_did_not_see_is_refused_where_it_outgrows_their_profiles():
    """Pairs of some values only: about a row that the first release did not see it may reveal more than its profile."""
    secret = pf.Secret("x", domain=pf.Interval(0, 1.02), pairs=[(0, 1)])
    scenario = pf.Scenario(secret, pf.GaussianPrior(pf.AR1(0.5)), order_by="t")

    def plan(rows):
        frame = pl.DataFrame({"t": range(rows), "x": [0.0] * rows})
        asked = pf.protect(frame, scenario).filter(pl.col("t") == 0).private_sum("x", name="x")
        return asked.plan(pf.Pure(1.0), noise=pf.Laplace, row_privacy=False)

    short, longer = plan(1), plan(2)
    reserved = read_reserved([(short, 2)], scenario, pf.Approx(9.0, 1e-6))
    account = AccountCosts([scenario], pf.Approx(9.0, 1e-6), opening=Opening(reserved))
    account.add(short.cost)
    assert account.total([short.cost]).total == reserved.epsilon
    with pytest.raises(
        pf.LimitReached, match="Release 2 is about rows that earlier releases did not read"
    ):
        account.total([longer.cost])
