"""Totals that hold although later releases are chosen by earlier answers: what is fixed before the first answer."""

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.exact_answers import JointAnswers
from pufferflow.accounting.methods import Methods
from pufferflow.accounting.reserved import Opening
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.accounting.rules.choice import RULES, least
from pufferflow.accounting.rules.exact import Budgets, exact_release

ACCOUNTS = Path(__file__).parents[2] / "docs" / "reference" / "accounts.md"
UNITS = pl.DataFrame({"unit": [0, 1], "town": ["a", "b"], "x": [0, 1]})
THERE = pf.Scenario(
    pf.Presence("unit", "x", domain=[0, 1], rows=1), pf.Independent(), public=["town"]
)
LEVELS = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_rule_answers_the_question_and_the_docs_repeat_it(rule):
    """The table of `docs/reference/accounts.md` has its name, whether it is adaptive, and why."""
    assert re.search(r"\(M\d+", rule.why) or "every path" in rule.why
    row = f"| {rule.name} | {'yes' if rule.adaptive else 'no'} | {rule.why} |"
    assert row in ACCOUNTS.read_text(encoding="utf-8")


def plan_of_keys(delta, epsilon=0.1):
    towns = pf.protect(UNITS, THERE).group_by("town", keys="discover")
    return towns.private_count().plan(pf.Approx(epsilon, delta), noise=pf.Gaussian)


def plan_of_count(promise, noise=pf.Gaussian):
    return pf.protect(UNITS, THERE).private_count().plan(promise, noise=noise)


def account_of(*plans, limit, keys_delta=None):
    account = AccountCosts([THERE], limit, opening=Opening(keys_delta=keys_delta))
    for plan in plans:
        account = account.begun(plan.cost)
        account.add(plan.cost)
    return account


def test_sums_cost_the_same_whether_keys_have_taken_their_part_or_not():
    """So no answer can decide whether keys or sums take it."""
    limit = pf.Approx(3.0, 1e-5)
    sums = [plan_of_count(pf.Approx(0.3, 1e-6))] * 2
    alone = account_of(*sums, limit=limit)
    with_keys = account_of(*sums, plan_of_keys(4e-6, 1e-3), limit=limit)
    of_sums = with_keys.total().total
    all_delta = account_of(*sums, limit=limit, keys_delta=0.0).total().total
    assert alone.total().total > all_delta
    assert alone.total().total <= of_sums
    # the key's own count is a sum as well, and nothing else is more
    plain = account_of(*sums, limit=pf.Approx(3.0, 5e-6), keys_delta=0.0).total().total
    assert alone.total().total == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize(
    "kind", [pf.Approx(3.0, 1e-5), pf.ApproxRenyi(4, 3.0, 1e-5), pf.TradeOff(3.0, 1e-5, 0.5)]
)
def test_keys_take_no_more_than_their_part(kind):
    """Half of δ by default, else what an account is opened with; more is refused, whatever sums have left."""
    account = account_of(plan_of_count(pf.Pure(0.1), pf.Laplace), limit=kind)
    assert account.keys_delta == 5e-6
    laplace = pf.protect(UNITS, THERE).group_by("town", keys="discover").private_count()
    few, many = (laplace.plan(pf.Approx(0.1, delta), noise=pf.Laplace) for delta in (9e-6, 1.1e-5))
    assert account.total([few.cost]).total <= kind.loss
    with pytest.raises(pf.Refused, match="keys_delta 5e-06"):
        account.total([many.cost])
    larger = account_of(plan_of_count(pf.Pure(0.1), pf.Laplace), limit=kind, keys_delta=6e-6)
    assert larger.total([many.cost]).total <= kind.loss


