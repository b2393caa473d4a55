"""Accounts that count draws for the dominating pair of their first release: Theorem 2 of TV without a reservation."""

import itertools
import math

import mpmath
import numpy as np
import polars as pl
import pytest
from games.measures import hockey_stick, measures_of
from games.player import Player
from games.referee import Referee
from games.world import Release, World, finite

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.methods import Methods, shares_for
from pufferflow.accounting.reserved import (
    Opening,
    ReservedProfile,
    ReservedProfiles,
    read_reserved,
)
from pufferflow.accounting.rules.dominating_pair import draws, draws_of_one
from pufferflow.tradeoff import Profile, compose

ONE = pf.Scenario(pf.Secret("on", domain=[0, 1], missing=0), pf.AnyCorrelation())
SUM = pf.protect(pl.DataFrame({"on": [1]}), ONE).private_sum("on")
FIGURE = 1.0, 0.0139
"""The ε and γ of Figure 4 of the paper."""
LIMIT = pf.TradeOff(3.0, 0.0955, tv=0.64)
WORLD = World.given([0, 1], [0.5, 0.5], [0, 1])


def staircase(epsilon, gamma=None):
    return SUM.plan(pf.Pure(epsilon), noise=pf.Staircase.of(epsilon, gamma), row_privacy=False)


def outcomes(noise):
    """Return the probabilities of the losses −ε, 0 and ε under 0 and 1, by adding up pieces of both densities."""
    turns = noise.sensitivity * np.arange(-90 / noise.epsilon, 90 / noise.epsilon).round()
    jumps = np.concatenate([turns, turns + noise.gamma, turns - noise.gamma])
    edges = np.unique(np.concatenate([jumps, jumps + 1.0]).round(12))
    middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    both = [np.exp(noise.logpdf(middles - place)) * lengths for place in (0.0, 1.0)]
    steps = np.round(np.log(both[0] / both[1]) / noise.epsilon).astype(int)
    table = np.array([[law[steps == step].sum() for law in both] for step in (-1, 0, 1)])
    assert abs(table.sum() - 2) < 1e-9
    return table / table.sum(axis=0)


def release_of(name, plan):
    return finite(name, plan, outcomes(plan.noises["on_sum"]))


def account_of(limit, *plans, scenario=ONE, **opening):
    account = AccountCosts([scenario], limit, opening=Opening(**opening))
    for plan in plans:
        account = account.begun(plan.cost)
        account.add(plan.cost)
    return account


