"""Strategies that once told more than an account's limit: the best adaptive strategy of each menu stays within it."""

from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from games.cells import Designs
from games.game import Dealer, Question
from games.known import asked_of_table, classes, longer_file, presence, table_of
from games.measures import measures_of
from games.player import Player
from games.referee import Composing, LedgerReferee, Referee
from games.world import Release, World

import pufferflow as pf

MOST = 1 + 1e-9
ORDERS = {
    "renyi 2": lambda loss: pf.Renyi(2, loss),
    "renyi 4": lambda loss: pf.Renyi(4, loss),
    "approx renyi 2": lambda loss: pf.ApproxRenyi(2, loss, 1e-9),
}


def best(menu, referee, world, limit, depth=2):
    """Return the strategy that goes farthest."""
    return Player(menu, referee, depth).best_of(world.pairs, measures_of(limit))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ORDERS)
def test_the_class_is_charged_for_every_path_that_may_follow_it(kind):
    """Rows tell the class for nothing; then the row that this class ties to the first one is asked about (M54)."""
    promise = ORDERS[kind]
    scenario, world, release = classes()
    asked = [(range(3, 63), 0.05), ([1], 0.3), ([2], 0.3), ([1], 0.6), ([2], 0.6), ([0], 0.55)]
    limit = promise(0.6001)
    found = best(
        [release(rows, promise(loss)) for rows, loss in asked],
        Referee(scenario, limit),
        world,
        limit,
    )
    assert found.ratio <= MOST, found


@cache
def parts_of_a_row(kind):
    """Return a limit that telling x outright just fills, and a menu of answers about three columns of one row.

    The columns are independent given the secret. A first answer about z says how an account counts.
    """
    promise = ORDERS[kind]
    scenario, world, columns = table_of()
    release = asked_of_table(scenario, columns)
    whole = pf.Pure(0.994624).renyi_epsilon(promise(1.0).alpha) + 2e-6
    exactly, movement = {"noise": pf.Laplace, "bound": pf.Exact()}, {"bound": pf.GWM()}
    menu = [release("z", promise(1e-6), noise=pf.Gaussian), release("x", pf.Pure(60.0), **movement)]
    menu += [release("x", promise(whole * share), **exactly) for share in (0.15, 0.2, 0.3)]
    menu += [release("y", promise(whole * share), **exactly) for share in (0.69, 0.79, 0.84)]
    return scenario, world, promise(whole), menu


@pytest.mark.slow
@pytest.mark.parametrize("kind", ORDERS)
def test_a_part_of_a_row_is_counted_in_one_way_on_all_paths(kind):
    """After a first answer about x either x is told outright, or y is asked about (M25)."""
    scenario, world, limit, menu = parts_of_a_row(kind)
    found = best(menu, Referee(scenario, limit), world, limit, depth=3)
    assert found.ratio <= MOST, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ORDERS)
def test_a_composed_total_that_is_adaptive_holds_for_every_strategy(kind):
    """All paths whose total is said to hold although later queries depend on earlier answers."""
    scenario, world, limit, menu = parts_of_a_row(kind)
    found = best(menu, Composing(scenario, limit), world, limit, depth=3)
    assert found.ratio <= MOST, found


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-5, 1e-3, 0.02])
def test_keys_and_sums_do_not_trade_delta_after_an_answer(delta):
    """After a noisy number a key that only one unit has may appear, or another noisy number is given."""
    scenario, world, count, keys = presence()
    limit = pf.Approx(1.0, delta)
    menu = [count(pf.Approx(share, delta * part)) for share in (0.4, 0.6, 0.9) for part in (0.5, 1)]
    menu += [keys(pf.Approx(0.01, 2 * share * delta)) for share in (0.25, 0.49, 0.8, 0.95)]
    found = best(menu, Referee(scenario, limit), world, limit)
    assert found.ratio <= MOST, found


