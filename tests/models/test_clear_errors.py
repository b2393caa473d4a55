"""What cannot be meant is refused in words, before anything is reserved."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame({"p": [1, 2, 3], "x": [0, 1, 2], "b": [True, False, True]})
SCENARIO = pf.Scenario(pf.Secret("x", domain=[0, 1, 2]), pf.Independent(), public=["b"])


@pytest.mark.parametrize("rows", [10**9 + 1, 2**62, 10**30])
def test_no_unit_has_so_many_rows(rows):
    with pytest.raises(pf.UsageError, match="are no limit"):
        pf.Presence("p", "x", [0, 1, 2], rows=rows)
    assert pf.Presence("p", "x", [0, 1, 2], rows=10**9).rows == 10**9


def test_masked_arrays_are_refused():
    with pytest.raises(pf.UsageError, match="masked array"):
        pf.MarkovChain(np.ma.masked_equal([[0.9, 0.1], [0.1, 0.9]], 0.1))


def test_a_ledger_that_was_not_opened_has_a_text():
    assert repr(object.__new__(pf.Ledger)) == "<Ledger, not opened>"


@pytest.mark.parametrize(
    "condition",
    [
        pl.col("b") > False,
        pl.col("b") < True,
        pl.col("b") >= True,
        pl.col("b").is_between(False, True),
    ],
    ids=["above", "below", "at least", "between"],
)
def test_orders_of_booleans_filter_and_are_charged(condition, tmp_path):
    """They were written into the cost as ends of a range, which no ledger could store."""
    with pf.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        account = ledger.open("a", SCENARIO, limit=pf.Pure(9.0), dataset="d")
        plan = pf.protect(ROWS, SCENARIO).filter(condition).private_sum("x").plan(pf.Pure(1.0))
        assert plan.release(account).frame.height == 1
        assert account.spent().epsilon == pytest.approx(1.0)