@pytest.fixture
def ledger(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as opened:
        yield opened


@pytest.mark.parametrize("limit", [pf.Approx(3.0, 0.0954), LIMIT], ids=repr)
def test_five_staircases_cost_what_theorem_2_says(limit):
    """With profiles reserved and without: the ε of the paper's own formula, and a sixth release is above the limit."""
    plan = staircase(*FIGURE)
    own = compose(Profile.of(pf.Staircase(1.0, *FIGURE)), 5)
    assert own.tv <= LIMIT.tv
    assert own.epsilon(0.0954) == pytest.approx(2.9997065, abs=1e-7)
    plain = account_of(limit, *[plan] * 5)
    found = plain.total()
    assert (found.method, found.adaptive) == ("pair", True)
    assert not plain.fits([plan.cost], limit.loss)
    reserved = account_of(limit, plan, reserved=read_reserved([(plan, 5)], ONE, limit))
    for total in (found, reserved.total()):
        assert total.total == pytest.approx(own.epsilon(limit.delta), rel=1e-12)


@pytest.mark.slow
def test_five_staircases_fit_into_accounts_of_a_ledger(ledger):
    """A limit that Theorem 2 just reaches takes five, without a reservation."""
    plan = staircase(*FIGURE)
    account = ledger.open("c", ONE, limit=LIMIT, dataset="c")
    assert account.remaining(plan) == 5
    for _ in range(5):
        plan.release(account)
    with pytest.raises(pf.LimitReached, match="may pass the total variation"):
        plan.release(account)
    assert [one.name for one in account.methods() if one.alive] == ["pair"]


class Counter:
    """A referee that stops at a number of draws."""

    def __init__(self, pair, most):
        self.pair, self.most = pair, most

    def admits(self, path):
        return draws(self.pair, (one.plan for one in path)) <= self.most


def mechanism(rng, loss):
    """Return a release of three outputs with at most so large a loss, and its numbers, which it attains."""
    share = float(rng.choice([1.0, rng.uniform(0.2, 1.0)]))
    high = share / (1 + math.exp(-loss))
    low = share - high
    table = np.array([[high, low], [1 - share, 1 - share], [low, high]])
    return Release(f"{loss:.3g} {share:.3g}", (loss, share * math.tanh(loss / 2)), table)


@pytest.mark.parametrize("seed", range(60))
def test_no_strategy_has_more_than_the_draws(seed):
    """Louder releases and many quiet ones, chosen by the answers before, in any order: δ(ε) is that of equal pairs."""
    rng = np.random.default_rng(seed)
    first = mechanism(rng, float(rng.uniform(0.3, 1.2)))
    loss, tv = first.plan
    pair = Profile(loss, tv=tv)
    sizes = loss * rng.choice([0.25, 0.34, 0.5, 0.5, 1.0, 1.3, 2.0], 3)
    menu = [first, *(mechanism(rng, float(size)) for size in sizes)]
    most = int(rng.integers(1, 4))
    together = compose(pair, most)
    epsilons = loss * rng.uniform(0, most, 2)
    measures = [hockey_stick(float(one), together.delta(float(one))) for one in (0.0, *epsilons)]
    found = Player(menu, Counter(pair, most), depth=4).best_of(WORLD.pairs[:1], measures)
    assert found.ratio <= 1 + 1e-9
    assert found.ratio > 0.3


@pytest.mark.parametrize("numbers", [(1.0, 0.3), (0.2, 0.0997), (3.0, 0.4)])
def test_as_many_draws_as_dominate_a_release(numbers):
    """At all corners of the exact curve of so many pairs, which is Theorem 2 at many digits; one fewer does not do."""
    pair = Profile(*numbers[:1], tv=numbers[1])
    for loss, tv in itertools.product((0.5, 1.0, 1.7, 3.0), (0.35, 0.6)):
        own = loss * pair.epsilon, min(tv, math.tanh(loss * pair.epsilon / 2) * 0.999)
        many = draws_of_one(pair, *own)
        if own[0] <= pair.epsilon and own[1] <= pair.tv:
            assert many == 1
        else:
            assert dominated(numbers, many, *own)
            assert not dominated(numbers, many - 1, *own)


def dominated(pair, many, loss, tv):
    """Return whether a release's chord is on or below the curve of so many pairs, at its corners."""
    mpmath.mp.dps = 40
    epsilon, total = map(mpmath.mpf, pair)
    rise = mpmath.exp(epsilon)
    alpha = 1 - total * (1 + rise) / (rise - 1)
    rest = (1 - alpha) / (1 + rise)

    def theorem(j):
        return mpmath.fsum(
            mpmath.binomial(many, a) * mpmath.binomial(many - a, low) * rest ** (many - a)
            * alpha**a * (rise ** (many - low - a) - rise ** (low + j))
            for a in range(many - j)
            for low in range(math.ceil((many - j - a) / 2))
        )  # fmt: skip

    def chord(at):
        return mpmath.mpf(tv) * (mpmath.exp(loss) - mpmath.exp(at)) / mpmath.expm1(loss)

    corners = range(math.ceil(loss / pair[0]) + 1)
    return many * epsilon >= loss * (1 - 1e-15) and all(
        chord(j * epsilon) <= theorem(j) * (1 + 1e-12) for j in corners if j * epsilon < loss
    )


GAMES = {
    "figure": (LIMIT, [FIGURE, (0.5, None), (1.6, 0.3)], 3),
    "approx": (pf.Approx(1.2, 0.06), [(0.5, None), (0.25, 0.1), (0.8, None)], 4),
    "tv": (pf.Tv(0.4), [FIGURE, (0.3, None), (0.5, 0.02)], 4),
    "small delta": (pf.Approx(1.0, 0.004), [(0.25, None), (0.2, 0.1)], 6),
    "no delta": (pf.TradeOff(1.5, 0.0, tv=0.4), [(0.5, None), (0.25, None), (0.7, 0.1)], 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_the_best_strategy_against_an_account_keeps_its_limit(game):
    """Staircases of several sizes and shapes, each next one chosen by the answers before."""
    limit, menu, depth = GAMES[game]
    releases = [release_of(f"{one}", staircase(*one)) for one in menu]
    player = Player(releases, Referee(ONE, limit), depth=depth)
    found = player.best_of(WORLD.pairs[:1], measures_of(limit))
    assert 0.2 < found.ratio <= 1 + 1e-7


@pytest.mark.slow
def test_five_staircases_come_near_the_limit():
    """The best strategy of five reaches 99 % of the limit's total variation or δ; one with less noise exceeds it."""
    plan = staircase(*FIGURE)
    same = release_of("same", plan)
    found = Player([same], Referee(ONE, LIMIT), depth=6).best_of(
        WORLD.pairs[:1], measures_of(LIMIT)
    )
    assert 0.98 < found.ratio <= 1 + 1e-9
    louder = finite("louder", plan, outcomes(pf.Staircase(1.0, 1.1, 0.0139)))
    above = Player([louder], Referee(ONE, LIMIT), depth=5).best_of(
        WORLD.pairs[:1], measures_of(LIMIT)
    )
    assert above.ratio > 1.05


@pytest.mark.slow
def test_louder_and_quieter_releases_go_on(ledger):
    """After the first release a louder one takes several draws, and quieter ones share draws."""
    first, louder, quiet = staircase(*FIGURE), staircase(1.5, 0.0139), staircase(0.2, 0.0139)
    account = ledger.open("a", ONE, limit=pf.Approx(3.0, 0.0954), dataset="a")
    first.release(account)
    assert account.remaining(first) == 4
    assert 4 < account.remaining(quiet) < 5 * 4 + 1
    louder.release(account)
    assert account.remaining(first) == 1
    laplace = SUM.plan(pf.Pure(0.7), noise=pf.Laplace, row_privacy=False)
    assert account.remaining(laplace) == 1
    with pytest.raises(pf.Refused, match=r"noise=pf\.Laplace in every plan"):
        SUM.plan(pf.Approx(0.5, 1e-3), noise=pf.Gaussian, row_privacy=False).release(account)
    spent = account.spent()
    again = ledger.open("a", ONE, limit=pf.Approx(3.0, 0.0954), dataset="a")
    assert again.spent() == spent
    assert [one.name for one in again.methods()] == ["pair"]


def test_a_limit_on_the_total_variation_alone_counts_draws(ledger):
    """One release has no loss at the limit's δ by any method: draws are counted, and of six the limit holds."""
    limit, plan = pf.Tv(0.7), staircase(*FIGURE)
    account = ledger.open("variation", ONE, limit=limit)
    assert account.remaining(plan) == 6
    for number in range(6):
        plan.release(account, str(number))
    assert [method.name for method in account.methods()] == ["pair"]
    together = [compose(Profile.of(pf.Staircase(1.0, *FIGURE)), many).tv for many in (6, 7)]
    assert together[0] <= 0.7 < together[1]
    with pytest.raises(pf.LimitReached):
        plan.release(account, "seventh")


def test_only_the_method_beside_pure_totals():
    """It has all of δ beside pure totals that are free, or alone; no other method gets less for it."""
    small, large = pf.Approx(1.0, 1e-6), pf.Approx(3.0, 0.0954)
    plain, chain = [pf.AnyCorrelation()], [pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])]
    firsts = {"pure": 0.5, "pair": 0.4}
    assert shares_for(small, plain, firsts).shares == {"pure": 0.0, "pair": 1.0}
    assert shares_for(small, chain, firsts).shares == {"pure": 0.0, "pair": 1.0}
    assert shares_for(large, plain, firsts).shares == {"pair": 1.0}
    assert shares_for(large, plain, {"pure": 0.4, "pair": 0.5}).shares == {"pure": 1.0}
    assert shares_for(large, chain, firsts).shares == {"pure": 1.0}
    others = {"pure": 0.5, "gaussian": 0.6, "latent": 0.3}
    assert shares_for(large, chain, others | {"pair": 0.1}) == shares_for(large, chain, others)
    assert "pair" not in account_of(small, staircase(1.0), methods=None).methods.shares
    noisy = SUM.plan(pf.Pure(0.5), noise=pf.Laplace, row_privacy=False)
    assert set(account_of(small, noisy).methods.shares) == {"pure", "gaussian"}


def test_releases_that_no_unit_shares_take_the_same_draws():
    """Disjoint rows of independent rows: the row with most draws counts."""
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1], missing=0), pf.Independent(), public="day"
    )
    rows = pf.protect(pl.DataFrame({"day": [0, 1], "on": [0, 1]}), scenario)
    days = [
        rows.filter(pl.col("day") == day)
        .private_sum("on")
        .plan(pf.Pure(1.0), noise=pf.Staircase.of(*FIGURE), row_privacy=False)
        for day in (0, 1)
    ]
    limit = pf.Approx(3.0, 0.0954)
    both = account_of(limit, *days, *days, scenario=scenario).total()
    one = account_of(limit, days[0], days[0], scenario=scenario).total()
    assert (
        both.total
        == one.total
        == compose(Profile.of(pf.Staircase(1.0, *FIGURE)), 2).epsilon(0.0954)
    )
    assert both.method == "pair"