def test_an_account_is_opened_with_a_part_of_delta_for_keys(tmp_path):
    """It is stored, shown, and an account that exists has to agree with it."""
    limit = pf.Approx(1.0, 1e-6)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.open("half", THERE, limit=limit).keys_delta == 5e-7
        account = ledger.open("most", THERE, dataset="most", limit=limit, keys_delta=9e-7)
        assert account.keys_delta == 9e-7
        assert "9e-07 is for keys" in account.explain()
        assert ledger.open("most", THERE, dataset="most", limit=limit).keys_delta == 9e-7
        with pytest.raises(pf.UsageError, match=r"keys_delta \(9e-07\)"):
            ledger.open("most", THERE, dataset="most", limit=limit, keys_delta=1e-7)
        assert (
            ledger.open("none", THERE, dataset="none", limit=limit, keys_delta=0.0).keys_delta == 0
        )
        assert ledger.open("levels", LEVELS, limit=limit).keys_delta == 0
        assert (
            ledger.open("variation", THERE, dataset="variation", limit=pf.Tv(0.3)).keys_delta == 0
        )
        assert (
            ledger.open("some", THERE, dataset="some", limit=pf.Tv(0.3), keys_delta=0.01).keys_delta
            == 0.01
        )
        assert "for keys" not in ledger.account("levels").explain()
        for wrong in (2e-6, -1e-9, math.nan, "half"):
            with pytest.raises(pf.UsageError, match="keys_delta"):
                ledger.open("wrong", THERE, limit=limit, keys_delta=wrong)
        with pytest.raises(pf.UsageError, match="no release of the account can take keys"):
            ledger.open("wrong", LEVELS, limit=limit, keys_delta=1e-7)


def test_reserved_profiles_have_all_of_delta(tmp_path):
    """They carry no discovered keys, so nothing of δ is set aside, and a part for keys is refused."""
    limit, plan = pf.Approx(3.0, 1e-6), plan_of_count(pf.Pure(0.1), pf.Laplace)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("units", THERE, limit=limit, reserve=[(plan, 3)])
        assert account.keys_delta == 0
        assert "for keys" not in account.explain()
        assert ledger.open("units", THERE, limit=limit, keys_delta=0.0).reserved == account.reserved
        with pytest.raises(pf.UsageError, match="keys_delta together with reserve"):
            ledger.open("wrong", THERE, limit=limit, reserve=[(plan, 3)], keys_delta=1e-7)


def test_an_account_with_all_of_delta_for_keys_says_so_where_sums_need_some():
    limit = pf.Approx(3.0, 1e-5)
    account = account_of(plan_of_count(pf.Approx(0.3, 1e-6)), limit=limit, keys_delta=1e-5)
    with pytest.raises(pf.Refused, match="keys_delta leaves the sums no delta"):
        account.total([plan_of_count(pf.Approx(0.3, 1e-6)).cost])


def test_a_first_release_keeps_its_own_promise_whatever_the_parts():
    """It is chosen before any answer (M61)."""
    limit = pf.Approx(1.0, 1e-5)
    for plan in (plan_of_keys(1e-5, 1.0), plan_of_count(pf.Approx(1.0, 1e-5))):
        assert account_of(plan, limit=limit).total().total == pytest.approx(1.0, rel=1e-6)


