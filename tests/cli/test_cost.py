"""What `pufferflow plan` says a release will cost its account: as much as the run then spends."""

import pytest

import pufferflow as pf
from pufferflow.accounting.ledger.database import Database

DAY = "2026-11-20"
MONTH = '[schedule]\nperiod = "month"\n'


def cost(give, day):
    return give("plan", "job.toml", "--period", day, "--json").document["cost"]


def spent(give, day):
    found = give("run", "job.toml", "--period", day, "--json").document
    return found["account"]["spent"]["epsilon"]


@pytest.mark.slow
def test_a_plan_tells_what_its_run_will_spend(make, give, change):
    """The total after a release is what the account has spent then, for a limit of another kind too."""
    make(limit=30)
    change("epsilon = 0.5", "epsilon = 0.5\nalpha = 2")
    change("{ epsilon = 30 }", "{ epsilon = 30, delta = 1e-6 }")
    for day in (DAY, "2026-11-19"):
        told = cost(give, day)["after"]
        assert told == spent(give, day) > 0.5
    assert cost(give, DAY)["after"] == told


@pytest.mark.slow
def test_the_total_after_is_told_in_any_order(make, give):
    """A period between two that were released costs what it costs, not what the next in order would."""
    make(
        "scenario = pf.Scenario(pf.Secret('on', domain=[0, 1]), pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),"
        " order_by='hour', step='1h', within='meter')",
        limit=20,
    )
    for day in ("2026-10-01", "2026-10-03"):
        spent(give, day)
    told = cost(give, "2026-10-02")["after"]
    assert told == spent(give, "2026-10-02")


def test_months_are_not_forecast(make, give, change):
    """Why a schedule of months has no forecast is told."""
    make()
    change("[schedule]\n", MONTH)
    assert give("run", "job.toml", "--period", "2026-09").exit == 0
    assert "periods differ in length" in give("plan", "job.toml", "--period", "2026-10").out


def test_a_plan_counts_what_is_reserved_once(make, give):
    """A period that is paid for and was not committed costs nothing more, and a plan says so."""
    make()
    job = pf.Job.read("job.toml")
    plan = job.plan(DAY)
    with pf.Ledger("ledger.db") as ledger:
        account = ledger.open("hours-2026", plan.request.scenario, limit=pf.Pure(1.0))
        account.reserve(plan, job.id_of(DAY))
    told = cost(give, DAY)
    assert (told["released"], told["after"]) == (False, told["spent"]["epsilon"])
    assert spent(give, DAY) == told["after"]


def test_a_plan_reads_its_ledger_once(make, give, monkeypatch):
    """Two readings find the account; all that a plan reveals about its cost is one more, and one the last time zone."""
    make()
    spent(give, DAY)
    readings, true = [], Database.read

    def counted(database, work):
        readings.append(work)
        return true(database, work)

    monkeypatch.setattr(Database, "read", counted)
    for day in (DAY, "2026-11-19"):
        readings.clear()
        cost(give, day)
        assert len(readings) == 4