def test_totals_never_fall():
    """Quiet, equal and loud releases in random orders."""
    rng = np.random.default_rng(3)
    plans = [staircase(*one) for one in (FIGURE, (0.3, None), (0.25, 0.2), (1.2, 0.1))]
    for _ in range(4):
        totals, costs = [], []
        for place in [0, *rng.integers(0, len(plans), 6)]:
            costs.append(plans[place].cost)
            account = AccountCosts([ONE], pf.Approx(9.0, 0.05), Methods.only("pair"))
            totals.append(account.total(costs).total)
        assert totals[1:] == sorted(totals[1:])


def test_an_account_that_reserved_more_points_is_opened_again():
    """Older versions described staircases by sixteen points, up to twice their loss."""
    new = ReservedProfile(((0.0, 0.3), (1.0, 0.0)), 5)
    old = ReservedProfile(
        tuple((float(at), 0.3 * (1 - at / 2)) for at in np.linspace(0.0, 2.0, 16)), 5
    )
    limit = pf.Approx(5.0, 0.1)
    assert ReservedProfiles([new], limit).agrees(ReservedProfiles([old], limit))
    other = ReservedProfile(((0.0, 0.31), (1.0, 0.0)), 5)
    assert not ReservedProfiles([other], limit).agrees(ReservedProfiles([old], limit))
    assert not ReservedProfiles([old], limit).agrees(ReservedProfiles([new], limit))
