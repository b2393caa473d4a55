"""What a plan's release owes its account: the cost first, then the rows, then the commit; and what is foreseen."""

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.accounting.ledger.ledger import Ledger
from pufferflow.release.mechanisms import additive as releasing

STAY = [[0.9, 0.1], [0.1, 0.9]]
SCENARIO = pf.Scenario(
    pf.Secret("on", domain=[0, 1]),
    pf.MarkovChain(STAY),
    order_by="hour",
    within="meter",
    public=["day"],
)
FRAME = pl.DataFrame(
    {
        "meter": [1] * 72,
        "hour": range(72),
        "day": [hour // 24 for hour in range(72)],
        "on": [0, 1] * 36,
    }
)


def day(number, epsilon=0.9):
    batch = pf.protect(FRAME.lazy(), SCENARIO).filter(pl.col("day") == number)
    return batch.private_sum("on").plan(pf.Pure(epsilon))


@pytest.fixture
def account(file):
    with Ledger(file) as ledger:
        yield ledger.open("power", SCENARIO, limit=pf.Pure(1.0))
        ledger.verify()


@pytest.mark.slow
def test_days_along_a_chain(account):
    """Releases about days that follow each other cost little more together than one; the same id costs nothing."""
    found = [day(number).release(account, id=f"day {number}") for number in range(3)]
    assert 0.9 <= account.spent().epsilon <= 1.0
    assert all(0.9 <= entry.total <= 1.0 for entry in account.history())
    again = day(0).release(account, id="day 0")
    assert again.frame.equals(found[0].frame)
    assert again.certificate == found[0].certificate
    assert again.certificate.entry is not None
    assert account.release("day 2").frame.equals(found[2].frame)
    assert account.history()[0].asked == ("the sum of on",)


def test_nothing_is_read_above_the_limit(account, monkeypatch):
    """Above the limit, or for another plan, no private row is read."""
    day(0).release(account, id="day 0")
    monkeypatch.setattr(releasing, "read_exact_sums", pytest.fail)
    with pytest.raises(pf.LimitReached):
        day(0).release(account)
    with pytest.raises(pf.UsageError, match="another plan"):
        day(0, 0.5).release(account, id="day 0")
    assert len(account.history()) == 1


def test_a_failure_keeps_the_charge(account, monkeypatch):
    """Rows that cannot be read leave the cost reserved, and a retry under the id completes it for nothing."""
    true = releasing.read_exact_sums

    def broken(*_):
        assert account.history()[-1].state == "reserved"
        raise pf.SourceError("the disk is gone")

    monkeypatch.setattr(releasing, "read_exact_sums", broken)
    with pytest.raises(pf.SourceError):
        day(0).release(account, id="day 0")
    spent = account.spent()
    assert spent.epsilon > 0.8
    monkeypatch.setattr(releasing, "read_exact_sums", true)
    day(0).release(account, id="day 0")
    assert account.spent() == spent
    assert [entry.state for entry in account.history()] == ["committed"]


def test_a_forecast(account):
    """An account foresees what an endless schedule of a plan will have cost, and how many releases fit."""
    plan = day(0)
    foreseen = account.forecast(plan, every=24)
    assert 0.9 <= foreseen.total <= 1.0
    assert foreseen.releases == foreseen.fits
    assert account.forecast(plan, every=24, until=48).total <= foreseen.total
    assert account.spent().epsilon == 0
