"""Several releases of sums with public weights, about rows of a table, which move from any value to any other."""

from fractions import Fraction

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

QUARTER = [Fraction(1, 4)] * 4
PARITY = pf.Table({"s": [0, 1, 1, 0], "x": [0, 0, 1, 1], "y": [0, 1, 0, 1], "probability": QUARTER})
SCENARIO = pf.Scenario(pf.Secret("s", domain=[0, 1]), PARITY, public=["w"])
ROWS = pl.DataFrame({"s": [0, 1, 0], "x": [0, 1, 1], "y": [0, 0, 1], "w": [1.0, 2.0, 0.5]})
KINDS = {
    "pure": (pf.Pure(0.3), pf.Laplace),
    "pure, cauchy": (pf.Pure(0.3), pf.GeneralizedCauchy),
    "renyi": (pf.Renyi(2.0, 0.3), pf.Gaussian),
    "zcdp": (pf.Zcdp(0.3), pf.Gaussian),
    "approx": (pf.Approx(0.3, 1e-5), pf.Gaussian),
    "gdp": (pf.Gdp(0.3), pf.Gaussian),
}


def plans_of(kind, weighted):
    promise, noise = KINDS[kind]
    batch, weight = pf.protect(ROWS, SCENARIO), pl.col("w") if weighted else pl.lit(1.0)
    asked = [
        batch.private_sum(pl.col(name) * weight if weighted else name, name=f"sum of {name}")
        for name in "xy"
    ]
    return [one.plan(promise, noise=noise) for one in asked]


@pytest.mark.parametrize("kind", KINDS)
def test_two_coins_whose_parity_is_the_secret_are_no_less_with_weights(kind):
    """Each coin alone tells nothing, so it has hardly any noise; both together tell all, and no total may be small."""
    weighted, plain = (pf.compose(plans_of(kind, which), SCENARIO).total for which in (True, False))
    assert weighted >= plain * (1 - 1e-9)
    assert weighted > 10


@pytest.mark.parametrize("kind", thinned(KINDS, 0.5))
def test_an_account_admits_the_first_coin_only(kind, tmp_path):
    promise, _ = KINDS[kind]
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("coins", SCENARIO, limit=promise)
        first, second = plans_of(kind, weighted=True)
        first.release(account)
        with pytest.raises((pf.LimitReached, pf.Refused)):
            second.release(account)


@pytest.mark.parametrize("secret", [pf.Secret("x", domain=[0, 1]), pf.Secret("s", domain=[0, 1])])
def test_one_column_of_a_table_moves_as_an_independent_one(secret):
    """Whatever is hidden, a row's weighted value may be any."""
    alone = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent(), public=["w"])
    moved = []
    for scenario in (pf.Scenario(secret, PARITY, public=["w"]), alone):
        plan = (
            pf.protect(ROWS, scenario)
            .private_sum(pl.col("x") * pl.col("w"), name="sum")
            .plan(pf.Pure(1.0))
        )
        (movement,) = plan.cost.shape.coupled_movements.values()
        moved.append(movement)
    assert moved[0] == pytest.approx(moved[1])
