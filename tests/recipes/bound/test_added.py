"""A bound is asked for, named in words and on pages, and its release is kept."""

from typing import get_args

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.calibration.bound_names import BoundName

CHAIN = pf.MarkovChain([[0.8, 0.2], [0.3, 0.7]])
SCENARIO = pf.Scenario(pf.Secret("on", domain=[0, 1]), CHAIN, order_by="hour")
ROWS = pl.DataFrame({"hour": range(5), "on": [0, 1, 1, 0, 1]})


def test_it_is_between_gwm_and_group_privacy():
    """Three rows that move together take the noise of four, and so do four."""
    batch = pf.protect(ROWS, SCENARIO).private_sum("on")
    scales = [
        batch.plan(pf.Pure(1.0), bound=bound).noises["on_sum"].scale
        for bound in (pf.GWM(), pf.Coarse(), pf.Group())
    ]
    assert scales == sorted(scales)
    assert scales[1] == pytest.approx(4.0)


def test_it_has_a_name():
    """`bound="coarse"` is the same, in plans and job files."""
    batch = pf.protect(ROWS, SCENARIO).private_sum("on")
    assert (
        batch.plan(pf.Pure(1.0), bound="coarse").noises
        == batch.plan(pf.Pure(1.0), bound=pf.Coarse()).noises
    )
    assert "coarse" in get_args(BoundName)


def test_it_is_kept_and_shown(tmp_path):
    """The release is read back from the ledger as it was; words and pages name the bound."""
    plan = pf.protect(ROWS, SCENARIO).private_sum("on").plan(pf.Pure(1.0), bound=pf.Coarse())
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        release = plan.release(ledger.open("ons", SCENARIO, limit=pf.Pure(9.0)), id="one")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.account("ons").release("one").certificate == release.certificate
    assert "Coarse" in str(plan.explain())
    assert "rounded up to powers of two" in plan.report(tmp_path / "page.html").read_text(
        encoding="utf-8"
    )
    assert "Coarse()" in plan.compare()["bound"].to_list()
