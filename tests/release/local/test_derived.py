"""Rows that go through channels where something behind them is hidden: exact laws, and accounts (M35, M53)."""

import itertools

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.confounding import Additive, cost

ROWS = pl.DataFrame({"b": [0, 1, 2], "c": [1, 1, 0]})
RESPONSE = pf.local.randomized_response


def hidden_table(rng, *, xor=False):
    """A table of an illness and two columns, and the scenario that hides the illness behind both."""
    joint = rng.dirichlet(np.ones(12)).reshape(2, 3, 2) * 0.9 + 0.1 / 12
    if xor:
        joint = np.array(
            [[[0.25, 0.0], [0.0, 0.25], [0.0, 0.0]], [[0.0, 0.25], [0.25, 0.0], [0.0, 0.0]]]
        )
    cells = [
        (*cell, float(joint[cell]))
        for cell in itertools.product(*map(range, joint.shape))
        if joint[cell]
    ]
    table = pf.Table(
        dict(zip(("ill", "b", "c", "probability"), zip(*cells, strict=True), strict=True))
    )
    labels = [[0, 1], [0, 1]] if xor else [[0, 1, 2], [0, 1]]
    return table, pf.Scenario(pf.Derived("ill", column=["b", "c"], domain=labels), table)


@pytest.mark.parametrize("seed", thinned([*range(9)], 0.34))
def test_a_derived_secret_loses_what_the_table_says(seed):
    """A row's draw reveals no more about what is behind it than planned, hardly less if two labels are kept apart."""
    table, scenario = hidden_table(np.random.default_rng(seed))
    rows = pf.protect(ROWS, scenario)
    for column, labels in (("b", [0, 1, 2]), ("c", [0, 1])):
        channel = RESPONSE(labels, 1.5)
        plan = rows.private_local(column, channel).plan()
        exact = cost(table, channel.reading(column), secret="ill").pure
        assert exact <= plan.loss <= 1.5
        if column == "c":
            assert plan.loss == pytest.approx(exact, rel=1e-9)
        found = rows.private_local(column).plan(pf.Pure(0.3))
        assert cost(table, found.channel.reading(column), secret="ill").pure <= 0.3
        assert found.channel.epsilon > 0.3


@pytest.mark.parametrize("xor", [False, True])
def test_accounts_of_what_is_behind_several_columns(xor, tmp_path):
    """Draws of both columns and a sum beside them lose no more than the account says, also of an exclusive or."""
    table, scenario = hidden_table(np.random.default_rng(4), xor=xor)
    batch = pf.protect(ROWS.with_columns(b=pl.col("b").clip(0, 1)) if xor else ROWS, scenario)
    with pf.Ledger(tmp_path / "ledger.sqlite") as ledger:
        account = ledger.open("ill", scenario, limit=pf.Pure(9.0))
        released = []
        for column, labels in (("b", [0, 1] if xor else [0, 1, 2]), ("c", [0, 1])):
            channel = RESPONSE(labels, 1.0)
            batch.private_local(column, channel).plan().release(account=account, id=column)
            released.append(channel.reading(column))
            assert cost(table, released, secret="ill").pure <= account.spent().epsilon + 1e-12
        plan = batch.private_sum("c").plan(pf.Pure(1.0), row_privacy=False)
        plan.release(account=account, id="sum")
        (noise,) = plan.noises.values()
        faint = noise.scale < 1e-3  # half of an exclusive or needs no noise
        released.append(
            pf.confounding.Channel.revealing("c", [0, 1]) if faint else Additive("c", noise)
        )
        assert cost(table, released, secret="ill").pure <= account.spent().epsilon + 1e-12
        assert cost(table, released[:2], secret="ill").pure > 0.2


def test_a_hidden_class_behind_rows_that_are_published():
    """Three rows of a class, each through a channel, reveal about the class what their outputs do, exactly."""
    rows = np.array([[0.7, 0.3], [0.2, 0.8]])
    prior = pf.LatentClass([0.5, 0.5], rows.tolist())
    scenario = pf.Scenario(
        pf.Derived("class", values=[0, 1], column="x", domain=[0, 1]), prior, within="unit"
    )
    channel = RESPONSE([0, 1], 1.0)
    frame = pl.DataFrame({"unit": [1, 1, 1], "x": [0, 1, 0]})
    plan = pf.protect(frame, scenario).private_local("x", channel).plan()
    outputs = rows @ channel.matrix
    exact = 3 * float(np.abs(np.log(outputs[0] / outputs[1])).max())
    assert exact <= plan.loss == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("asked", thinned([["b"], ["c"], ["b", "c"]], 0.3), ids="+".join)
def test_plans_of_sums_cost_what_the_table_says(asked):
    """Sums of X, of Y and of both: the guarantee is what one row's answers cost on the joint law.

    One of the columns may be the secret itself, while the other is asked about.
    """
    table, scenario = hidden_table(np.random.default_rng(6))
    own = pf.Scenario(pf.Derived("b", column=["b", "c"], domain=[[0, 1, 2], [0, 1]]), table)
    for one, secret in ((scenario, "ill"), (own, "b")):
        batch = pf.protect(ROWS, one)
        for column in asked:
            batch = batch.private_sum(column)
        noises = list(
            batch.plan(pf.Pure(0.5), row_privacy=False, bound=pf.Messages()).noises.values()
        )
        lost = [
            cost(
                table,
                [Additive(c, n.at(n.scale * share)) for c, n in zip(asked, noises, strict=True)],
                secret=secret,
            )
            for share in (1.0, 0.9)
        ]
        assert lost[0].pure <= 0.5 + 1e-9
        if len(asked) == 1:
            assert lost[1].pure > 0.5
