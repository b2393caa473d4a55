"""Strategies that once told more than an account's limit: the best adaptive strategy of each menu stays within it."""

import polars as pl
import pytest

import pufferflow as pf
from games.known import asked_of_table, classes, longer_file, presence, table_of
from games.measures import hockey_stick, measures_of
from games.player import Player
from games.referee import Composing, LedgerReferee, Referee
from games.world import Release

MOST = 1 + 1e-9


def best(menu, referee, world, limit, depth=2):
    """Return the strategy that goes farthest."""
    return Player(menu, referee, depth).best_of(world.pairs, measures_of(limit))


def orders(*kinds):
    """Return kinds of promise with a Rényi order."""
    return {
        "renyi 2": lambda loss: pf.Renyi(2, loss),
        "renyi 4": lambda loss: pf.Renyi(4, loss),
        "approx renyi 2": lambda loss: pf.ApproxRenyi(2, loss, 1e-9),
    }


ORDERS = orders()


@pytest.mark.parametrize("kind", ORDERS)
def test_the_class_is_charged_for_every_path_that_may_follow_it(kind):
    """Rows tell the class for nothing; then the row that this class ties to the first one is asked about."""
    promise = ORDERS[kind]
    scenario, world, release = classes()
    rows = (range(3, 63), [1], [2], [0])
    menu = [release(one, promise(loss)) for one in rows for loss in (0.05, 0.3, 0.55, 0.6)]
    limit = promise(0.6001)
    found = best(menu, Referee(scenario, limit), world, limit)
    assert found.ratio <= MOST, found


@pytest.mark.parametrize("kind", ORDERS)
def test_a_part_of_a_row_is_counted_in_one_way_on_all_paths(kind):
    """After a first answer about x either x is told outright, or y is asked about."""
    promise = ORDERS[kind]
    scenario, world, columns = table_of()
    release = asked_of_table(scenario, columns)
    whole = pf.Pure(0.994624).renyi_epsilon(promise(1.0).alpha) + 2e-6
    begun = {"noise": pf.Laplace, "bound": pf.Exact()}
    menu = [release("z", promise(1e-6), noise=pf.Gaussian), release("x", promise(3.0), noise=pf.Laplace)]
    menu += [release("x", promise(whole * share), **begun) for share in (0.15, 0.2, 0.3)]
    menu += [release("y", promise(whole * share), **begun) for share in (0.69, 0.79, 0.84)]
    limit = promise(whole)
    found = best(menu, Referee(scenario, limit), world, limit, depth=3)
    assert found.ratio <= MOST, found


@pytest.mark.parametrize("delta", [1e-5, 1e-3, 0.02])
def test_keys_and_sums_do_not_trade_delta_after_an_answer(delta):
    """After a noisy number a key that only one unit has may appear, or another noisy number is given."""
    scenario, world, count, keys = presence()
    limit = pf.Approx(1.0, delta)
    menu = [count(pf.Approx(share, delta * part)) for share in (0.4, 0.6, 0.9) for part in (0.5, 1)]
    menu += [keys(pf.Approx(0.01, 2 * share * delta)) for share in (0.25, 0.49, 0.8, 0.95)]
    found = best(menu, Referee(scenario, limit), world, limit)
    assert found.ratio <= MOST, found


def test_keys_and_pure_losses_do_not_trade_delta_after_an_answer():
    """The same where an account counts Laplace noise by pure losses, which use all of δ."""
    scenario, world, count, keys = presence()
    limit = pf.Approx(1.0, 0.02)
    menu = [count(pf.Pure(loss), pf.Laplace) for loss in (0.25, 0.5, 0.75, 1.0)]
    menu += [keys(pf.Approx(0.01, 0.04 * share), noise) for share in (0.25, 0.49, 0.9) for noise in (pf.Laplace,)]
    found = best(menu, Referee(scenario, limit), world, limit)
    assert found.ratio <= MOST, found


def reserved_menu(release):
    stairs = pf.Staircase.of
    clipped = pl.col("x").clip(0, 1)
    return [
        release(1, pf.Pure(1.05), stairs(1.05, 0.5)),
        release(1, pf.Tv(0.49), stairs(30.0, 0.5)),
        release(2, pf.Pure(2.0), stairs(2.0, 0.5), clipped),
        release(1, pf.Pure(2.0), stairs(2.0, 0.5), clipped),
    ]


def test_a_release_keeps_the_profile_that_it_took():
    """A longer file moved the first release to another profile, so that its own was free for a second one."""
    scenario, world, release = longer_file()
    limit = pf.Approx(2, 0.4901)
    referee = LedgerReferee(scenario, limit, reserve=[(pf.Pure(2), 1), (pf.Approx(0, 0.49), 1)])
    found = best(reserved_menu(release), referee, world, limit)
    assert found.ratio <= MOST, found


@pytest.mark.parametrize("kind", ORDERS)
def test_a_composed_total_that_is_adaptive_holds_for_every_strategy(kind):
    """All paths whose total is said to hold although later queries depend on earlier answers."""
    promise = ORDERS[kind]
    scenario, world, columns = table_of()
    release = asked_of_table(scenario, columns)
    whole = pf.Pure(0.994624).renyi_epsilon(promise(1.0).alpha) + 2e-6
    begun = {"noise": pf.Laplace, "bound": pf.Exact()}
    menu = [release("z", promise(1e-6), noise=pf.Gaussian), release("x", promise(3.0), noise=pf.Laplace)]
    menu += [release("x", promise(whole * share), **begun) for share in (0.15, 0.2, 0.3)]
    menu += [release("y", promise(whole * share), **begun) for share in (0.69, 0.79, 0.84)]
    found = best(menu, Composing(scenario, promise(whole)), world, promise(whole), depth=3)
    assert found.ratio <= MOST, found


def test_a_design_of_another_account_keeps_every_part_of_a_limit():
    """A limit with a total variation bounds that too, whichever account a channel was designed for."""
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Table({"x": [0, 1], "probability": [0.5, 0.5]}))
    batch = pf.protect(pl.DataFrame({"x": [0]}), scenario).private_sum("x")
    limit = pf.TradeOff(2.0, 0.01, tv=0.2)
    designed = design(scenario, batch, pf.Approx(2.0, 0.01))
    world_of_one = designed.table.T
    if LedgerReferee(scenario, limit).admits([designed]):
        for measure in (hockey_stick(2.0, 0.01), hockey_stick(0.0, 0.2)):
            for one, other in (world_of_one, world_of_one[::-1]):
                assert float(measure.gain(one, other).sum()) <= measure.allowed * MOST


def design(scenario, batch, limit):
    """Return the release that an account with this limit designs as its first."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        plan = ledger.open("designs", scenario, limit=limit).design(batch)
    import numpy as np

    return Release("designed", plan, np.array(plan.channel.probabilities, float).T)
