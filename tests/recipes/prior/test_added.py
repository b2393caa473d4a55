"""The laws of clones are those that enumeration finds; releases compose, and are kept, explained and shown."""

import itertools

import polars as pl
import pytest

import pufferflow as pf

LAW, SHARE = [0.5, 0.3, 0.2], 0.25
SCENARIO = pf.Scenario(pf.Secret("x", domain=[0, 1, 2]), pf.Clones(SHARE, LAW), within="house")
ROWS = pl.DataFrame({"house": [1, 1, 1], "x": [0, 2, 2]})


def probability(rows):
    """The probability of all rows of a group."""
    alone = LAW[rows[0]] * LAW[rows[1]] * LAW[rows[2]]
    return (1 - SHARE) * alone + SHARE * LAW[rows[0]] * (len(set(rows)) == 1)


def test_laws_are_those_of_all_rows():
    """Given the first row, the sum of three has the law that enumeration gives."""
    law, _ = pf.laws(SCENARIO, pf.Statistic([1, 1, 1]))[0]
    sums = dict.fromkeys(range(5), 0.0)
    for rows in itertools.product(range(3), repeat=3):
        if rows[0] == 0:
            sums[sum(rows)] += probability(rows) / LAW[0]
    assert dict(zip(law.values.tolist(), law.probabilities.tolist(), strict=True)) == pytest.approx(
        sums
    )


def test_releases_compose_and_are_kept(tmp_path):
    """Two releases cost no more than twice what one does, and words and pages know the prior."""
    plan = pf.protect(ROWS, SCENARIO).private_sum("x").plan(pf.Pure(1.0))
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("x", SCENARIO, limit=pf.Pure(9.0))
        release = plan.release(account, id="one")
        plan.release(account, id="two")
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.account("x").release("one").certificate == release.certificate
        assert 1.0 < ledger.account("x").spent().epsilon < 2.5
    assert "copies of one" in str(plan.explain())
    assert "copies of one" in plan.report(tmp_path / "page.html").read_text(encoding="utf-8")
