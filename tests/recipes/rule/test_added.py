"""The rule counts on an account, where every total is still the least of all rules."""

import polars as pl
import pytest
from pufferflow.accounting.rules.k_fold import KFoldRule

import pufferflow as pf
from pufferflow.accounting.rules.choice import RULES

SCENARIO = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.AnyCorrelation(), within="house")


def test_an_account_counts_with_it(tmp_path):
    """The rule has its place, and two releases of one guarantee cost twice it."""
    assert any(isinstance(rule, KFoldRule) for rule in RULES)
    plan = (
        pf.protect(pl.DataFrame({"house": [1, 1], "x": [0, 1]}), SCENARIO)
        .private_sum("x")
        .plan(pf.Pure(1.0))
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("x", SCENARIO, limit=pf.Pure(3.0))
        for _ in range(2):
            plan.release(account)
        assert account.spent().epsilon == pytest.approx(2.0)
