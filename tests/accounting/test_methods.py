"""Accounts hold several accounting methods, each with its share of the limit: together they keep the limit (M61)."""

import itertools
import json
import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.methods import Methods, pure_is_free, shared_out, shares_for

CHAIN = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
SCENARIO = pf.Scenario(pf.Secret("on", [0, 1], missing=0), CHAIN, order_by="hour")
ANY = pf.Scenario(pf.Secret("on", [0, 1], missing=0), pf.AnyCorrelation(), order_by="hour")
ROWS = pl.DataFrame({"hour": range(24 * 6), "on": [0] * 24 * 6})
FOUR = pf.Approx(4.0, 1e-6)
DAY = 2.16873  # of four hours of a day, with a deviation of 8


def day(number, scenario=SCENARIO, epsilon=DAY, noise=pf.Gaussian):
    """Return the plan of the first four hours of a day."""
    hours = pl.col("hour").is_between(24 * number, 24 * number + 3)
    batch = pf.protect(ROWS, scenario).filter(hours).private_sum("on")
    return batch.plan(pf.Approx(epsilon, 1e-6), noise=noise)


@pytest.fixture
def ledger(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as opened:
        yield opened


def test_an_account_does_not_lock_to_the_method_of_its_first_release(ledger):
    """One coupling suits the first days and admits two; single rows admit days for ever."""
    account = ledger.open("all", SCENARIO, limit=FOUR)
    one = ledger.open("one", SCENARIO, limit=FOUR, dataset="one", methods=["gaussian"])
    for number in range(5):
        day(number).release(account)
        if number < 2:
            day(number).release(one)
    with pytest.raises(pf.LimitReached):
        day(2).release(one)
    assert account.spent().epsilon == pytest.approx(3.6368, rel=1e-4)  # with all of δ 3.39
    assert account.forecast(day(5), every=24).fits == math.inf
    assert account.forecast(day(5), every=24).method == "rows"
    assert [entry.dead for entry in account.history()] == [(), (), ("gaussian",), (), ()]
    assert [entry.method for entry in account.history()][1:3] == ["gaussian", "rows"]
    totals = [entry.total for entry in account.history()]
    assert totals == sorted(totals)
    assert totals[1] == pytest.approx(3.3234, rel=1e-4)  # by the method that counted then
    assert "Counted by what single rows reveal" in account.explain()
    assert "No longer within the limit: standard deviations" in account.explain()
    assert {one.name: one.alive for one in account.methods()} == {"gaussian": False, "rows": True}


def test_answers_about_one_hour_each_go_on_for_ever(ledger):
    """Hours of their own each: what counts is the most exposed one, however many weeks there are."""
    scenario = pf.Scenario(SCENARIO.secret, CHAIN, order_by="hour", public=["at"])
    rows = pl.DataFrame({"hour": range(336), "at": range(336), "on": [0] * 336})
    batch = pf.protect(rows, scenario).filter(pl.col("hour") < 168).group_by("at")
    plan = batch.private_sum("on").plan(pf.Approx(1.0, 1e-6), noise=pf.Gaussian)
    account = ledger.open("hours", scenario, limit=pf.Approx(3.0, 1e-6))
    plan.release(account)
    shares = {one.name: one.share for one in account.methods()}
    assert shares["answers"] == max(shares.values())
    ahead = account.forecast(plan, every=168)
    assert (ahead.method, ahead.fits) == ("answers", math.inf)
    assert ahead.total < 2


def test_what_is_dead_stays_dead_in_a_ledger_that_is_read_again(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("all", SCENARIO, limit=FOUR)
        for number in range(3):
            day(number).release(account)
        known = account.methods(), account.spent(), account.remaining(day(3))
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.account("all")
        assert (account.methods(), account.spent(), account.remaining(day(3))) == known
        assert ledger.verify().entries == 7
        lines = ledger.export(tmp_path / "lines").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert [event["shares"] for event in events if "shares" in event] == [
        {one.name: one.share for one in known[0]}
    ]
    assert [event["dead"] for event in events if "dead" in event] == [["gaussian"]]


@pytest.mark.parametrize("noise", [pf.Gaussian, pf.Laplace])
@pytest.mark.parametrize("scenario", [SCENARIO, ANY], ids=["chain", "any"])
@pytest.mark.parametrize(
    "limit", [pf.Approx(99.0, 1e-6), pf.TradeOff(9.0, 1e-6, 0.9)], ids=["approx", "trade-off"]
)
def test_each_method_proves_its_total_with_its_own_part_of_delta(limit, scenario, noise, ledger):
    """No method counts with the δ of another: totals are those that it has alone, with its part."""
    account = ledger.open("all", scenario, limit=limit)
    plans = [day(number, scenario, 0.1, noise) for number in range(3)]
    for plan in plans:
        plan.release(account)
    methods = account.methods()
    assert sum(one.share for one in methods) <= 1
    for one in methods:
        part = limit.delta * one.share
        binding = isinstance(limit, pf.TradeOff)
        kind = pf.TradeOff.of(part, limit.tv * one.share) if binding else pf.Approx.of(part)
        try:
            alone = pf.compose(plans, scenario, kind, method=one.name).total
        except pf.Refused:
            alone = math.inf
        assert one.total == pytest.approx(alone, rel=1e-9)
    assert account.spent().epsilon == pytest.approx(min(one.total for one in methods), rel=1e-5)


@pytest.mark.parametrize(
    "kind", [pf.Renyi.of(2), pf.Renyi.of(8), pf.Zcdp.__call__, pf.Gdp], ids=str
)
def test_a_share_raises_what_a_method_proves(kind):
    """A smaller share needs a smaller loss, for the same loss of the account; a whole share changes nothing."""
    family = kind if isinstance(kind, type(pf.Renyi.of(2))) else kind(1.0).kind
    for loss in (0.0, 1e-9, 0.3, 2.0, 40.0):
        raised = [Methods({"m": share}).whole("m", family, loss) for share in (1.0, 0.9, 0.5, 0.1)]
        assert raised == sorted(raised)
        assert raised[0] == loss
    assert Methods({"m": 0.5}).whole("m", family, math.inf) == math.inf


def response(epsilon):
    """Return the laws of randomised response."""
    return np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("alpha", [2, 8])
def test_shares_of_renyi_losses_are_tight(count, alpha):
    """A first answer tells a coin; only the method that it names admits a response about the secret.

    Each method by itself loses little, since its coin is rare. Over all answers they lose what one response does.
    """
    first, second = response(1.0), response(1.0)[::-1]
    moment = float(np.sum(first**alpha * second ** (1 - alpha)))
    whole = math.log(moment) / (alpha - 1)
    of_one = math.log(1 + (moment - 1) / count) / (alpha - 1)
    found = Methods({"m": 1 / count}).whole("m", pf.Renyi.of(alpha), of_one)
    assert whole <= found <= whole * (1 + 1e-9)
    if alpha == 2:
        assert of_one == pytest.approx({2: 0.43378083, 3: 0.30899367, 4: 0.24022901}[count])
        assert found == pytest.approx(0.73532566)


def test_shares_of_gaussian_trade_offs_add_total_variations():
    """Two methods whose trees are .76178591-Gaussian were 1.23203539-Gaussian together."""
    found = Methods({"m": 0.5}).whole("m", pf.Gdp(1.0).kind, 0.76178591)
    assert found == pytest.approx(2 * norm.ppf((1 + 2 * (2 * norm.cdf(0.76178591 / 2) - 1)) / 2))
    assert found >= 1.23203539
    assert Methods({"m": 0.5}).whole("m", pf.Zcdp(1.0).kind, 0.25) == pytest.approx(0.5)


class Tree:
    """Random releases with two outputs each, in three turns; which a method admits depends on the path."""

    def __init__(self, rng, methods=2, choices=3, turns=3):
        self._rng, self._choices, self._turns = rng, choices, turns
        self._laws, self._admitted, self._methods = {}, {}, methods

    def laws(self, path, choice):
        if (path, choice) not in self._laws:
            pair = self._rng.dirichlet([0.7, 0.7], 2) * 0.98 + 0.01
            self._laws[path, choice] = pair
        return self._laws[path, choice]

    def admits(self, method, path, choice):
        key = method, path, choice
        if key not in self._admitted:
            self._admitted[key] = self._rng.random() < 0.5
        return self._admitted[key]

    def best(self, worth, methods, path=(), alive=None, masses=(1.0, 1.0)):
        """Return the most that an adversary gets who is stopped where none of the methods is alive."""
        alive = frozenset(methods) if alive is None else alive
        found = worth(*masses)
        if len(path) == self._turns:
            return found
        for choice in range(self._choices):
            left = frozenset(one for one in alive if self.admits(one, path, choice))
            if left:
                laws = self.laws(path, choice)
                found = max(
                    found,
                    sum(
                        self.best(
                            worth,
                            methods,
                            (*path, (choice, output)),
                            left,
                            (masses[0] * laws[0, output], masses[1] * laws[1, output]),
                        )
                        for output in range(2)
                    ),
                )
        return found


@pytest.mark.parametrize("seed", range(40))
def test_no_adversary_passes_what_shares_allow(seed):
    """Random trees, every strategy: moments and δ of all methods together are at most what is stated (M61)."""
    tree = Tree(np.random.default_rng(seed))
    alpha, epsilon = 2.0, 0.7

    def moment(first, second):
        return first**alpha * second ** (1 - alpha)

    def excess(first, second):
        return max(first - math.exp(epsilon) * second, 0.0)

    each = [tree.best(moment, [method]) for method in range(2)]
    both = tree.best(moment, [0, 1])
    assert both <= sum(each) - 1 + 1e-9
    limit = math.log(sum(each) - 1)
    if limit > 1e-9:  # shares as large as each needs, of the limit that both need
        shares = [(one - 1) / (sum(each) - 2) for one in each]
        stated = [
            Methods({"m": share}).whole("m", pf.Renyi.of(alpha), math.log(one))
            for share, one in zip(shares, each, strict=True)
            if share > 0
        ]
        assert math.log(both) <= max(stated) + 1e-9
        assert max(stated) <= limit * (1 + 1e-9)
    deltas = [tree.best(excess, [method]) for method in range(2)]
    assert tree.best(excess, [0, 1]) <= sum(deltas) + 1e-12


def test_unsplit_methods_would_pass_their_limit():
    """That shares are needed: without them some random tree has more than each method allows."""
    seeds = range(40)

    def passes(seed):
        tree = Tree(np.random.default_rng(seed))

        def excess(first, second):
            return max(first - math.exp(0.7) * second, 0.0)

        return tree.best(excess, [0, 1]) > max(tree.best(excess, [one]) for one in range(2)) + 1e-6

    assert any(map(passes, seeds))


@pytest.mark.parametrize(
    "limit",
    [
        pf.Approx(3.0, 1e-6),
        pf.Tv(0.3),
        pf.TradeOff(3.0, 1e-6, 0.5),
        pf.Renyi(4, 3.0),
        pf.Zcdp(1.0),
        pf.Gdp(1.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("firsts", list(itertools.permutations((0.5, 1.0, math.inf))))
def test_shares_are_of_one_limit(limit, firsts):
    """They sum to at most 1, what suits the first release has most, and what does not bound it has none."""
    known = dict(zip(("pure", "gaussian", "rows"), firsts, strict=True))
    methods = shares_for(limit, [CHAIN], known)
    assert shared_out(methods.shares)
    assert all(math.isfinite(known[method]) for method in methods.shares)
    takers = {method: share for method, share in methods.shares.items() if share}
    suited = min(known, key=known.get)
    assert suited in methods.shares
    if suited in takers:
        assert takers[suited] == max(takers.values())
    assert pure_is_free(limit) == (limit == pf.Approx(3.0, 1e-6))


def test_pure_totals_take_a_share_where_they_gain_from_delta(ledger):
    """A limit on the total variation alone has no place for a pure total without δ."""
    account = ledger.open("variation", ANY, limit=pf.Tv(0.5))
    plan = day(0, ANY, 0.3, pf.Laplace)
    plan.release(account)
    assert all(one.share > 0 for one in account.methods())


def test_noise_of_two_families_on_one_account(ledger):
    """Laplace noise first, for which pure losses suit, and Gaussian noise after it."""
    account = ledger.open("both", ANY, limit=pf.Approx(9.0, 1e-5))
    for noise in (pf.Laplace, pf.Gaussian, pf.Laplace):
        day(0, ANY, 0.5, noise).release(account)
    assert [entry.method for entry in account.history()][1:] == ["gaussian", "gaussian"]
    names = {one.name: one for one in account.methods()}
    assert names["pure"].total == math.inf
    assert names["pure"].alive
    assert account.spent().epsilon == names["gaussian"].total < 9


def test_a_first_release_may_take_the_whole_limit(ledger):
    """It needs no shares, and then only the method that suits it is kept."""
    account = ledger.open("whole", SCENARIO, limit=pf.Approx(DAY, 1e-6))
    day(0).release(account)
    assert account.spent().epsilon <= DAY
    assert [one.share for one in account.methods()] == [1.0]
    with pytest.raises(pf.LimitReached):
        day(1).release(account)


def test_designed_releases_after_others_need_pure_losses_alone(ledger):
    scenario = pf.Scenario(
        pf.Secret("on", [0, 1]), pf.Table({"on": [0, 1], "probability": [0.5, 0.5]})
    )
    one = pf.protect(pl.DataFrame({"on": [1]}), scenario).private_sum("on")
    limit = pf.Approx(1.5, 1e-3)
    several = ledger.open("several", scenario, limit=limit)
    pure = ledger.open("pure", scenario, limit=limit, dataset="pure", methods=["pure"])
    for account in (several, pure):
        one.plan(pf.Pure(0.5)).release(account)
    with pytest.raises(pf.Refused, match="since the first") as caught:
        several.design(one)
    assert 'methods=["pure"]' in caught.value.instead
    pure.design(one, pf.Approx(1.5, 1e-4)).release(pure)
    assert pure.spent().epsilon <= 1.5


def test_methods_are_named_when_an_account_is_opened(ledger):
    limit = pf.Approx(3.0, 1e-6)
    account = ledger.open("some", SCENARIO, limit=limit, methods=["rows", "pure"])
    day(0, epsilon=0.3).release(account)
    assert [one.name for one in account.methods()] == ["rows"]  # pure losses do not bound it
    assert ledger.open("some", SCENARIO, limit=limit, methods=["pure", "rows"]).name == "some"
    assert ledger.open("some", SCENARIO, limit=limit).name == "some"
    with pytest.raises(pf.UsageError, match="has another methods"):
        ledger.open("some", SCENARIO, limit=limit, methods=["gaussian"])
    for wrong in (["zcdp"], [], "rényi", 3, [None]):
        with pytest.raises(pf.UsageError, match="accounting method"):
            ledger.open("wrong", SCENARIO, limit=limit, dataset="wrong", methods=wrong)
    assert ledger.open("pure", SCENARIO, limit=pf.Pure(3.0), dataset="pure").methods() == ()
    with pytest.raises(pf.UsageError, match="methods together with reserve"):
        ledger.open(
            "x", ANY, limit=limit, dataset="x", methods=["pure"], reserve=[(pf.Pure(0.1), 5)]
        )


def test_a_refusal_names_the_methods(ledger):
    account = ledger.open("all", SCENARIO, limit=pf.Approx(3.0, 1e-6))
    day(0, epsilon=1.0).release(account)
    with pytest.raises(pf.LimitReached, match="No accounting method of the account admits it: g"):
        day(0, epsilon=30.0).release(account)


def test_totals_of_dead_methods_never_count_again():
    """Whatever a method would say later: an account that has buried it does not ask."""
    account = AccountCosts([SCENARIO], FOUR).begun(day(0).cost)
    account.add(day(0).cost)
    before = account.total().total
    account.bury(["gaussian", "rows"][:1])
    assert account.total([day(1).cost]).method == "rows"
    assert before <= account.total([day(1).cost]).total