KINDS = {
    "approx": (pf.Approx(1.0, 1e-6), ["pure", "gaussian"]),
    "renyi": (pf.Renyi(4, 1.0), ["pure", "renyi"]),
    "zcdp": (pf.Zcdp(1.0), ["pure", "zcdp"]),
    "gdp": (pf.Gdp(1.0), ["pure", "gaussian"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_composed_totals_are_adaptive_by_a_method_that_was_chosen_beforehand(name):
    """Without one the total is the least of all methods, for queries that were fixed beforehand."""
    promise, methods = KINDS[name]
    plan = (
        pf.protect(pl.DataFrame({"level": [0, 3, 2]}), LEVELS)
        .private_sum("level")
        .plan(pf.Pure(0.2))
    )
    found = pf.compose([plan, plan], LEVELS, promise.kind)
    assert not found.adaptive
    by_method = [pf.compose([plan, plan], LEVELS, promise.kind, method=one) for one in methods]
    assert all(one.adaptive for one in by_method)
    assert found.total == min(one.total for one in by_method)


def test_composed_totals_by_a_method_set_half_of_delta_aside_for_keys():
    """As an account does; queries fixed beforehand take what they take."""
    plans = [plan_of_keys(4e-6, 0.3), plan_of_count(pf.Approx(0.3, 1e-6))]
    kind = pf.Approx.of(1e-5)
    adaptive = pf.compose(plans, THERE, kind, method="gaussian")
    assert adaptive.adaptive
    assert adaptive.total == account_of(*plans, limit=pf.Approx(9.0, 1e-5)).total().total
    assert pf.compose(plans, THERE, kind).total < adaptive.total
    with pytest.raises(pf.Refused, match="keys_delta 5e-06"):
        pf.compose([plan_of_keys(1.1e-5, 0.3), *plans], THERE, kind, method="gaussian")


def test_pure_totals_are_adaptive_without_a_method():
    plan = (
        pf.protect(pl.DataFrame({"level": [0, 3, 2]}), LEVELS)
        .private_sum("level")
        .plan(pf.Pure(0.2))
    )
    assert pf.compose([plan, plan], LEVELS).adaptive
    assert pf.compose([plan, plan], LEVELS, method="pure").adaptive


@pytest.mark.parametrize("method", ["renyi", "classes", "rows", "", None.__class__, 3])
def test_methods_that_are_none_are_refused(method):
    plan = (
        pf.protect(pl.DataFrame({"level": [0, 3, 2]}), LEVELS)
        .private_sum("level")
        .plan(pf.Pure(0.2))
    )
    with pytest.raises(pf.UsageError, match="There is no method") as caught:
        pf.compose([plan, plan], LEVELS, pf.Approx.of(1e-6), method=method)
    assert caught.value.allowed == '"pure", "gaussian", "pair"'
    with pytest.raises(pf.UsageError, match="both given"):
        pf.compose([plan, plan], LEVELS, pf.Approx.of(1e-6), method="pure", fixed=True)


class _Outcomes:
    """Budgets as far as shares of pure losses need them: no likelihood but t."""

    def __init__(self, epsilon):
        self.likelihood = Fraction(math.exp(epsilon))


def shares(first, second, epsilon, delta):
    masses = [np.array([Fraction(one) for one in law], dtype=object) for law in (first, second)]
    return Budgets._shares_of_pure(_Outcomes(epsilon), *masses, Fraction(delta)).astype(float)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 3.0), st.floats(1e-6, 0.3))
def test_shares_of_pure_losses_are_what_pure_losses_may_use(seed, epsilon, delta):
    """All outcomes together have δ, and each as much as the most telling pure releases after it would use."""
    rng, most = np.random.default_rng(seed), (math.exp(epsilon) + delta) / (1 - delta)
    first = rng.dirichlet(np.ones(6))
    second = first * np.exp(rng.uniform(-0.5, 0.5, 6) * math.log(most))
    second /= second.sum()  # ratios stay between 1/m and m
    found = shares(first, second, epsilon, delta)
    # after an outcome with masses p, q the best continuation has two outputs, with ratios m and 1/m
    likelier = (most * first - second) / (most**2 - 1)
    used = np.maximum(most - math.exp(epsilon), 0) * likelier
    assert found == pytest.approx(used, rel=1e-5, abs=1e-12)
    assert (found <= used).all()
    assert delta * (1 - 1e-5) <= found.sum() <= delta


def test_equal_shares_after_pure_losses_would_pass_delta():
    """Why: after one outcome a pure continuation, after the other a designed one with a share by its mean mass."""
    epsilon, delta = 1.0, 0.1
    most = (math.exp(epsilon) + delta) / (1 - delta)
    p, q = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))
    pure = shares([p, q], [q, p], epsilon, delta)[0]
    assert pure == pytest.approx(delta * (most * p - q) / (most - 1), rel=1e-5)
    assert pure + delta * (p + q) / 2 > 1.4 * delta
    assert shares([p, q], [q, p], epsilon, delta).sum() <= delta


LAW = {
    "s": [0, 0, 1, 1],
    "x": [0, 1, 0, 1],
    "probability": [Fraction(3, 8), Fraction(1, 8), Fraction(1, 8), Fraction(3, 8)],
}


def test_designed_releases_begin_with_the_shares_of_the_pure_losses_before_them():
    """All of δ is shared out, most to the outcomes after which pure losses would use most."""
    table = pf.Table(LAW)
    scenario, limit = pf.Scenario(pf.Derived("s"), table), pf.Approx(0.5, 0.05)
    batch = pf.protect(pl.DataFrame({"x": [0]}), scenario).private_sum("x")
    plan = batch.plan(pf.Pure(0.3), noise=pf.Laplace)
    joint = JointAnswers.of([table], scenario.secret, [exact_release(plan.joint_cost)])
    budgets = Budgets.of(joint, limit)
    (left,) = budgets.left
    ((laws, total),) = joint.seen.laws
    masses = (laws @ budgets.outcomes.masses) / (total * budgets.outcomes.unit)
    wanted = [
        shares(masses[one], masses[other], limit.epsilon, limit.delta)
        for one, other in joint.seen.pairs
    ]
    assert left.astype(float) == pytest.approx(np.array(wanted), rel=1e-6)
    assert left.astype(float).sum(axis=1) == pytest.approx(limit.delta, rel=1e-6)
    equal = limit.delta * masses.mean(axis=0).astype(float)
    assert (np.abs(left.astype(float) / equal - 1) > 0.1).any()


