"""A sum of squares is planned like a sum, released on a ledger, read back, explained and shown."""

import polars as pl
import pytest

import pufferflow as pf

SCENARIO = pf.Scenario(pf.Secret("kwh", domain=pf.Interval(-2, 3)), pf.Independent())
ROWS = pl.DataFrame({"kwh": [-1.5, 0.5, 3.0]})


def test_a_row_moves_it_by_the_largest_square():
    """On an interval the squares lie between 0 and the larger end's, and the answer is theirs."""
    batch = pf.protect(ROWS, SCENARIO).private_sum_of_squares("kwh")
    assert batch.plan(pf.Pure(1.0)).noises["kwh_squares"].scale == pytest.approx(9.0, rel=1e-3)
    assert batch.release(epsilon=1e9).frame["kwh_squares"][0] == pytest.approx(11.5, abs=1e-4)


def test_it_is_kept_and_shown(tmp_path):
    """The release is read back from the ledger as it was, and pages name the query."""
    plan = pf.protect(ROWS, SCENARIO).private_sum_of_squares("kwh").plan(pf.Pure(1.0))
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        release = plan.release(ledger.open("kwh", SCENARIO, limit=pf.Pure(3.0)), id="one")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.account("kwh").release("one").certificate == release.certificate
    assert "the sum of squares of" in str(plan.explain())
    assert "kwh_squares" in release.report(tmp_path / "page.html").read_text(encoding="utf-8")