def test_a_ledger_does_not_let_keys_and_sums_trade_delta():
    """The same with releases of an account in a ledger."""
    scenario, world, count, keys = presence()
    limit = pf.Approx(1.0, 0.02)
    menu = [count(pf.Approx(0.6, 0.01)), count(pf.Approx(0.7, 0.02)), keys(pf.Approx(0.01, 0.038))]
    found = best(menu, LedgerReferee(scenario, limit), world, limit)
    assert found.ratio <= MOST, found


def test_keys_and_pure_losses_do_not_trade_delta_after_an_answer():
    """The same where an account counts Laplace noise by pure losses, which use all of δ."""
    scenario, world, count, keys = presence()
    limit = pf.Approx(1.0, 0.02)
    menu = [count(pf.Pure(loss), pf.Laplace) for loss in (0.25, 0.5, 0.75, 1.0)]
    menu += [keys(pf.Approx(0.01, 0.04 * share), pf.Laplace) for share in (0.25, 0.49, 0.9)]
    found = best(menu, Referee(scenario, limit), world, limit)
    assert found.ratio <= MOST, found


@pytest.mark.slow
def test_a_release_keeps_the_profile_that_it_took():
    """A longer file moved the first release to another profile, so that its own was free for a second one (M26)."""
    scenario, world, release = longer_file()
    limit, stairs, clipped = pf.Approx(2, 0.4901), pf.Staircase.of, pl.col("x").clip(0, 1)
    menu = [
        release(1, pf.Pure(1.05), stairs(1.05, 0.5)),
        release(1, pf.Tv(0.49), stairs(30.0, 0.5)),
        release(2, pf.Pure(2.0), stairs(2.0, 0.5), clipped),
    ]
    profiles = [(pf.Pure(2), 1), (pf.Approx(0, 0.49), 1)]
    found = best(menu, LedgerReferee(scenario, limit, reserve=profiles), world, limit)
    assert found.ratio <= MOST, found


def one_bit():
    """Return a scenario whose secret is the only row's value, and a batch with its sum."""
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), pf.Table({"x": [0, 1], "probability": [0.5, 0.5]})
    )
    return scenario, pf.protect(pl.DataFrame({"x": [0]}), scenario).private_sum("x")


def designed(scenario, batch, limit):
    """Return the release that an account with a limit designs as its first."""
    with TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        plan = ledger.open("designs", scenario, limit=limit).design(batch)
    return Release("designed", plan, np.array(plan.channel.probabilities, float).T)


@pytest.mark.parametrize(
    "limit", [pf.TradeOff(2.0, 0.01, tv=0.2), pf.TradeOff(1.5, 0.2, tv=0.3)], ids=repr
)
def test_a_design_of_another_account_keeps_every_part_of_a_limit(limit):
    """A total variation is kept too by what was designed for an account without one: no answer decides anything."""
    scenario, batch = one_bit()
    menu = [designed(scenario, batch, pf.Approx(limit.epsilon, limit.delta))]
    world = World.given([0, 1], [0.5, 0.5], [0, 1])
    found = best(menu, LedgerReferee(scenario, limit), world, limit, depth=1)
    assert found.ratio <= MOST, found


@pytest.mark.slow
def test_a_design_after_pure_losses_does_not_use_delta_twice():
    """After a Laplace release either all of δ is used by further pure losses, or a release is designed (M31)."""
    scenario, batch = one_bit()
    limit, world = pf.Approx(0.3, 0.3), World.given([0, 1], [0.5, 0.5], [0, 1])
    referee = Referee(scenario, limit)
    question = Question("sum", batch, np.array([0.0, 1.0]), (pf.Laplace,))
    dealer = Dealer(np.random.default_rng(1), limit, referee, [question], bins=80)
    for share in (0.2, 0.4):
        first = dealer.release(question, pf.Laplace, share)
        menu = [first, dealer.filling(first, question), Designs(scenario, limit, batch, [0, 1])]
        found = best(menu, referee, world, limit)
        assert found.ratio <= MOST, found