def test_a_design_is_refused_on_accounts_whose_limit_it_was_not_made_for(tmp_path):
    """A channel that keeps (ε, δ) need not keep a total variation, nor a Rényi order with its own δ."""
    scenario = pf.Scenario(pf.Derived("s"), pf.Table(LAW))
    batch = pf.protect(pl.DataFrame({"x": [0]}), scenario).private_sum("x")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        best = ledger.open("a", scenario, limit=pf.Approx(0.5, 0.01)).design(batch)
        for name, limit in {
            "b": pf.TradeOff(0.5, 0.01, 0.05),
            "c": pf.ApproxRenyi(2, 0.5, 0.01),
        }.items():
            account = ledger.open(name, scenario, limit=limit, dataset=name)
            with pytest.raises(pf.Refused, match="A designed release on an account with the limit"):
                best.release(account)
            assert account.history() == ()


class Slight(CompositionRule):
    """A rule that knows of hardly any loss."""

    name, why = "hardly any loss", "it is a test"

    def renyi(self, releases, alpha):
        return 1e-3


def test_what_is_cut_off_for_rows_far_away_counts_for_every_rule_of_an_account():
    """Answers may decide by which rule a path is counted, and the laws are cut for all of them (M4)."""
    rows = pl.DataFrame({"t": range(4), "x": [0.0] * 4})
    found = {}
    for prior in (pf.GaussianPrior(pf.AR1(0.5)), pf.GaussianPrior(pf.Exchangeable(0.5))):
        scenario = pf.Scenario(pf.Secret("x", domain=pf.Interval(0, 1)), prior, order_by="t")
        plan = pf.protect(rows, scenario).private_sum("x").plan(pf.Gdp(1.0), noise=pf.Gaussian)
        releases = UnitReleases(scenario, prior, [plan.cost] * 2, plan.cost.steps_seen)
        found[prior] = least(releases, pf.ApproxRenyi.of(2, 0.1), "renyi", rules=[Slight()]).value
    far, alike = found.values()
    assert alike == 1e-3
    assert far == pytest.approx(1e-3 + 2 * 0.1 / 2**16, rel=1e-6)


class Hasty(Slight):
    adaptive = False


def test_accounts_count_by_no_rule_that_is_not_adaptive():
    """It serves for queries that were fixed beforehand only."""
    plan = (
        pf.protect(pl.DataFrame({"level": [0, 3]}), LEVELS)
        .private_sum("level")
        .plan(pf.Zcdp(0.1), noise=pf.Gaussian)
    )
    releases = UnitReleases(LEVELS, LEVELS.priors[0], [plan.cost] * 2)
    found = [
        least(releases, pf.Renyi.of(2), "renyi", fixed=fixed, rules=[Hasty()]).value
        for fixed in (False, True)
    ]
    assert found == [math.inf, 1e-3]


def costs_of(noises, rng):
    """Return releases about the rows of one group, of several noises."""
    frame = pl.DataFrame({"level": [0, 3, 2]})
    batch = pf.protect(frame, LEVELS)
    plans = [
        batch.private_sum("level").plan(pf.Pure(float(rng.uniform(0.1, 1))), noise=pf.Laplace)
        for _ in noises
    ]
    plans += [
        batch.private_sum("level").plan(pf.Gdp(float(rng.uniform(0.1, 1))), noise=pf.Gaussian)
        for _ in noises
    ]
    return [plan.cost for plan in plans]


@pytest.mark.parametrize(
    "limit", [pf.Approx(9, 1e-6), pf.Renyi(4, 9), pf.Zcdp(9), pf.Gdp(9)], ids=repr
)
def test_totals_never_fall(limit):
    """One more release never lowers the total, by whatever method."""
    rng = np.random.default_rng(0)
    costs = costs_of(range(3), rng)
    for method, order in itertools.product(AccountCosts([LEVELS], limit).known_methods, range(3)):
        account, totals = AccountCosts([LEVELS], limit, Methods.only(method)), []
        for cost in rng.permutation(np.array(costs, dtype=object))[: 3 + order]:
            account.add(cost)
            try:
                totals.append(account.total().total)
            except pf.Refused:
                totals.append(math.inf)
        assert totals == sorted(totals)
