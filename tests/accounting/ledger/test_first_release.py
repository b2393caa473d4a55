"""The first release about a row fixes the accounting methods of an account: those about no row fix nothing."""

import dataclasses
from contextlib import nullcontext

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.ledger.reserve import ReservationRequest

STAY = [[0.9, 0.1], [0.1, 0.9]]
TIED = {
    "chain": (pf.MarkovChain(STAY), [0, 1]),
    "autoregressive": (pf.GaussianPrior(pf.AR1(0.5)), pf.Interval(0, 1)),
    "any correlation": (pf.AnyCorrelation(), [0, 1]),
}
KINDS = {
    "approx": (pf.Approx(0.5, 1e-6), pf.Approx(9.0, 1e-5)),
    "Rényi": (pf.Renyi(4, 0.5), pf.Renyi(4, 9.0)),
}


def batch_of(prior):
    """Return a batch about rows of four days of two hours."""
    believed, domain = TIED[prior]
    scenario = pf.Scenario(pf.Secret("on", domain), believed, order_by="hour", public="day")
    frame = pl.DataFrame({"hour": range(8), "on": [0] * 8, "day": [hour // 2 for hour in range(8)]})
    return pf.protect(frame, scenario)


def plans_of(prior, promise):
    """Return a plan about no row at all and one about a day, both with Gaussian noise."""
    days = (batch_of(prior).filter(pl.col("day") == day) for day in (77, 1))
    return [day.private_sum("on").plan(promise, noise=pf.Gaussian) for day in days]


def counted_as_before(monkeypatch):
    """Let reservations name the method that was written for releases about no row before."""
    total = ReservationRequest._total

    def by_pure_losses(*given):
        return dataclasses.replace(total(*given), method="pure")

    monkeypatch.setattr(ReservationRequest, "_total", by_pure_losses)


@pytest.mark.parametrize("kind", thinned(KINDS, 0.25))
@pytest.mark.parametrize("prior", thinned(TIED, 0.67))
@pytest.mark.parametrize("older", thinned([False, True], 0.5), ids=["now", "older ledger"])
def test_a_release_about_no_row_does_not_choose(prior, kind, older, tmp_path, monkeypatch):
    """Gaussian noise is counted as it would be without that release, in ledgers that are older too."""
    promise, limit = KINDS[kind]
    if older:
        monkeypatch.setattr("pufferflow.accounting.ledger.ledger.RULES", 2)
    nothing, day = plans_of(prior, promise)
    place = tmp_path / "ledger.db"
    with pf.Ledger(place) as ledger, monkeypatch.context() as before:
        if older:
            counted_as_before(before)
        ledger.open("hours", day.request.scenario, limit=limit).reserve(nothing, "nothing")
    with pf.Ledger(place) as ledger:
        account, plain = (
            ledger.account("hours"),
            ledger.open("plain", day.request.scenario, limit=limit, dataset="others"),
        )
        assert account.spent().epsilon == 0
        assert account.remaining(day) == plain.remaining(day)
        for name in ("first", "second"):
            account.reserve(day, name)
            plain.reserve(day, name)
            assert account.spent() == plain.spent()
        account.reserve(nothing, "nothing again")
        assert account.spent() == plain.spent()
        ledger.verify()
    with pf.Ledger(place) as again:
        assert again.account("hours").spent() == again.account("plain").spent()


@pytest.mark.slow
def test_what_was_chosen_before_the_first_row_stays(tmp_path, monkeypatch):
    """In an older ledger what the first release about a row was counted by goes on, though one before chose nothing."""
    monkeypatch.setattr("pufferflow.accounting.ledger.ledger.RULES", 2)
    promise, limit = KINDS["approx"]
    nothing, gaussian = plans_of("chain", promise)
    laplace = (
        batch_of("chain")
        .filter(pl.col("day") == 2)
        .private_sum("on")
        .plan(promise, noise=pf.Laplace)
    )
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("hours", laplace.request.scenario, limit=limit)
        with monkeypatch.context() as before:
            counted_as_before(before)
            account.reserve(nothing, None)
            account.reserve(laplace, None)
        account.reserve(laplace, None)
        with pytest.raises(pf.Refused):
            account.reserve(gaussian, None)


@pytest.mark.slow
def test_how_many_fit_is_counted_as_the_first_release_will_be(tmp_path):
    """A forecast does not count by what suits many releases when the first of them is counted otherwise."""
    scenario = pf.Scenario(pf.Secret("on", [0, 1]), pf.MarkovChain(STAY), order_by="hour")
    hours = [
        pf.protect(pl.DataFrame({"hour": [hour], "on": [0]}), scenario).private_sum("on")
        for hour in range(12)
    ]
    plans = [hour.plan(pf.Renyi(4, 0.5)) for hour in hours]
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("hours", scenario, limit=pf.Renyi(4, 4.0))
        ahead = account.forecast(plans[0], every=1)
        again = account.remaining(plans[0])
        for plan in plans[: again + 1]:
            with (
                nullcontext() if len(account.history()) < again else pytest.raises(pf.LimitReached)
            ):
                account.reserve(plan, None)
        assert ahead.fits == again == len(account.history())
